"""Claims about distributions: the typical time against the mean, and drift over a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.rates import of_peak, peaks_of
from reports.findings.words import least_us, moment, no_gpu
from reports.trace.alike import Group
from reports.trace.analyse import Analysis
from reports.trace.kernels import FIRST_MEAN
from reports.words import factor, share, short, us
from suite.statistics.discovery import adjusted

MISLEADS = 1.1
DRIFT_LEAST = 10
DRIFT_SHARE = 0.05
SIGNIFICANCE = 0.01


@dataclass(frozen=True)
class Misled:
    """A mean of some calls that is far above the median of all: the first five, or all; `slow` are the slow ones among them."""

    group: Group
    of: str
    mean_us: float
    n: int
    slow: NDArray[np.float64]

    @property
    def excess_us(self) -> float:
        """What the slow calls take beyond the typical time."""
        return float((self.slow - self.group.median_us).sum())


def misled(group: Group, ticks_us: float) -> Misled | None:
    """The mean that misleads most, of all calls or of the first five; None where both agree with the median, within the clock's ticks."""
    typical = group.median_us
    sets = ((f"all {group.n} calls", group.times_us), (f"the first {FIRST_MEAN} calls", group.times_us[:FIRST_MEAN]))
    found = []
    for of, times in sets if group.n > FIRST_MEAN else sets[:1]:
        mean = float(times.mean())
        slow = times[(times > MISLEADS * typical) & (times - typical > ticks_us)]
        if mean > MISLEADS * typical and mean - typical > ticks_us and slow.size:
            found.append(Misled(group, of, mean, int(times.size), slow))
    return max(found, key=lambda one: one.mean_us, default=None)


def mean_and_typical(analysis: Analysis) -> Outcome:
    """A mean far above the median, told as what happened."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    groups = [group for group in analysis.alike if group.median_us > 0]
    if not groups:
        return not_applicable("no kernel is known to have done the same work three times (record_shapes=True tells)")
    found = [one for group in groups if (one := misled(group, least_us(analysis.trace))) is not None]
    if not found:
        return quiet("means and medians of the kernels agree within 10 %, or within two ticks of the clock")
    top = max(found, key=lambda one: one.excess_us)
    group, calls = top.group, "call" if top.slow.size == 1 else "calls"
    named = ", ".join(us(float(time)) for time in top.slow[:5]) + (", ..." if top.slow.size > 5 else "")
    normal = [time for time in group.times_us.tolist() if time <= MISLEADS * group.median_us]
    return fired(
        f"Typical is {us(group.median_us)}; the mean of {top.of} is {us(top.mean_us)}, because {_count(top.slow.size)} of them"
        f" {'is' if top.slow.size == 1 else 'are'} slow",
        Evidence(
            f"{short(group.name, 60)}: the slow {calls} among {top.of} {'takes' if top.slow.size == 1 else 'take'} {named}",
            *moment(analysis.trace, group.slowest_row),
        ),
        Evidence(
            f"of all {group.n:,} calls, {len(normal):,} are not slow: they take {us(min(normal))} to {us(max(normal))}"
        ),
        *_rates(analysis, group, top.mean_us),
        why=f"the mean is {factor(top.mean_us / group.median_us)} times the median of all calls",
        advice=(
            "Report the median with its spread, and how many calls were recorded; look at what the slow calls"
            " have in common (the first ones: clocks still rising)."
        ),
        at_stake_us=top.excess_us,
    )


def _count(number: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}.get(number, str(number))


def _rates(analysis: Analysis, group: Group, mean_us: float) -> list[Evidence]:
    product = next((found for found in analysis.products if found.kernel == group.name), None)
    if product is None:
        return []
    median = product.tflops(group.median_us)
    text = (
        f"as a rate: {median:.4g} TFLOP/s at the median, {product.tflops(mean_us):.4g} at the mean ({product.source})"
    )
    return [Evidence(text + of_peak(median * 1e12, peaks_of(analysis, group.device), product.dtype, product.kernel))]


def drift(analysis: Analysis) -> Outcome:
    """Kernels that get slower or faster over the recording."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    found = [group for group in analysis.alike if group.n >= DRIFT_LEAST]
    if not found:
        return not_applicable(
            f"no kernel is known to have done the same work {DRIFT_LEAST} times (record_shapes=True tells)"
        )
    tested = [(group, *trend(group.times_us)) for group in found]
    chances = adjusted([chance for _, chance, _ in tested])
    drifting = [
        (group, change, chance)
        for (group, _, change), chance in zip(tested, chances, strict=True)
        if chance < SIGNIFICANCE and abs(change) > DRIFT_SHARE
    ]
    if not drifting:
        return quiet(
            f"{len(found)} kernels tested, none drifts by more than {share(DRIFT_SHARE)} (adjusted p < {SIGNIFICANCE})"
        )
    drifting.sort(key=lambda item: -abs(item[1]) * item[0].median_us * item[0].n)
    group, change, _ = drifting[0]
    return fired(
        f"{short(group.name, 60)} gets {'slower' if change > 0 else 'faster'} over the recording: {change:+.1%}"
        f" from its first to its last call",
        *(
            Evidence(
                f"{short(one.name, 60)}: {one.n:,} calls, {moved:+.1%}, adjusted p {p:.2g}",
                moment(analysis.trace, int(one.rows[0]))[0],
                moment(analysis.trace, int(one.rows[-1]))[1],
            )
            for one, moved, p in drifting[:4]
        ),
        why=f"Mann-Kendall's test on the order of the calls, adjusted for {len(found)} tests (Benjamini and Hochberg)",
        advice="Falling times: warm up longer. Rising times: heat or a power limit; look at clocks and temperature.",
        at_stake_us=sum(abs(moved) * one.median_us * one.n / 2 for one, moved, _ in drifting),
    )


def trend(times: NDArray[np.float64]) -> tuple[float, float]:
    """Mann-Kendall's p value (two-sided, ties corrected) and Theil-Sen's slope as change over the series, relative to its median.

    Source: M. G. Kendall, Rank Correlation Methods (1975), normal approximation with continuity correction; P. K. Sen, J. Am. Stat.
    Assoc. 63 (1968). Series longer than 2,000 calls are thinned evenly: all pairs are looked at.
    """
    series = times if times.size <= 2000 else times[np.linspace(0, times.size - 1, 2000).astype(int)]
    n = series.size
    first, second = np.triu_indices(n, 1)
    differences = series[second] - series[first]
    score = float(np.sign(differences).sum())
    _, ties = np.unique(series, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return 1.0, 0.0
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score else 0.0
    slope = float(np.median(differences / (second - first)))
    return math.erfc(abs(z) / math.sqrt(2)), slope * (n - 1) / float(np.median(series)) if np.median(series) else 0.0


VARIANCE_RULES = (
    Rule(
        id="variance",
        title="The typical time, and what the mean hides",
        family="gpu",
        severity="hint",
        formula="mean (of all calls, or of the first five) / median of all calls, at equal launch configuration",
        threshold="above 1.1, and by more than two ticks of the clock",
        refuted_by="a longer recording whose mean and median agree",
        explanation=(
            "A mean is pulled up by a few slow calls, and the first calls of a recording often are slow. The"
            " median tells what a call usually"
            " takes. Say both, and what made the slow ones slow."
        ),
        check=mean_and_typical,
    ),
    Rule(
        id="drift",
        title="Kernels that change over the recording",
        family="gpu",
        severity="hint",
        formula="Mann-Kendall's test and Theil-Sen's slope over the calls in order",
        threshold="adjusted p below 0.01 and a change of more than 5 %, with at least 10 calls",
        refuted_by="a second recording without the trend",
        explanation=(
            "If a kernel gets steadily slower, the chip is heating up or throttling; if it gets faster, the clock was still rising. Either"
            " way the recording has no single true time. Several kernels are tested at once, so the threshold is adjusted for that."
        ),
        check=drift,
    ),
)
