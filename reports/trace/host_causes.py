"""What the host did while it launched nothing: a GPU's idle time, laid to what the launching thread was in at each moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reports.trace import intervals
from reports.trace.categories import Call, Kind
from reports.trace.columns import Ints
from reports.trace.gaps import Cause, Layer, Pieces, refine
from reports.trace.read import Trace
from reports.trace.steps import step_rows

Rows = NDArray[np.intp]

PAUSE_NS = 200_000
"""Between two operators of a forward pass Python takes 5 to 100 us; what lasts longer is no part of dispatching them."""

BLOCKS_NS = 20_000
"""A copy whose call takes longer than handing it over does (5 to 10 us) waits for it."""

LONG_NS = 10**6
TIMES_USUAL = 20
FEW = 3
"""A call of a millisecond and more, twenty times as long as it usually is, three times at most, is one-time work."""

MOSTLY = 0.8
"""An operator that consists of one-time calls for this share of its length is one-time work itself."""

LOADER = re.compile(r"^enumerate\(DataLoader\)#")
PREPARES = re.compile(
    r"data_?load|dataloader|preprocess|pre-process|collate|(?:next|get|load|fetch|prepare)_?(?:batch|data|sample|inputs)\b|\bdata(?:set)?\b",
    re.IGNORECASE,
)
"""Names that users give to the loading of data; only where no kernel is launched within."""
PREPARING_CODE = re.compile(
    r"torch/utils/data/|torchvision/(?:transforms|io|datasets)/|(?:^|/)PIL/|(?:^|/)(?:datasets|webdataset|albumentations|decord|av|cv2)/"
    r"|transformers/(?:image_(?:processing|transforms|utils)|feature_extraction|tokenization|processing_)|tokenizers/"
    r"|: \w*(?:preprocess|collate|_next_data|load_batch|get_batch|fetch_data)\w*$",
    re.IGNORECASE,
)
"""Files and functions of Python's stack that load or prepare data."""

LOADS = re.compile(r"ModuleLoad|LibraryLoad|LinkComplete|rtcCompile|Graph(?:Instantiate|Upload)", re.IGNORECASE)
"""Calls that load or build what later launches use."""
COMPILING = re.compile(
    r"dynamo_timed|compile_fx|compile_inner|\bcompile_file\b|CachingAutotuner\.benchmark|benchmark_all_configs"
)
COMPILER_CODE = re.compile(
    r"torch/_dynamo/convert_frame|torch/_inductor/(?:compile_fx|async_compile)|triton/compiler/|torch/utils/cpp_ext"
)
ALLOCATES = re.compile(
    r"malloc|Free(?!ze)|MemCreate|MemMap|MemAddress|MemRelease|MemUnmap|HostAlloc|HostRegister|HostUnregister|MemAlloc",
    re.I,
)
ALLOCATING = re.compile(r"^aten::(?:new_)?empty(?:_\w+)?$")
COLLECTIVE = re.compile(r"^(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl):|^c10d::|^_c10d_functional|^record_param_comms$")
OPTIMIZER = re.compile(r"^Optimizer\.(?:step|zero_grad)#")
BACKWARD = re.compile(r"run_backward|torch/autograd/")
"""Frames that wait for autograd's own threads, and do nothing themselves."""


def attribute(trace: Trace, pieces: Pieces, cold: tuple[int, int] | None) -> Pieces:
    """The same idle time, of which what was laid to the host (`HOST`) is laid to what the host did.

    Args:
        trace: the recording.
        pieces: idle time as the GPU's queue tells it.
        cold: start and end of the first step (ns), when it is a cold one.
    """
    threads = Threads(trace)
    drained = threads.waiting_at(pieces)
    for lane in np.unique(pieces.lane[pieces.of(Cause.HOST)]).tolist():
        own = pieces.of(Cause.HOST) & (pieces.lane == lane)
        if lane >= 0:
            pieces = refine(pieces, own, threads.layers(lane, pauses=True))
        # Where that thread did nothing, what it waited for is what the others were in.
        for other in threads.others(lane):
            pieces = refine(
                pieces, pieces.of(Cause.HOST) & (pieces.lane == lane), threads.layers(other, pauses=lane < 0)
            )
    pieces = _unseen(pieces)
    pieces = refine(pieces, pieces.of(Cause.HOST), [_cut_out(trace)])
    if cold is not None:
        usual = pieces.of(Cause.DISPATCH, Cause.OPTIMIZER, Cause.ALLOCATION, Cause.PYTHON, Cause.HOST)
        pieces = refine(pieces, usual, [(Cause.COLD, np.array([cold[0]]), np.array([cold[1]]))])
    dry = pieces.of(Cause.DISPATCH, Cause.LATENCY, Cause.OPTIMIZER) & np.isin(pieces.gap, drained)
    first, last = intervals.union(pieces.start[dry], pieces.end[dry])
    return refine(pieces, dry, [(Cause.SYNC, first, last)])


def _unseen(pieces: Pieces) -> Pieces:
    """Long waits for a GPU that does nothing wait for something that is not recorded."""
    waits = pieces.of(Cause.UNSEEN)
    short = waits & (pieces.end - pieces.start < LONG_NS)
    first, last = intervals.union(pieces.start[short], pieces.end[short])
    return refine(pieces, short, [(Cause.SYNC, first, last)])


def _cut_out(trace: Trace) -> Layer:
    """Stretches in which nothing at all is recorded although something ran: stacks were recorded elsewhere, or steps are missing."""
    slices = trace.slices
    rows = trace.rows(Kind.OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.FRAME, Kind.OVERHEAD)
    start, end = intervals.union(slices.start[rows], trace.end[rows])
    first, last = end[:-1], start[1:]
    long = last - first >= LONG_NS
    first, last = first[long], last[long]
    if not (slices.python_frames or (slices.kind == Kind.FRAME).any()):
        steps = step_rows(trace)
        numbers = [int(trace.name(row).partition("#")[2]) for row in steps]
        jumps = [
            (int(trace.end[a]), int(slices.start[b]))
            for (a, i), (b, j) in pairwise(zip(steps, numbers, strict=True))
            if j > i + 1
        ]
        missing = np.zeros(first.size, bool)
        for before, after in jumps:
            missing |= (first < after) & (last > before)
        first, last = first[missing], last[missing]
    return Cause.CUT, first, last


class Threads:
    """What the launching threads were in, as layers of causes: the first that covers a moment has it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        slices = trace.slices
        lanes, launches = np.unique(slices.lane[trace.enqueue_rows], return_counts=True)
        steps = _named(trace, lambda name: name.startswith("ProfilerStep#"), Kind.ANNOTATION, Kind.OP)
        stepping = [lane for lane in np.unique(slices.lane[steps]).tolist() if lane not in lanes]
        self._launching = [*lanes[np.argsort(-launches, kind="stable")].tolist(), *stepping]
        self._made: dict[tuple[int, bool], list[Layer]] = {}
        self._once = _one_time(trace)
        self._data = _data_rows(trace)
        # Dispatching an operator takes a tenth of that: a longer one computes.
        self._computing = _long(trace, _leaves(trace), PAUSE_NS)

    def others(self, lane: int) -> list[int]:
        """The other launching threads of a thread's process, the busiest first; all of them for none (-1)."""
        lanes = self.trace.slices.lanes
        process = lanes[lane][0] if lane >= 0 else None
        return [other for other in self._launching if other != lane and process in (None, lanes[other][0])]

    def layers(self, lane: int, pauses: bool) -> list[Layer]:
        """A thread's layers; with `pauses` short ones between its operators and calls are part of dispatching."""
        if (lane, pauses) not in self._made:
            self._made[lane, pauses] = self._layers(lane, pauses)
        return self._made[lane, pauses]

    def _layers(self, lane: int, pauses: bool) -> list[Layer]:
        trace, slices = self.trace, self.trace.slices
        here = np.flatnonzero(slices.lane == lane)
        call, kind = trace.call[here], slices.kind[here]
        runtime = kind == Kind.RUNTIME

        def rows(wanted: Callable[[str], object], *kinds: Kind) -> Rows:
            return _named(trace, wanted, *kinds, among=here)

        def layer(cause: Cause, found: Rows) -> Layer:
            return (cause, *intervals.union(slices.start[found], trace.end[found]))

        copies = here[runtime & (call == Call.COPY)]
        working = here[runtime | (kind == Kind.OP)]
        working = working[~np.isin(working, _named(trace, lambda name: name.startswith("ProfilerStep#"), Kind.OP))]
        captures = [
            (start, end) for at, start, end in zip(*(c.tolist() for c in trace.captures), strict=True) if at == lane
        ]
        allocations = np.concatenate(
            (rows(ALLOCATES.search, Kind.RUNTIME), _long(trace, rows(ALLOCATING.search, Kind.OP), PAUSE_NS))
        )
        frames = rows(lambda name: not BACKWARD.search(name), Kind.FRAME)
        found: list[Layer] = [
            (Cause.CAPTURE, *intervals.union(*(np.array(side, np.int64) for side in zip(*captures, strict=True))))
            if captures
            else (Cause.CAPTURE, slices.start[:0], slices.start[:0]),
            layer(
                Cause.START,
                np.concatenate(
                    (
                        self._once[slices.lane[self._once] == lane],
                        rows(LOADS.search, Kind.RUNTIME),
                        rows(COMPILING.search, Kind.ANNOTATION),
                        rows(COMPILER_CODE.search, Kind.FRAME),
                    )
                ),
            ),
            layer(Cause.DATA, self._data[slices.lane[self._data] == lane]),
            layer(Cause.ALLOCATION, allocations),
            # How long a wait leaves the GPU without work decides what it is: see `_unseen`.
            layer(Cause.UNSEEN, here[runtime & (call == Call.SYNCHRONIZE)]),
            layer(Cause.SYNC, _long(trace, copies, BLOCKS_NS)),
            layer(Cause.COMMUNICATION, rows(COLLECTIVE.search, Kind.OP, Kind.ANNOTATION)),
            layer(Cause.OPTIMIZER, rows(OPTIMIZER.search, Kind.ANNOTATION, Kind.OP)),
            layer(Cause.COMPUTE, self._computing[slices.lane[self._computing] == lane]),
            layer(Cause.DISPATCH, working),
        ]
        if pauses:
            begins, ends = found[-1][2][:-1], found[-1][1][1:]
            short = ends - begins < PAUSE_NS
            found.append((Cause.DISPATCH, begins[short], ends[short]))
        return [*found, layer(Cause.PYTHON, frames)]

    def waiting_at(self, pieces: Pieces) -> Ints:
        """Beginnings of gaps at which the thread that ended the gap was in a call that waits for the GPU."""
        trace, found = self.trace, []
        waits = trace.rows(Kind.RUNTIME)
        copies = _long(trace, waits[trace.call[waits] == Call.COPY], BLOCKS_NS)
        waits = np.concatenate((waits[trace.call[waits] == Call.SYNCHRONIZE], copies))
        for lane in np.unique(pieces.lane).tolist():
            own = waits[trace.slices.lane[waits] == lane]
            gaps = np.unique(pieces.gap[pieces.lane == lane])
            starts, ends = intervals.union(trace.slices.start[own], trace.end[own])
            at = np.searchsorted(starts, gaps, side="right") - 1
            if starts.size:
                found.append(gaps[(at >= 0) & (gaps < ends[np.maximum(at, 0)])])
        return np.concatenate(found) if found else pieces.gap[:0]


def _named(trace: Trace, wanted: Callable[[str], object], *kinds: Kind, among: Rows | None = None) -> Rows:
    names = trace.slices.names
    rows = trace.rows(*kinds) if among is None else among[np.isin(trace.slices.kind[among], kinds)]
    used = np.unique(trace.slices.name[rows])
    return rows[np.isin(trace.slices.name[rows], [code for code in used.tolist() if wanted(names[code])])]


def _long(trace: Trace, rows: Rows, least_ns: int) -> Rows:
    return rows[trace.slices.duration[rows] >= least_ns]


def _data_rows(trace: Trace) -> Rows:
    """Slices in which data is loaded or prepared, by the loader's, the user's or the code's own name."""
    loading = _named(trace, LOADER.search, Kind.ANNOTATION, Kind.OP)
    others = np.concatenate(
        (_named(trace, PREPARES.search, Kind.ANNOTATION), _named(trace, PREPARING_CODE.search, Kind.FRAME))
    )
    kernels = trace.enqueue_rows[np.isin(trace.call[trace.enqueue_rows], (Call.LAUNCH, Call.GRAPH_LAUNCH))]
    lane, start = trace.slices.lane, trace.slices.start
    launches = np.zeros(others.size, np.int64)
    for thread in np.unique(lane[others]).tolist():
        own, begun = lane[others] == thread, start[kernels[lane[kernels] == thread]]
        launches[own] = np.searchsorted(begun, trace.end[others[own]]) - np.searchsorted(begun, start[others[own]])
    return np.concatenate((loading, others[launches == 0]))


def _one_time(trace: Trace) -> Rows:
    """Run-time calls, and operators that call nothing, which took far longer than they usually do, a few times at most; and long first
    launches of a kernel.

    Of what the recording holds too few calls, calls and allocations before the first GPU slice are: they set the GPU up. Waits and
    copies never are.
    """
    slices, kind = trace.slices, trace.slices.kind
    calls = trace.rows(Kind.RUNTIME)
    calls = calls[~np.isin(trace.call[calls], (Call.SYNCHRONIZE, Call.COPY))]
    candidates = np.concatenate((calls, _leaves(trace)))
    long = _long(trace, candidates, LONG_NS)
    found = [_long(trace, _first_launches(trace), LONG_NS)]
    first_work = int(slices.start[trace.gpu_rows[0]]) if trace.gpu_rows.size else 0
    for code in np.unique(slices.name[long]).tolist():
        same = candidates[slices.name[candidates] == code]
        usual = 0.0 if same.size < 2 * FEW else float(np.median(slices.duration[same]))
        own = same[slices.duration[same] >= max(LONG_NS, TIMES_USUAL * usual)]
        # What a launch usually takes is known: a few of a millisecond tell by themselves.
        if own.size <= FEW and (
            same.size >= 2 * FEW or np.isin(trace.call[own], (Call.LAUNCH, Call.GRAPH_LAUNCH)).all()
        ):
            found.append(own)
        mine = long[(slices.name[long] == code) & (slices.start[long] < first_work)]
        found.append(mine[(kind[mine] == Kind.RUNTIME) | bool(ALLOCATING.search(slices.names[code]))])
    return _with_callers(trace, np.unique(np.concatenate(found)))


def _first_launches(trace: Trace) -> Rows:
    """The first launch of each kernel: it may have to load the kernel's code."""
    kernels = (trace.slices.kind[trace.gpu_rows] == Kind.KERNEL) & (trace.links.launch >= 0)
    launches, names = trace.links.launch[kernels], trace.slices.name[trace.gpu_rows[kernels]]
    order = np.argsort(trace.slices.start[launches], kind="stable")
    _, first = np.unique(names[order], return_index=True)
    return launches[order][first].astype(np.intp)


def _leaves(trace: Trace) -> Rows:
    """Operators that call nothing: no other operator, and no run-time."""
    operators = trace.rows(Kind.OP)
    return operators[~np.isin(operators, trace.nesting.parent[trace.rows(Kind.OP, Kind.RUNTIME)])]


def _with_callers(trace: Trace, once: Rows) -> Rows:
    """One-time calls, and the operators around them that consist of them for the most part."""
    slices, parent = trace.slices, trace.nesting.parent
    within: dict[int, int] = {}
    for row in once.tolist():
        above = int(parent[row])
        while above >= 0 and slices.kind[above] == Kind.OP:
            within[above] = within.get(above, 0) + int(slices.duration[row])
            above = int(parent[above])
    mostly = [row for row, time in within.items() if time >= MOSTLY * slices.duration[row]]
    return np.concatenate((once, np.array(mostly, once.dtype)))
