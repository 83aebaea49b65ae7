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

from scipy.special import stdtrit

MINIMUM_PROCESSES = 3
"""Below three processes no interval is given: with one degree of freedom the t quantile is 12.7 and says nothing."""


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

    `interval` is None when there are too few processes; `reason` then says so. `per_process` holds the ratio in each of `processes`.
    """

    estimate: float
    interval: Interval | None
    per_process: tuple[float, ...]
    processes: tuple[int, ...]
    reason: str = ""


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


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's t interval of the mean: mean +- t(n-1) * s / sqrt(n) (NIST/SEMATECH e-Handbook, section 1.3.5.2).

    Raises:
        ValueError: for fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"an interval needs at least two values, not {len(values)}")
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1, confidence) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean + half, confidence)


def typical_time(blocks: Mapping[int, Sequence[float]]) -> float:
    """Time of one call of an arm over a run, in ns: geometric mean over processes of the geometric mean of block times.

    `blocks` maps a process to its block times in ns. Chosen so that the printed times of two arms divide to the printed ratio.
    """
    return math.exp(statistics.fmean(log_time(times) for times in blocks.values()))


def ratio(
    baseline: Mapping[int, Sequence[float]], arm: Mapping[int, Sequence[float]], confidence: float = 0.95
) -> Ratio | str:
    """The ratio of two arms measured in the same processes, or the reason why there is none.

    `baseline` and `arm` map a process to its block times in ns. Only processes that measured both count:
    log r_p = log_time(baseline_p) - log_time(arm_p); the estimate is exp(mean r_p), the interval Student's t over the
    log r_p, exponentiated.
    """
    shared = sorted(process for process in baseline if baseline[process] and arm.get(process))
    if not shared:
        return "no process measured both arms"
    logs = [log_time(baseline[process]) - log_time(arm[process]) for process in shared]
    estimate = math.exp(statistics.fmean(logs))
    per_process = tuple(math.exp(value) for value in logs)
    processes = tuple(shared)
    if len(logs) < MINIMUM_PROCESSES:
        plural = "process" if len(logs) == 1 else "processes"
        reason = f"{len(logs)} {plural}: an interval needs at least {MINIMUM_PROCESSES}"
        return Ratio(estimate, None, per_process, processes, reason)
    interval = t_interval(logs, confidence)
    return Ratio(
        estimate, Interval(math.exp(interval.low), math.exp(interval.high), confidence), per_process, processes
    )
