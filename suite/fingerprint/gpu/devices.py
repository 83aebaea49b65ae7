"""GPUs: what NVML tells of NVIDIA's, and where it tells nothing, why; other makers' by name only.

NVML is asked in a process of its own: a driver that hangs must not hang a run, and the one that leads a run must not
hold the GPU. Where nothing of NVIDIA's is in sight nothing is started.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.container import engine as container
from suite.fingerprint.facts import Facts, absent, call, from_file, ok
from suite.fingerprint.files import list_names, read_text, under
from suite.fingerprint.gpu import nvml
from suite.fingerprint.identity import redact_uuids

PCI = "/sys/bus/pci/devices"
DRIVER = "/proc/driver/nvidia/version"
PCI_IDS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
NVIDIA = "0x10de"
MAKERS = {"0x1002": "AMD", "0x8086": "Intel"}
DISPLAY, PROCESSING, SWITCH = "0x03", "0x12", "0x0680"  # PCI class codes: display, accelerator, bridge (NVSwitch)
# Without persistence mode each GPU is woken for the question, which takes a second or two.
TIMEOUT_S = 30.0
ROOT = Path(__file__).resolve().parents[3]

Asked = Facts | int | str
"""The facts NVML gave, its return code when it cannot be started, or why it could not be asked at all."""


@dataclass(frozen=True)
class Device:
    """One PCI device; numbers as sysfs writes them ("0x10de"), `driver` is empty when none is bound."""

    address: str
    vendor: str
    device: str
    kind: str
    driver: str


@dataclass(frozen=True)
class Seen:
    """What can be seen of NVIDIA without its library. `gpus` is None where there is no PCI bus to look at."""

    gpus: int | None
    drivers: tuple[str, ...]
    kernel_driver: bool
    device_nodes: bool
    container: str
    visible: str


def read(
    root: Path = Path("/"),
    library: nvml.Nvml | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Facts:
    """Facts of the driver, and of each GPU by its number ("gpu 0 name"); never raises, and never waits over `timeout_s`.

    `library` is a recording that is asked instead of the machine's NVML. A recorded tree without one holds no NVML, and no
    environment unless one is given.
    """
    if environ is None:
        environ = os.environ if root == Path("/") else {}
    devices = pci_devices(root)
    seen = look(root, devices, environ)
    asked: Asked
    if library is not None:
        asked = nvml.read(library)
    elif root != Path("/"):
        asked = "a recorded tree does not hold it"
    elif not (seen.gpus or seen.kernel_driver or seen.device_nodes):
        asked = "not asked"
    else:
        asked = ask_apart(timeout_s)
    facts = _facts(root, seen, asked)
    facts["kernel_driver"] = from_file(root, DRIVER, kernel_driver)
    facts["nvswitches"] = _nvswitches(devices)
    facts["visible_devices"] = call("environment", lambda: _visible(environ), "no variable hides a GPU")
    facts["other_accelerators"] = _others(root, devices)
    return facts


def _facts(root: Path, seen: Seen, asked: Asked) -> Facts:
    if not isinstance(asked, dict):
        count = why_none(seen, asked)
        nothing = absent(count.source, count.note) if count.value == 0 else count
        return {"count": count, "driver": nothing, "cuda_driver": nothing, "nvml": nothing}
    facts = dict(asked)
    count = facts["count"]
    if count.status == "ok" and seen.gpus is not None and count.value < seen.gpus:
        note = f"PCI shows {seen.gpus}: {_hidden(seen)}"
        facts["count"] = msgspec.structs.replace(count, status="masked", note=note)
    placed: Facts = {}
    for name, fact in facts.items():
        placed[name] = fact
        if name.endswith(" pci_bus_id") and fact.value is not None:
            # NVML writes eight digits of the domain, sysfs four.
            folder = f"{PCI}/{str(fact.value)[-12:]}"
            placed[name.replace("pci_bus_id", "numa_node")] = from_file(root, f"{folder}/numa_node", _node)
    return placed


def _node(text: str) -> int:
    if int(text) < 0:
        raise ValueError("the firmware does not say to which node it belongs")
    return int(text)


def _hidden(seen: Seen) -> str:
    if seen.container != "none":
        return f"the others are hidden from this container ({seen.visible or 'no NVIDIA_VISIBLE_DEVICES'})"
    return "the others are not NVIDIA's driver's, or are kept from this user"


def pci_devices(root: Path) -> list[Device]:
    """Every PCI device in sight; empty where there is no PCI bus."""
    found = []
    for address in list_names(root, PCI):
        folder = f"{PCI}/{address}"
        texts = [read_text(root, f"{folder}/{name}").text or "" for name in ("vendor", "device", "class")]
        driver = ""
        with suppress(OSError):
            driver = os.path.basename(os.readlink(under(root, f"{folder}/driver")))
        found.append(Device(address, texts[0], texts[1], texts[2], driver))
    return found


def look(root: Path, devices: list[Device], environ: Mapping[str, str]) -> Seen:
    """What can be seen of NVIDIA without its library."""
    gpus = [each for each in devices if each.vendor == NVIDIA and each.kind.startswith((DISPLAY, PROCESSING))]

    def there(*paths: str) -> bool:
        with suppress(OSError):
            return any(under(root, path).exists() for path in paths)
        return False

    return Seen(
        gpus=len(gpus) if devices else None,
        drivers=tuple(sorted({each.driver for each in gpus if each.driver})),
        kernel_driver=there(DRIVER, "/proc/driver/nvidia/gpus", "/sys/module/nvidia/version"),
        # The second is Microsoft's device of Windows' GPUs in WSL, which has neither NVIDIA's nodes nor a PCI device.
        device_nodes=there("/dev/nvidiactl", "/dev/dxg"),
        container=str(container.detect(root).value),
        visible=_visible(environ) or "",
    )


def why_none(seen: Seen, asked: int | str) -> Fact:
    """The number of GPUs where NVML gives none: 0 when there is none, else why they cannot be seen."""
    if not (seen.gpus or seen.kernel_driver or seen.device_nodes):
        if seen.gpus is None:
            return absent(PCI, "no PCI bus is visible, and nothing else shows a GPU of NVIDIA's")
        return ok(0, PCI, "no device of NVIDIA's on PCI")
    where = (
        f"{seen.gpus} GPU{'s' if seen.gpus != 1 else ''} of NVIDIA's on PCI"
        if seen.gpus
        else "traces of NVIDIA's driver"
    )
    contained = seen.container != "none"
    if not (seen.kernel_driver or seen.device_nodes):
        bound = f"bound to {', '.join(seen.drivers)}" if seen.drivers else "bound to no driver"
        reserved = ", that is, kept for virtual machines" if "vfio-pci" in seen.drivers else ""
        return absent(DRIVER, f"{where}, {bound}{reserved}: NVIDIA's kernel driver is not loaded")
    if asked == nvml.NO_PERMISSION:
        return Fact(value=None, source="NVML nvmlInit", status="denied", note=f"{where}: permission denied")
    if contained and not seen.device_nodes:
        how = "start it with --gpus all (docker) or --device nvidia.com/gpu=all (podman)"
        said = f" ({seen.visible})" if seen.visible else ""
        note = f"{where}, but no /dev/nvidiactl in this container{said}: {how}"
        return Fact(value=None, source="/dev/nvidiactl", status="masked", note=note)
    if asked == LIBRARY_NOT_FOUND and contained:
        note = f"{where}, but no libnvidia-ml.so.1 in this container: NVIDIA_DRIVER_CAPABILITIES must hold utility"
        return Fact(value=None, source="libnvidia-ml.so.1", status="masked", note=note)
    if not seen.device_nodes:
        return absent("/dev/nvidiactl", f"{where}, but no /dev/nvidiactl: run nvidia-modprobe -c 0 -u")
    reason = START_REASONS.get(asked, f"return code {asked}") if isinstance(asked, int) else asked
    return absent("NVML nvmlInit", f"{where}, but NVML cannot be asked: {reason}")


LIBRARY_NOT_FOUND = 12
START_REASONS = nvml.REASONS | {
    9: "the kernel driver is not loaded",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not installed",
    18: "the library and the kernel driver are of different versions: load the driver anew, or start the machine anew",
    999: "unknown error, as after a GPU fell off the bus",
}


class Spoken(msgspec.Struct, frozen=True):
    """What the process that asks NVML prints."""

    facts: dict[str, Fact] = {}
    code: int = 0


def ask_apart(
    timeout_s: float, command: tuple[str, ...] = (sys.executable, "-m", "suite.fingerprint.gpu.devices")
) -> Asked:
    """NVML's facts, asked in another process that is given up after `timeout_s`."""
    try:
        asking = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        return f"Python cannot be started ({error.strerror})"
    try:
        output, _ = asking.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        asking.kill()
        with suppress(subprocess.TimeoutExpired):
            # A process stuck inside of the driver cannot even be killed, and is left behind.
            asking.communicate(timeout=1)
        return f"no answer within {timeout_s:g} s; the driver may hang (see dmesg for NVRM: Xid)"
    try:
        spoken = msgspec.json.decode(output, type=Spoken)
    except msgspec.DecodeError:
        return f"the process that asked it ended with status {asking.returncode}"
    return spoken.facts or spoken.code


def kernel_driver(text: str) -> str:
    """Version and kind of the kernel driver: "550.54.15" or "550.54.15 (open)".

    Raises ValueError. The line names who built it besides, which is left out.
    """
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    version = re.search(r"\b\d{3,}(?:\.\d+)+\b", line)
    if version is None:
        raise ValueError("no version")
    return version[0] + (" (open)" if "open kernel module" in line.lower() else "")


def _visible(environ: Mapping[str, str]) -> str | None:
    names = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    given = [f"{name}={redact_uuids(environ[name])}" for name in names if name in environ]
    return ", ".join(given) or None


def _nvswitches(devices: list[Device]) -> Fact:
    count = sum(each.vendor == NVIDIA and each.kind.startswith(SWITCH) for each in devices)
    return ok(count, PCI) if devices else absent(PCI, "no PCI bus is visible")


def _others(root: Path, devices: list[Device]) -> Fact:
    """Names of what may compute beside NVIDIA's GPUs: AMD's and Intel's GPUs, and anyone's processing accelerators."""
    found: Counter[str] = Counter()
    for each in devices:
        gpu = each.vendor in MAKERS and each.kind.startswith(DISPLAY)
        if gpu or (each.kind.startswith(PROCESSING) and each.vendor != NVIDIA):
            found[_name(root, each)] += 1
    if not devices:
        return absent(PCI, "no PCI bus is visible")
    return ok([f"{count} x {name}" for name, count in found.items()] or ["none"], PCI)


def _name(root: Path, device: Device) -> str:
    said = read_text(root, f"{PCI}/{device.address}/product_name").text  # amdgpu gives one
    texts = (read_text(root, path).text or "" for path in PCI_IDS)
    listed = next((name for text in texts if (name := _listed(text, device))), None)
    numbers = f"{device.vendor[2:]}:{device.device[2:]}"
    kind = "GPU" if device.kind.startswith(DISPLAY) else "processing accelerator"
    return f"{MAKERS.get(device.vendor, 'unknown maker')} {said or listed or kind} ({numbers})"


def _listed(pci_ids: str, device: Device) -> str | None:
    """A device's name in the pci.ids file: a vendor's line, then its devices', indented by one tab."""
    _, found, section = f"\n{pci_ids}".partition(f"\n{device.vendor[2:]}  ")
    match = re.search(rf"^\t{device.device[2:]}  (.+)$", re.split(r"\n(?=[0-9a-f]{4}  )", section)[0], re.MULTILINE)
    return match[1].strip() if found and match else None


def main() -> int:
    """Ask NVML, and print what it says as one line of JSON (see `Spoken`)."""
    import pynvml

    asked = nvml.read(pynvml)
    spoken = Spoken(facts=asked) if isinstance(asked, dict) else Spoken(code=asked)
    sys.stdout.buffer.write(msgspec.json.encode(spoken) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
