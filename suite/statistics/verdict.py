"""From a ratio, its interval and the noise floor to one word.

faster or slower: the whole interval lies beyond the noise floor; equivalent: the whole interval lies within it (the interval
form of two one-sided tests; Schuirmann 1987, here at the stricter 95 % interval) and it is at most 5 %; inconclusive: anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from suite.statistics.ratio import Ratio

Word = Literal["faster", "slower", "equivalent", "inconclusive"]

MINIMUM_NOISE_FLOOR = 0.01
"""A ratio within 1 % of one is not claimed, however quiet the machine was."""


MAXIMUM_EQUIVALENCE = 0.05
"""Above a noise floor of 5 % nothing is called equivalent: a margin that wide says nothing about the arms, only about the machine."""


@dataclass(frozen=True)
class Verdict:
    """`word` for the headline; `reason` in one clause; `word` is None where no verdict may be given."""

    word: Word | None
    reason: str


def noise_floor(again: Ratio | str) -> float:
    """Noise floor delta as a fraction, from the baseline's ratio to itself.

    max(1 %, the largest deviation from one that its interval allows); without an interval, that of its processes.
    """
    if isinstance(again, str):
        return MINIMUM_NOISE_FLOOR
    edges = (again.interval.low, again.interval.high) if again.interval else again.per_process
    return max(MINIMUM_NOISE_FLOOR, *(abs(math.expm1(abs(math.log(edge)))) for edge in edges))


def verdict(ratio: Ratio, delta: float) -> Verdict:
    """The verdict on a ratio at noise floor `delta` (a fraction).

    The zone of no claim is symmetric on the log scale, [1 / (1 + delta), 1 + delta].
    """
    if ratio.interval is None:
        return Verdict(None, ratio.reason)
    low, high = ratio.interval.low, ratio.interval.high
    upper = 1 + delta
    if low > upper:
        return Verdict("faster", "the whole interval lies above the noise floor")
    if high < 1 / upper:
        return Verdict("slower", "the whole interval lies below the noise floor")
    if low >= 1 / upper and high <= upper and delta > MAXIMUM_EQUIVALENCE:
        return Verdict(
            "inconclusive",
            f"the interval lies within a noise floor of {delta:.0%}, too wide to call anything equivalent",
        )
    if low >= 1 / upper and high <= upper:
        return Verdict("equivalent", "the whole interval lies within the noise floor")
    return Verdict("inconclusive", "the interval reaches across the edge of the noise floor")
