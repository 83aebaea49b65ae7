"""After how many calls a compilation has paid for itself."""

from __future__ import annotations

from dataclasses import dataclass

from suite.statistics.ratio import Interval, Ratio


@dataclass(frozen=True)
class BreakEven:
    """Calls after which compiling has paid; `low` and `high` follow the ratio's interval (`high` None: perhaps never)."""

    calls: float
    low: float | None
    high: float | None


def break_even(compile_ns: float, baseline_ns: float, ratio: Ratio) -> BreakEven | str:
    """compile time / time saved a call, with time saved = baseline * (1 - 1 / ratio); or why there is none.

    The interval comes from the ratio's own: compile time is seen once or twice in a run and has no interval.
    """
    if ratio.estimate <= 1:
        return "never: a compiled call is not faster"
    low, high = _edges(compile_ns, baseline_ns, ratio.interval)
    return BreakEven(_calls(compile_ns, baseline_ns, ratio.estimate), low, high)


def _calls(compile_ns: float, baseline_ns: float, ratio: float) -> float:
    return compile_ns / (baseline_ns * (1 - 1 / ratio))


def _edges(compile_ns: float, baseline_ns: float, interval: Interval | None) -> tuple[float | None, float | None]:
    if interval is None:
        return None, None
    low = _calls(compile_ns, baseline_ns, interval.high) if interval.high > 1 else None
    high = _calls(compile_ns, baseline_ns, interval.low) if interval.low > 1 else None
    return low, high
