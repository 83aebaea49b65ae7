"""The steps of a recording (`ProfilerStep#N`), and how they compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.trace import intervals
from reports.trace.categories import ENQUEUES, Call, Kind
from reports.trace.columns import Ints
from reports.trace.read import Trace

STEP = re.compile(r"ProfilerStep#(\d+)")

LOOKED_AT = 200
"""Operations of a step among which the first in an annotation is looked for."""

COLD_RATIO = 1.5
"""The first step is cold when it takes this many times the median of the others ..."""
COLD_LEAST_US = 20.0
"""... and at least this much longer: below, a wide first step is noise ..."""
BEYOND_ALL = 1.2
"""... and longer than each of the others by this factor: where one of them is as slow, something else made steps slow."""


@dataclass(frozen=True)
class Step:
    """One step. Times in us from the trace's first event; lengths in us.

    `gap_us` is from the start of `annotation` (the outermost one in the step that holds an operation; the step itself, where none does) to
    its first operation, None without one. `gpu_busy_us` is the union of the GPU slices that were launched in it, `gpu_start_us` and
    `gpu_end_us` their extent (None without any). `idle` is the share of the step, from its start to the end of its own work on host or
    GPU, in which no GPU does anything, for whichever step; `idle_of_span` the same of the extent of its own GPU slices.
    """

    number: int
    start_us: float
    end_us: float
    host_us: float
    gap_us: float | None
    annotation: str
    first_op: str
    gpu_busy_us: float
    gpu_start_us: float | None
    gpu_end_us: float | None
    idle: float | None
    idle_of_span: float | None
    kernels: int
    slices: int
    launches: int
    queries: int


def step_rows(trace: Trace) -> list[int]:
    """Rows of the steps on the host, by start. Old writers call them operations; the GPU's copies of them do not count."""
    wanted = [code for code, name in enumerate(trace.slices.names) if STEP.fullmatch(name)]
    rows = trace.rows(Kind.ANNOTATION, Kind.OP)
    rows = rows[np.isin(trace.slices.name[rows], wanted)]
    return [int(row) for row in rows[np.argsort(trace.slices.start[rows], kind="stable")]]


def steps(trace: Trace) -> tuple[Step, ...]:
    """Every recorded step."""
    rows = step_rows(trace)
    if not rows:
        return ()
    lookup = _Lookup(trace, several=len({int(trace.slices.lane[row]) for row in rows}) > 1)
    return tuple(_step(trace, row, lookup, until) for row, until in zip(rows, _own_ends(trace, rows), strict=True))


def _own_ends(trace: Trace, rows: list[int]) -> list[int]:
    """Until when (ns) what begins belongs to each step: where steps of a thread overlap, to the one that began last."""
    following: dict[int, int] = {}
    found = []
    for row in reversed(rows):
        lane = int(trace.slices.lane[row])
        found.append(min(int(trace.end[row]), following.get(lane, int(trace.end[row]))))
        following[lane] = int(trace.slices.start[row])
    return found[::-1]


class _Lookup:
    """Host slices by start, and GPU work by its launch, so that a step costs what is in it and not what is in the recording."""

    def __init__(self, trace: Trace, several: bool) -> None:
        self.several = several
        host, links = trace.host_rows, trace.links
        self._host = host[np.argsort(trace.slices.start[host], kind="stable")]
        self._start = trace.slices.start[self._host]
        self._gpu = trace.gpu_rows
        self._by_launch = np.argsort(links.launch, kind="stable")
        self._busy = intervals.union(trace.slices.start[self._gpu], trace.end[self._gpu])
        self._launch = links.launch[self._by_launch]

    def begun(self, begin: int, end: int) -> NDArray[np.intp]:
        """Rows of the host that begin in [begin, end], by start."""
        return self._host[np.searchsorted(self._start, begin, "left") : np.searchsorted(self._start, end, "right")]

    def launched(self, calls: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows of the GPU that these calls launched, by start."""
        first, last = np.searchsorted(self._launch, calls, "left"), np.searchsorted(self._launch, calls, "right")
        ranges = [self._by_launch[begin:end] for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
        return self._gpu[np.sort(np.concatenate(ranges))] if ranges else self._gpu[:0]

    def idle(self, begin: int, end: int) -> float:
        """Share of [begin, end) in which no GPU works."""
        working = intervals.covered(*self._busy, np.array([begin]), np.array([end]))
        return 1 - int(working[0]) / max(end - begin, 1)


def first_is_cold(found: tuple[Step, ...]) -> bool:
    """Whether the first of at least two steps that hold work took much longer on the host than each of the others."""
    working = [step for step in found if step.first_op or step.launches]
    if len(working) < 2 or working[0] is not found[0]:
        return False
    rest = [step.host_us for step in working[1:]]
    usual, first = float(np.median(rest)), found[0].host_us
    return first > COLD_RATIO * usual and first - usual > COLD_LEAST_US and first > BEYOND_ALL * max(rest)


def _step(trace: Trace, row: int, lookup: _Lookup, until: int) -> Step:
    slices, end = trace.slices, trace.end
    begin, finish, lane = int(slices.start[row]), int(end[row]), slices.lane[row]
    begun = lookup.begun(begin, until)
    inside = begun[(end[begun] <= finish) & (slices.lane[begun] == lane) & (begun != row)]
    opened, first = _opened(trace, row, inside)
    # Autograd launches from threads of its own: what any thread did while the step ran belongs to it, unless threads have
    # steps of their own.
    during = begun[slices.start[begun] < until]
    if lookup.several:
        during = during[slices.lane[during] == lane]
    calls = trace.call[during]
    launches = during[np.isin(calls, ENQUEUES)]
    own = lookup.launched(launches)
    busy, gpu_start, gpu_end = 0, None, None
    idle = idle_of_span = None
    if own.size:
        busy = intervals.length(slices.start[own], end[own])
        gpu_start, gpu_end = int(slices.start[own].min()), int(end[own].max())
        idle = lookup.idle(min(begin, gpu_start), max(finish, gpu_end))
        idle_of_span = lookup.idle(gpu_start, gpu_end)
    match = STEP.fullmatch(trace.name(row))
    return Step(
        number=int(match[1]) if match else 0,
        start_us=_us(begin - trace.origin),
        end_us=_us(finish - trace.origin),
        host_us=_us(finish - begin),
        gap_us=None if first is None else _us(int(slices.start[first] - slices.start[opened])),
        annotation=trace.name(opened) if opened != row else "",
        first_op=trace.name(first) if first is not None else "",
        gpu_busy_us=_us(busy),
        gpu_start_us=None if gpu_start is None else _us(gpu_start - trace.origin),
        gpu_end_us=None if gpu_end is None else _us(gpu_end - trace.origin),
        idle=idle,
        idle_of_span=idle_of_span,
        kernels=int((slices.kind[own] == Kind.KERNEL).sum()),
        slices=int(own.size),
        launches=int(launches.size),
        queries=int((calls == Call.QUERY).sum()),
    )


def _opened(trace: Trace, row: int, inside: NDArray[np.intp]) -> tuple[int, int | None]:
    """The outermost annotation around the step's first operation that lies in one, and that operation; the step itself, and its first
    operation, where no annotation holds one."""
    kinds, parent = trace.slices.kind[inside], trace.nesting.parent
    operations = inside[kinds == Kind.OP]
    if not operations.size:
        annotations = inside[kinds == Kind.ANNOTATION]
        return (int(annotations[0]) if annotations.size else row), None
    for operation in operations[:LOOKED_AT].tolist():
        opened, above = -1, int(parent[operation])
        while above >= 0 and above != row:
            if trace.slices.kind[above] == Kind.ANNOTATION:
                opened = above
            above = int(parent[above])
        if opened >= 0:
            return opened, operation
    return row, int(operations[0])


def _us(nanoseconds: int | np.integer[Any]) -> float:
    return int(nanoseconds) / 1000


__all__ = ["BEYOND_ALL", "COLD_LEAST_US", "COLD_RATIO", "Ints", "Step", "first_is_cold", "step_rows", "steps"]
