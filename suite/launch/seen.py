"""What a process was seen to have, and the words for where it was seen."""

from __future__ import annotations

from typing import Literal

from suite.bundle.schema import Effective

Status = Literal["in force", "not in force", "not requested", "unknown"]
# (effective value, status, proof, note)
Seen = tuple[str | None, Status, str, str]


def process_of(effective: Effective) -> str:
    """Which process a proof was seen in: "the worker", or "the rehearsal" (which has no case)."""
    return "the worker" if effective.case else "the rehearsal"


def maps_of(effective: Effective) -> str:
    """The file that shows which libraries a process has."""
    return f"/proc/self/maps of {process_of(effective)}"


def answering(effective: Effective, kind: str) -> str | None:
    """The library that answers the calls of `kind` ("openmp", "allocator"), as `read_effective` resolved it."""
    return next(iter(effective.mapped_libraries.get(f"{kind}_called", [])), None)


def running(effective: Effective, kind: str) -> list[str]:
    """The library that answers the calls of `kind`, or, when that is not known, all that might."""
    called = answering(effective, kind)
    return [called] if called is not None else effective.mapped_libraries.get(kind, [])
