"""Processor caches from sysfs. Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.bundle.schema import Fact
from suite.fingerprint.facts import call, missing
from suite.fingerprint.files import list_names, parse_cpulist, parse_cpumask, parse_size, read_text
from suite.fingerprint.percpu import CPU

Cache = tuple[str, int, tuple[int, ...]]
"""Name ("L2 unified"), size in bytes, and the CPUs that share it."""


def read(root: Path, online: Sequence[int]) -> Fact:
    """The caches by name: size in bytes, how many CPUs share one, how many of them there are. Never raises."""
    source = f"{CPU}/cpu*/cache"
    fact = call(source, lambda: summary(_caches(root, online)) or None, "sysfs describes no cache")
    return missing(root, f"{CPU}/cpu{online[0]}/cache", fact.note, source) if fact.value is None else fact


def summary(caches: set[Cache]) -> list[dict[str, Any]]:
    """Rows sorted by level; caches of one name that differ in size or sharing have a row each."""
    counts: dict[tuple[str, int, int], int] = {}
    for name, size, shared in caches:
        counts[name, size, len(shared)] = counts.get((name, size, len(shared)), 0) + 1
    return [
        {"name": name, "size_bytes": size, "shared_by_cpus": shared, "instances": instances}
        for (name, size, shared), instances in sorted(counts.items())
    ]


def _caches(root: Path, online: Sequence[int]) -> set[Cache]:
    found: set[Cache] = set()
    covered: set[tuple[int, str]] = (
        set()
    )  # a CPU and its index: what a sibling's cache has already told is not read again
    for number in online:
        folder = f"{CPU}/cpu{number}/cache"
        for index in list_names(root, folder, r"index\d+"):
            if (number, index) in covered:
                continue
            level, kind, size, listed, mask = (
                read_text(root, f"{folder}/{index}/{name}").text
                for name in ("level", "type", "size", "shared_cpu_list", "shared_cpu_map")
            )
            if not (level and kind and size):
                continue
            shared = parse_cpulist(listed) if listed else parse_cpumask(mask) if mask else [number]
            covered |= {(other, index) for other in shared}
            found.add((f"L{level} {kind.lower()}", parse_size(size), tuple(shared or [number])))
    return found
