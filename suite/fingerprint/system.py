"""The operating system and board: kernel, its command line without identifiers, timers, firmware without serials."""

from __future__ import annotations

import os
import re
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, first, from_file, ok
from suite.fingerprint.files import read_text

DMI = "/sys/class/dmi/id"
# The DMI files that name a model. Serial numbers, UUIDs and asset tags (EC2 puts its instance id there) are never read.
DMI_FILES = ("sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor", "bios_version", "bios_date")
# Kernel options whose values are kept: they steer performance and cannot name a machine or a person.
KEPT_OPTIONS = re.compile(
    r"(isolcpus|nohz|nohz_full|rcu_nocbs|maxcpus|nr_cpus|mem|nosmt|numa|numa_balancing|clocksource|tsc|hpet|idle|preempt"
    r"|mitigations|pti|kpti|spectre_v2|spectre_v2_user|spec_store_bypass_disable|l1tf|mds|srbds|mmio_stale_data|retbleed"
    r"|tsx|tsx_async_abort|spec_rstack_overflow|gather_data_sampling|reg_file_data_sampling|intel_pstate|amd_pstate"
    r"|intel_iommu|amd_iommu|iommu|transparent_hugepage|hugepages|hugepagesz|default_hugepagesz|audit|selinux|apparmor"
    r"|lsm|psi|mce|nmi_watchdog|watchdog|skew_tick|swiotlb|random\.trust_cpu|cgroup_no_v1|cgroup_enable|cgroup_disable"
    r"|systemd\.unified_cgroup_hierarchy|intel_idle\.\w+|processor\.\w+|cpuidle\.\w+|cpuidle_haltpoll\.\w+"
    r"|haltpoll\.\w+|cpufreq\.\w+|rcupdate\.\w+|rcutree\.\w+|workqueue\.\w+|kvm[-_\w]*\.\w+|sched_\w+|page_reporting\.\w+)"
)
# What an identifier looks like, wherever it stands: UUID, MAC or IPv4 address, 12 or more hexadecimal digits.
IDENTIFIER = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+|[0-9a-f]{12}", re.IGNORECASE
)


def read(root: Path = Path("/")) -> Facts:
    """Facts of the operating system, the kernel and the board. Never raises."""
    live = root == Path("/")
    elsewhere = absent("uname", "a recorded tree does not hold it")
    version = "/proc/sys/kernel/version"
    facts: Facts = {
        "os": _os_release(root),
        "kernel": first(
            from_file(root, "/proc/sys/kernel/osrelease"),
            from_file(root, "/proc/version", lambda text: text.split()[2]),
        ),
        "kernel_build": from_file(root, version),
        "architecture": ok(os.uname().machine, "uname") if live else elsewhere,
        "libc": call("confstr CS_GNU_LIBC_VERSION", lambda: os.confstr("CS_GNU_LIBC_VERSION")) if live else elsewhere,
        "command_line": _command_line(root),
        "clocksource": from_file(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "numa_balancing": from_file(root, "/proc/sys/kernel/numa_balancing", int),
        "address_space_randomisation": from_file(root, "/proc/sys/kernel/randomize_va_space", int, "2 is full"),
        "perf_event_paranoid": from_file(root, "/proc/sys/kernel/perf_event_paranoid", int),
        "nmi_watchdog": from_file(root, "/proc/sys/kernel/nmi_watchdog", int),
        "scheduler_autogroup": from_file(root, "/proc/sys/kernel/sched_autogroup_enabled", int),
    }
    return facts | {name: from_file(root, f"{DMI}/{name}", str.strip) for name in DMI_FILES}


def redact_command_line(text: str) -> str:
    """The kernel's options with the values of all but performance options, and anything like an identifier, taken out.

    What follows `--` goes to init and is dropped as a whole.
    """
    shown = []
    for token in text.split():
        if token == "--":
            shown.append("-- <removed>")
            break
        name, equals, _ = token.partition("=")
        named = "<removed>" if IDENTIFIER.search(name) or not equals else name
        harmless = KEPT_OPTIONS.fullmatch(name) if equals else re.fullmatch(r"[\w.-]{1,32}", token)
        if harmless and not IDENTIFIER.search(token):
            shown.append(token)
        else:
            shown.append(f"{named}=<removed>" if equals else named)
    return " ".join(shown)


def _command_line(root: Path) -> Fact:
    fact = from_file(root, "/proc/cmdline", redact_command_line)
    if fact.value is None or "<removed>" not in fact.value:
        return fact
    note = "values that could name the machine are removed"
    return Fact(value=fact.value, source=fact.source, status="masked", note=note)


def _os_release(root: Path) -> Fact:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        pairs = [line.partition("=") for line in (read_text(root, path).text or "").splitlines() if "=" in line]
        fields = {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
        name = fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("NAME"), fields.get("VERSION"))))
        if name:
            return ok(name, path)
    return absent("/etc/os-release", "no such file, or it names no system")
