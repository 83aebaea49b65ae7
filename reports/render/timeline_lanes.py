"""What a trace's picture shows: its lanes, from top to bottom, and what had to be left out. No drawing here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.render.plain_text import plain
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import ENQUEUES, GPU_WORK, HOST, Call, Kind
from reports.trace.classes import class_of
from reports.trace.columns import Ints
from reports.trace.gaps import Cause
from reports.trace.read import Trace
from reports.trace.regime import ARITHMETIC
from reports.trace.usage import Device

Rows = NDArray[np.intp]

MOST_THREADS, MOST_GPUS, MOST_STREAMS = 3, 4, 4
MOST_DEPTH = {Kind.ANNOTATION: 3, Kind.OP: 4, Kind.RUNTIME: 1}

ANNOTATION, OPERATOR, OUTSIDE, OVERHEAD = "#b9b3d6", "#7d9bd0", "#e9b9ae", "#9aa5b4"
LAUNCH, SYNCHRONIZE, CALL = "#0e7490", "#c9d3df", "#7c8898"
ARITHMETIC_KERNEL, OTHER_KERNEL, COLLECTIVE, COPY, FILL = "#0f766e", "#63b3a8", "#9d2f6f", "#c2700c", "#a3acb9"
CAUSES = {
    Cause.DATA: "#be123c",
    Cause.SYNC: "#0369a1",
    Cause.ALLOCATION: "#a16207",
    Cause.COMMUNICATION: "#9d2f6f",
    Cause.COMPUTE: "#4d7c0f",
    Cause.PYTHON: "#15803d",
    Cause.HOST: "#e11d48",
    Cause.ANNOTATED: "#9f1239",
    Cause.WAITING: "#64748b",
    Cause.REPEATED: "#86198f",
    Cause.OTHER: "#1e40af",
    Cause.ZERO: "#d97706",
    Cause.OPTIMIZER: "#b45309",
    Cause.DISPATCH: "#ea580c",
    Cause.LATENCY: "#f2a93b",
    Cause.COLD: "#7c3aed",
    Cause.START: "#a78bfa",
    Cause.CAPTURE: "#67e8f9",
    Cause.QUEUED: "#a8a29e",
    Cause.WAIT: "#2563eb",
    Cause.PROFILER: "#8b95a5",
    Cause.UNSEEN: "#94a3b8",
    Cause.CUT: "#e7e5e4",
    Cause.LOST: "#d4d4d8",
    Cause.UNKNOWN: "#334155",
}
CAUSE_NAMES = {
    Cause.DATA: "host loads data",
    Cause.SYNC: "host waits for the GPU",
    Cause.ALLOCATION: "host allocates, frees",
    Cause.COMMUNICATION: "host in collectives",
    Cause.COMPUTE: "operators on the CPU",
    Cause.PYTHON: "host runs Python",
    Cause.HOST: "host, not recorded",
    Cause.ANNOTATED: "host in annotations",
    Cause.WAITING: "host waits, not for a GPU",
    Cause.REPEATED: "set up again and again",
    Cause.OTHER: "another GPU works",
    Cause.ZERO: "host in zero_grad",
    Cause.OPTIMIZER: "host in the optimizer",
    Cause.DISPATCH: "host dispatches",
    Cause.LATENCY: "launch latency",
    Cause.COLD: "cold first step",
    Cause.START: "start-up",
    Cause.CAPTURE: "graph capture",
    Cause.QUEUED: "between queued kernels",
    Cause.WAIT: "waits for other GPU work",
    Cause.PROFILER: "made by the profiler",
    Cause.UNSEEN: "work not recorded",
    Cause.CUT: "cut out",
    Cause.LOST: "lost records",
    Cause.UNKNOWN: "launched, held, unexplained",
}
COLOURS = {
    ANNOTATION: "annotation, step",
    OPERATOR: "operator",
    LAUNCH: "launch",
    SYNCHRONIZE: "waiting in a synchronising call",
    CALL: "other run-time call",
    ARITHMETIC_KERNEL: "kernel: matrix product, convolution, attention",
    OTHER_KERNEL: "other kernel",
    COLLECTIVE: "kernel: collective",
    COPY: "copy",
    FILL: "fill",
    OVERHEAD: "the profiler's own work",
    OUTSIDE: "in no operator",
}


@dataclass(frozen=True)
class Series:
    """Slices of one colour: times in ns; `rows` are the trace's rows (for their names), None where they have none."""

    colour: str
    start: Ints
    end: Ints
    rows: Rows | None = None


@dataclass(frozen=True)
class Row:
    """One row of the picture. `stacked` rows show how much of a time is what (idle time by cause)."""

    label: str
    series: tuple[Series, ...]
    stacked: bool = False


@dataclass(frozen=True)
class Lane:
    """Rows that belong together: a thread, or a GPU."""

    title: str
    rows: tuple[Row, ...]


def lanes(analysis: Analysis) -> tuple[tuple[Lane, ...], tuple[str, ...]]:
    """The lanes, and sentences about what is left out."""
    trace, notes = analysis.trace, []
    threads, left = _threads(trace)
    if left:
        notes.append(f"{left} more host thread{'s' if left > 1 else ''} with less work left out.")
    found = [*(_thread(trace, lane, analysis.has_gpu) for lane in threads)]
    for device in analysis.devices[:MOST_GPUS]:
        found.append(_gpu(trace, device, notes))
    if len(analysis.devices) > MOST_GPUS:
        notes.append(f"{len(analysis.devices) - MOST_GPUS} more GPUs left out.")
    overhead = trace.rows(Kind.OVERHEAD)
    if overhead.size:
        row = Row("its own work", (_series(trace, OVERHEAD, overhead),))
        found.append(Lane("profiler", (row,)))
    return tuple(lane for lane in found if lane.rows), tuple(notes)


def _series(trace: Trace, colour: str, rows: Rows) -> Series:
    return Series(colour, trace.slices.start[rows], trace.end[rows], rows)


def _threads(trace: Trace) -> tuple[list[int], int]:
    """The threads with the most time covered, in the order in which they begin; and how many are left out."""
    rows = trace.host_rows
    lane = trace.slices.lane[rows]
    covered = {}
    for code in np.unique(lane).tolist():
        on = rows[lane == code]
        covered[code] = (intervals.length(trace.slices.start[on], trace.end[on]), -int(trace.slices.start[on].min()))
    most = sorted(covered, key=lambda code: covered[code], reverse=True)[:MOST_THREADS]
    return sorted(most, key=lambda code: -covered[code][1]), len(covered) - len(most)


def _thread(trace: Trace, lane: int, has_gpu: bool) -> Lane:
    rows = trace.host_rows[trace.slices.lane[trace.host_rows] == lane]
    kinds, depth = trace.slices.kind[rows], _depth_among_its_kind(trace)[rows]
    shown: list[Row] = []
    for kind, label in ((Kind.ANNOTATION, "annotations"), (Kind.OP, "operators")):
        of_kind, levels = rows[kinds == kind], depth[kinds == kind]
        levels = np.minimum(levels, MOST_DEPTH[kind] - 1)
        colour = ANNOTATION if kind == Kind.ANNOTATION else OPERATOR
        for level in np.unique(levels).tolist():
            title = label if level == 0 else "… called by them" if level == 1 else ""
            shown.append(Row(title, (_series(trace, colour, of_kind[levels == level]),)))
    calls = rows[kinds == Kind.RUNTIME]
    if calls.size:
        does = trace.call[calls]
        launches, waits = np.isin(does, ENQUEUES), does == Call.SYNCHRONIZE
        groups = ((SYNCHRONIZE, waits), (CALL, ~launches & ~waits), (LAUNCH, launches))
        shown.append(Row("run-time calls", tuple(_series(trace, c, calls[m]) for c, m in groups if m.any())))
    operators = rows[kinds == Kind.OP]
    if operators.size and not has_gpu:
        shown.append(Row("in no operator", (_outside(trace, operators),), stacked=True))
    return Lane(f"host thread {plain(trace.slices.lanes[lane][1], 14)}", tuple(shown))


def _outside(trace: Trace, operators: Rows) -> Series:
    start, end = window(trace)
    busy = intervals.union(trace.slices.start[operators], trace.end[operators])
    return Series(OUTSIDE, *intervals.gaps(*busy, start, end))


def _depth_among_its_kind(trace: Trace) -> NDArray[np.int32]:
    """How many ancestors of its own kind each host slice has."""
    nesting, kind = trace.nesting, trace.slices.kind
    parents = {each: np.full(kind.size, -1, np.int32) for each in HOST}
    result = np.zeros(kind.size, np.int32)
    host = trace.host_rows
    order = host[np.argsort(nesting.depth[host], kind="stable")]
    edges = np.flatnonzero(np.diff(nesting.depth[order])) + 1
    for level in np.split(order, edges):
        above = nesting.parent[level]
        for each, deepest in parents.items():
            # The depth of the nearest slice of this kind at or above: inherited, or one more where it is of this kind itself.
            inherited = np.where(above >= 0, deepest[above], -1)
            own = kind[level] == each
            deepest[level] = inherited + own
            result[level[own]] = deepest[level[own]]
    return result


def _gpu(trace: Trace, device: Device, notes: list[str]) -> Lane:
    slices = trace.slices
    rows = trace.gpu_rows[slices.device[trace.gpu_rows] == slices.devices.index(device.device)]
    streams, counts = np.unique(slices.stream[rows], return_counts=True)
    kept = sorted(streams[np.argsort(-counts, kind="stable")][:MOST_STREAMS].tolist())
    if streams.size > MOST_STREAMS:
        notes.append(
            f"GPU {plain(device.device, 20)}: {streams.size - MOST_STREAMS} more streams with less work left out."
        )
    colours = _Coloured(trace)
    shown = []
    for stream in kept:
        on = rows[slices.stream[rows] == stream]
        series = [_series(trace, c, part) for c, part in colours(on)]
        shown.append(Row(f"stream {plain(slices.streams[stream], 12) if stream >= 0 else '?'}", tuple(series)))
    pieces = device.idle
    # The causes are told from the launches' times.
    if pieces.start.size and not trace.withheld & {"idle", "window", "cause"}:
        cause = np.array([list(Cause).index(found) for found in pieces.cause], np.int8)
        by_cause = tuple(
            Series(CAUSES[found], pieces.start[cause == number], pieces.end[cause == number])
            for number, found in enumerate(Cause)
            if (cause == number).any()
        )
        shown.append(Row("idle, by cause", by_cause, stacked=True))
    return Lane(f"GPU {plain(device.device, 10)}", tuple(shown))


class _Coloured:
    """Splits GPU rows by colour."""

    def __init__(self, trace: Trace) -> None:
        self._slices = trace.slices
        self._by_name: dict[int, str] = {}

    def _kernel(self, code: int) -> str:
        if code not in self._by_name:
            found = class_of(self._slices.names[code])
            colour = COLLECTIVE if found == "collective" else OTHER_KERNEL
            self._by_name[code] = ARITHMETIC_KERNEL if found in ARITHMETIC else colour
        return self._by_name[code]

    def __call__(self, rows: Rows) -> Iterator[tuple[str, Rows]]:
        kinds, names = self._slices.kind[rows], self._slices.name[rows]
        colour_of = {Kind.MEMCPY: COPY, Kind.MEMSET: FILL}
        colours = np.empty(rows.size, object)
        for kind in GPU_WORK:
            of_kind = kinds == kind
            if kind == Kind.KERNEL:
                unique, where = np.unique(names[of_kind], return_inverse=True)
                colours[of_kind] = np.array([self._kernel(code) for code in unique.tolist()], object)[where]
            else:
                colours[of_kind] = colour_of[kind]
        for colour in (OTHER_KERNEL, ARITHMETIC_KERNEL, COLLECTIVE, COPY, FILL):
            if (mask := colours == colour).any():
                yield colour, rows[mask]


def window(trace: Trace) -> tuple[int, int]:
    """From the first host or GPU slice to the last end, in ns; (0, 0) of nothing."""
    rows = np.concatenate((trace.host_rows, trace.gpu_rows))
    if rows.size == 0:
        return 0, 0
    return int(trace.slices.start[rows].min()), int(trace.end[rows].max())


def closer_look(analysis: Analysis, width: float) -> tuple[int, int, str] | None:
    """A part of the window that deserves a strip of its own, and why (in words); None where the whole picture tells enough.

    `width` is the picture's in pixels. The GPU's span when it is a speck; else, when most slices are narrower than a pixel, the
    surroundings of a typical piece of what costs most.
    """
    trace = analysis.trace
    begin, finish = window(trace)
    if finish <= begin:
        return None
    if analysis.devices:
        first, last = _span(trace)
        if 0 < last - first < (finish - begin) / 12:
            pad = max((last - first) // 12, 1)
            return max(first - pad, begin), min(last + pad, finish), "the GPU's work, enlarged"
    rows = trace.gpu_rows if trace.gpu_rows.size else _main_operators(trace)
    narrow = trace.slices.duration[rows] < (finish - begin) / width
    if rows.size < 30 or narrow.mean() < 0.5:
        return None
    centre, why = _typical(analysis, rows)
    around = int(np.searchsorted(trace.slices.start[rows], centre))
    low, high = max(around - 16, 0), min(around + 16, rows.size - 1)
    first, last = int(trace.slices.start[rows[low]]), int(trace.end[rows[high]])
    limit = (finish - begin) // 8
    if last - first > limit:
        first, last = max(centre - limit // 2, begin), min(centre + limit // 2, finish)
    return (first, last, why) if last > first else None


def _span(trace: Trace) -> tuple[int, int]:
    rows = trace.gpu_rows
    return int(trace.slices.start[rows].min()), int(trace.end[rows].max())


def _main_operators(trace: Trace) -> Rows:
    rows = trace.rows(Kind.OP)
    return rows[np.argsort(trace.slices.start[rows], kind="stable")]


def _typical(analysis: Analysis, rows: Rows) -> tuple[int, str]:
    """The middle of a short piece of idle time of the cause that costs most in short pieces; half of that cost lies in shorter ones."""
    trace = analysis.trace
    begin, finish = window(trace)
    best = (0, int(trace.slices.start[rows[rows.size // 2]]), "the middle of the recording")
    for device in analysis.devices[:1]:
        pieces = device.idle
        length = pieces.end - pieces.start
        # The long ones can be seen in the whole picture.
        short = length < (finish - begin) / 100
        for cause in Cause:
            of = np.flatnonzero(short & np.array([found is cause for found in pieces.cause], bool))
            if of.size and int(length[of].sum()) > best[0]:
                order = of[np.argsort(length[of], kind="stable")]
                until = np.cumsum(length[order])
                chosen = order[int(np.searchsorted(until, until[-1] / 2))]
                centre = int(pieces.start[chosen] + pieces.end[chosen]) // 2
                best = (int(until[-1]), centre, f"a typical short piece of idle time ({CAUSE_NAMES[cause]})")
    return best[1], f"{best[2]}, enlarged"
