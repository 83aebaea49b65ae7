"""Significance over a report's whole family of comparisons, and what a run could have claimed."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri, ndtr

from suite.statistics.ratio import CONFIDENCE, Ratio, t_quantile

SIGNIFICANCE = 0.01
"""A claim needs an adjusted p below this."""

MOST_PROCESSES = 100
"""Beyond a hundred more processes the advice is that more processes are not the way."""

_QUADRATURE = 400


def claims(degrees_of_freedom: float, comparisons: int) -> tuple[float, float]:
    """The two t quantiles that a claim has to pass: that of the interval, and that of p < 0.01 / m.

    m is the number of comparisons: what Benjamini and Hochberg ask of the only finding in a report (the others need less).
    """
    return t_quantile(degrees_of_freedom, CONFIDENCE), t_quantile(degrees_of_freedom, 1 - SIGNIFICANCE / comparisons)


def more_processes(found: Ratio, delta: float, comparisons: int) -> int | None:
    """How many more processes would settle a verdict, were mean and deviation to stay as they are; None above `MOST_PROCESSES`.

    Outside the noise floor the interval must clear its edge and p must be significant; inside, the interval must fit in.
    """
    mean, edge = abs(math.log(found.estimate)), math.log1p(delta)
    interval_t, p_t = claims(found.degrees_of_freedom, comparisons)
    for more in range(1, MOST_PROCESSES + 1):
        error = found.error_after(more)
        outside = mean > edge and interval_t * error < mean - edge and p_t * error < mean
        if outside or (mean <= edge and interval_t * error <= edge - mean):
            return more
    return None


def minimum_detectable_effect(
    deviation: float, degrees_of_freedom: float, count: int, delta: float, comparisons: int = 1, power: float = 0.8
) -> float:
    """Least true ratio (above one) that a run like this one would have claimed with probability `power`.

    A claim needs mean > ln(1 + delta) + t1 * s / sqrt(n) and mean > t2 * s / sqrt(n) (see `claims`), where the mean is normal around
    the true log ratio and s^2 is chi-square with the pilot's degrees of freedom: integrated over s at equally likely quantiles, and
    solved for the true ratio by bisection.
    """
    edge, error = math.log1p(delta), deviation / math.sqrt(count)
    if error == 0:
        return 1 + delta
    interval_t, p_t = claims(degrees_of_freedom, comparisons)
    upper_tails = (np.arange(_QUADRATURE) + 0.5) / _QUADRATURE
    errors = error * np.sqrt(chdtri(degrees_of_freedom, upper_tails) / degrees_of_freedom)
    thresholds = np.maximum(edge + interval_t * errors, p_t * errors)
    low, high = 0.0, float(thresholds.max()) + 10 * error
    for _ in range(60):
        middle = (low + high) / 2
        if float(np.mean(ndtr((middle - thresholds) / error))) < power:
            low = middle
        else:
            high = middle
    return math.exp(high)
