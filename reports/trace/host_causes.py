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
SLOW_NS = 5 * 10**6
"""A call that waits may return this long after the GPU ended; beyond, something else was waited for."""
TIMES_USUAL = 20
FEW = 3
"""A call of a millisecond and more, twenty times as long as it usually is, three times at most, is one-time work."""

MOSTLY = 0.8
"""An operator that consists of one-time calls for this share of its length is one-time work itself."""

LOADER = re.compile(r"^enumerate\(DataLoader\)#")
PREPARES = re.compile(
    r"data_?load|pre-?process|collate|tokeni[sz]|(?:next|get|load|fetch|prepare|read)_?(?:the_)?(?:batch|data|sample|inputs)"
    r"|\bDALI\w*Iterator|webdataset",
    re.IGNORECASE,
)
"""Names that users give to the loading of data ..."""
STORES = re.compile(r"write|save|log\b|logg|checkpoint|dump|gather", re.IGNORECASE)
"""... unless they say that data goes the other way."""
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
    r"torch/_dynamo/convert_frame|torch/_inductor/(?:compile_fx|async_compile)|triton/compiler/|torch/utils/cpp_ext|/jit/(?:core|env|cpp_ext)"
    r"|\b(?:ninja|nvcc|hipcc)\b|build_and_load"
)
ALLOCATES = re.compile(
    r"malloc|Free(?!ze)|MemCreate|MemMap|MemAddress|MemRelease|MemUnmap|HostAlloc|HostRegister|HostUnregister|MemAlloc",
    re.I,
)
ALLOCATING = re.compile(r"^aten::(?:new_)?empty(?:_\w+)?$")
COLLECTIVE = re.compile(r"^(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl):|^c10d::|^_c10d_functional|^record_param_comms$")
OPTIMIZER = re.compile(r"^Optimizer\.step#")
ZERO = re.compile(r"^Optimizer\.zero_grad#")
WAITS = re.compile(
    r"\b(?:acquire|wait|poll|select|recv\w*|accept|join|sleep|epoll)\b|queue\.py.*: get$|Queue.*\bget\b|threading\.py.*wait|selectors\.py",
    re.IGNORECASE,
)
"""Frames in which Python waits for something else."""
TALKS = re.compile(r"distributed/(?:distributed_c10d|rpc|c10d)")
BACKWARD = re.compile(r"run_backward|torch/autograd/")
"""Frames that wait for autograd's own threads, and do nothing themselves."""


def attribute(trace: Trace, pieces: Pieces, cold: tuple[int, int] | None, elsewhere: tuple[Ints, Ints]) -> Pieces:
    """The same idle time, of which what was laid to the host (`HOST`) is laid to what the host did.

    Args:
        trace: the recording.
        pieces: idle time as the GPU's queue tells it.
        cold: start and end of the first step (ns), when it is a cold one.
        elsewhere: disjoint, sorted intervals in which other GPUs work.
    """
    threads = Threads(trace)
    for lane in np.unique(pieces.lane[pieces.of(Cause.HOST)]).tolist():
        own = pieces.of(Cause.HOST) & (pieces.lane == lane)
        if lane >= 0:
            pieces = refine(pieces, own, threads.layers(lane, pauses=True))
        # Where that thread did nothing, what it waited for is what the others were in.
        for other in threads.others(lane):
            pieces = refine(pieces, pieces.of(Cause.HOST) & (pieces.lane == lane), threads.layers(other, pauses=False))
    pieces = refine(pieces, pieces.of(Cause.HOST, Cause.WAITING, Cause.PYTHON), [threads.loaders])
    pieces = refine(pieces, pieces.of(Cause.UNSEEN, Cause.UNKNOWN), [(Cause.OTHER, *elsewhere)])
    pieces = _unseen(pieces)
    pieces = refine(pieces, pieces.of(Cause.HOST, Cause.ANNOTATED), [_cut_out(trace)])
    pieces = _repeated(trace, pieces)
    if cold is not None:
        usual = pieces.of(
            Cause.DISPATCH, Cause.OPTIMIZER, Cause.ZERO, Cause.ALLOCATION, Cause.PYTHON, Cause.ANNOTATED, Cause.HOST
        )
        pieces = refine(pieces, usual, [(Cause.COLD, np.array([cold[0]]), np.array([cold[1]]))])
    return refine(pieces, pieces.of(Cause.DISPATCH, Cause.LATENCY), [threads.caught_up(pieces)])


def _unseen(pieces: Pieces) -> Pieces:
    """Long waits for a GPU that does nothing wait for something that is not recorded; a wait that the GPU's work began, and that a launch
    follows, is only slow to return."""
    waits = pieces.of(Cause.UNSEEN)
    slow = (pieces.start == pieces.gap) & (pieces.lane >= 0) & (pieces.end - pieces.start < SLOW_NS)
    short = waits & ((pieces.end - pieces.start < LONG_NS) | slow)
    first, last = intervals.union(pieces.start[short], pieces.end[short])
    return refine(pieces, short, [(Cause.SYNC, first, last)])


def _repeated(trace: Trace, pieces: Pieces) -> Pieces:
    """What would be start-up, but takes a millisecond and more in at least three steps and half of them."""
    rows = step_rows(trace)
    once = pieces.of(Cause.START, Cause.CAPTURE) & (pieces.end - pieces.start >= LONG_NS)
    begins = np.sort(trace.slices.start[rows]) if rows else np.zeros(0, np.int64)
    if len(rows) < FEW or not once.any():
        return pieces
    steps = np.unique(np.searchsorted(begins, pieces.start[once], side="right"))
    if steps.size < max(FEW, len(rows) / 2):
        return pieces
    first, last = intervals.union(pieces.start[once], pieces.end[once])
    return refine(pieces, once, [(Cause.REPEATED, first, last)])


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
        self._loading = _named(trace, LOADER.search, Kind.ANNOTATION, Kind.OP)
        self._preparing = _named(trace, PREPARING_CODE.search, Kind.FRAME)
        self._named_so = np.setdiff1d(data_rows(trace), _named(trace, LOADER.search, Kind.ANNOTATION, Kind.OP))
        self._loading = _usual(trace, self._loading)
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
        optimizers = rows(OPTIMIZER.search, Kind.ANNOTATION, Kind.OP)
        # One that launches nothing computes on the CPU.
        begun = slices.start[trace.enqueue_rows[slices.lane[trace.enqueue_rows] == lane]]
        launching = np.searchsorted(begun, trace.end[optimizers]) > np.searchsorted(begun, slices.start[optimizers])
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
            layer(Cause.DATA, self._of(lane, self._loading, self._preparing)),
            layer(Cause.ALLOCATION, allocations),
            # How long a wait leaves the GPU without work decides what it is: see `_unseen`.
            layer(Cause.UNSEEN, here[runtime & (call == Call.SYNCHRONIZE)]),
            layer(Cause.SYNC, _long(trace, copies, BLOCKS_NS)),
            (Cause.DATA, *self._until_launch(self._of(lane, self._named_so))),
            layer(
                Cause.COMMUNICATION,
                np.concatenate((rows(COLLECTIVE.search, Kind.OP, Kind.ANNOTATION), rows(TALKS.search, Kind.FRAME))),
            ),
            layer(Cause.COMPUTE, np.concatenate((self._of(lane, self._computing), optimizers[~launching]))),
            layer(Cause.ZERO, rows(ZERO.search, Kind.ANNOTATION, Kind.OP)),
            layer(Cause.OPTIMIZER, optimizers[launching]),
            layer(Cause.DISPATCH, working),
        ]
        if pauses:
            begins, ends = found[-1][2][:-1], found[-1][1][1:]
            short = ends - begins < PAUSE_NS
            found.append((Cause.DISPATCH, begins[short], ends[short]))
        marks = rows(lambda name: not name.startswith("ProfilerStep#"), Kind.ANNOTATION)
        waiting = rows(WAITS.search, Kind.FRAME)
        return [*found, layer(Cause.WAITING, waiting), layer(Cause.PYTHON, frames), layer(Cause.ANNOTATED, marks)]

    def _of(self, lane: int, *rows: Rows) -> Rows:
        """Those of these rows that lie on a thread."""
        together = np.concatenate(rows)
        return together[self.trace.slices.lane[together] == lane]

    def _until_launch(self, rows: Rows) -> tuple[Ints, Ints]:
        """Annotations up to their first launch of a kernel on their thread: what follows it is no preparing."""
        slices = self.trace.slices
        kernels = self.trace.enqueue_rows[
            np.isin(self.trace.call[self.trace.enqueue_rows], (Call.LAUNCH, Call.GRAPH_LAUNCH))
        ]
        kernels = kernels[np.isin(slices.lane[kernels], slices.lane[rows])]
        begun = np.append(slices.start[kernels], np.iinfo(np.int64).max)
        ends = np.minimum(self.trace.end[rows], begun[np.searchsorted(begun, slices.start[rows])])
        return intervals.union(slices.start[rows], ends)

    @property
    def loaders(self) -> Layer:
        """Data loaders on any thread: what a launching thread that shows nothing waits for."""
        slices = self.trace.slices
        return Cause.DATA, *intervals.union(slices.start[self._loading], self.trace.end[self._loading])

    def caught_up(self, pieces: Pieces) -> Layer:
        """Gaps that began while the thread that ended them waited for the GPU, each for as long as that wait had lasted: without it the
        host would have been ahead by as much."""
        trace, starts, ends = self.trace, [], []
        waits = trace.rows(Kind.RUNTIME)
        copies = _long(trace, waits[trace.call[waits] == Call.COPY], BLOCKS_NS)
        waits = np.concatenate((waits[trace.call[waits] == Call.SYNCHRONIZE], copies))
        for lane in np.unique(pieces.lane).tolist():
            own = waits[trace.slices.lane[waits] == lane]
            gaps = np.unique(pieces.gap[pieces.lane == lane])
            begun, over = intervals.union(trace.slices.start[own], trace.end[own])
            if not begun.size:
                continue
            at = np.searchsorted(begun, gaps, side="right") - 1
            inside = (at >= 0) & (gaps < over[np.maximum(at, 0)])
            gaps, at = gaps[inside], at[inside]
            starts.append(gaps)
            ends.append(over[at] + gaps - begun[at])
        none = pieces.gap[:0]
        return Cause.SYNC, *intervals.union(np.concatenate([none, *starts]), np.concatenate([none, *ends]))


def _named(trace: Trace, wanted: Callable[[str], object], *kinds: Kind, among: Rows | None = None) -> Rows:
    names = trace.slices.names
    rows = trace.rows(*kinds) if among is None else among[np.isin(trace.slices.kind[among], kinds)]
    used = np.unique(trace.slices.name[rows])
    return rows[np.isin(trace.slices.name[rows], [code for code in used.tolist() if wanted(names[code])])]


def _long(trace: Trace, rows: Rows, least_ns: int) -> Rows:
    return rows[trace.slices.duration[rows] >= least_ns]


def data_rows(trace: Trace) -> Rows:
    """Annotations (old writers call loaders' operators) that say that they load or prepare data."""

    def named(name: str) -> bool:
        return bool(LOADER.search(name) or (PREPARES.search(name) and not STORES.search(name)))

    return np.concatenate((_named(trace, named, Kind.ANNOTATION), _named(trace, LOADER.search, Kind.OP)))


def _usual(trace: Trace, rows: Rows) -> Rows:
    """Loaders' slices without a first one that takes far longer than the others: it starts the workers, once."""
    if rows.size <= FEW:
        return rows
    lengths = trace.slices.duration[rows]
    first = int(np.argmin(trace.slices.start[rows]))
    others = np.delete(lengths, first)
    return np.delete(rows, first) if lengths[first] >= TIMES_USUAL * max(float(np.median(others)), 1.0) else rows


def _one_time(trace: Trace) -> Rows:
    """Run-time calls and operators that took far longer themselves than they usually do, a few times at most; long first launches of a
    kernel; the first call of a data loader, where it starts the workers.

    An operator's is its first call. Of what the recording holds too few calls of, calls and allocations before the first GPU slice are:
    they set the GPU up, unless they are as long later. Waits and copies never are.
    """
    slices, kind = trace.slices, trace.slices.kind
    calls = trace.rows(Kind.RUNTIME)
    calls = calls[~np.isin(trace.call[calls], (Call.SYNCHRONIZE, Call.COPY))]
    candidates = np.concatenate((calls, trace.rows(Kind.OP)))
    own_time = np.where(kind == Kind.OP, trace.nesting.self_time, slices.duration)
    loaders = _named(trace, LOADER.search, Kind.ANNOTATION, Kind.OP)
    found = [_long(trace, _first_launches(trace), PAUSE_NS), np.setdiff1d(loaders, _usual(trace, loaders))]
    first_work = int(slices.start[trace.gpu_rows[0]]) if trace.gpu_rows.size else 0
    long = candidates[own_time[candidates] >= LONG_NS]
    for code in np.unique(slices.name[long]).tolist():
        same = candidates[slices.name[candidates] == code]
        times = own_time[same]
        usual = 0.0 if same.size < 2 * FEW else float(np.median(times))
        own = same[times >= max(LONG_NS, TIMES_USUAL * usual)]
        launches = np.isin(trace.call[own], (Call.LAUNCH, Call.GRAPH_LAUNCH)).all()
        # What a launch usually takes is known: a few of a millisecond tell by themselves.
        if own.size <= FEW and (same.size >= 2 * FEW or launches):
            first = same[np.argmin(slices.start[same])]
            found.append(own[(kind[own] != Kind.OP) | (own == first)])
        before = own[slices.start[own] < first_work]
        later = times[(slices.start[same] >= first_work)]
        once = (
            later.size == 0 or float(np.median(later)) < float(np.median(own_time[before])) / 5
            if before.size
            else False
        )
        if once:
            found.append(before[(kind[before] == Kind.RUNTIME) | bool(ALLOCATING.search(slices.names[code]))])
    return _with_callers(trace, np.unique(np.concatenate(found)))


def _first_launches(trace: Trace) -> Rows:
    """The first launch of each kernel: it may have to load the kernel's code."""
    kernels = (trace.slices.kind[trace.gpu_rows] == Kind.KERNEL) & (trace.links.launch >= 0)
    launches, names = trace.links.launch[kernels], trace.slices.name[trace.gpu_rows[kernels]]
    direct = trace.call[launches] == Call.LAUNCH
    launches, names = launches[direct], names[direct]
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
    # Of an operator that is slow itself only what is its own is: the whole slice where that is most of it.
    own = [
        row
        for row in once.tolist()
        if slices.kind[row] != Kind.OP or trace.nesting.self_time[row] >= MOSTLY * slices.duration[row]
    ]
    return np.array([*own, *mostly], np.intp)
