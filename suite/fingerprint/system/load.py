"""What else the machine is doing at the time of reading: load, pressure, stolen time. Telemetry follows it through the run.

Source: Linux, Documentation/accounting/psi.rst; proc(5).
"""

from __future__ import annotations

import re
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, call, first, from_file, missing, virtualised
from suite.fingerprint.files import read_text
from suite.fingerprint.system.virtual import detect

RESOURCES = ("cpu", "memory", "io", "irq")
# Fields of /proc/stat's first line. Guest time is part of user time and is not added again.
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read(root: Path = Path("/")) -> Facts:
    """Facts of the moment. Shares are of all CPU time since boot, pressure is in per cent. Never raises."""
    facts: Facts = {
        "load_average": from_file(root, "/proc/loadavg", _averages, "over 1, 5 and 15 minutes"),
        "runnable_threads": from_file(root, "/proc/loadavg", _runnable, "at the time of reading"),
        "uptime_hours": from_file(root, "/proc/uptime", lambda text: round(float(text.split()[0]) / 3600, 1)),
        "steal_share_since_boot": _share(root, "steal"),
        "idle_share_since_boot": _share(root, "idle"),
        **{f"pressure_{name}": from_file(root, f"/proc/pressure/{name}", parse_pressure) for name in RESOURCES},
        "thermal_throttles": _throttles(root),
    }
    if not detect(root).name:
        return facts
    # In a virtual machine stolen time is real, but only if the hypervisor reports it: 0 proves nothing.
    if facts["steal_share_since_boot"].value == 0:
        note = "the hypervisor reports none, or does not report it"
        facts["steal_share_since_boot"] = virtualised(facts["steal_share_since_boot"], note)
    facts["thermal_throttles"] = virtualised(facts["thermal_throttles"], "the hypervisor's host sees them")
    return facts


def parse_pressure(text: str) -> dict[str, dict[str, float]]:
    """Pressure stall information: by "some" and "full", per cent over 10, 60 and 300 s, and the total in µs.

    Raises ValueError where nothing of the kind is found.
    """
    found = {}
    for line in text.splitlines():
        kind, *pairs = line.split()
        values = dict(pair.split("=", 1) for pair in pairs)
        found[kind] = {name: float(values[name]) for name in ("avg10", "avg60", "avg300")}
        found[kind]["total_us"] = int(values["total"])
    if not found:
        raise ValueError("no line")
    return found


def parse_ticks(text: str) -> dict[str, int]:
    """CPU time since boot by kind, in ticks, from /proc/stat. Old kernels have fewer kinds. Raises ValueError."""
    match = re.search(r"^cpu\s+(\d[\d ]*)$", text, re.MULTILINE)
    if match is None:
        raise ValueError("no line of all CPUs")
    return dict(zip(TICKS, map(int, match[1].split()), strict=False))


def _share(root: Path, kind: str) -> Fact:
    def share(text: str) -> float | None:
        ticks = parse_ticks(text)
        whole = sum(ticks.values())
        return round(ticks[kind] / whole, 5) if whole else None

    fact = from_file(root, "/proc/stat", share)
    return (
        missing(root, "/proc/stat", "no time has been counted") if fact.status == "ok" and fact.value is None else fact
    )


def _averages(text: str) -> list[float]:
    return [float(part) for part in text.split()[:3]]


def _runnable(text: str) -> int:
    return int(text.split()[3].partition("/")[0])


def _throttles(root: Path) -> Fact:
    """How often the first CPU's core and package were slowed down for heat since boot (Intel)."""
    folder = "/sys/devices/system/cpu/cpu0/thermal_throttle"

    def gather() -> dict[str, int] | None:
        texts = {name: read_text(root, f"{folder}/{name}_throttle_count").text or "" for name in ("core", "package")}
        return {name: int(text) for name, text in texts.items() if text.isdigit()} or None

    fact = call(folder, gather, "the processor does not count them")
    return first(fact, missing(root, folder, fact.note))
