"""Why a GPU was idle: every nanosecond of its idle time under one cause, so that the causes sum to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from reports.trace import intervals
from reports.trace.columns import MISSING, Ints


class Cause(StrEnum):
    """Why nothing ran on the GPU."""

    HOST = "host_bound"
    COLD = "cold_start"
    LATENCY = "launch_latency"
    QUEUED = "between_queued"
    WAIT = "dependency_wait"
    PROFILER = "profiler"
    UNKNOWN = "unknown"


DEFINITIONS = {
    Cause.HOST: "nothing was launched yet: the next slice's launch began after the one before it had ended, or took over 50 us itself",
    Cause.COLD: "the same within the first recorded step when that step is much slower than the others; and recorded loading of modules",
    Cause.LATENCY: "the next slice was launched less than 50 us before it began: what a launch takes to arrive",
    Cause.QUEUED: "the next slice had long been launched, or is of a graph: what the GPU takes to pass to it (up to 50 us)",
    Cause.WAIT: "the same for longer, while the GPU was recorded to wait for an event of another stream",
    Cause.PROFILER: "the profiler's own work was recorded in this time (requests for and flushes of its buffers)",
    Cause.UNKNOWN: "launched, not begun for more than 50 us, and nothing recorded says why; or the launch itself is not recorded",
}

LATENCY_NS = 50_000
"""A launch takes 2 to 20 us to reach an idle GPU; beyond 50 us something else holds it."""


@dataclass(frozen=True)
class Idle:
    """Pieces of idle time, in order: `start` and `end` in ns, each with its cause; they never overlap."""

    start: Ints
    end: Ints
    cause: tuple[Cause, ...]

    def total_ns(self, cause: Cause) -> int:
        mask = np.array([found is cause for found in self.cause], bool)
        return int((self.end - self.start)[mask].sum()) if mask.size else 0


def explain(
    busy: tuple[Ints, Ints],
    window: tuple[int, int],
    work_start: Ints,
    launch_start: Ints,
    launch_end: Ints,
    leads: NDArray[np.bool_],
    overhead: tuple[Ints, Ints],
    loading: tuple[Ints, Ints],
    waits: tuple[Ints, Ints],
    cold: tuple[int, int] | None,
) -> Idle:
    """Split the idle time of a window by cause.

    Args:
        busy: disjoint, sorted intervals of work.
        window: first and last time that count.
        work_start: when each GPU slice starts, sorted.
        launch_start: when the launch of each of them starts; `MISSING` where it is not known.
        launch_end: when that call returns.
        leads: whether a slice is the first of its launch; the others of a graph wait for each other.
        overhead: disjoint, sorted intervals of the profiler's work.
        loading: the same of modules and functions being loaded.
        waits: disjoint, sorted intervals in which the GPU was told to wait for an event.
        cold: the first step, when it is a cold one.
    """
    begins, ends = intervals.gaps(*busy, *window)
    pieces: list[Piece] = []
    following = np.searchsorted(work_start, ends, side="left")
    before_work = following < work_start.size
    before_work[before_work] = work_start[following[before_work]] == ends[before_work]
    launches = np.full(ends.size, MISSING)
    launches[before_work] = launch_start[following[before_work]]
    returned = np.full(ends.size, MISSING)
    returned[before_work] = launch_end[following[before_work]]
    leading = np.zeros(ends.size, bool)
    leading[before_work] = leads[following[before_work]]
    # A call that does not return loads a module, or stands at a full queue or a lock: that is the host's time still.
    blocking = leading & (returned - launches > LATENCY_NS)
    ready = np.where(blocking, returned, launches)
    launched = np.minimum(np.maximum(ready, begins), ends)
    waited = intervals.covered(*waits, launched, ends) > 0
    columns = (begins, ends, ready, launched, waited, before_work, leading)
    for begin, end, handed, at, waits_here, follows, first in zip(*(each.tolist() for each in columns), strict=True):
        if not follows:
            pieces.append((begin, end, Cause.HOST))  # after the last slice: nothing more was launched
            continue
        if handed == MISSING:
            pieces.append((begin, end, Cause.UNKNOWN))
            continue
        if at > begin:
            pieces += _split(begin, at, cold)
        if end > at:
            short = Cause.LATENCY if first and end - handed <= LATENCY_NS else Cause.QUEUED
            held = Cause.WAIT if waits_here else Cause.UNKNOWN
            pieces.append((at, end, short if end - at <= LATENCY_NS else held))
    return _idle(_within(_within(pieces, loading, Cause.COLD), overhead, Cause.PROFILER))


def _split(begin: int, end: int, cold: tuple[int, int] | None) -> list[Piece]:
    if cold is None or end <= cold[0] or begin >= cold[1]:
        return [(begin, end, Cause.HOST)]
    first, last = max(begin, cold[0]), min(end, cold[1])
    parts = [(begin, first, Cause.HOST), (first, last, Cause.COLD), (last, end, Cause.HOST)]
    return [part for part in parts if part[1] > part[0]]


Piece = tuple[int, int, Cause]


def _within(pieces: list[Piece], recorded: tuple[Ints, Ints], cause: Cause) -> list[Piece]:
    """The same pieces, of which what lies within recorded intervals has another cause."""
    starts, ends = recorded
    if starts.size == 0:
        return pieces
    lows = np.searchsorted(ends, np.array([piece[0] for piece in pieces], np.int64), side="right").tolist()
    highs = np.searchsorted(starts, np.array([piece[1] for piece in pieces], np.int64), side="left").tolist()
    result: list[Piece] = []
    for (begin, end, before), low, high in zip(pieces, lows, highs, strict=True):
        at = begin
        for number in range(low, high):
            first, last = max(int(starts[number]), begin), min(int(ends[number]), end)
            if first > at:
                result.append((at, first, before))
            result.append((first, last, cause))
            at = last
        if end > at:
            result.append((at, end, before))
    return result


def _idle(pieces: list[Piece]) -> Idle:
    return Idle(
        np.array([piece[0] for piece in pieces], np.int64),
        np.array([piece[1] for piece in pieces], np.int64),
        tuple(piece[2] for piece in pieces),
    )
