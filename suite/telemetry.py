"""Readings of the machine's state around and during each process, from /proc and /sys; cheap enough to take while measuring."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from suite.bundle.schema import Telemetry
from suite.clocktime import now


def read(
    moment: Literal["before", "during", "after"],
    case: str,
    role: Literal["measure", "profile"],
    process: int,
    incarnation: int = 0,
    worker_rss_bytes: int | None = None,
    root: Path = Path("/"),
) -> Telemetry:
    """One reading. What the machine does not show is None."""
    stat = _lines(root / "proc/stat")
    cpu = [int(field) for field in stat.get("cpu", [])]
    # Fields of /proc/stat's cpu line (proc(5)): user nice system idle iowait irq softirq steal ...
    steal = cpu[7] if len(cpu) > 7 else None
    idle = cpu[3] + cpu[4] if len(cpu) > 4 else None
    busy = cpu[0] + cpu[1] + cpu[2] + cpu[5] + cpu[6] if len(cpu) > 6 else None
    switches = stat.get("ctxt")
    return Telemetry(
        at=now(),
        moment=moment,
        case=case,
        role=role,
        process=process,
        incarnation=incarnation,
        monotonic_ns=time.monotonic_ns(),
        cpu_frequency_mhz=_frequency(root),
        load_1min=_number(_text(root / "proc/loadavg").split()[:1]),
        steal_ticks=steal,
        busy_ticks=busy,
        idle_ticks=idle,
        context_switches=int(switches[0]) if switches else None,
        pressure_cpu_us=_pressure(root, "cpu"),
        pressure_memory_us=_pressure(root, "memory"),
        pressure_io_us=_pressure(root, "io"),
        throttled_us=_throttled(root),
        temperature_c=_temperature(root),
        memory_available_bytes=_available(root),
        worker_rss_bytes=worker_rss_bytes,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _lines(path: Path) -> dict[str, list[str]]:
    return {fields[0]: fields[1:] for line in _text(path).splitlines() if (fields := line.split())}


def _number(fields: list[str]) -> float | None:
    try:
        return float(fields[0])
    except (IndexError, ValueError):
        return None


def _frequency(root: Path) -> float | None:
    """Mean current clock over CPUs in MHz, by the kernel's governor, else as the hypervisor tells it."""
    scaling = [
        _number(_text(path).split()) for path in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    ]
    values = [value / 1000 for value in scaling if value]
    if not values:
        lines = (
            line.partition(":") for line in _text(root / "proc/cpuinfo").splitlines() if line.startswith("cpu MHz")
        )
        values = [value for _, _, text in lines if (value := _number(text.split()))]
    return round(sum(values) / len(values), 1) if values else None


def _pressure(root: Path, resource: str) -> int | None:
    """Microseconds in which some task waited for the resource (pressure stall information), since boot."""
    some = _lines(root / "proc/pressure" / resource).get("some", [])
    return next((int(field.removeprefix("total=")) for field in some if field.startswith("total=")), None)


def _throttled(root: Path) -> int | None:
    """Microseconds in which this control group was held back by its CPU quota."""
    for name, divisor in (("sys/fs/cgroup/cpu.stat", 1), ("sys/fs/cgroup/cpu/cpu.stat", 1000)):
        lines = _lines(root / name)
        field = lines.get("throttled_usec") or lines.get("throttled_time")
        if field:
            return int(field[0]) // divisor
    return None


def _temperature(root: Path) -> float | None:
    readings = [_number(_text(path).split()) for path in root.glob("sys/class/thermal/thermal_zone*/temp")]
    return max((reading / 1000 for reading in readings if reading), default=None)


def _available(root: Path) -> int | None:
    field = _lines(root / "proc/meminfo").get("MemAvailable:")
    return int(field[0]) * 1024 if field else None
