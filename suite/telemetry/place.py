"""Where telemetry runs: beside the measured cores when the machine has another."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from suite.fingerprint.files import parse_cpulist, read_text
from suite.telemetry.sensors import CPU


@dataclass(frozen=True)
class Place:
    """The CPUs that readings are taken on. `apart` is whether none of them belongs to a measured core; `reason` says why not."""

    cpus: frozenset[int]
    apart: bool
    reason: str = ""


def choose(measured: Collection[int], allowed: Collection[int], siblings: Collection[int]) -> Place:
    """Another core when there is one, else the measured cores' other hardware threads, else all allowed CPUs.

    `siblings` holds the CPUs of the measured cores, the measured ones included. Running on a sibling slows a measured core down, but does
    not interrupt it.
    """
    others = frozenset(allowed) - frozenset(measured) - frozenset(siblings)
    if others:
        return Place(others, apart=True)
    threads = frozenset(allowed) - frozenset(measured)
    if threads:
        return Place(
            threads, apart=False, reason="every core is measured; the other hardware threads of measured cores are used"
        )
    return Place(frozenset(allowed), apart=False, reason="every allowed CPU is measured")


def siblings_of(cpus: Iterable[int], root: Path = Path("/")) -> set[int]:
    """The CPUs of the cores that `cpus` belong to, themselves included."""
    found = set(cpus)
    for cpu in list(found):
        text = read_text(root, f"{CPU}/cpu{cpu}/topology/thread_siblings_list").text or ""
        with suppress(ValueError):
            found |= set(parse_cpulist(text))
    return found


def move(cpus: Collection[int]) -> str:
    """Move every thread of this process to `cpus`; "" or the reason why that failed. Children started later inherit it."""
    if not hasattr(os, "sched_setaffinity"):
        return "this system cannot place threads"
    try:
        os.sched_setaffinity(0, cpus)
        threads = os.listdir("/proc/self/task")
    except (OSError, ValueError) as error:
        return f"the kernel refused to move this process ({error})"
    for thread in threads:
        with suppress(OSError):  # it may have ended meanwhile
            os.sched_setaffinity(int(thread), cpus)
    return ""
