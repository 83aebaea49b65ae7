"""The ratio of two arms from blocks of paired processes.

The process is the replicate: the blocks of one process give one log ratio, and inference is over processes alone
(Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013, section 4: the highest level of the
hierarchy carries the degrees of freedom). Iterations are never pooled for inference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

MINIMUM_PROCESSES = 3
"""Below three processes no interval is given: with one degree of freedom the t quantile is 12.7 and says nothing."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval on the scale of its estimate."""

    low: float
    high: float
    confidence: float

    def contains(self, value: float) -> bool:
        """Whether `value` lies in the closed interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Ratio:
    """Time of the baseline over time of the arm: above 1 the arm is faster.

    `per_process` holds the ratio in each of `processes`. `interval` is None when there are too few of them; `reason` then says so.
    `deviation` is the standard deviation of the log ratios of the first `degrees_of_freedom` + 1 processes: see `ratio`.
    """

    estimate: float
    interval: Interval | None
    per_process: tuple[float, ...]
    processes: tuple[int, ...]
    deviation: float = 0.0
    degrees_of_freedom: float = 0
    reason: str = ""

    @property
    def standard_error(self) -> float:
        """Standard error of the log of the estimate."""
        return self.error_after(0)

    def error_after(self, more: int) -> float:
        """What the standard error would be after `more` further processes, were the deviation to stay as it is."""
        return self.deviation / math.sqrt(len(self.per_process) + more)


def block_time(iterations_ns: Sequence[int], calls_per_iteration: int) -> float:
    """Time of one call in a block, in nanoseconds: the median over its iterations.

    The median, because a single preempted iteration moves the mean of a block at will.

    Raises:
        ValueError: for a block without iterations, with a duration that is not positive, or without calls.
    """
    if not iterations_ns:
        raise ValueError("a block needs at least one iteration")
    if calls_per_iteration < 1:
        raise ValueError(f"calls_per_iteration must be at least 1, not {calls_per_iteration}")
    if min(iterations_ns) <= 0:
        raise ValueError(f"an iteration of {min(iterations_ns)} ns is below the clock's resolution")
    return statistics.median(iterations_ns) / calls_per_iteration


def log_time(block_times: Sequence[float]) -> float:
    """Log time of an arm in one process: the mean of the logs of its block times.

    With blocks in mirrored order (ABBA) a linear drift of the log time adds the same to every arm's mean and cancels in
    the difference; the arithmetic mean of times would cancel it only to first order.
    """
    return math.fsum(math.log(value) for value in block_times) / len(block_times)


def t_quantile(degrees_of_freedom: float, confidence: float) -> float:
    """Two-sided quantile of Student's t distribution (12.706 for 1 degree of freedom at 0.95; NIST/SEMATECH table 1.3.6.7.2)."""
    return float(stdtrit(degrees_of_freedom, 0.5 + confidence / 2))


def typical_time(blocks: Mapping[int, Sequence[float]]) -> float:
    """Time of one call of an arm over a run, in ns: geometric mean over processes of the geometric mean of block times.

    `blocks` maps a process to its block times in ns. Chosen so that the printed times of two arms that ran in the same processes divide
    to the printed ratio.
    """
    return math.exp(statistics.fmean(log_time(times) for times in blocks.values()))


def ratio(
    baseline: Mapping[int, Sequence[float]],
    arm: Mapping[int, Sequence[float]],
    pilot: int | None = None,
) -> Ratio | str:
    """The ratio of two arms measured in the same processes, or the reason why there is none.

    `baseline` and `arm` map a process to its block times in ns. Only processes that measured both count:
    log r_p = log_time(baseline_p) - log_time(arm_p); the estimate is exp(mean r_p) over all n of them.

    The interval is that of Stein's two-stage procedure (Annals of Mathematical Statistics 16, 1945): mean +- t(m-1) * s_m / sqrt(n), where
    s_m is the deviation of the first m = `pilot` processes. A run that goes on until its interval is narrow stops just when its
    deviation came out small by luck; taking s from the first m, on which the number n was decided, keeps the 95 %. With n = m (or
    without `pilot`) it is Student's ordinary interval.
    """
    shared = sorted(process for process in baseline if baseline[process] and arm.get(process))
    if not shared:
        return "no process measured both arms"
    logs = [log_time(baseline[process]) - log_time(arm[process]) for process in shared]
    mean, per_process = statistics.fmean(logs), tuple(math.exp(value) for value in logs)
    first = logs[: max(MINIMUM_PROCESSES, pilot)] if pilot else logs
    if len(first) < MINIMUM_PROCESSES:
        plural = "process" if len(logs) == 1 else "processes"
        reason = f"{len(logs)} {plural}: an interval needs at least {MINIMUM_PROCESSES}"
        return Ratio(math.exp(mean), None, per_process, tuple(shared), reason=reason)
    deviation, degrees = statistics.stdev(first), len(first) - 1
    half = t_quantile(degrees, CONFIDENCE) * deviation / math.sqrt(len(logs))
    interval = Interval(math.exp(mean - half), math.exp(mean + half), CONFIDENCE)
    return Ratio(math.exp(mean), interval, per_process, tuple(shared), deviation, degrees)


def p_value(found: Ratio) -> float:
    """Two-sided p of the t test that belongs to the ratio's interval, against a true ratio of one.

    Raises:
        ValueError: for a ratio without an interval.
    """
    if found.interval is None:
        raise ValueError(f"there is no p value: {found.reason}")
    if found.deviation == 0:
        return 1.0 if found.estimate == 1 else 0.0
    return float(2 * stdtr(found.degrees_of_freedom, -abs(math.log(found.estimate)) / found.standard_error))
