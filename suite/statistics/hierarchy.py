"""Variance components of nested samples, and how many repetitions of each level a budget should buy.

T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", ISMM 2013: level 1 is the innermost (here: pairs of
blocks, or iterations), the last level the outermost (processes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Components:
    """Variance components, innermost level first.

    `between[i]` is S_i^2, the unbiased variance of the means at level i within the next level; `own[i]` is T_i^2, what level i
    adds of its own. A T_i^2 may come out negative: the inner levels then explain all of S_i^2, and it counts as zero.
    """

    between: tuple[float, ...]
    own: tuple[float, ...]
    repetitions: tuple[int, ...]


def components(samples: ArrayLike) -> Components:
    """Variance components of balanced nested samples of shape (r_n, ..., r_2, r_1), outermost level first.

    S_i^2 is the mean, over everything above level i, of the unbiased variance of the means of level i; T_1^2 = S_1^2 and
    T_i^2 = S_i^2 - S_(i-1)^2 / r_(i-1) (section 6.2, with the divisor of the level below).

    Raises:
        ValueError: for a level of fewer than two repetitions: its variance cannot be known.
    """
    values = np.asarray(samples, dtype=float)
    if values.ndim < 1 or min(values.shape) < 2:
        raise ValueError(f"every level needs at least two repetitions; the shape is {values.shape}")
    repetitions = tuple(int(count) for count in values.shape[::-1])
    between: list[float] = []
    own: list[float] = []
    means = values
    for level in range(len(repetitions)):
        between.append(float(np.mean(np.var(means, axis=-1, ddof=1))))
        own.append(between[level] - (between[level - 1] / repetitions[level - 1] if level else 0.0))
        means = means.mean(axis=-1)
    return Components(tuple(between), tuple(own), repetitions)


def balanced(samples: Sequence[Sequence[float]]) -> list[list[float]]:
    """Cut two-level samples (processes of pairs) to the shortest process, so that `components` can read them."""
    shortest = min(len(row) for row in samples)
    return [list(row[:shortest]) for row in samples]


def repetitions(own: Sequence[float], costs: Sequence[float], most: int) -> list[int]:
    """How often to repeat each level but the outermost, innermost first: r_i = sqrt(c_(i+1) / c_i * T_i^2 / T_(i+1)^2).

    `costs[i]` is what one more repetition of level i costs (any unit, c_i > 0); the outermost level's count is bought with what is
    left of the budget. Rounded up, at least 1 and at most `most`: where the outer level adds nothing of its own, the formula
    asks for infinitely many inner repetitions (Kalibera and Jones, section 6.3).
    """
    if len(own) != len(costs) or min(costs) <= 0:
        raise ValueError("every level needs a cost above zero")
    counts = []
    for level in range(len(own) - 1):
        inner, outer = max(own[level], 0.0), max(own[level + 1], 0.0)
        if inner == 0.0:
            counts.append(1)
        elif outer == 0.0:
            counts.append(most)
        else:
            wanted = math.sqrt(costs[level + 1] / costs[level] * inner / outer)
            counts.append(max(1, min(most, math.ceil(wanted))))
    return counts
