"""Outliers are labelled, never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MILD, SEVERE = 1.5, 3.0
"""Tukey's fences in interquartile ranges (Exploratory Data Analysis, 1977, chapter 2)."""


@dataclass(frozen=True)
class Outliers:
    """Counts of samples beyond the fences; `severe` ones are not counted as `mild`."""

    samples: int
    low_mild: int
    low_severe: int
    high_mild: int
    high_severe: int

    @property
    def total(self) -> int:
        """All labelled samples."""
        return self.low_mild + self.low_severe + self.high_mild + self.high_severe


def tukey(samples: Sequence[float]) -> Outliers:
    """Label samples beyond Q1 - 1.5 IQR and Q3 + 1.5 IQR (mild) and beyond 3 IQR (severe); quartiles by linear interpolation."""
    values = np.asarray(samples, dtype=float)
    if values.size == 0:
        return Outliers(0, 0, 0, 0, 0)
    first, third = np.percentile(values, [25, 75])
    spread = third - first
    low_severe = int((values < first - SEVERE * spread).sum())
    high_severe = int((values > third + SEVERE * spread).sum())
    return Outliers(
        samples=int(values.size),
        low_mild=int((values < first - MILD * spread).sum()) - low_severe,
        low_severe=low_severe,
        high_mild=int((values > third + MILD * spread).sum()) - high_severe,
        high_severe=high_severe,
    )
