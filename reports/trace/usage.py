"""How each GPU was used: window, span, busy and idle time, launches and their delays, queue depth."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.trace import gaps, intervals
from reports.trace.categories import ENQUEUES, Call, Kind
from reports.trace.classes import class_of
from reports.trace.columns import MISSING, Ints
from reports.trace.health import lost_time
from reports.trace.host_causes import attribute
from reports.trace.read import Trace

ENOUGH_US = 1000.0
"""Less says nothing of how a program runs on: fixed costs are as large."""

BLOCKS_LONG_NS = 10**6
"""A copy whose call takes this long waits for the GPU."""


@dataclass(frozen=True)
class Spread:
    """A distribution: `n` values, all in the unit of its field's name."""

    n: int
    least: float
    median: float
    p95: float
    most: float
    mean: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread | None:
        """None of no values."""
        if values.size == 0:
            return None
        low, median, high, most = np.quantile(values, (0, 0.5, 0.95, 1)).tolist()
        return cls(int(values.size), low, median, high, most, float(values.mean()))


@dataclass(frozen=True)
class Device:
    """One GPU. Lengths in us; times in us from the trace's first event. Shares are fractions.

    window: from the first host slice (operation, annotation, run-time call) or GPU slice to the last end of either. span: from the first
    GPU slice's start to the last one's end. busy: the union of its slices (overlapping streams count once). `idle_of_window` is
    1 - busy/window, `idle_of_span` 1 - busy/span. `idle_us` gives the idle time of the window by cause; the causes sum to it.
    `launch_delay_us` runs from a launch's START to its first slice's start; `slice_delay_median_us` takes every slice of a graph. A queue's
    depth at a launch counts what was launched before and has not begun. `first_launch_to_first_kernel_us` is
    the delay of the earliest launch. `communication_us` is the union of its collectives, `exposed_us` the part of it in which no other
    kernel runs.
    """

    device: str
    model: str
    memory_bytes: int | None
    busy_us: float
    span_us: float
    window_us: float
    start_us: float
    window_start_us: float
    slices: int
    kernels: int
    copies: int
    sets: int
    streams: int
    launches: int
    graph_launches: int
    orphans: int
    launch_delay_us: Spread | None
    slice_delay_median_us: float | None
    first_launch_to_first_kernel_us: float | None
    queue_depth_most: int
    queue_depth_mean: float
    idle_us: dict[str, float]
    idle: gaps.Idle
    communication_us: float
    exposed_us: float

    @property
    def not_counted(self) -> frozenset[gaps.Cause]:
        """Causes of time of which the recording does not say that the program, as it runs on, leaves the GPU idle: a cold first step
        is such, where a millisecond and more is left to judge by."""
        left = self.window_us - self.idle_of(*gaps.NOT_COUNTED)
        cold = self.idle_of(gaps.Cause.COLD)
        return gaps.NOT_COUNTED | ({gaps.Cause.COLD} if cold and left - cold >= ENOUGH_US else frozenset())

    def idle_of(self, *causes: gaps.Cause) -> float:
        """Idle time of these causes, in us."""
        return sum(self.idle_us[cause.value] for cause in causes)

    @property
    def idle_of_window(self) -> float:
        return 1 - self.busy_us / self.window_us if self.window_us else 0.0

    @property
    def idle_of_span(self) -> float:
        return 1 - self.busy_us / self.span_us if self.span_us else 0.0


@dataclass(frozen=True)
class Host:
    """The host. `self_cpu_total_us` is the time covered by operations, annotations and run-time calls, summed over threads: what the
    profiler's table calls its self CPU total; `synchronize_us` the part spent waiting in synchronising calls, and in copies of a
    millisecond and more, which block; `launches`, `queries` and `synchronizations` count calls.
    """

    self_cpu_total_us: float
    synchronize_us: float
    threads: int
    operations: int
    launches: int
    queries: int
    synchronizations: int
    last_synchronize_us: float


def host(trace: Trace) -> Host:
    """What the host did."""
    rows, slices = trace.host_rows, trace.slices
    total = intervals.length_by_lane(slices.lane[rows], slices.start[rows], trace.end[rows])
    waits = rows[trace.call[rows] == Call.SYNCHRONIZE]
    blocking = rows[(trace.call[rows] == Call.COPY) & (slices.duration[rows] >= BLOCKS_LONG_NS)]
    blocked = np.concatenate((waits, blocking))
    waiting = intervals.length_by_lane(slices.lane[blocked], slices.start[blocked], trace.end[blocked])
    last = max(waits.tolist(), key=lambda row: int(trace.end[row]), default=None)
    return Host(
        self_cpu_total_us=total / 1000,
        synchronize_us=waiting / 1000,
        threads=int(np.unique(slices.lane[rows]).size),
        operations=int((slices.kind[rows] == Kind.OP).sum()),
        launches=int(trace.enqueue_rows.size),
        queries=int((trace.call[rows] == Call.QUERY).sum()),
        synchronizations=int(waits.size),
        last_synchronize_us=0.0 if last is None else int(slices.duration[last]) / 1000,
    )


def devices(trace: Trace, cold_step: tuple[int, int] | None) -> tuple[Device, ...]:
    """Every GPU that did work, in the order of their numbers; `cold_step` (ns) bounds the first step when it is a cold one."""
    codes = trace.slices.device[trace.gpu_rows]
    found = [(trace.slices.devices[code], code) for code in np.unique(codes).tolist()]
    return tuple(_device(trace, number, codes == code, cold_step) for number, code in sorted(found, key=_by_number))


def _by_number(entry: tuple[str, int]) -> tuple[int, str]:
    return (int(entry[0]) if entry[0].isdecimal() and len(entry[0]) < 20 else 1 << 62, entry[0])


def _device(trace: Trace, number: str, of: NDArray[np.bool_], cold_step: tuple[int, int] | None) -> Device:
    slices, rows, links = trace.slices, trace.gpu_rows[of], trace.links
    start, end = slices.start[rows], trace.end[rows]
    launch, delay, first = links.launch[of], links.delay[of], links.first[of]
    host_rows = trace.host_rows
    window_start, window_end = int(start.min()), int(end.max())
    if host_rows.size:
        window_start = min(window_start, int(slices.start[host_rows].min()))
        window_end = max(window_end, int(trace.end[host_rows].max()))
    busy = intervals.union(start, end)
    work = gaps.Work(
        start,
        np.where(launch >= 0, slices.start[launch], MISSING),
        np.where(launch >= 0, trace.end[launch], MISSING),
        np.where(launch >= 0, slices.lane[launch], -1).astype(np.int32),
        first,
    )
    pieces = gaps.split(busy, (window_start, window_end), work, _named(trace, Kind.GPU_SYNC, GPU_WAIT))
    recorded: list[gaps.Layer] = [
        (gaps.Cause.PROFILER, *_named(trace, Kind.OVERHEAD, PROFILERS_WORK)),
        (gaps.Cause.START, *_named(trace, Kind.OVERHEAD, LOADING)),
        (gaps.Cause.LOST, *lost_time(trace, rows, window_end)),
    ]
    pieces = gaps.refine(pieces, np.ones(pieces.start.size, bool), recorded)
    others = trace.gpu_rows[~of]
    elsewhere = intervals.union(slices.start[others], trace.end[others])
    idle = attribute(trace, pieces, cold_step, elsewhere).idle()
    gpu, kinds = trace.gpu(number), slices.kind[rows]
    linked = launch >= 0
    calls = np.unique(launch[linked])
    most, mean = queue_depth(slices.start[launch[first]], start[first])
    begun = slices.start[launch[first]]
    earliest = int(np.argmin(begun)) if begun.size else None
    collectives, computing = communication(trace, rows)
    covered = int(intervals.covered(*computing, *collectives).sum())
    return Device(
        device=number,
        model=gpu.name,
        memory_bytes=gpu.memory_bytes,
        busy_us=int((busy[1] - busy[0]).sum()) / 1000,
        span_us=(int(end.max()) - int(start.min())) / 1000,
        window_us=(window_end - window_start) / 1000,
        start_us=(int(start.min()) - trace.origin) / 1000,
        window_start_us=(window_start - trace.origin) / 1000,
        slices=int(rows.size),
        kernels=int((kinds == Kind.KERNEL).sum()),
        copies=int((kinds == Kind.MEMCPY).sum()),
        sets=int((kinds == Kind.MEMSET).sum()),
        streams=int(np.unique(slices.stream[rows]).size),
        launches=int(np.isin(trace.call[calls], ENQUEUES).sum()) if calls.size else 0,
        graph_launches=int((trace.call[calls] == Call.GRAPH_LAUNCH).sum()) if calls.size else 0,
        orphans=int((~linked).sum()),
        launch_delay_us=Spread.of(delay[first] / 1000),
        slice_delay_median_us=float(np.median(delay[linked])) / 1000 if linked.any() else None,
        first_launch_to_first_kernel_us=None if earliest is None else int(delay[first][earliest]) / 1000,
        queue_depth_most=most,
        queue_depth_mean=mean,
        idle_us=_by_cause(idle),
        idle=idle,
        communication_us=int((collectives[1] - collectives[0]).sum()) / 1000,
        exposed_us=int((collectives[1] - collectives[0]).sum() - covered) / 1000,
    )


Intervals = tuple[Ints, Ints]


def communication(trace: Trace, rows: NDArray[np.intp]) -> tuple[Intervals, Intervals]:
    """Disjoint, sorted intervals (ns) in which collectives, and in which other kernels, run; `rows` are those of one GPU."""
    slices = trace.slices
    kernels = rows[slices.kind[rows] == Kind.KERNEL]
    codes = np.unique(slices.name[kernels])
    named = [code for code in codes.tolist() if class_of(slices.names[code]) == "collective"]
    talks = np.isin(slices.name[kernels], named)
    talking, computing = kernels[talks], kernels[~talks]
    return (
        intervals.union(slices.start[talking], trace.end[talking]),
        intervals.union(slices.start[computing], trace.end[computing]),
    )


def _by_cause(idle: gaps.Idle) -> dict[str, float]:
    found = dict.fromkeys((cause.value for cause in gaps.Cause), 0.0)
    for cause, length in zip(idle.cause, (idle.end - idle.start).tolist(), strict=True):
        found[cause.value] += length / 1000
    return found


PROFILERS_WORK = re.compile(r"Activity Buffer Request|Buffer Flush|Instrumentation|Resource|UVM Activity Init")
LOADING = re.compile(r"Module Loading|Function Loading|Driver Compiler")
"""CUPTI's kinds of overhead: its own work, and what the driver does once and the profiler only reports."""

GPU_WAIT = re.compile(r"Wait Event")
"""Of the recorded synchronisations the one that holds a stream back; in the others the host waits."""


def _named(trace: Trace, kind: Kind, pattern: re.Pattern[str]) -> tuple[Ints, Ints]:
    rows = trace.rows(kind)
    rows = rows[[pattern.search(trace.name(row)) is not None for row in rows.tolist()]] if rows.size else rows
    return intervals.union(trace.slices.start[rows], trace.end[rows])


def queue_depth(launched: Ints, begun: Ints) -> tuple[int, float]:
    """How much was launched and had not begun at the moment of each launch, that one not counted: the most, and the mean."""
    if launched.size == 0:
        return 0, 0.0
    launched = np.sort(launched)
    waiting = np.arange(launched.size) - np.searchsorted(np.sort(begun), launched, side="right")
    waiting = np.maximum(waiting, 0)
    return int(waiting.max()), float(waiting.mean())
