"""What a recording's slices as a whole show of its health: activity that is missing, lost or of another kind, and clocks that differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reports.trace import intervals
from reports.trace.categories import GPU_WORK, HOST, Call, Kind
from reports.trace.columns import Columns, Ints
from reports.trace.notes import Notes, TraceError

if TYPE_CHECKING:
    from reports.trace.read import Trace

OTHER_DEVICE = re.compile(
    r"mtia|hpu|npu|xpu|tpu|ascend|\bcann\b|neuron|metal|\bmps\b|musa|vulkan|device:|gpu|hardware", re.IGNORECASE
)
"""Categories, or processes' names, under which other back-ends write what ran on their device."""

WRITERS = (
    (re.compile(r"/device:|/host:", re.IGNORECASE), "JAX's or TensorFlow's profiler (XProf)"),
    (re.compile(r"ascend hardware|\bcann\b|async_npu", re.IGNORECASE), "Ascend's profiler"),
    (re.compile(r"devtools|\bblink\b|\bv8\b|renderer|browser", re.IGNORECASE), "a web browser"),
    (re.compile(r"\bFEE\b|viztracer", re.IGNORECASE), "VizTracer"),
)
"""Other programs that write the same container, by words of theirs."""

NO_WORK = frozenset(
    {"cuda_profiler_range", "cuda_event", "cpu_instant_event", "external_correlation", "collective_comm"}
)
"""Categories of torch.profiler's own that are not read and hold no work of a device."""

WAITED_NS = 10**6
"""A host that waits this long for a GPU waits for work."""

OPEN_MOST, LOST_MOST = 0.01, 0.1
"""Idle time is withheld where lost records leave more than a hundredth of the window open, or were more than a tenth of the launches."""

BLUR_MOST = 0.1
"""Clocks that differ blur the causes of each gap by as much; within a tenth of the idle time that changes no answer."""


STRETCH_MOST = 0.01
"""Clocks that differ by more than a hundredth of the recording stretch it: what share of it anything takes is not known."""


def judge(trace: Trace, columns: Columns, notes: Notes) -> None:
    """Note what the slices as a whole show of the recording's health.

    Raises:
        TraceError: when the file holds slices, and none of a kind that torch.profiler writes.
    """
    slices = trace.slices
    if trace.count == 0:
        notes.add(
            "nothing_recorded",
            "the file holds no slice: the profiler recorded nothing (no active step of the schedule was reached: call prof.step()"
            " once an iteration)",
            withholds={"window", "idle", "delay", "cause"},
        )
        return
    if not slices.python_frames and ((slices.kind == Kind.OTHER).all() or _bare(trace)):
        raise TraceError(
            f"{trace.path}: {_foreign(columns)}; give the trace that torch.profiler's export_chrome_trace wrote."
        )
    if columns.whole_microseconds:
        notes.add(
            "whole_microseconds",
            "all times are whole microseconds (writers before 2024): what is shorter than 1 us is unknown, not 0",
            int(slices.start.size),
            withholds={"sub-microsecond"},
        )
    _unread(columns, notes)
    _missing(trace, notes)
    _lost(trace, notes)
    enqueueing = slices.correlation[trace.enqueue_rows]
    shared = enqueueing[enqueueing >= 0]
    notes.add(
        "repeated_correlation",
        "launches that share their id with another (several processes in one file): their GPU slices are linked to the last launch"
        " that precedes them, and devices of one number whose process is not told apart count as one",
        shared.size - np.unique(shared).size,
        withholds={"delay", "cause"},
    )
    gpu, orphans = trace.gpu_rows, trace.links.orphans
    notes.add(
        "orphan",
        "GPU slices whose launch was not recorded: they count as busy, no launch delay is claimed for them",
        orphans,
        withholds={"delay", "cause"} if orphans == gpu.size else frozenset(),
    )
    _skew(trace, notes)
    empty = [
        device
        for device in np.unique(slices.device[gpu]).tolist()
        if not slices.duration[gpu[slices.device[gpu] == device]].any()
    ]
    notes.add(
        "no_length",
        "GPU slices without any length, all of their device's: how long it worked is not known",
        int(np.isin(slices.device[gpu], empty).sum()),
        withholds={"idle", "cause"},
    )
    notes.add(
        "child_outlives_parent",
        "host slices that outlive the one they began in: the excess counts for neither, self time is never negative",
        trace.nesting.overlaps,
    )
    used = {slices.devices[code] for code in slices.device[gpu].tolist()}
    notes.add(
        "device_unknown",
        "the file does not name the GPU: what needs its peak is withheld",
        sum(not trace.gpu(number).name for number in used),
        withholds={"peak"},
    )


def _bare(trace: Trace) -> bool:
    """Whether slices that call themselves a GPU's have no host beside them, and nothing of what the profiler writes of each."""
    slices = trace.slices
    known = np.isin(slices.kind, (*HOST, Kind.FRAME, Kind.OVERHEAD, Kind.GPU_ANNOTATION, Kind.GPU_SYNC))
    return not known.any() and bool((slices.correlation < 0).all())


def _named(columns: Columns) -> str:
    names = sorted(columns.unread, key=lambda name: -columns.unread[name])
    return ", ".join(names[:4])[:120]


def _foreign(columns: Columns) -> str:
    """What a file is whose slices are all of kinds that torch.profiler does not write."""
    words = [*columns.unread, *columns.processes.values(), *columns.names[:2000]]
    writer = next((name for pattern, name in WRITERS if any(pattern.search(word) for word in words)), "")
    names = _named(columns) or "no category that it knows with what it writes of each"
    of = f"it looks like a trace of {writer}" if writer else "it is a trace of another program"
    return f"none of its {columns.start.size:,} slices is of a kind that torch.profiler writes ({names}): {of}"


def _unread(columns: Columns, notes: Notes) -> None:
    for name, count in columns.unread.items():
        if name not in NO_WORK and OTHER_DEVICE.search(name):
            notes.add(
                "device_unread",
                f"activity of a device of another kind ({_named(columns)}) is recorded and not read: how long that device worked or was"
                " idle is not known",
                count,
                withholds={"idle", "delay", "cause"},
            )
        else:
            notes.add(
                "unread_category", f"slices of categories that are not read are left out ({_named(columns)})", count
            )


def _missing(trace: Trace, notes: Notes) -> None:
    """No GPU work at all, beside launches of it or long waits for it."""
    if trace.gpu_rows.size or "device_unread" in notes:
        return
    withheld = {"idle", "delay", "cause"}
    if trace.enqueue_rows.size:
        why = "a profiler that could not attach, or CUPTI in use elsewhere"
        if "truncated" in notes:
            why = "the file ends before any of it"
        notes.add(
            "gpu_activity_missing",
            f"work was launched, and no GPU slice was recorded: the GPU was NOT idle, its activity is missing ({why})",
            int(trace.enqueue_rows.size),
            withholds=withheld,
        )
        return
    waits = trace.rows(Kind.RUNTIME)
    waits = waits[trace.call[waits] == Call.SYNCHRONIZE]
    waited = int(trace.slices.duration[waits].sum())
    if waited >= WAITED_NS:
        notes.add(
            "gpu_activity_missing",
            f"the host waits {waited / 1e6:.4g} ms for a GPU, and neither its work nor a launch of it is recorded: the GPU was NOT idle,"
            " what it did is not in the file",
            int(waits.size),
            withholds=withheld,
        )


def _lost(trace: Trace, notes: Notes) -> None:
    """Launches whose work was not recorded, beside others whose work was."""
    lost = trace.lost_rows
    # A file that is cut short, and events that cannot be read, are noted as such.
    unread = next((note.count for note in notes.frozen() if note.kind == "unreadable_event"), 0)
    if lost.size <= unread or "truncated" in notes:
        return
    start, end = window(trace)
    opened, closed = lost_time(trace, trace.gpu_rows, end)
    open_ns = int((closed - opened).sum())
    of = int(np.isin(trace.call[trace.enqueue_rows], (Call.LAUNCH, Call.GRAPH_LAUNCH)).sum())
    material = open_ns > OPEN_MOST * max(end - start, 1) or lost.size > LOST_MOST * of
    notes.add(
        "lost_records",
        f"launches whose GPU slice is missing, of {of:,} in all: their work ran and was not recorded, so that busy time is a lower"
        " bound, and the time after each of them until the next recorded slice is not called idle",
        int(lost.size),
        withholds={"idle", "cause"} if material else frozenset(),
    )


def window(trace: Trace) -> tuple[int, int]:
    """First start and last end (ns) of what the host did and GPUs worked."""
    rows = trace.rows(*HOST, *GPU_WORK)
    if not rows.size:
        return trace.origin, trace.origin
    return int(trace.slices.start[rows].min()), int(trace.end[rows].max())


def lost_time(trace: Trace, rows: NDArray[np.intp], until: int) -> tuple[Ints, Ints]:
    """Disjoint intervals in which lost work may have run on the GPU of these rows (by start): after what was launched before it, and
    before what was launched after it, since a queue runs in its order."""
    begun, launch = trace.slices.start[trace.lost_rows], trace.launch_of(rows)
    if not begun.size:
        return begun, begun
    known = launch >= 0
    launched = trace.slices.start[launch[known]]
    order = np.argsort(launched, kind="stable")
    launched, starts, ends = launched[order], trace.slices.start[rows[known]][order], trace.end[rows[known]][order]
    at = np.searchsorted(launched, begun, side="right")
    ended = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(ends)))[at]
    begins = np.concatenate((np.minimum.accumulate(starts[::-1])[::-1], [until]))[at]
    first = np.maximum(begun, ended)
    return intervals.union(first, np.maximum(first, begins))


def _skew(trace: Trace, notes: Notes) -> None:
    early = trace.links.delay[trace.links.first] if trace.gpu_rows.size else trace.links.delay
    skewed = early[early < 0]
    if not skewed.size:
        return
    worst = -int(skewed.min())
    start, end = window(trace)
    rows = trace.gpu_rows
    gaps, lasts = intervals.gaps(*intervals.union(trace.slices.start[rows], trace.end[rows]), start, end)
    blurred = int(np.minimum(lasts - gaps, worst).sum()) > BLUR_MOST * int((lasts - gaps).sum())
    stretched = worst > STRETCH_MOST * (end - start)
    notes.add(
        "clock_skew",
        f"GPU slices begin before their launch, by up to {worst / 1000:g} us: the clocks of host and GPU differ by at"
        f" least that much; launch delays are kept as they stand and not claimed{'' if blurred else ', the far longer idle time is told'}",
        int(skewed.size),
        withholds={"delay", *({"cause"} if blurred else ()), *({"cause", "idle", "window"} if stretched else ())},
    )
