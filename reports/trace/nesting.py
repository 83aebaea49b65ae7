"""Which slice of a thread lies in which: by time alone, since ids of operations are not unique and processes' ids lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.trace.columns import Codes, Ints

PART = 1 << 16


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
    # A stable sort keeps the file's order among equals, where the outer one stands first.
    order = np.lexsort((-end, start, lane))
    stack: list[tuple[int, int, int]] = []  # position in the order, start, and end within the ones around it
    last_lane = -1
    overlaps = 0
    nested, levels, clipped_end = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
    # Plain numbers are faster to walk through, and take five times the memory: so a part of them at a time.
    for part in range(0, n, PART):
        rows = order[part : part + PART]
        parents, depths, ends = [], [], []
        for position, here, begin, finishes in zip(
            range(part, n), lane[rows].tolist(), start[rows].tolist(), end[rows].tolist(), strict=False
        ):
            finish = finishes
            if here != last_lane:
                stack.clear()
                last_lane = here
            while stack and stack[-1][2] <= begin:
                # A slice of no length belongs to what it lies in, also at its very end.
                if finish == begin and stack[-1][2] == begin and stack[-1][1] < begin:
                    break
                stack.pop()
            if stack:
                limit = stack[-1][2]
                parents.append(stack[-1][0])
                if finish > limit:
                    overlaps += finish > limit + tolerance
                    finish = limit
            else:
                parents.append(-1)
            depths.append(len(stack))
            ends.append(finish)
            stack.append((position, begin, finish))
        nested[part : part + PART], levels[part : part + PART], clipped_end[part : part + PART] = parents, depths, ends
    has = nested >= 0
    parent, depth, inner = np.full(n, -1, np.int64), np.empty(n, np.int32), np.zeros(n, np.int64)
    parent[order[has]] = order[nested[has]]
    depth[order] = levels
    clipped = clipped_end - start[order]
    np.add.at(inner, nested[has], clipped[has])
    self_time = np.empty(n, np.int64)
    self_time[order] = clipped - inner
    return Nesting(parent, depth, np.maximum(self_time, 0), overlaps)
