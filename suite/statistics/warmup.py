"""Does an arm reach a steady state, and how does it get there?

After E. Barrett et al., "Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017: outliers in sliding windows are set aside, the rest
is cut at its change points, and the segments are compared with the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from suite.statistics.changes import MINIMUM_SEGMENT, Segment, segments

Class = Literal["flat", "warm-up", "slowdown", "no steady state", "too short"]

WINDOW = 50
SPREADS = 3.0
TOLERANCE = 0.02
"""Segments are equivalent when their means differ by at most 2 %, or by less than the last segment's own deviation."""

STEADY_SHARE = 0.25
"""The last segment must be at least a quarter of the series, else the series was still changing when it ended."""


@dataclass(frozen=True)
class Steady:
    """The class of a series of iteration times; `outliers` were set aside for the classification alone."""

    name: Class
    segments: tuple[Segment, ...]
    outliers: int


def set_aside(series: Sequence[float], window: int = WINDOW) -> tuple[list[float], int]:
    """Samples within median +- 3 (P90 - P10) of the window around them, and how many were not."""
    values = np.asarray(series, dtype=float)
    keep = np.ones(values.size, dtype=bool)
    for start in range(0, values.size, window):
        # The last, shorter window is widened backwards, so that its percentiles rest on as many samples.
        part = values[max(0, min(start, values.size - window)) : start + window]
        low, middle, high = np.percentile(part, [10, 50, 90])
        reach = SPREADS * (high - low)
        inside = slice(start, min(start + window, values.size))
        keep[inside] = np.abs(values[inside] - middle) <= reach if reach > 0 else True
    return values[keep].tolist(), int((~keep).sum())


def classify(series: Sequence[float]) -> Steady:
    """The class of one process's iteration times, in the order in which they were measured (warm-up included).

    flat: no segment differs from the last; warm-up: those that differ are slower; slowdown: some are faster;
    no steady state: the last segment is too short to count as one; too short: fewer than two segments could be told apart.
    """
    kept, outliers = set_aside(series)
    if len(kept) < 2 * MINIMUM_SEGMENT:
        return Steady("too short", (), outliers)
    found = segments(kept)
    last = found[-1]
    reach = max(TOLERANCE * last.mean, last.deviation)
    differing = [segment for segment in found[:-1] if abs(segment.mean - last.mean) > reach]
    if not differing:
        name: Class = "flat"
    elif last.end - last.start < STEADY_SHARE * len(kept):
        name = "no steady state"
    elif any(segment.mean < last.mean for segment in differing):
        name = "slowdown"
    else:
        name = "warm-up"
    return Steady(name, tuple(found), outliers)


def agree(classes: Sequence[Class]) -> Class | Literal["inconsistent"]:
    """The class of an arm over its processes.

    Without a steady state when at least half of them have none: a single one may have met a change of the machine. Otherwise theirs when
    they are of one mind, where flat and warm-up together are a warm-up; else inconsistent.
    """
    known = [name for name in classes if name != "too short"]
    if not known:
        return "too short"
    if 2 * known.count("no steady state") >= len(known):
        return "no steady state"
    if set(known) <= {"flat", "warm-up"}:
        return "warm-up" if "warm-up" in known else "flat"
    return known[0] if len(set(known)) == 1 else "inconsistent"
