"""The GPU lane: the profiler's own gaps (R12, R13), uneven kernels (R14), vendor kernels (R15)."""

from __future__ import annotations

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.words import least_us, moment, no_gpu
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.gaps import Cause
from reports.words import factor, share, short, us

REQUEST = "Activity Buffer Request"
GAP_LEAST_US = 20.0
RECURS = 2 / 3
SPREAD = 0.1


def buffer_requests(analysis: Analysis) -> Outcome:
    """R12."""
    trace = analysis.trace
    rows = [int(row) for row in trace.rows(Kind.OVERHEAD) if trace.name(row) == REQUEST]
    others = trace.rows(Kind.OVERHEAD).size - len(rows)
    if not rows:
        if reason := no_gpu(analysis):
            return not_applicable(reason)
        return quiet(f"no {REQUEST} was recorded ({others} other events of the profiler's overhead)")
    longest = max(rows, key=lambda row: int(trace.slices.duration[row]))
    time = int(trace.slices.duration[longest]) / 1000
    lost = max((device.idle_us["profiler"] for device in analysis.devices), default=0.0)
    return fired(
        f"The profiler asked for {len(rows)} buffer{'s' if len(rows) > 1 else ''} while recording, the longest time {us(time)}",
        Evidence(f"{REQUEST}: {us(time)}", *moment(trace, longest)),
        Evidence(f"idle time of the GPU within the profiler's own work: {us(lost)}"),
        why="these gaps are not there without the profiler",
        advice="Use wait and warmup steps in the profiler's schedule, so that buffers are there before the recording begins.",
    )


def gaps_within_steps(analysis: Analysis) -> Outcome:
    """R13."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    found: list[tuple[float, int, int, int, str]] = []
    launch = trace.links.launch
    begun = np.where(launch >= 0, trace.slices.start[launch] - trace.origin, -1)
    by_launch = np.argsort(begun, kind="stable")
    launched = begun[by_launch]
    for step in analysis.steps:
        within = (round(step.start_us * 1000), round(step.end_us * 1000))
        # Sorted once: a recording may hold thousands of steps.
        first, last = np.searchsorted(launched, within)
        own = trace.gpu_rows[np.sort(by_launch[first:last])]
        for code in np.unique(trace.slices.device[own]).tolist():
            rows = own[trace.slices.device[own] == code]
            starts, ends = intervals.union(trace.slices.start[rows], trace.end[rows])
            holes = starts[1:] - ends[:-1]
            if holes.size:
                at = int(np.argmax(holes))
                device = trace.slices.devices[code]
                found.append((int(holes[at]) / 1000, step.number, int(ends[at]), int(starts[at + 1]), device))
    if not found:
        return not_applicable("no step holds two GPU slices")
    wide = [item for item in found if item[0] >= GAP_LEAST_US]
    if not wide:
        return quiet(f"the largest gap between two kernels of a step is {us(max(found)[0])}")
    if len(found) > 1 and len(wide) >= RECURS * len(found):
        return quiet(
            f"gaps of {us(GAP_LEAST_US)} and more recur in {len(wide)} of {len(found)} steps: that is the program"
            f" (see idle), no request for a buffer"
        )
    gap, number, begin, end, device = max(wide)
    parts = _causes(analysis, device, begin, end)
    made, unknown = parts[Cause.PROFILER], parts[Cause.UNKNOWN]
    largest = f"the largest, {us(gap)} in step #{number}"
    if made + unknown < max(gap / 2, GAP_LEAST_US):
        told = max(parts, key=lambda cause: parts[cause])
        return quiet(
            f"{largest}, is explained: {us(parts[told])} {told.replace('_', ' ')} (see idle)"
            if parts[told]
            else f"{largest}, is filled by work that was launched in other steps"
        )
    if len(found) == 1 and not made:
        return quiet(f"{us(gap)} at most, in the only step: whether it recurs cannot be told (see idle for its cause)")
    return fired(
        f"{us(gap)} pass between two kernels of step #{number}"
        + (f", {us(made)} of it in the profiler's own work" if made else ", and nothing recorded says why"),
        Evidence(
            f"seen in {len(wide)} of {len(found)} steps", (begin - trace.origin) / 1000, (end - trace.origin) / 1000
        ),
        why="it does not recur in the other steps"
        if len(found) > 1
        else "there is one step only, so it cannot be told whether it recurs",
        advice=f"{'The profiler' if made else 'Perhaps the profiler'} asked for another buffer: record more steps (active=20), and see"
        " whether it stays the only one.",
    )


def _causes(analysis: Analysis, number: str, begin: int, end: int) -> dict[Cause, float]:
    """The idle time of a GPU between two moments (ns) by cause, in us."""
    idle = next(device.idle for device in analysis.devices if device.device == number)
    inside = np.maximum(np.minimum(idle.end, end) - np.maximum(idle.start, begin), 0) / 1000
    found = dict.fromkeys(Cause, 0.0)
    for at in np.flatnonzero(inside).tolist():
        found[idle.cause[at]] += float(inside[at])
    return found


def uneven(analysis: Analysis) -> Outcome:
    """R14."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    if not analysis.alike:
        return not_applicable("no kernel is known to have done the same work three times (record_shapes=True tells)")
    ticks = least_us(analysis.trace)
    groups = sorted(
        (
            group
            for group in analysis.alike
            if group.median_us > 0
            and group.most_us > (1 + SPREAD) * group.median_us
            and group.most_us - group.median_us > ticks
        ),
        key=lambda group: -group.excess_us,
    )
    if not groups:
        return quiet("kernels of one name and launch configuration take the same time in every step, within 10 %")
    top = groups[0]
    return fired(
        f"{short(top.name, 60)} takes different times: {us(top.least_us)} to {us(top.most_us)}, typically {us(top.median_us)}",
        *(
            Evidence(
                f"{short(group.name, 60)}: {group.n:,} calls, median {us(group.median_us)}, longest {us(group.most_us)}"
                f" ({factor(group.most_us / group.median_us)} times)",
                *moment(analysis.trace, group.slowest_row),
            )
            for group in groups[:4]
        ),
        why=f"the longest is more than {share(SPREAD)} above the median, at equal launch configuration and work",
        advice=(
            "Clocks, heat, power limits, other users of the GPU or its cache: look at the clock's telemetry, warm up longer, and report"
            " medians. One short recording cannot tell which call is typical."
        ),
        at_stake_us=sum(group.excess_us for group in groups),
    )


VENDORS = (
    "ampere_",
    "volta_",
    "turing_",
    "hopper_",
    "maxwell_",
    "sm70_",
    "sm75_",
    "sm80_",
    "sm86_",
    "sm89_",
    "sm90_",
    "sm100_",
    "cutlass",
    "nvjet",
    "Cijk_",
    "gemmSN",
    "gemmk1",
    "gemv2",
    "cublas",
    "splitK",
)


def vendor_products(analysis: Analysis) -> Outcome:
    """R15."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    found = [
        stats
        for stats in analysis.kernels
        if stats.kernel_class == "gemm" and any(word in stats.name for word in VENDORS)
    ]
    if not found:
        return quiet("no kernel has a name that a vendor's library gives its matrix products")
    names = dict.fromkeys(stats.name for stats in found)
    libraries = " and ".join(
        word
        for word, there in (
            ("cuBLAS", not all("Cijk_" in name for name in names)),
            ("rocBLAS or hipBLASLt", any("Cijk_" in name for name in names)),
        )
        if there
    )
    # Shares of one GPU each do not add up: the time of all GPUs is the whole.
    part = sum(stats.total_us for stats in found) / max(sum(stats.total_us for stats in analysis.kernels), 1e-9)
    of = f"({libraries}), with {share(part)} of the time of {'all GPUs' if len(analysis.devices) > 1 else 'the GPU'}"
    return fired(
        f"{len(names)} kernels are matrix products of the vendor's library {of}"
        if len(names) > 1
        else f"One kernel is a matrix product of the vendor's library {of}",
        *(
            Evidence(
                f"{stats.name[:120]}: {stats.count:,} calls, median {us(stats.median_us)}",
                *moment(analysis.trace, int(stats.rows[0])),
            )
            for stats in found[:3]
        ),
        why="the name says architecture, dtype, tile and layout, as these libraries name theirs",
        advice="Compare full names between eager and compiled: the same name is the same kernel, whatever launched it.",
    )


GPU_RULES = (
    Rule(
        id="R12",
        title="Activity Buffer Request: the profiler's own gap",
        family="gpu",
        severity="explanation",
        formula="number and length of 'Activity Buffer Request' among the overhead events",
        threshold="any",
        refuted_by="the same gap in a run without the profiler",
        explanation=(
            "The profiler keeps its records in buffers of host memory. When it needs one while recording, the"
            " request shows on the GPU's lane"
            " as a long block, and often explains why the first kernel begins milliseconds after its launch. Warm-up steps in the schedule"
            " take care of it."
        ),
        check=buffer_requests,
    ),
    Rule(
        id="R13",
        title="A gap between two kernels of one step",
        family="gpu",
        severity="hint",
        formula="largest gap between the GPU slices launched in one step, compared over the steps",
        threshold=f"at least {GAP_LEAST_US:g} us, in fewer than two thirds of the steps, mostly without a cause or in the profiler's work",
        refuted_by="the gap recurring in every step of a longer recording",
        explanation=(
            "A gap that appears in one step and not in the others, and that neither late launches nor waiting streams explain, is"
            " rarely your program: usually the profiler asked for a second buffer. Record twenty steps: if it shows once only, forget"
            " it; if it recurs, it is real."
        ),
        check=gaps_within_steps,
        needs=frozenset({"idle", "cause"}),
    ),
    Rule(
        id="R14",
        title="The same kernel, different times",
        family="gpu",
        severity="hint",
        formula="longest / median of the calls of one kernel with equal launch configuration and shapes",
        threshold="above 1.1, for kernels with at least 5 % of the GPU's time and three calls",
        refuted_by="inputs that differ between the calls",
        explanation=(
            "A kernel with the same work should take the same time. When it does not, the machine changed: the clock was still rising,"
            " the chip got hot, a power limit acted, or somebody else used the GPU. The mean of a few calls then describes none of them."
        ),
        check=uneven,
    ),
    Rule(
        id="R15",
        title="A matrix product of the vendor's library",
        family="gpu",
        severity="explanation",
        formula="kernels whose name follows a vendor's scheme (ampere_..., sm80_..., cutlass..., nvjet..., Cijk_...)",
        threshold="any",
        refuted_by="a kernel of this name that comes from elsewhere",
        explanation=(
            "ampere_bf16_s16816gemm_bf16_128x256_..._nn reads: for Ampere GPUs, inputs in bf16, tensor-core instruction 16x8x16, tiles of"
            " 128 by 256, neither operand transposed. torch.compile usually calls the very same kernel: then the product itself gained"
            " nothing."
        ),
        check=vendor_products,
    ),
)
