"""Claims about distributions: the typical time against the mean, drift over a recording, rates against the published peaks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.rates import peak_flops, peaks_of
from reports.findings.words import moment, no_gpu
from reports.trace.alike import Group
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.words import share, short, us
from suite.peaks import Figure, NotKnown
from suite.statistics.discovery import adjusted

MISLEADS = 1.1
DRIFT_LEAST = 10
DRIFT_SHARE = 0.05
SIGNIFICANCE = 0.01
COMPUTE_MARGIN, MEMORY_MARGIN = 1.25, 1.1
"""Published rates hold at the boost clock that the maker counts with; parts that run above it (an H100 by 8 %) are no mistake."""


def mean_and_typical(analysis: Analysis) -> Outcome:
    """A mean far above the median, told as what happened."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    found = [group for group in analysis.alike if group.median_us > 0]
    if not found:
        return not_applicable("no kernel ran three times with one launch configuration")
    misled = [group for group in found if max(group.mean_us, group.first_mean_us) > MISLEADS * group.median_us]
    if not misled:
        return quiet("means and medians of the kernels agree within 10 %")
    top = max(misled, key=lambda group: group.excess_us)
    slow = np.flatnonzero(top.times_us > MISLEADS * top.median_us)
    mean, of = (
        (top.first_mean_us, f"of the first {min(5, top.n)} calls")
        if top.first_mean_us > top.mean_us
        else (top.mean_us, f"of all {top.n} calls")
    )
    named = ", ".join(us(float(time)) for time in top.times_us[slow][:5])
    rest = [time for number, time in enumerate(top.times_us.tolist()) if number not in set(slow.tolist())]
    return fired(
        f"Typical is {us(top.median_us)}; the mean {of}, {us(mean)}, is {_count(slow.size)} slow {'call' if slow.size == 1 else 'calls'}",
        Evidence(f"{short(top.name, 60)}: {named} among {top.n:,} calls", *moment(analysis.trace, top.slowest_row)),
        Evidence(f"the other {len(rest):,} take {us(min(rest))} to {us(max(rest))}" if rest else "all calls are slow"),
        *_rates(analysis, top, mean),
        why=f"mean {us(mean)} is {mean / top.median_us:.3g} times the median",
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
    text = f"as a rate: {product.tflops(group.median_us):.4g} TFLOP/s at the median,"
    f" {product.tflops(mean_us):.4g} at the mean ({product.source})"
    peak = peak_flops(peaks_of(analysis, group.device), product.dtype)
    if isinstance(peak, Figure):
        text += f"; {share(product.tflops(group.median_us) * 1e12 / peak.value)} of the dense {product.dtype} peak"
    return [Evidence(text)]


def drift(analysis: Analysis) -> Outcome:
    """Kernels that get slower or faster over the recording."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    found = [group for group in analysis.alike if group.n >= DRIFT_LEAST]
    if not found:
        return not_applicable(f"no kernel ran {DRIFT_LEAST} times with one launch configuration")
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


def too_fast(analysis: Analysis) -> Outcome:
    """Times that the device's peaks do not allow."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    checked, evidence = 0, []
    unknown: set[str] = set()
    for product in analysis.products:
        peak = peak_flops(peaks_of(analysis, product.device), product.dtype)
        if isinstance(peak, NotKnown):
            unknown.add(peak.reason)
            continue
        checked += product.rows.size
        impossible = np.flatnonzero(product.flops > COMPUTE_MARGIN * peak.value * product.times_us / 1e6)
        if impossible.size:
            at = int(impossible[0])
            evidence.append(
                Evidence(
                    f"{short(product.kernel, 60)}: {product.tflops(float(product.times_us[at])):.4g} TFLOP/s in"
                    f" {us(float(product.times_us[at]))},"
                    f" the dense {product.dtype} peak is {peak.value / 1e12:.4g} ({peak.source});"
                    f" {impossible.size} such calls; {product.source}",
                    *moment(analysis.trace, int(product.rows[at])),
                )
            )
    slices = analysis.trace.slices
    for row in analysis.trace.rows(Kind.MEMCPY).tolist():
        if "DtoD" not in analysis.trace.name(row) or not slices.moved_bytes[row] > 0:
            continue
        peaks = peaks_of(analysis, slices.devices[int(slices.device[row])])
        if isinstance(peaks, NotKnown):
            unknown.add(peaks.reason)
            continue
        memory, cache = peaks.memory_bytes_per_s, peaks.cache_bytes
        if isinstance(memory, NotKnown) or cache is None:
            continue
        checked += 1
        # What the caches hold before and keep afterwards never passes the memory's bus.
        carried = 2 * float(slices.moved_bytes[row]) - 2 * cache
        if carried > MEMORY_MARGIN * memory.value * max(int(slices.duration[row]), 1) / 1e9:
            evidence.append(
                Evidence(
                    f"a copy of {slices.moved_bytes[row]:,.0f} bytes in {us(int(slices.duration[row]) / 1000)}: above"
                    f" {memory.value / 1e12:.3g} TB/s ({memory.source})",
                    *moment(analysis.trace, row),
                )
            )
    if evidence:
        return fired(
            "Too fast to be true: work was recorded in less time than the GPU's peak allows",
            *evidence[:5],
            why=f"{len(evidence)} kinds of work exceed the published peak by more than the clocks allow",
            advice="The recorded times or the assumed work are wrong: record the trace again, and do not publish these times.",
        )
    if not checked:
        return not_applicable(
            "; ".join(sorted(unknown))
            or "no matrix product with recorded shapes (record_shapes=True), and no device copy with its bytes"
        )
    return quiet(f"{checked:,} matrix products and copies stay below the device's published peaks")


def rate(analysis: Analysis) -> Outcome:
    """What the matrix products achieve."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    found = analysis.products
    if not found:
        return not_applicable("no matrix product whose size is known: record with record_shapes=True")
    evidence = []
    for product in found[:5]:
        median = float(np.median(product.times_us))
        peak = peak_flops(peaks_of(analysis, product.device), product.dtype)
        text = f"{short(product.kernel, 60)}: {product.tflops(median):.6g} TFLOP/s at the median of {us(median)} ({product.source})"
        if isinstance(peak, Figure):
            text += f", {share(product.tflops(median) * 1e12 / peak.value)} of the dense {product.dtype} peak of {peak.value / 1e12:.4g}"
        evidence.append(Evidence(text, *moment(analysis.trace, int(product.rows[0]))))
    top = found[0]
    return fired(
        f"The longest matrix product runs at {top.tflops(float(np.median(top.times_us))):.4g} TFLOP/s",
        *evidence,
        why="floating-point operations of the product over the median of its kernel's times",
        advice=(
            "Far below the peak at large sizes: look at shapes (multiples of 8 or 16), layout and precision."
            " At small sizes it is expected."
        ),
    )


VARIANCE_RULES = (
    Rule(
        id="variance",
        title="The typical time, and what the mean hides",
        family="gpu",
        severity="hint",
        formula="mean (of all calls, and of the first five) / median, at equal launch configuration and shapes",
        threshold="above 1.1",
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
    Rule(
        id="too-fast",
        title="Too fast to be true",
        family="trust",
        severity="problem",
        formula="2·m·n·k / time against the dense peak; bytes beyond the caches / time against the memory's bandwidth",
        threshold="a quarter above the published rate, a tenth above the memory's",
        refuted_by="a published peak of this device that is higher",
        explanation=(
            "No kernel beats the silicon. A time below what the peak allows means that the work was not done, or"
            " not waited for, or that the"
            " profiler's record is wrong. It is the cheapest test against a wrong benchmark."
        ),
        check=too_fast,
        needs=frozenset({"peak"}),
    ),
    Rule(
        id="rate",
        title="What the matrix products achieve",
        family="gpu",
        severity="explanation",
        formula="2·m·n·k / median time",
        threshold="shown wherever the size is known",
        refuted_by="another count of the operations",
        explanation=(
            "A matrix product of m by k with k by n needs 2·m·n·k operations. Dividing by the time gives a rate"
            " that can be held against what"
            " the GPU can do at most; the peaks here are for dense matrices, not the doubled figures for sparse ones."
        ),
        check=rate,
        needs=frozenset({"peak"}),
    ),
)
