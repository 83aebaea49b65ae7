"""Significance over a report's whole family of comparisons, and what a run could have detected."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy.special import nctdtr, stdtr

from suite.statistics.ratio import t_quantile

MOST_PROCESSES = 100
"""Beyond a hundred more processes the advice is that more processes are not the way."""


def p_value(values: Sequence[float]) -> float:
    """Two-sided p of Student's one-sample t test that the mean is zero (NIST/SEMATECH e-Handbook, section 7.2.2).

    Raises:
        ValueError: for fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"a t test needs at least two values, not {len(values)}")
    deviation = statistics.stdev(values)
    mean = statistics.fmean(values)
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    t = mean / (deviation / math.sqrt(len(values)))
    return float(2 * stdtr(len(values) - 1, -abs(t)))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p values (J. R. Statist. Soc. B 57, 1995), in the order given.

    p_(i) becomes min over j >= i of m / j * p_(j), at most 1: the least false discovery rate at which it is still called.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    result = [1.0] * len(p_values)
    least = 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        least = min(least, p_values[index] * len(order) / rank)
        result[index] = least
    return result


def more_processes(
    mean: float, deviation: float, count: int, edges: Sequence[float], confidence: float = 0.95
) -> int | None:
    """How many more processes would settle a verdict, were mean and deviation to stay as they are.

    The interval must clear the nearest of `edges` (on the log scale). None when more than `MOST_PROCESSES` would be needed.
    """
    distance = min(abs(mean - edge) for edge in edges)
    for more in range(1, MOST_PROCESSES + 1):
        n = count + more
        if t_quantile(n - 1, confidence) * deviation / math.sqrt(n) < distance:
            return more
    return None


def minimum_detectable_effect(
    deviation: float, count: int, delta: float, power: float = 0.8, confidence: float = 0.95
) -> float:
    """Least true ratio (above one) whose interval lies wholly beyond the noise floor with probability `power`.

    P(mean - t s / sqrt(n) > ln(1 + delta)) for a true log ratio e is the upper tail of a noncentral t with n - 1 degrees of freedom
    and noncentrality (e - ln(1 + delta)) sqrt(n) / s at the t quantile; e is found by bisection.
    """
    edge, error = math.log1p(delta), deviation / math.sqrt(count)
    if error == 0:
        return 1 + delta
    quantile = t_quantile(count - 1, confidence)
    low, high = 0.0, 50.0 + 20 * quantile
    for _ in range(80):
        middle = (low + high) / 2
        if 1 - float(nctdtr(count - 1, middle, quantile)) < power:
            low = middle
        else:
            high = middle
    return math.exp(edge + high * error)
