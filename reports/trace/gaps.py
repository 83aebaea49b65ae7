"""Why a GPU was idle: every nanosecond of its idle time under one cause, so that the causes sum to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from reports.trace import intervals
from reports.trace.columns import MISSING, Codes, Ints


class Cause(StrEnum):
    """Why nothing ran on the GPU; the first ones tell what the host did while nothing was launched."""

    DATA = "data_loading"
    SYNC = "synchronisation"
    ALLOCATION = "allocation"
    COMMUNICATION = "host_communication"
    COMPUTE = "cpu_operators"
    PYTHON = "python"
    HOST = "host_unrecorded"
    ANNOTATED = "annotated"
    WAITING = "host_waits"
    REPEATED = "repeated_setup"
    OTHER = "another_gpu"
    ZERO = "zero_grad"
    OPTIMIZER = "optimizer"
    DISPATCH = "dispatch"
    LATENCY = "launch_latency"
    COLD = "cold_start"
    START = "start_up"
    CAPTURE = "graph_capture"
    QUEUED = "between_queued"
    WAIT = "dependency_wait"
    PROFILER = "profiler"
    UNSEEN = "unrecorded_work"
    CUT = "cut_out"
    LOST = "lost_records"
    UNKNOWN = "unknown"


CAUSES = tuple(Cause)

DEFINITIONS = {
    Cause.DATA: "nothing was launched yet, and the launching thread was in a data loader or in preprocessing",
    Cause.SYNC: (
        "the same in a call that waits for the GPU or in a copy that blocks; and all of a gap that began within such a wait, which had let"
        " the queue run dry"
    ),
    Cause.ALLOCATION: "the same in an allocation or a free",
    Cause.COMMUNICATION: "the same in an operator of a collective",
    Cause.COMPUTE: "the same in operators that launch nothing and take 200 us and more: they compute on the CPU",
    Cause.PYTHON: "the same in Python's frames, outside of operators, for 200 us and more",
    Cause.HOST: "nothing was launched yet, and for 200 us and more nothing is recorded of what the launching threads did",
    Cause.ANNOTATED: "nothing was launched yet, and for 200 us and more the launching thread was in an annotation, in no operator of it",
    Cause.WAITING: "the same in Python's frames of waiting: for a lock, a queue, a message, a process, a timer",
    Cause.REPEATED: "what start-up is, but in half of the steps and more: compiled, captured or loaded again and again",
    Cause.OTHER: "the host waited for, or the launched work followed, what another recorded GPU was working on",
    Cause.ZERO: "nothing was launched yet, while gradients were set to zero",
    Cause.OPTIMIZER: "nothing was launched yet, within the optimizer's step",
    Cause.DISPATCH: "nothing was launched yet, in operators and launches, and in pauses of up to 200 us between them",
    Cause.LATENCY: "the next slice was launched less than 50 us before it began: what a launch takes to arrive",
    Cause.COLD: "operators, launches and pauses of the first recorded step, where that step is much slower than the others",
    Cause.START: "what happens once: modules being loaded, code compiled, few calls that take over 1 ms and 20 times as long as usual",
    Cause.CAPTURE: "the launching thread was recording a graph: what it launches then runs later",
    Cause.QUEUED: "the next slice had long been launched, or is of a graph: what the GPU takes to pass to it (up to 50 us)",
    Cause.WAIT: "the same for longer, while the GPU was recorded to wait for an event of another stream",
    Cause.PROFILER: "the profiler's own work was recorded in this time (requests for and flushes of its buffers)",
    Cause.UNSEEN: "the host waited over 1 ms for a GPU on which nothing is recorded: the profiler's wait, or work that is not in the file",
    Cause.CUT: "nothing at all is recorded for 1 ms and more, though Python's stacks or steps before and after show that something ran",
    Cause.LOST: "a launch had come whose slice is missing: its work may have run here",
    Cause.UNKNOWN: "launched, not begun for more than 50 us, and nothing recorded says why; or the launch itself is not recorded",
}

HOST_CAUSES = frozenset(
    {
        Cause.DATA,
        Cause.SYNC,
        Cause.ALLOCATION,
        Cause.COMMUNICATION,
        Cause.COMPUTE,
        Cause.PYTHON,
        Cause.ANNOTATED,
        Cause.WAITING,
        Cause.REPEATED,
        Cause.HOST,
        Cause.ZERO,
        Cause.OPTIMIZER,
        Cause.DISPATCH,
    }
)
"""Nothing was launched: the GPU waited for the host."""

LAUNCHING = frozenset({Cause.ZERO, Cause.OPTIMIZER, Cause.DISPATCH, Cause.LATENCY, Cause.COLD})
"""What fewer or cheaper launches would save."""

NOT_COUNTED = frozenset(
    {Cause.START, Cause.CAPTURE, Cause.PROFILER, Cause.UNSEEN, Cause.CUT, Cause.LOST, Cause.UNKNOWN}
)
"""Time of which the recording does not say that the program, as it runs on, leaves the GPU idle."""

LATENCY_NS = 50_000
"""A launch takes 2 to 20 us to reach an idle GPU; beyond 50 us something else holds it."""


@dataclass(frozen=True)
class Idle:
    """Pieces of idle time, in order: `start` and `end` in ns, each with its cause; they never overlap."""

    start: Ints
    end: Ints
    cause: tuple[Cause, ...]

    def total_ns(self, *causes: Cause) -> int:
        """The time of these causes."""
        mask = np.array([found in causes for found in self.cause], bool)
        return int((self.end - self.start)[mask].sum()) if mask.size else 0


@dataclass(frozen=True)
class Work:
    """A GPU's slices by start, ns: when each begins; when the call that launched it started and returned (`MISSING` where it is not
    recorded) and on which thread (-1); whether it is the first of its launch. The others of a graph wait for each other."""

    start: Ints
    launched: Ints
    returned: Ints
    lane: Codes
    first: NDArray[np.bool_]


@dataclass(frozen=True)
class Pieces:
    """Idle time in pieces, by start: `code` is the cause's place in `CAUSES`, `lane` the thread that launched what ended the gap (-1: none
    did), `gap` when the gap of a piece began."""

    start: Ints
    end: Ints
    code: Codes
    lane: Codes
    gap: Ints

    def of(self, *causes: Cause) -> NDArray[np.bool_]:
        """Which pieces have one of these causes."""
        return np.isin(self.code, [CAUSES.index(cause) for cause in causes])

    def idle(self) -> Idle:
        """The pieces with their causes; neighbours of one gap and cause are one."""
        if not self.start.size:
            return Idle(self.start, self.end, ())
        order = np.argsort(self.start, kind="stable")
        start, end, gap, code = self.start[order], self.end[order], self.gap[order], self.code[order]
        first = np.ones(start.size, bool)
        first[1:] = (code[1:] != code[:-1]) | (gap[1:] != gap[:-1])
        last = np.append(np.flatnonzero(first)[1:] - 1, start.size - 1)
        return Idle(start[first], end[last], tuple(CAUSES[number] for number in code[first].tolist()))


Layer = tuple[Cause, Ints, Ints]
"""A cause, and the disjoint, sorted intervals in which it was recorded."""


def split(busy: tuple[Ints, Ints], window: tuple[int, int], work: Work, waits: tuple[Ints, Ints]) -> Pieces:
    """The idle time of a window by what the GPU's own queue tells: `HOST` where nothing had been launched.

    Args:
        busy: disjoint, sorted intervals of work.
        window: first and last time that count.
        work: the slices.
        waits: disjoint, sorted intervals in which the GPU was told to wait for an event.
    """
    begins, ends = intervals.gaps(*busy, *window)
    following = np.searchsorted(work.start, ends, side="left")
    before_work = following < work.start.size
    before_work[before_work] = work.start[following[before_work]] == ends[before_work]
    at = np.minimum(following, work.start.size - 1)
    launched = np.where(before_work, work.launched[at], MISSING)
    returned = np.where(before_work, work.returned[at], MISSING)
    leading = before_work & work.first[at]
    lane = np.where(before_work, work.lane[at], -1).astype(np.int32)
    # A call that does not return loads a module, or stands at a full queue or a lock: that is the host's time still.
    known = launched != MISSING
    blocking = leading & known & (returned - np.where(known, launched, 0) > LATENCY_NS)
    ready = np.where(blocking, returned, launched)
    # After the last slice nothing more was launched.
    divide = np.where(before_work, np.clip(ready, begins, ends), ends)
    divide = np.where(before_work & ~known, begins, divide)
    late = known & leading & (ends - np.where(known, ready, 0) <= LATENCY_NS)
    short = ends - divide <= LATENCY_NS
    waited = intervals.covered(*waits, divide, ends) > 0
    code = np.select(
        [before_work & ~known, short & late, short, waited],
        [CAUSES.index(cause) for cause in (Cause.UNKNOWN, Cause.LATENCY, Cause.QUEUED, Cause.WAIT)],
        CAUSES.index(Cause.UNKNOWN),
    )
    host, rest = divide > begins, ends > divide
    return Pieces(
        np.concatenate((begins[host], divide[rest])),
        np.concatenate((divide[host], ends[rest])),
        np.concatenate((np.full(int(host.sum()), CAUSES.index(Cause.HOST)), code[rest])).astype(np.int32),
        np.concatenate((lane[host], lane[rest])),
        np.concatenate((begins[host], begins[rest])),
    )


def refine(pieces: Pieces, which: NDArray[np.bool_], layers: Iterable[Layer]) -> Pieces:
    """The same idle time, of which what lies within the layers has their causes, the first layer first; only pieces in `which` change."""
    layers = [layer for layer in layers if layer[1].size]
    rows = np.flatnonzero(which)
    if not rows.size or not layers:
        return pieces
    rows = rows[np.argsort(pieces.start[rows], kind="stable")]
    start, end = pieces.start[rows], pieces.end[rows]
    bounds = np.unique(np.concatenate((start, end, *(side for _, *sides in layers for side in sides))))
    # Each stretch between two bounds lies within or outside of every piece and interval as a whole.
    piece = np.searchsorted(start, bounds[:-1], side="right") - 1
    inside = (piece >= 0) & (bounds[:-1] < end[np.maximum(piece, 0)])
    begins, ends, piece = bounds[:-1][inside], bounds[1:][inside], piece[inside]
    code, open_ = pieces.code[rows][piece], np.ones(piece.size, bool)
    for cause, first, last in layers:
        number = np.searchsorted(first, begins, side="right") - 1
        hit = open_ & (number >= 0) & (begins < last[np.maximum(number, 0)])
        code[hit], open_[hit] = CAUSES.index(cause), False
    kept = np.flatnonzero(~which)

    def both(column: NDArray[np.int64] | Codes, new: NDArray[np.int64] | Codes) -> NDArray[np.int64]:
        return np.concatenate((column[kept], new))

    return Pieces(
        both(pieces.start, begins),
        both(pieces.end, ends),
        both(pieces.code, code).astype(np.int32),
        both(pieces.lane, pieces.lane[rows][piece]).astype(np.int32),
        both(pieces.gap, pieces.gap[rows][piece]),
    )
