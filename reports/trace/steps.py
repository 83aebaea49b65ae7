"""The steps of a recording (`ProfilerStep#N`), and how they compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.trace import intervals
from reports.trace.categories import ENQUEUES, Call, Kind
from reports.trace.columns import Ints
from reports.trace.read import Trace

STEP = re.compile(r"ProfilerStep#(\d+)")

COLD_RATIO = 1.5
"""The first step is cold when it takes this many times the median of the others ..."""
COLD_LEAST_US = 20.0
"""... and at least this much longer: below, a wide first step is noise."""


@dataclass(frozen=True)
class Step:
    """One step. Times in us from the trace's first event; lengths in us.

    `gap_us` is from the start of the first annotation in the step (the step itself, where there is none) to its first operation, None
    without one. `gpu_busy_us` is the union of the GPU slices that were launched in it, `gpu_start_us` and `gpu_end_us` their extent
    (None without any); `idle` the share of the time from its start to the end of its own work (host or GPU) that they leave idle.
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
    kernels: int
    slices: int
    launches: int
    queries: int


def step_rows(trace: Trace) -> list[int]:
    """Rows of the steps on the host, by start. Old writers call them operations; the GPU's copies of them do not count."""
    wanted = {code for code, name in enumerate(trace.slices.names) if STEP.fullmatch(name)}
    rows = [int(row) for row in trace.rows(Kind.ANNOTATION, Kind.OP) if int(trace.slices.name[row]) in wanted]
    return sorted(rows, key=lambda row: int(trace.slices.start[row]))


def steps(trace: Trace) -> tuple[Step, ...]:
    """Every recorded step."""
    return tuple(_step(trace, row) for row in step_rows(trace))


def first_is_cold(found: tuple[Step, ...]) -> bool:
    """Whether the first of at least two steps took much longer on the host than the others."""
    if len(found) < 2:
        return False
    rest = float(np.median([step.host_us for step in found[1:]]))
    return found[0].host_us > COLD_RATIO * rest and found[0].host_us - rest > COLD_LEAST_US


def _step(trace: Trace, row: int) -> Step:
    slices, end = trace.slices, trace.end
    begin, finish, lane = int(slices.start[row]), int(end[row]), slices.lane[row]
    host = trace.host_rows
    inside = host[(slices.start[host] >= begin) & (end[host] <= finish) & (slices.lane[host] == lane) & (host != row)]
    inside = inside[np.argsort(slices.start[inside], kind="stable")]
    kinds = slices.kind[inside]
    annotations = inside[kinds == Kind.ANNOTATION]
    opened = int(annotations[0]) if annotations.size else row
    operations = inside[(kinds == Kind.OP) & (slices.start[inside] >= slices.start[opened])]
    first = int(operations[0]) if operations.size else None
    # Autograd launches from threads of its own: what any thread did while the step ran belongs to it.
    during = host[(slices.start[host] >= begin) & (slices.start[host] < finish)]
    calls = trace.call[during]
    launches = during[np.isin(calls, ENQUEUES)]
    own = trace.gpu_rows[np.isin(trace.links.launch, launches)] if launches.size else trace.gpu_rows[:0]
    busy, gpu_start, gpu_end = 0, None, None
    idle = None
    if own.size:
        busy = intervals.length(slices.start[own], end[own])
        gpu_start, gpu_end = int(slices.start[own].min()), int(end[own].max())
        idle = 1 - busy / max(max(finish, gpu_end) - min(begin, gpu_start), 1)
    match = STEP.fullmatch(trace.name(row))
    return Step(
        number=int(match[1]) if match else 0,
        start_us=_us(begin - trace.origin),
        end_us=_us(finish - trace.origin),
        host_us=_us(finish - begin),
        gap_us=None if first is None else _us(int(slices.start[first] - slices.start[opened])),
        annotation=trace.name(opened) if annotations.size else "",
        first_op=trace.name(first) if first is not None else "",
        gpu_busy_us=_us(busy),
        gpu_start_us=None if gpu_start is None else _us(gpu_start - trace.origin),
        gpu_end_us=None if gpu_end is None else _us(gpu_end - trace.origin),
        idle=idle,
        kernels=int((slices.kind[own] == Kind.KERNEL).sum()),
        slices=int(own.size),
        launches=int(launches.size),
        queries=int((calls == Call.QUERY).sum()),
    )


def _us(nanoseconds: int | np.integer[Any]) -> float:
    return int(nanoseconds) / 1000


__all__ = ["COLD_LEAST_US", "COLD_RATIO", "Ints", "Step", "first_is_cold", "step_rows", "steps"]
