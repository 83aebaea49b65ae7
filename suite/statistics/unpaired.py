"""The ratio of two groups of processes that share nothing: two machines, or two sessions of one.

Within a process drift cancels (`suite.statistics.ratio`); between machines there is nothing to pair, so the spread of either side's
processes stands in the interval in full. Inference is on the scale of the logs, in which a ratio is a difference of means.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from suite.statistics.ratio import CONFIDENCE, MINIMUM_PROCESSES, Interval, Ratio, t_quantile


@dataclass(frozen=True)
class UnpairedRatio(Ratio):
    """Time of the baseline over time of the other, of independent processes.

    `per_process` holds the other's processes against the baseline's mean; `deviations` and `counts` are those of the log times, the
    baseline's first.
    """

    deviations: tuple[float, float] = (0.0, 0.0)
    counts: tuple[int, int] = (0, 0)

    def error_after(self, more: int) -> float:
        """What the standard error would be after `more` further processes on either side."""
        return math.hypot(
            *(
                deviation / math.sqrt(count + more)
                for deviation, count in zip(self.deviations, self.counts, strict=True)
            )
        )


def welch(baseline: Sequence[float], other: Sequence[float], replicates: str = "processes") -> UnpairedRatio | str:
    """The ratio of two independent samples of log times (of ns, one a replicate), or the reason why there is none.

    exp(mean(baseline) - mean(other)) with the interval of B. L. Welch (Biometrika 34, 1947, pages 28 to 35), which lets the variances
    differ: standard error sqrt(s1^2 / n1 + s2^2 / n2), and the degrees of freedom of F. E. Satterthwaite (Biometrics Bulletin 2, 1946,
    pages 110 to 114). Without an interval when either side has fewer than `MINIMUM_PROCESSES`; `replicates` names them in the reason.
    """
    counts = (len(baseline), len(other))
    if not all(counts):
        return f"one side has no {replicates}"
    centre = statistics.fmean(baseline)
    mean = centre - statistics.fmean(other)
    per_process, indices = tuple(math.exp(centre - value) for value in other), tuple(range(len(other)))
    if min(counts) < MINIMUM_PROCESSES:
        reason = f"{counts[0]} against {counts[1]} {replicates}: an interval needs at least {MINIMUM_PROCESSES} on either side"
        return UnpairedRatio(math.exp(mean), None, per_process, indices, reason=reason, counts=counts)
    deviations = (statistics.stdev(baseline), statistics.stdev(other))
    squares = [deviation**2 / count for deviation, count in zip(deviations, counts, strict=True)]
    error = math.sqrt(sum(squares))
    degrees = float(sum(counts) - 2)
    if error > 0:
        degrees = sum(squares) ** 2 / sum(
            square**2 / (count - 1) for square, count in zip(squares, counts, strict=True)
        )
    half = t_quantile(degrees, CONFIDENCE) * error
    return UnpairedRatio(
        estimate=math.exp(mean),
        interval=Interval(math.exp(mean - half), math.exp(mean + half), CONFIDENCE),
        per_process=per_process,
        processes=indices,
        # So that deviation over the root of the number of the other's processes is the standard error, as in a paired ratio.
        deviation=error * math.sqrt(counts[1]),
        degrees_of_freedom=degrees,
        deviations=deviations,
        counts=counts,
    )


def mean_interval(logs: Sequence[float]) -> Interval | str:
    """Student's interval of the geometric mean of one sample of log times, in their unit, or the reason why there is none."""
    if len(logs) < MINIMUM_PROCESSES:
        plural = "process" if len(logs) == 1 else "processes"
        return f"{len(logs)} {plural}: an interval needs at least {MINIMUM_PROCESSES}"
    mean = statistics.fmean(logs)
    half = t_quantile(len(logs) - 1, CONFIDENCE) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean - half), math.exp(mean + half), CONFIDENCE)
