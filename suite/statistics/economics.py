"""After how many calls a compilation has paid for itself."""

from __future__ import annotations

from dataclasses import dataclass

from suite.statistics.ratio import Ratio
from suite.statistics.verdict import Word


@dataclass(frozen=True)
class BreakEven:
    """Calls after which compiling has paid, as far as the run knows.

    `calls` is given beside the verdict faster alone. `low` is the least number that the ratio's interval allows, `high` the largest: None
    where the interval also holds ratios at which compiling never pays.
    """

    calls: float | None
    low: float
    high: float | None


def break_even(compile_ns: float, baseline_ns: float, ratio: Ratio, word: Word | None) -> BreakEven | str:
    """compile time / time saved a call, with time saved = baseline * (1 - 1 / ratio); or why there is none.

    The bounds come from the ratio's interval: compile time is seen once or twice in a run and has no interval.
    """
    if ratio.interval is None:
        return f"unknown: {ratio.reason}"
    if word == "slower":
        return "never: a compiled call is slower"
    if ratio.interval.high <= 1:
        return "not seen to pay: the whole interval lies at or below 1"
    low = _calls(compile_ns, baseline_ns, ratio.interval.high)
    high = _calls(compile_ns, baseline_ns, ratio.interval.low) if ratio.interval.low > 1 else None
    return BreakEven(_calls(compile_ns, baseline_ns, ratio.estimate) if word == "faster" else None, low, high)


def _calls(compile_ns: float, baseline_ns: float, ratio: float) -> float:
    return compile_ns / (baseline_ns * (1 - 1 / ratio))
