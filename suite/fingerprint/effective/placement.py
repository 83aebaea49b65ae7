"""Where this very process's threads may run, and where its memory is. Nothing here raises."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from suite.fingerprint.files import list_names, parse_cpulist, parse_fields, read_text, under

TASKS = "/proc/self/task"
NUMA_MAPS = "/proc/self/numa_maps"
# To answer, the kernel looks at each page: 13 ns a page here, 0.1 s for 8 GB in pages of 4 kB, 2 ms in huge pages.
MOST_RESIDENT_BYTES = 256 << 30


@dataclass(frozen=True)
class Threads:
    """`affinities` counts the threads by the CPUs they may use, as a list ("0-1": 3); `counts` are numbers of threads."""

    affinities: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def threads(root: Path) -> Threads:
    """The threads of this process: all, OpenMP workers by name, and those of them bound to one CPU.

    Only LLVM's and Intel's run-times name their workers; with libgomp the count of workers is 0.
    """
    affinities: Counter[str] = Counter()
    workers = bound = 0
    for name in list_names(root, TASKS, r"\d+"):
        status = parse_fields(read_text(root, f"{TASKS}/{name}/status").text or "")
        if not status:
            continue  # the thread has ended since
        cpus = status.get("Cpus_allowed_list", "unknown")
        affinities[cpus] += 1
        if status.get("Name", "").startswith("openmp_worker"):
            workers += 1
            bound += _is_one(cpus)
    counts = {"process_threads": affinities.total(), "openmp_workers": workers, "openmp_workers_bound": bound}
    return Threads(dict(sorted(affinities.items())), counts)


def _is_one(cpulist: str) -> bool:
    try:
        return len(parse_cpulist(cpulist)) == 1
    except ValueError:
        return False


@dataclass(frozen=True)
class Memory:
    """`policy` is the process's NUMA policy ("default", "bind:0"), "" when unknown; `reason` says why there are no bytes.

    `private_bytes` and `file_bytes` are by node. Pages of files lie in the kernel's page cache, where whoever read the file first put
    them, so only private memory (heap, stacks, anonymous and shared mappings) tells whether a binding holds.
    """

    policy: str = ""
    private_bytes: dict[str, int] = field(default_factory=dict)
    file_bytes: dict[str, int] = field(default_factory=dict)
    reason: str = ""


def memory(root: Path, resident_bytes: int = 0) -> Memory:
    """Policy and place of this process's memory; `resident_bytes` says how much there is to look at."""
    path = under(root, NUMA_MAPS)
    try:
        with path.open(encoding="utf-8", errors="replace", buffering=4096) as lines:
            if resident_bytes <= MOST_RESIDENT_BYTES:
                return parse_numa_maps(lines)
            policy = parse_numa_maps([lines.readline()]).policy
    except OSError as error:
        return Memory(reason=f"{NUMA_MAPS}: {(error.strerror or str(error)).lower()}")
    return Memory(policy, reason=f"{resident_bytes >> 30} GiB are too many to have the kernel look at each page")


def parse_numa_maps(lines: Iterable[str]) -> Memory:
    """The lines of numa_maps. Source: numa(7).

    The first mapping is the program's own and has no policy of its own, so it shows the process's. "N0=12" counts pages of the line's
    "kernelpagesize_kB"; transparent huge pages are counted as the small pages that they replace.
    """
    policy, private, files = "", Counter[str](), Counter[str]()
    for line in lines:
        fields = line.split()
        if len(fields) < 2:
            continue
        policy = policy or fields[1]
        size = re.search(r"\bkernelpagesize_kB=(\d+)", line)
        kilobytes = int(size[1]) if size else 4
        of_file = any(part.startswith("file=/") for part in fields) and not re.search(
            r"file=/(dev/(shm|zero)|SYSV|memfd)", line
        )
        for node, pages in re.findall(r"\bN(\d+)=(\d+)", line):
            (files if of_file and " huge" not in line else private)[node] += int(pages) * kilobytes * 1024
    return Memory(policy, _by_number(private), _by_number(files), "" if private else f"{NUMA_MAPS} names no node")


def _by_number(counts: Counter[str]) -> dict[str, int]:
    return {node: counts[node] for node in sorted(counts, key=int)}
