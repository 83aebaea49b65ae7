"""Many slices on few pixels: how much of each column of a picture they cover, and the outline that shows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reports.render.svg import number
from reports.trace import intervals
from reports.trace.columns import Ints

Shares = NDArray[np.float64]

LEAST = 0.12
"""A column with anything in it is drawn at least this high, so that rare short slices do not vanish."""


def shares(start: Ints, end: Ints, begin: int, finish: int, columns: int) -> Shares:
    """The share of each column's time that the slices cover, overlaps once; the columns divide [begin, finish) ns evenly."""
    first, last = intervals.union(start, end)
    edges = np.linspace(begin, finish, columns + 1).astype(np.int64)
    width = np.maximum(np.diff(edges), 1)
    covered: Shares = intervals.covered(first, last, edges[:-1], edges[1:]) / width
    return covered


def outline(heights: Shares, base: Shares, x: float, y: float, width: float, height: float) -> str:
    """Path data of bars standing on one another: column i reaches from `base[i]` to `base[i] + heights[i]` (shares of `height`).

    Neighbours of the same height are one bar, and what is empty is left out. `y` is the top of the row.
    """
    low = np.rint((1 - base) * height * 10).astype(int)
    high = np.rint((1 - np.minimum(base + heights, 1)) * height * 10).astype(int)
    some = low > high
    if not some.any():
        return ""
    column = width / heights.size
    change = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
    parts = []
    for first, last in zip((0, *change.tolist()), (*change.tolist(), heights.size), strict=True):
        if some[first]:
            left, right = x + first * column, x + last * column
            top, bottom = y + high[first] / 10, y + low[first] / 10
            parts.append(f"M{number(left)} {number(bottom)}V{number(top)}H{number(right)}V{number(bottom)}Z")
    return "".join(parts)


def visible(heights: Shares) -> Shares:
    """Heights in which whatever is there can be seen."""
    return np.where(heights > 0, np.maximum(heights, LEAST), 0.0)
