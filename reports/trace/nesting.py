"""Which slice of a thread lies in which: by time alone, since ids of operations are not unique and processes' ids lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.trace.columns import Codes, Ints


@dataclass(frozen=True)
class Nesting:
    """`parent[i]` is the row (of the arrays given) that slice i lies in, -1 at the top; `depth[i]` counts its ancestors.

    `self_time[i]` is its duration less that of its children, never below 0; `overlaps` counts slices that outlive the one they began in
    (their excess counts for neither).
    """

    parent: NDArray[np.int64]
    depth: NDArray[np.int32]
    self_time: Ints
    overlaps: int


def nest(lane: Codes, start: Ints, end: Ints, tolerance: int = 0) -> Nesting:
    """Nesting of slices that lie on lanes (threads). Slices that begin together nest by length; equal ones by their order.

    An excess of up to `tolerance` ns is the clock's rounding, and no overlap.
    """
    n = start.size
    parent = np.full(n, -1, np.int64)
    depth = np.zeros(n, np.int32)
    # A stable sort keeps the file's order among equals, where the outer one stands first.
    order = np.lexsort((-end, start, lane))
    stack: list[int] = []
    limits: list[int] = []
    last_lane = -1
    overlaps = 0
    inner = np.zeros(n, np.int64)
    lanes, starts, ends = lane[order].tolist(), start[order].tolist(), end[order].tolist()
    parents = [-1] * n
    depths = [0] * n
    for position in range(n):
        here, begin, finish = lanes[position], starts[position], ends[position]
        if here != last_lane:
            stack.clear()
            limits.clear()
            last_lane = here
        while stack and limits[-1] <= begin:
            # A slice of no length belongs to what it lies in, also at its very end.
            if finish == begin and limits[-1] == begin and starts[stack[-1]] < begin:
                break
            stack.pop()
            limits.pop()
        if stack:
            parents[position] = stack[-1]
            depths[position] = len(stack)
            if finish > limits[-1]:
                overlaps += finish > limits[-1] + tolerance
                finish = limits[-1]
        stack.append(position)
        limits.append(finish)
        ends[position] = finish
    nested = np.array(parents, np.int64)
    has = nested >= 0
    parent[order[has]] = order[nested[has]]
    depth[order] = depths
    clipped = np.array(ends, np.int64) - start[order] if n else np.zeros(0, np.int64)
    np.add.at(inner, nested[has], clipped[has])
    self_time = np.empty(n, np.int64)
    self_time[order] = clipped - inner
    return Nesting(parent, depth, np.maximum(self_time, 0), overlaps)
