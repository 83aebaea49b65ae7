"""Whether this is a virtual machine, which one, and how that is known: it decides how far CPU facts can be trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from suite.fingerprint.files import read_text

# DMI vendor or product, in lower case, and the hypervisor it names.
# Source: systemd, src/basic/virt.c, dmi_vendor_table.
DMI = (
    ("kvm", "KVM"),
    ("qemu", "QEMU"),
    ("openstack", "KVM"),
    ("google compute engine", "KVM (Google Compute Engine)"),
    ("amazon ec2", "KVM (Amazon Nitro)"),
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("xen", "Xen"),
    ("bochs", "Bochs"),
    ("parallels", "Parallels"),
    ("hyper-v", "Hyper-V"),
    ("virtual machine", "Hyper-V"),
)


@dataclass(frozen=True)
class Virtual:
    """`name` is None on a bare-metal machine as far as can be seen; `source` says what told."""

    name: str | None
    source: str


def detect(root: Path = Path("/")) -> Virtual:
    """Look at CPUID's hypervisor bit (in /proc/cpuinfo), /sys/hypervisor, DMI and the device tree; never raises."""
    flagged = re.search(r"^flags\s*:.*\bhypervisor\b", read_text(root, "/proc/cpuinfo").text or "", re.MULTILINE)
    kind = read_text(root, "/sys/hypervisor/type").text
    tree = read_text(root, "/proc/device-tree/hypervisor/compatible").text
    named, path = _by_dmi(root)
    if kind:
        return Virtual(kind.capitalize(), "/sys/hypervisor/type")
    if flagged:
        source = f"flag `hypervisor` in /proc/cpuinfo{f', {path}' if named else ''}"
        return Virtual(named or "a hypervisor that does not give its name", source)
    if named:
        return Virtual(named, path)
    if tree:
        return Virtual(tree, "/proc/device-tree/hypervisor/compatible")
    return Virtual(None, "/proc/cpuinfo, /sys/hypervisor/type, DMI")


def _by_dmi(root: Path) -> tuple[str | None, str]:
    folder = "/sys/class/dmi/id"
    product = (read_text(root, f"{folder}/product_name").text or "").lower()
    if ".metal" in product:  # EC2's bare-metal instances carry the vendor of its virtual machines
        return None, ""
    for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor"):
        text = (read_text(root, f"{folder}/{name}").text or "").lower()
        for part, hypervisor in DMI:
            if part in text:
                return hypervisor, f"{folder}/{name}"
    return None, ""
