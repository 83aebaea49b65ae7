"""Percentiles with distribution-free confidence limits; one without enough samples is not given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr

PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True)
class Percentile:
    """A percentile, with the order statistics that bound it with at least the confidence asked for."""

    percent: float
    value: float
    low: float
    high: float


def percentile(samples: Sequence[float], percent: float, confidence: float = 0.95) -> Percentile | str:
    """A percentile with its binomial limits, or the reason why there is none.

    The number of samples below the true quantile q is binomial(n, q); the limits are the order statistics l and u with
    P(B < l) <= alpha / 2 and P(B >= u) <= alpha / 2 (Conover, Practical Nonparametric Statistics, section 3.2).
    """
    ordered = sorted(samples)
    n, q, alpha = len(ordered), percent / 100, 1 - confidence
    # bdtr(k, n, q) = P(B <= k)
    low = next((rank for rank in range(n, 0, -1) if float(bdtr(rank - 1, n, q)) <= alpha / 2), None)
    high = next((rank for rank in range(1, n + 1) if 1 - float(bdtr(rank - 1, n, q)) <= alpha / 2), None)
    if low is None or high is None:
        return f"{n} samples do not bound the {percent:g}th percentile"
    position = q * (n - 1)
    below = int(position)
    above = min(below + 1, n - 1)
    value = ordered[below] + (ordered[above] - ordered[below]) * (position - below)
    return Percentile(percent, value, ordered[low - 1], ordered[high - 1])
