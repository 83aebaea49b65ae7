"""From a ratio, its interval, its significance and the noise floor to one word.

faster or slower: the whole interval lies beyond the noise floor, and the adjusted p is below 1 % over the report's family of
comparisons; equivalent: the whole interval lies within the noise floor (the interval form of two one-sided tests; Schuirmann 1987,
here at the stricter 95 % interval) and that is at most 5 %; inconclusive: anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from suite.statistics.family import MOST_PROCESSES, SIGNIFICANCE, more_processes
from suite.statistics.ratio import Ratio

Word = Literal["faster", "slower", "equivalent", "inconclusive"]

MINIMUM_NOISE_FLOOR = 0.01
"""A ratio within 1 % of one is not claimed, however quiet the machine was."""

MAXIMUM_EQUIVALENCE = 0.05
"""Above a noise floor of 5 % nothing is called equivalent: a margin that wide says nothing about the arms, only about the machine."""

QUIETER = "a quieter machine would settle it"


@dataclass(frozen=True)
class Verdict:
    """`word` for the headline, None where no verdict may be given; `reason` in one clause; `advice` says what would settle it."""

    word: Word | None
    reason: str
    advice: str = ""


@dataclass(frozen=True)
class NoiseFloor:
    """Noise floor `delta` as a fraction, and in words where it comes from."""

    delta: float
    source: str
    doubt: str = ""
    """Why the measurement itself is in doubt, in a clause: equal code differed from itself; empty where it did not."""
    assumed: bool = False
    """Whether equal code was never measured against itself."""


def noise_floor(again: Ratio | str) -> NoiseFloor:
    """The noise floor from the baseline's ratio to itself, or from the reason why there is none.

    delta = max(1 %, the largest deviation from one that its interval allows); without an interval, that of its processes.
    """
    if isinstance(again, str):
        return NoiseFloor(
            MINIMUM_NOISE_FLOOR, f"assumed: eager was not measured against itself ({again})", assumed=True
        )
    edges = (again.interval.low, again.interval.high) if again.interval else again.per_process
    delta = max(math.expm1(abs(math.log(edge))) for edge in edges)
    if delta <= MINIMUM_NOISE_FLOOR:
        least = "the least that is ever assumed; eager against itself showed no more"
        return NoiseFloor(MINIMUM_NOISE_FLOOR, least, _differs(again))
    return NoiseFloor(delta, "from eager measured against itself in the same processes", _differs(again))


def _differs(again: Ratio) -> str:
    """What an interval of equal code against itself says that leaves one out."""
    if again.interval is None or again.interval.contains(1.0):
        return ""
    return (
        f"the 95 % interval of equal code against itself, {again.interval.low:.4g} to {again.interval.high:.4g}, excludes 1: by chance"
        " that happens once in twenty times; else something other than the code differs, and may be in the other ratios too"
    )


def verdict(ratio: Ratio, delta: float, adjusted_p: float, comparisons: int = 1) -> Verdict:
    """The verdict on a ratio at noise floor `delta` (a fraction), with its p value adjusted over the report's `comparisons`.

    The zone of no claim is symmetric on the log scale, [1 / (1 + delta), 1 + delta]. The reason of an inconclusive one names every
    condition that was not met, with its threshold.
    """
    if ratio.interval is None:
        return Verdict(None, ratio.reason)
    low, high, upper = ratio.interval.low, ratio.interval.high, 1 + delta
    beyond: Word | None = "faster" if low > upper else "slower" if high < 1 / upper else None
    side = "above" if beyond == "faster" else "below"
    if beyond and adjusted_p < SIGNIFICANCE:
        return Verdict(
            beyond, f"the whole interval lies {side} the noise floor, and its adjusted p is below {SIGNIFICANCE:g}"
        )
    unlikely = f"its adjusted p of {adjusted_p:.3g} is not below {SIGNIFICANCE:g}"
    wide = f"{100 * delta:.3g} % is above {100 * MAXIMUM_EQUIVALENCE:g} %, too wide to call anything equivalent"
    if beyond:
        reason = f"the whole interval lies {side} the noise floor, but {unlikely}"
        return Verdict("inconclusive", reason, _advice(ratio, delta, comparisons))
    if low >= 1 / upper and high <= upper:
        if delta > MAXIMUM_EQUIVALENCE:
            return Verdict("inconclusive", f"the interval lies within the noise floor, but its {wide}", QUIETER)
        return Verdict("equivalent", "the whole interval lies within the noise floor")
    edges = "both edges" if low < 1 / upper and high > upper else "the upper edge" if high > upper else "the lower edge"
    unmet = [f"the interval reaches across {edges} of the noise floor ({1 / upper:.3g} to {upper:.3g})"]
    unmet += [unlikely] if adjusted_p >= SIGNIFICANCE else []
    unmet += [f"the floor's {wide}"] if delta > MAXIMUM_EQUIVALENCE else []
    return Verdict("inconclusive", "; ".join(unmet), _advice(ratio, delta, comparisons))


def _advice(ratio: Ratio, delta: float, comparisons: int) -> str:
    if delta > MAXIMUM_EQUIVALENCE and abs(math.log(ratio.estimate)) <= math.log1p(delta):
        # More processes could only move the interval into a noise floor that is too wide to say anything.
        return QUIETER
    more = more_processes(ratio, delta, comparisons)
    if more is None:
        return f"with the noise floor as it is, more than {MOST_PROCESSES} more processes would be needed to settle it"
    return f"with the noise floor as it is, about {more} more process{'es' if more > 1 else ''} would settle it"
