"""A worker's threads and descendants as the kernel accounts for them: CPU time, waiting, context switches, migrations, memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.telemetry.kernel import KernelFile, parse_process, parse_schedstat, parse_thread

MOST_PROCESSES = 512
"""Of a family; a fork bomb must not become ours."""


@dataclass(frozen=True)
class Family:
    """A process with its descendants: how many, their CPU time (that of children they waited for included) and resident memory.

    Shared pages count in each. `complete` is whether the kernel names children (CONFIG_PROC_CHILDREN); without, only the process counts.
    """

    processes: int
    cpu_ns: int
    rss_bytes: int
    complete: bool


def family(pid: int, root: Path = Path("/")) -> Family | None:
    """The family of a process as it stands now; None when the process is gone."""
    tick_ns, page = 1_000_000_000 // os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    waiting, seen, ticks, pages, complete = [pid], set[int](), 0, 0, True
    while waiting and len(seen) < MOST_PROCESSES:
        member = waiting.pop()
        times = parse_process(_once(root, f"/proc/{member}/stat"))
        if member in seen or times is None:
            continue
        seen.add(member)
        ticks += times.ticks
        pages += times.rss_pages
        for thread in _threads(root, member):
            children = KernelFile(root, f"/proc/{member}/task/{thread}/children", short=True)
            waiting += [int(child) for child in children.read().split() if child.isdigit()]
            # A file without a line is "empty"; a thread that ended meanwhile says nothing about the kernel.
            complete = complete and (children.reason in ("", "empty") or thread != str(member))
    return Family(len(seen), ticks * tick_ns, pages * page, complete) if seen else None


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process and its descendants in bytes; None when it is gone or its children cannot be told."""
    found = family(pid)
    return found.rss_bytes if found is not None and found.complete else None


def _threads(root: Path, pid: int) -> list[str]:
    try:
        return os.listdir(f"{str(root).rstrip('/')}/proc/{pid}/task")
    except OSError:
        return []


def _once(root: Path, path: str) -> str:
    file = KernelFile(root, path, short=True)
    try:
        return file.read()
    finally:
        file.close()


@dataclass(frozen=True)
class Threads:
    """Sums over a process's threads; None where the kernel does not count. `count` is of those alive."""

    count: int
    waiting_ns: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    migrations: int | None


class Worker:
    """The threads of one process. A thread that has ended keeps counting with what was last read of it."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self.pid = pid
        self._root = root
        self._last: dict[str, dict[str, int]] = {}

    def read(self) -> Threads | None:
        """What its threads have been given so far; None when the process is gone."""
        alive = 0
        for thread, counts in self._readings():
            alive += 1
            self._last[thread] = counts
        if not alive:
            return None
        return Threads(
            alive,
            self._sum("waiting_ns"),
            self._sum("voluntary_switches"),
            self._sum("involuntary_switches"),
            self._sum("migrations"),
        )

    def _readings(self) -> Iterator[tuple[str, dict[str, int]]]:
        for thread in _threads(self._root, self.pid):
            folder = f"/proc/{self.pid}/task/{thread}"
            # `sched` holds everything but needs a kernel with CONFIG_SCHED_DEBUG; `status` has the context switches everywhere.
            counts = parse_thread(_once(self._root, f"{folder}/sched")) or parse_thread(
                _once(self._root, f"{folder}/status")
            )
            waiting = parse_schedstat(_once(self._root, f"{folder}/schedstat"))
            if waiting is not None:
                counts["waiting_ns"] = waiting
            if counts:
                yield thread, counts

    def _sum(self, name: str) -> int | None:
        values = [counts[name] for counts in self._last.values() if name in counts]
        return sum(values) if values else None
