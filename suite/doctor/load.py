"""What else the machine does while the doctor looks: two snapshots of /proc, and their difference.

Source: Linux, proc_stat(5) and proc_pid_stat(5); Documentation/admin-guide/cgroup-v2.rst, cpu.stat.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from suite.fingerprint.container import cgroup
from suite.fingerprint.files import list_names, read_text

NAMED_AT_LEAST_CPUS = 0.03


@dataclass(frozen=True)
class Process:
    """One process at one moment: `ticks` of CPU time so far; `started` tells it from a later one of the same number."""

    name: str
    parent: int
    ticks: int
    started: int


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment. `cpu` are the fields of /proc/stat's first line; `own_ticks` are the doctor's and its children's."""

    at_s: float
    cpu: tuple[int, ...] = ()
    own_ticks: float = 0.0
    processes: dict[int, Process] = field(default_factory=dict)
    throttled: tuple[int, int] | None = None


@dataclass(frozen=True)
class Load:
    """What happened between two snapshots.

    `others_cpus` is the CPU time per second that others used, in CPUs; `named` the busiest of them that can be seen. Steal is a
    share of all CPU time, during the window and since boot. `throttled` counts (periods, throttled periods) of the control group so
    far, None without a quota's counters. What the kernel does not tell is None.
    """

    window_s: float = 0.0
    others_cpus: float | None = None
    named: tuple[tuple[str, float], ...] = ()
    steal_share: float | None = None
    steal_share_since_boot: float | None = None
    load_1min: float | None = None
    throttled: tuple[int, int] | None = None


def snapshot(root: Path = Path("/")) -> Snapshot:
    """Read the counters. Never raises."""
    first = (read_text(root, "/proc/stat").text or "").partition("\n")[0].split()
    cpu = tuple(int(part) for part in first[1:] if part.isdigit()) if first[:1] == ["cpu"] else ()
    times = os.times()
    own_s = times.user + times.system + times.children_user + times.children_system
    names = list_names(root, "/proc", r"\d+")
    parsed = ((int(name), parse_stat(read_text(root, f"/proc/{name}/stat").text or "")) for name in names)
    processes = {number: process for number, process in parsed if process is not None}
    return Snapshot(time.monotonic(), cpu, own_s * _ticks_per_second(), processes, _throttled(root))


def parse_stat(text: str) -> Process | None:
    """/proc/<pid>/stat; a name may hold spaces and parentheses. None for a process that has ended or a line of another form."""
    opening, closing = text.find("("), text.rfind(")")
    fields = text[closing + 1 :].split()
    try:
        # Counted from the state, which is field 3: ppid 4, utime 14, stime 15, starttime 22.
        ticks = int(fields[11]) + int(fields[12])
        return Process(text[opening + 1 : closing], int(fields[1]), ticks, int(fields[19]))
    except (IndexError, ValueError):
        return None


def between(before: Snapshot, after: Snapshot, load_1min: float | None = None, own: int | None = None) -> Load:
    """What happened from one snapshot to the other; `own` is the doctor's process number."""
    window_s = after.at_s - before.at_s
    ticks = _ticks_per_second()
    throttled = after.throttled
    if window_s <= 0 or len(before.cpu) < 8 or len(after.cpu) < 8:  # kernels before 2.6.11 count no steal
        return Load(window_s, load_1min=load_1min, throttled=throttled)
    passed = [max(0, late - early) for early, late in zip(before.cpu, after.cpu, strict=False)]
    # user nice system idle iowait irq softirq steal; guest time is part of user's.
    busy = sum(passed[:3]) + passed[5] + passed[6]
    total = sum(passed[:8])
    others = max(0.0, busy - (after.own_ticks - before.own_ticks)) / ticks / window_s
    return Load(
        window_s,
        others_cpus=others,
        named=_busiest(before, after, own if own is not None else os.getpid(), ticks * window_s),
        steal_share=passed[7] / total if total else 0.0,
        steal_share_since_boot=after.cpu[7] / max(1, sum(after.cpu[:8])),
        load_1min=load_1min,
        throttled=throttled,
    )


def load_1min(root: Path = Path("/")) -> float | None:
    """The load average over a minute, of all of the machine."""
    try:
        return float((read_text(root, "/proc/loadavg").text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


def _busiest(before: Snapshot, after: Snapshot, own: int, scale: float) -> tuple[tuple[str, float], ...]:
    """The three names with the most CPU time, in CPUs; the doctor and its descendants are left out."""
    used: dict[str, float] = {}
    for number, late in after.processes.items():
        early = before.processes.get(number)
        since = early.ticks if early is not None and early.started == late.started else 0
        if late.ticks > since and not _descends(number, own, after.processes):
            used[late.name] = used.get(late.name, 0.0) + (late.ticks - since) / scale
    ranked = sorted(used.items(), key=lambda item: -item[1])[:3]
    return tuple((name, cpus) for name, cpus in ranked if cpus >= NAMED_AT_LEAST_CPUS)


def _descends(number: int, ancestor: int, processes: dict[int, Process]) -> bool:
    seen: set[int] = set()
    while number not in seen:
        if number == ancestor:
            return True
        seen.add(number)
        process = processes.get(number)
        if process is None:
            return False
        number = process.parent
    return False


def _throttled(root: Path) -> tuple[int, int] | None:
    """(periods, throttled periods) of the nearest control group that counts them."""
    for _, folder in cgroup.folders(root, "cpu"):
        pairs = (line.split() for line in (read_text(root, f"{folder}/cpu.stat").text or "").splitlines())
        counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if counts.get("nr_periods"):
            return counts["nr_periods"], counts.get("nr_throttled", 0)
    return None
