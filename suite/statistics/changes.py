"""Change points of a series in its mean and variance, by PELT (Killick, Fearnhead and Eckley, JASA 107, 2012; library ruptures)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ruptures import Pelt
from ruptures.base import BaseCost

PENALTY = 15.0
"""Penalty of a change point in ln n, as Barrett et al. chose it (Virtual Machine Warmup Blows Hot and Cold, OOPSLA 2017, section 4)."""

MINIMUM_SEGMENT = 5
MOST_POINTS = 200
"""A longer series is cut into this many groups, each shown by its median: the cost of PELT grows faster than the series."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a series without a change: samples [start, end), their mean and standard deviation."""

    start: int
    end: int
    mean: float
    deviation: float


class _NormalCost(BaseCost):
    """-2 log likelihood of a segment under a normal distribution of its own mean and variance, from prefix sums."""

    model = "normal-prefix"
    min_size = MINIMUM_SEGMENT

    def fit(self, signal: np.ndarray) -> _NormalCost:
        self.signal = signal.reshape(-1, 1)
        flat = signal.reshape(-1)
        self._sums = np.concatenate([[0.0], np.cumsum(flat)]).tolist()
        self._squares = np.concatenate([[0.0], np.cumsum(flat**2)]).tolist()
        # A segment of equal samples has no variance; a thousandth of the series' deviation stands in, as clocks have a resolution.
        self._floor = max(float(np.var(flat)) * 1e-6, 1e-300)
        return self

    def error(self, start: int, end: int) -> float:
        count = end - start
        mean = (self._sums[end] - self._sums[start]) / count
        variance = (self._squares[end] - self._squares[start]) / count - mean * mean
        return count * math.log(max(variance, self._floor))


def segments(series: Sequence[float], penalty: float = PENALTY) -> list[Segment]:
    """Cut a series at its change points; a series too short for two segments, or without variance, is one segment.

    A change point must gain `penalty` times ln n in twice the log likelihood.
    Positions refer to the series given, even when it was grouped (see `MOST_POINTS`).
    """
    values = np.asarray(series, dtype=float)
    if values.size == 0:
        return []
    group = max(1, math.ceil(values.size / MOST_POINTS))
    points = np.array([np.median(values[start : start + group]) for start in range(0, values.size, group)])
    if points.size < 2 * MINIMUM_SEGMENT or np.ptp(points) == 0:
        ends = [points.size]
    else:
        centred = (points - points.mean()) / points.std()
        algorithm = Pelt(custom_cost=_NormalCost(), min_size=MINIMUM_SEGMENT, jump=1)
        ends = algorithm.fit(centred).predict(pen=penalty * math.log(points.size))
    found, start = [], 0
    for end in ends:
        part = values[start * group : end * group]
        found.append(Segment(start * group, min(end * group, values.size), float(part.mean()), float(part.std())))
        start = end
    return found
