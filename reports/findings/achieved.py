"""Rates against what the GPU's makers publish: too fast to be true, and what the matrix products achieve."""

from __future__ import annotations

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.copies import device_to_device
from reports.findings.rates import FP32, ceiling, of_peak, peaks_of
from reports.findings.words import least_us, moment, no_gpu
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.words import short, us
from suite.peaks import NotKnown

COMPUTE_MARGIN, MEMORY_MARGIN = 1.25, 1.1
"""Published rates hold at the boost clock that the maker counts with; parts that run above it (an H100 by 8 %) are no mistake."""


def too_fast(analysis: Analysis) -> Outcome:
    """Times that the device's peaks do not allow."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    # Recorded lengths are rounded: only what is longer than the clock's ticks accuses.
    ticks = least_us(analysis.trace)
    checked, evidence = 0, []
    unknown: set[str] = set()
    for product in analysis.products:
        peak = ceiling(peaks_of(analysis, product.device), product.dtype)
        if isinstance(peak, NotKnown):
            unknown.add(peak.reason)
            continue
        checked += product.rows.size
        impossible = np.flatnonzero(product.flops > COMPUTE_MARGIN * peak.value * (product.times_us + ticks) / 1e6)
        if impossible.size:
            at = int(impossible[0])
            evidence.append(
                Evidence(
                    f"{short(product.kernel, 60)}: {product.tflops(float(product.times_us[at])):.4g} TFLOP/s in"
                    f" {us(float(product.times_us[at]))},"
                    f" the dense {'TF32' if product.dtype == FP32 else product.dtype} peak is {peak.value / 1e12:.4g} ({peak.source});"
                    f" {impossible.size} such calls; {product.source}",
                    *moment(analysis.trace, int(product.rows[at])),
                )
            )
    slices = analysis.trace.slices
    for row in analysis.trace.rows(Kind.MEMCPY).tolist():
        if not device_to_device(analysis.trace.name(row)) or not slices.moved_bytes[row] > 0:
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
        if carried > MEMORY_MARGIN * memory.value * (int(slices.duration[row]) + ticks * 1000) / 1e9:
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
    found = [(one, float(np.median(one.times_us))) for one in analysis.products]
    found = [(one, median) for one, median in found if median > least_us(analysis.trace)]
    if not found:
        return not_applicable("no matrix product whose size is known: record with record_shapes=True")
    evidence = []
    for product, median in found[:5]:
        tflops = product.tflops(median)
        text = f"{short(product.kernel, 60)}: {tflops:.6g} TFLOP/s at the median of {us(median)} ({product.source})"
        text += of_peak(tflops * 1e12, peaks_of(analysis, product.device), product.dtype, product.kernel)
        evidence.append(Evidence(text, *moment(analysis.trace, int(product.rows[0]))))
    top, typical = found[0]
    return fired(
        f"The longest matrix product whose size is recorded runs at {top.tflops(typical):.4g} TFLOP/s",
        *evidence,
        why="floating-point operations of the product over the median of its kernel's times",
        advice=(
            "Far below the peak at large sizes: look at shapes (multiples of 8 or 16), layout and precision."
            " At small sizes it is expected."
        ),
    )


RATE_RULES = (
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
