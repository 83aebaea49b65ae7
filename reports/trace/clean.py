"""Sets aside slices whose times cannot be true, each kind counted and said; what is left may be summed.

Nothing is repaired silently: a slice is kept as it stands, cut where the next one of its stream begins, or left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import ENQUEUES, GPU_WORK, HOST, Call, Kind, call_of
from reports.trace.columns import MISSING, Columns
from reports.trace.notes import Notes

Mask = NDArray[np.bool_]

ABSURD = 2

MISSED = 0.01
"""Idle time is withheld when more than this share of the GPU's slices had to be left out: fewer change no conclusion."""

OTHER_EPOCH_NS = 24 * 3600 * 10**9
"""A hole of a day between slices means two clocks, not a pause: no profiler records for that long."""

FAR_NS = 10**9
LONG_NS = 10**8
BEYOND = 100
"""A slice that ends a second, and a hundred times the recording's length, after everything else did not run for that long."""

AFTER_WAIT_NS = 10**6
FEW_LATE = 3
"""Slices that end a millisecond and more after the device was waited for are damaged, where they are few."""

COVERED = 3
"""Slices of its own stream that one cannot hold within it, unless a graph ran them: at most a neighbour or two overlap."""

REACHES = 0.9
"""Share of its own length by which an overflowed slice overlaps the next; kernels that truly overlap on a stream do so by less."""


def clean(columns: Columns, notes: Notes) -> Columns:
    """The slices that can be trusted, with `duration` of at least 0."""
    keep = _with_times(columns, notes)
    keep &= _one_epoch(columns, keep, notes)
    duration = columns.duration.copy()
    keep &= _overflowed(columns, keep, duration, notes)
    _outlasts_a_wait(columns, keep, duration, notes)
    if columns.unpaired:
        notes.add("unpaired", "ends without a beginning are left out", columns.unpaired)
    arrays: dict[str, Any] = {
        name: getattr(columns, name)[keep]
        for name in (
            "kind",
            "name",
            "lane",
            "start",
            "correlation",
            "stream",
            "device",
            "moved_bytes",
            "resources",
            "shape",
            "graph",
        )
    }
    left_out = columns.correlation[is_gpu(columns) & ~keep]
    return replace(columns, duration=duration[keep], left_out=left_out, **arrays)


def is_gpu(columns: Columns) -> Mask:
    """Rows that are work of a GPU."""
    return np.isin(columns.kind, GPU_WORK)


def _with_times(columns: Columns, notes: Notes) -> Mask:
    start, duration, gpu = columns.start, columns.duration, is_gpu(columns)

    def lost(count: int) -> frozenset[str]:
        return frozenset({"idle"}) if count > MISSED * gpu.sum() else frozenset()

    host = np.isin(columns.kind, HOST)
    timeless = start == MISSING
    gpu_timeless = timeless & gpu
    notes.add(
        "no_time",
        "slices without a time are left out",
        int(timeless.sum()),
        withholds={"idle"} if gpu_timeless.any() else frozenset(),
    )
    zero = _zero_times(start, duration, timeless)
    count = int((zero & gpu).sum())
    notes.add(
        "zero_timestamps",
        "GPU slices whose times were never filled in (0) are left out: their work is missing from busy time and counts",
        count,
        withholds=lost(count),
    )
    notes.add(
        "zero_timestamps_host", "host slices whose times were never filled in are left out", int((zero & ~gpu).sum())
    )
    usable = ~timeless & ~zero
    without, negative = usable & (duration == MISSING), usable & (duration < 0) & (duration != MISSING)
    notes.add(
        "slice_without_duration",
        "GPU slices without a duration are left out: busy time is too short by them",
        int((without & gpu).sum()),
        withholds=lost(int((without & gpu).sum())),
    )
    notes.add(
        "negative_duration",
        "GPU slices with a negative duration are left out: busy time is too short by them",
        int((negative & gpu).sum()),
        withholds=lost(int((negative & gpu).sum())),
    )
    notes.add(
        "unfinished",
        "host operations that had not ended when the recording stopped (no duration, or a negative one) are counted, not summed",
        int(((without | negative) & host).sum()),
    )
    return usable & ~without & ~negative


def _zero_times(start: NDArray[np.int64], duration: NDArray[np.int64], timeless: Mask) -> Mask:
    zero = (start == 0) & ~timeless
    others = start[~zero & ~timeless]
    if not zero.any() or not others.size:
        return np.zeros_like(zero)
    # A recording may begin at 0, with slices of some length; a time that was never filled in has no length or is far from the rest.
    far = others.min() > FAR_NS or others.max() < -FAR_NS
    several = int(zero.sum()) > 1
    return zero if far and several else zero & (duration <= 0) & (duration != MISSING)


def _one_epoch(columns: Columns, keep: Mask, notes: Notes) -> Mask:
    times = np.sort(columns.start[keep])
    if times.size < 2 or int(times[-1]) - int(times[0]) < OTHER_EPOCH_NS:
        return np.ones_like(keep)
    holes = np.flatnonzero(np.diff(times) > OTHER_EPOCH_NS)
    if not holes.size:
        return np.ones_like(keep)
    edges = [0, *(holes + 1).tolist(), times.size]
    largest = max(range(len(edges) - 1), key=lambda number: edges[number + 1] - edges[number])
    first, last = times[edges[largest]], times[edges[largest + 1] - 1]
    inside = (columns.start >= first) & (columns.start <= last)
    notes.add(
        "other_epoch",
        "slices more than a day away from the others are left out: their times come from another clock",
        int((keep & ~inside).sum()),
        withholds={"idle", "window"},
    )
    return inside


def _overflowed(columns: Columns, keep: Mask, duration: NDArray[np.int64], notes: Notes) -> Mask:
    """Cuts GPU slices that swallow the next one of their stream and outlast the whole recording; changes `duration`.

    Where two overflow one after the other, the first only reaches far into the second; it must outlast the recording tenfold.
    """
    gpu = is_gpu(columns) & keep
    rows = np.flatnonzero(gpu)
    lasting = np.ones_like(keep)
    if rows.size == 0:
        return lasting
    start, end = columns.start, columns.start + duration
    order = rows[np.lexsort((end[rows], start[rows], columns.stream[rows], columns.device[rows]))]
    same = (columns.stream[order[:-1]] == columns.stream[order[1:]]) & (
        columns.device[order[:-1]] == columns.device[order[1:]]
    )
    swallows, reaches = np.zeros(order.size, bool), np.zeros(order.size, bool)
    overlap = end[order[:-1]] - start[order[1:]]
    swallows[:-1] = same & (end[order[:-1]] >= end[order[1:]]) & (overlap > 0)
    reaches[:-1] = same & ~swallows[:-1] & (overlap > REACHES * duration[order[:-1]])
    last = np.ones(order.size, bool)
    last[:-1] = ~same
    timed = keep & (np.isin(columns.kind, HOST) | gpu)
    suspects = order[swallows | reaches | last]
    sane = timed.copy()
    sane[suspects] = False
    if not sane.any():
        return lasting
    first_start, last_end = int(start[timed].min()), int(end[sane].max())
    longest = max(LONG_NS, 10 * (max(last_end, int(start[timed].max())) - first_start))
    limit = np.where(swallows, last_end, last_end + longest)[:-1]
    # Kernels of one stream may overlap (programmatic launches, branches of a graph): one that ends last is no wonder, one that is as
    # long as everything else twice over is.
    far = last_end + max(FAR_NS, BEYOND * (last_end - first_start))
    ends = order[last & (end[order] <= far)]
    plausible = max(last_end, int(start[timed].max()), int(end[ends].max(initial=last_end)))
    absurd = duration[order[:-1]] > ABSURD * max(plausible - first_start, 1)
    overflown = (swallows | reaches)[:-1] & (end[order[:-1]] > limit) & absurd
    cut, following = order[:-1][overflown], order[1:][overflown]
    duration[cut] = start[following] - start[cut]
    notes.add(
        "duration_overflow",
        "slices that outlast the recording and the next slice of their stream are cut where that one begins; their own time is an"
        " upper bound",
        int(cut.size),
    )
    _cover_others(columns, order, same, duration, notes)
    endless = order[last & (end[order] > far)]
    lasting[endless] = False
    notes.add(
        "duration_overflow_last",
        "slices at the end of a stream that outlast everything else a hundredfold are left out",
        int(endless.size),
        withholds={"idle"},
    )
    return lasting


def _cover_others(
    columns: Columns, order: NDArray[np.intp], same: Mask, duration: NDArray[np.int64], notes: Notes
) -> None:
    """Cuts GPU slices that hold several later ones of their own stream, which runs one after the other; changes `duration`.

    `order` are GPU rows by stream and start, `same` whether each has its successor on its stream.
    """
    start, stream = columns.start[order], np.concatenate(([0], np.cumsum(~same)))
    end = start + duration[order]
    # The end that the next slices reach: a slice covers three of its stream when the third after it starts and all of them end within it.
    covers = np.zeros(order.size, bool)
    if order.size > COVERED:
        within = np.maximum.reduce([end[1 + step : order.size - COVERED + 1 + step] for step in range(COVERED)])
        covers[:-COVERED] = (stream[COVERED:] == stream[:-COVERED]) & (within <= end[:-COVERED])
    covers |= _absurd(columns, order, same, duration)
    covers &= ~columns.graph[order] & (start < np.append(start[1:], 0))
    found = np.flatnonzero(covers)
    duration[order[found]] = start[found + 1] - start[found]
    notes.add(
        "covers_others",
        "slices that hold several later ones of their own stream, which runs them one after the other, are cut where the next one begins;"
        " their own time is an upper bound",
        int(found.size),
    )


def _absurd(columns: Columns, order: NDArray[np.intp], same: Mask, duration: NDArray[np.int64]) -> Mask:
    """Slices that reach past the end of the next one of their stream, and are a thousand times as long as their name's others."""
    found = np.zeros(order.size, bool)
    start, end = columns.start[order], columns.start[order] + duration[order]
    found[:-1] = same & (end[:-1] >= end[1:]) & (end[:-1] > start[1:])
    for number in np.flatnonzero(found).tolist():
        others = duration[order[columns.name[order] == columns.name[order[number]]]]
        found[number] = others.size > COVERED and duration[order[number]] > 1000 * max(float(np.median(others)), 1.0)
    return found


def _outlasts_a_wait(columns: Columns, keep: Mask, duration: NDArray[np.int64], notes: Notes) -> None:
    """Cuts a few GPU slices that go on after a wait for the whole device, begun after their launch, had returned; changes `duration`.

    Where many do the clocks differ. With several GPUs or processes it is not known which of them was waited for.
    """
    calls = (
        np.fromiter(map(call_of, columns.names), np.int8, len(columns.names))[columns.name]
        if columns.names
        else columns.kind
    )
    runtime = keep & (columns.kind == Kind.RUNTIME)
    whole = np.fromiter(("DeviceSynchronize" in name for name in columns.names), bool, len(columns.names))
    waits = (
        np.flatnonzero(runtime & (calls == Call.SYNCHRONIZE) & whole[columns.name])
        if columns.names
        else np.zeros(0, np.intp)
    )
    rows = np.flatnonzero(is_gpu(columns) & keep & (columns.correlation >= 0))
    launches = np.flatnonzero(runtime & np.isin(calls, ENQUEUES) & (columns.correlation >= 0))
    processes = {columns.lanes[lane][0] for lane in np.unique(columns.lane[runtime]).tolist()}
    if not waits.size or not launches.size or len(processes) > 1 or np.unique(columns.device[rows]).size != 1:
        return
    launched = np.full(int(columns.correlation.max()) + 1, MISSING)
    launched[columns.correlation[launches]] = columns.start[launches]
    begun = launched[columns.correlation[rows]]
    rows, begun = rows[begun != MISSING], begun[begun != MISSING]
    waits = waits[np.argsort(columns.start[waits], kind="stable")]
    at = np.searchsorted(columns.start[waits], begun)
    rows, at = rows[at < waits.size], at[at < waits.size]
    returned = columns.start[waits[at]] + duration[waits[at]]
    late = (
        columns.start[rows] + duration[rows] - returned > max(AFTER_WAIT_NS, 10 * int(np.median(duration[rows])))
        if rows.size
        else rows > 0
    )
    if not 0 < late.sum() <= max(FEW_LATE, MISSED * rows.size):
        return
    duration[rows[late]] = np.maximum(returned[late] - columns.start[rows[late]], 0)
    notes.add(
        "outlasts_wait",
        "slices that go on after the host had waited for the whole device are cut where that wait returned; their own time is an upper"
        " bound",
        int(late.sum()),
    )
