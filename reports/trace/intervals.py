"""Arithmetic of intervals on one time line; all times int64 nanoseconds, intervals half-open [start, end)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from reports.trace.columns import Codes, Ints


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The disjoint, sorted intervals that cover the same time; empty ones vanish."""
    filled = end > start
    start, end = start[filled], end[filled]
    if start.size == 0:
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.ones(start.size, bool)
    first[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, start.size - 1)
    return start[first], reach[last]


def length(start: Ints, end: Ints) -> int:
    """Time covered by the intervals, overlaps once."""
    first, last = union(start, end)
    return int((last - first).sum())


def length_by_lane(lane: Codes, start: Ints, end: Ints) -> int:
    """Time covered on each lane, overlaps once, added over the lanes."""
    if start.size == 0:
        return 0
    order = np.lexsort((start, lane))
    lane, start, end = lane[order], start[order], end[order]
    first = int(start.min())
    width = int(end.max()) - first + 1
    _, rank = np.unique(lane, return_inverse=True)
    if width > np.iinfo(np.int64).max // (int(rank[-1]) + 2):
        bounds = np.append(np.flatnonzero(np.diff(rank, prepend=-1)), rank.size)
        return sum(length(start[a:b], end[a:b]) for a, b in pairwise(bounds.tolist()))
    # Lanes are laid one after the other on one line, so that one pass finds every overlap.
    offset = rank.astype(np.int64) * width - first
    return length(start + offset, end + offset)


def gaps(start: Ints, end: Ints, window_start: int, window_end: int) -> tuple[Ints, Ints]:
    """What disjoint, sorted intervals leave uncovered of a window."""
    before = np.concatenate(([window_start], end)).astype(np.int64)
    after = np.concatenate((start, [window_end])).astype(np.int64)
    before = np.maximum.accumulate(np.clip(before, window_start, window_end))
    after = np.clip(after, window_start, window_end)
    open_ = after > before
    return before[open_], after[open_]


def covered(start: Ints, end: Ints, window_start: Ints, window_end: Ints) -> Ints:
    """How much of each window disjoint, sorted intervals cover."""
    total = np.concatenate(([0], np.cumsum(end - start))).astype(np.int64)

    def until(time: Ints) -> Ints:
        number = np.searchsorted(start, time, side="right")
        whole = total[number]
        last = np.maximum(number - 1, 0)
        beyond = np.where(number > 0, np.maximum((end[last] if end.size else 0) - time, 0), 0)
        result: Ints = whole - beyond
        return result

    if start.size == 0:
        return np.zeros(window_start.size, np.int64)
    result: Ints = until(window_end) - until(window_start)
    return result
