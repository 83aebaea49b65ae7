"""Clock, temperature, heat throttling and power of the measured CPUs, as far as the machine shows them.

Only what concerns the measured CPUs is read, since asking for a CPU's clock or temperature may interrupt it (before Linux 5.18
scaling_cur_freq sent each CPU an interrupt, and /proc/cpuinfo still sends one to all). Sources: Linux,
Documentation/admin-guide/pm/cpufreq.rst, Documentation/hwmon/coretemp.rst and k10temp.rst, Documentation/power/powercap/powercap.rst,
Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from suite.fingerprint.files import list_names, read_text
from suite.telemetry.kernel import KernelFile, parse_clocks

CPU = "/sys/devices/system/cpu"
ClockSource = Literal["cpufreq", "cpuinfo", "hypervisor", "nominal"]
PLAUSIBLE_C = (-40.0, 150.0)
MOST_SENSORS = 16


class Clocks:
    """Current clocks of the measured CPUs in MHz. `source` is None when there are none; `reason` says why they are not live."""

    def __init__(self, root: Path, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self._files: list[KernelFile] = []
        self._constant: list[float] = []
        self.source: ClockSource | None = None
        self.reason = ""
        files = [KernelFile(root, f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq", short=True) for cpu in cpus]
        if any(file.number() for file in files):
            self.source, self._files = "cpufreq", files
            return
        information = KernelFile(root, "/proc/cpuinfo")
        text = information.read()
        flags = set(re.findall(r"\b(aperfmperf|hypervisor)\b", text))
        if not parse_clocks(text):
            why = "denied" if files and files[0].reason == "denied" else "absent"
            self.reason = f"{why}: no cpufreq driver, and /proc/cpuinfo names no clock"
        elif "aperfmperf" in flags:
            self.source, self._files = "cpuinfo", [information]
        else:
            clocks = parse_clocks(text)
            self._constant = [clocks.get(cpu, 0.0) for cpu in cpus]
            virtual = "hypervisor" in flags
            self.source = "hypervisor" if virtual else "nominal"
            teller = (
                "the hypervisor's, which does not change" if virtual else "the nominal one; no driver tells the current"
            )
            self.reason = f"{'virtualised' if virtual else 'absent'}: the clock in /proc/cpuinfo is {teller}"

    def read(self, *, constant: bool) -> list[float]:
        """Clocks in the order of the CPUs, 0 where one is unreadable; a constant clock only when it is asked for."""
        if self.source == "cpufreq":
            return [round((file.number() or 0) / 1000, 1) for file in self._files]
        if self.source == "cpuinfo":
            clocks = parse_clocks(self._files[0].read())
            return [round(clocks.get(cpu, 0.0), 1) for cpu in self._cpus]
        return self._constant if constant else []


class HeatCounters:
    """How often cores and packages slowed down because of heat: Intel's thermal_throttle counters."""

    def __init__(self, root: Path, cpus: Sequence[int]) -> None:
        first_of: dict[str, int] = {}
        for cpu in cpus:
            first_of.setdefault(read_text(root, f"{CPU}/cpu{cpu}/topology/physical_package_id").text or "", cpu)
        self._cores = _present([_throttle(root, cpu, "core") for cpu in cpus])
        # Every CPU counts its package's events; one of each package is enough.
        self._packages = _present([_throttle(root, cpu, "package") for cpu in first_of.values()])
        self.reason = "" if self._cores else "absent: the processor's driver has no thermal_throttle counters"

    def read(self) -> tuple[int | None, int | None]:
        """Events of the measured cores and of their packages, since boot."""
        return _sum(self._cores), _sum(self._packages)


def _throttle(root: Path, cpu: int, part: str) -> KernelFile:
    return KernelFile(root, f"{CPU}/cpu{cpu}/thermal_throttle/{part}_throttle_count", short=True)


def _present(files: list[KernelFile]) -> list[KernelFile]:
    return [file for file in files if file.number() is not None]


def _sum(files: list[KernelFile]) -> int | None:
    values = [value for file in files if (value := file.number()) is not None]
    return sum(values) if files and len(values) == len(files) else None


class Temperatures:
    """The processor's temperatures by sensor: of packages, not of single cores, each of which would have to be interrupted."""

    def __init__(self, root: Path) -> None:
        found = _hwmon(root) or _zones(root, r"x86_pkg_temp|.*(cpu|soc|core|tcpu).*") or _zones(root, r"acpitz")
        self._sensors = {name: file for name, file in found[:MOST_SENSORS] if _celsius(file) is not None}
        self.reason = ""
        if not self._sensors:
            any_sensor = list_names(root, "/sys/class/hwmon") or list_names(
                root, "/sys/class/thermal", r"thermal_zone\d+"
            )
            why = "no sensor of the processor" if any_sensor else "neither hwmon nor a thermal zone"
            self.reason = f"absent: {why}"

    def read(self) -> dict[str, float]:
        """Degrees Celsius by sensor."""
        values = {name: _celsius(file) for name, file in self._sensors.items()}
        return {name: value for name, value in values.items() if value is not None}


def _celsius(file: KernelFile) -> float | None:
    number = file.number()
    if number is None:
        return None
    value = number / 1000
    return round(value, 1) if PLAUSIBLE_C[0] < value < PLAUSIBLE_C[1] else None


def _hwmon(root: Path) -> list[tuple[str, KernelFile]]:
    found: list[tuple[str, KernelFile]] = []
    for folder in list_names(root, "/sys/class/hwmon", r"hwmon\d+"):
        path = f"/sys/class/hwmon/{folder}"
        driver = read_text(root, f"{path}/name").text or ""
        if driver not in ("coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal"):
            continue
        inputs = list_names(root, path, r"temp\d+_input")
        labels = {name: read_text(root, f"{path}/{name[:-5]}label").text or "" for name in inputs}
        # Tctl is what the fan control goes by, on some parts 27 degrees above the die's own.
        wanted = (
            r"Package id \d+|Physical id \d+|Tdie|"
            if "Tdie" in labels.values()
            else r"Package id \d+|Physical id \d+|Tctl|"
        )
        for name, label in labels.items():
            if re.fullmatch(wanted, label):
                title = f"{driver} {label}".strip()
                repeated = sum(other == title or other.startswith(f"{title} #") for other, _ in found)
                found.append(
                    (f"{title} #{repeated + 1}" if repeated else title, KernelFile(root, f"{path}/{name}", short=True))
                )
    return found


def _zones(root: Path, kinds: str) -> list[tuple[str, KernelFile]]:
    found = []
    for zone in list_names(root, "/sys/class/thermal", r"thermal_zone\d+"):
        kind = read_text(root, f"/sys/class/thermal/{zone}/type").text or ""
        if re.fullmatch(kinds, kind, re.IGNORECASE):
            found.append((f"{kind} {zone[12:]}", KernelFile(root, f"/sys/class/thermal/{zone}/temp", short=True)))
    return found


class Energy:
    """Energy counters of the running average power limit (RAPL), by domain, in microjoules that do not wrap around."""

    def __init__(self, root: Path) -> None:
        self._domains: dict[str, tuple[KernelFile, int]] = {}
        self._last: dict[str, int] = {}
        self._whole: dict[str, int] = {}
        folder = "/sys/class/powercap"
        # A package is shown again under intel-rapl-mmio; AMD's counters bear the name intel-rapl too.
        folders = list_names(root, folder, r"intel-rapl:\d+(:\d+)?")
        denied = False
        for name in folders:
            own = read_text(root, f"{folder}/{name}/name").text or name
            parent = name.rsplit(":", 1)[0] if name.count(":") == 2 else ""
            if parent:
                own = f"{read_text(root, f'{folder}/{parent}/name').text or parent}/{own}"
            file = KernelFile(root, f"{folder}/{name}/energy_uj", short=True)
            if file.number() is None:
                denied = denied or file.reason == "denied"
                continue
            limit = read_text(root, f"{folder}/{name}/max_energy_range_uj").text or ""
            self._domains[own] = (file, int(limit) if limit.isdigit() else 0)
        self.reason = ""
        if not self._domains:
            self.reason = (
                "denied: only root may read energy_uj" if denied else "absent: no RAPL domain in /sys/class/powercap"
            )

    def read(self) -> dict[str, int]:
        """Microjoules by domain ("package-0", "package-0/dram"); a counter that jumped back has wrapped once."""
        for name, (file, limit) in self._domains.items():
            value = file.number()
            if value is None:
                continue
            step = value - self._last.get(name, value)
            self._whole[name] = self._whole.get(name, value) + (step if step >= 0 else max(0, step + limit))
            self._last[name] = value
        return dict(self._whole)
