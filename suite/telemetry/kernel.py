"""Kernel files that are opened once and read again, and the formats of those that telemetry reads.

Sources: proc(5); Linux, Documentation/accounting/psi.rst, Documentation/scheduler/sched-stats.rst, and for cpu.stat
Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 16

# What stands after "pid (name) " in /proc/PID/stat, counted from 0; times are in clock ticks, rss in pages.
_UTIME, _CSTIME, _RSS = 11, 14, 21


class KernelFile:
    """One file of /proc or /sys, kept open: reading it again saves most of the cost. Never raises; `reason` says why a read gave "".

    `short`: the kernel hands it over at once, as it does all that describes a single thing; a second read would only find its end.
    """

    def __init__(self, root: Path, path: str, *, short: bool = False) -> None:
        self.reason = ""
        self._short = short
        self._target = str(root).rstrip("/") + path
        self._descriptor = -1

    def read(self) -> str:
        """The text as it stands now, or "" when it cannot be read."""
        try:
            if self._descriptor < 0:
                # Without O_NONBLOCK a pipe that a sandbox put there would block for ever.
                self._descriptor = os.open(self._target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                    self.close()
                    self.reason = "masked"
                    return ""
            content = part = os.pread(self._descriptor, CHUNK, 0)
            # A list comes in pieces, of which any may be small; only an empty one is the end.
            while part and not self._short:
                content += (part := os.pread(self._descriptor, CHUNK, len(content)))
        except OSError as error:
            self.close()  # A CPU that went offline takes its files with it: the next read opens them anew.
            self.reason = "denied" if isinstance(error, PermissionError) else "absent"
            return ""
        self.reason = "" if content else "empty"
        return content.decode(errors="replace")

    def number(self) -> int | None:
        """The whole number in the file, or None."""
        return integer(self.read().strip())

    def close(self) -> None:
        """Give the descriptor back; reading opens the file again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def integer(text: str) -> int | None:
    """A whole number, or None for anything else ("<unsupported>", "")."""
    return int(text) if re.fullmatch(r"-?\d{1,20}", text) else None


@dataclass(frozen=True)
class Ticks:
    """CPU time in ticks: (busy, idle, stolen) summed over all CPUs and for single ones, and context switches since boot."""

    whole: tuple[int, int, int] | None = None
    cpus: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    context_switches: int | None = None


def parse_stat(text: str, cpus: Collection[int]) -> Ticks:
    """/proc/stat, with single CPUs only for those named. Time given to guests is within user time; waiting for I/O is idle."""
    whole, single, switches = None, {}, None
    for line in text.splitlines():
        if line.startswith("cpu"):
            name, *fields = line.split()
            number = int(name[3:]) if name[3:].isdigit() else None
            if number is None:
                whole = _ticks(fields)
            elif number in cpus and (ticks := _ticks(fields)):
                single[number] = ticks
        elif line.startswith("ctxt "):
            switches = integer(line[5:].strip())
            break
    return Ticks(whole, single, switches)


def _ticks(fields: list[str]) -> tuple[int, int, int] | None:
    try:
        user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in fields[:8])
    except ValueError:  # too few fields too: kernels before 2.6.11 have no steal
        return None
    return user + nice + system + irq + softirq, idle + iowait, steal


def parse_pressure(text: str) -> int | None:
    """Microseconds in which some task waited for the resource, since boot."""
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def parse_counts(text: str) -> dict[str, int]:
    """Lines "name number" (cpu.stat, vmstat)."""
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)\b", text, re.MULTILINE)}


@dataclass(frozen=True)
class Throttling:
    """How a CPU quota held a control group back: microseconds, periods in which it did, and all periods."""

    throttled_us: int
    throttled_periods: int | None
    periods: int | None


def parse_throttling(text: str) -> Throttling | None:
    """cpu.stat of either version; None where the file does not speak of throttling (the root group of version 2)."""
    counts = parse_counts(text)
    time_us = counts.get("throttled_usec")
    if time_us is None and "throttled_time" in counts:
        time_us = counts["throttled_time"] // 1000  # version 1 counts nanoseconds
    if time_us is None:
        return None
    return Throttling(time_us, counts.get("nr_throttled"), counts.get("nr_periods"))


@dataclass(frozen=True)
class ProcessTimes:
    """A process's CPU time with that of the children it waited for, in ticks, and its resident memory in pages."""

    ticks: int
    rss_pages: int


def parse_process(text: str) -> ProcessTimes | None:
    """/proc/PID/stat. The name may hold anything, parentheses too."""
    fields = text.rpartition(") ")[2].split()
    try:
        return ProcessTimes(sum(int(value) for value in fields[_UTIME : _CSTIME + 1]), int(fields[_RSS]))
    except (IndexError, ValueError):
        return None


# As they stand in `sched` (padded with blanks) and in `status`. Searched for as text: a pattern takes five times as long, for every thread.
_THREAD = {
    "migrations": ("nr_migrations ",),
    "voluntary_switches": ("nr_voluntary_switches ", "\nvoluntary_ctxt_switches:"),
    "involuntary_switches": ("nr_involuntary_switches ", "\nnonvoluntary_ctxt_switches:"),
}


def parse_thread(text: str) -> dict[str, int]:
    """/proc/PID/task/TID/sched, or status, which lacks migrations: migrations, voluntary_switches, involuntary_switches."""
    found = {}
    for name, spellings in _THREAD.items():
        start = next((at for spelling in spellings if (at := text.find(spelling)) >= 0), -1)
        if start < 0:
            continue
        colon = text.find(":", start)
        end = text.find("\n", colon)
        if (number := integer(text[colon + 1 : end if end >= 0 else None].strip())) is not None:
            found[name] = number
    return found


def parse_schedstat(text: str) -> int | None:
    """Nanoseconds that a thread was ready to run and waited for a CPU, of schedstat's "running waiting slices".

    None for "0 0 0", which a kernel that does not count (no CONFIG_SCHED_INFO) prints of every thread.
    """
    fields = text.split()
    return integer(fields[1]) if len(fields) == 3 and any(field != "0" for field in fields) else None


_CLOCK = re.compile(r"^(processor|cpu MHz)\s*:\s*([\d.]+)", re.MULTILINE)


def parse_clocks(text: str) -> dict[int, float]:
    """MHz by CPU from /proc/cpuinfo."""
    clocks, number = {}, -1
    for name, value in _CLOCK.findall(text):
        if name == "processor":
            number = int(value)
        else:
            clocks[number] = float(value)
    return clocks
