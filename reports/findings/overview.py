"""The table's overview: what bounds the time (R1, R2), what dominates (R3), how often (R4), and where to look deeper (R5)."""

from __future__ import annotations

import re

import numpy as np

from reports.findings.contract import WORTH, Evidence, Outcome, Rule, fired, not_applicable, quiet, recorded_us
from reports.findings.copies import device_to_device
from reports.findings.seen import mostly_compiled, unless_compiled
from reports.findings.words import moment, no_gpu
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.gaps import LAUNCHING, Cause
from reports.trace.kernels import KernelStats
from reports.trace.regime import BUSY, Regime
from reports.trace.steps import STEP
from reports.trace.usage import Device
from reports.words import factor, figures, share, short, us

LEAST_US = 1000.0
"""Below a millisecond of GPU work, fixed costs are as large."""
DOMINANT = 0.5
MANY_CALLS = 100
SHORT_US = 20.0
CHILDREN = 3.0
HOST_SHARE = 0.1


def busiest(analysis: Analysis) -> tuple[Device, Regime]:
    """The GPU with the most work, and its regime."""
    number = max(range(len(analysis.devices)), key=lambda index: analysis.devices[index].busy_us)
    return analysis.devices[number], analysis.regimes[number]


def _counterfactual(found: Regime) -> str:
    return (
        f"launches that cost nothing would give at most {factor(found.free_launches)}x; kernels twice as fast at most"
        f" {factor(found.twice_as_fast_kernels)}x"
    )


MOSTLY = 0.5
RECORD_AGAIN = (
    "First record again, with steps of warm-up before: most of this idle time is start-up, the profiler's own, or has no recorded"
    " cause. Then: "
)


def recoverable(device: Device) -> float:
    """Idle time that the program could have back: not start-up, what the profiler made, nor what nothing recorded explains."""
    return sum(time for cause, time in device.idle_us.items() if Cause(cause) not in device.not_counted)


def fewer_launches(analysis: Analysis) -> str:
    """How to pay for fewer launches, without what the program does already."""
    compiled = mostly_compiled(analysis)
    graphs = any(device.graph_launches for device in analysis.devices)
    told = ["Give each launch more work (larger batches or matrices)"]
    if not compiled:
        told.append("fuse operators (torch.compile)")
    if not graphs:
        told.append(
            "launch many kernels at once (CUDA graphs" + (', as mode="reduce-overhead" does)' if compiled else ")")
        )
    device, found = busiest(analysis)
    kernels = (
        " Faster kernels would not help."
        if found.twice_as_fast_kernels < HARDLY_FASTER and not device.exposed_us
        else ""
    )
    return f"{', or '.join(told)}.{kernels}"


HARDLY_FASTER = 1.1


COUNTED_LEAST = 0.1
"""A recording of which less than a tenth counts does not show what bounds the program."""


def overhead_bound(analysis: Analysis) -> Outcome:
    """R1."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, found = busiest(analysis)
    cpu = analysis.host.self_cpu_total_us
    numbers = f"GPU {device.device} works {us(device.busy_us)} of {us(device.window_us)} ({share(found.busy_share)})"
    counts = found.counted_us >= COUNTED_LEAST * device.window_us
    if found.bound != "overhead-bound" or not counts:
        left = device.window_us - found.counted_us
        counted = (
            f"; {us(left)} do not count (start-up, captures, the profiler's own, or unexplained)" if left > 0 else ""
        )
        return quiet(f"{numbers}: {found.bound if counts else 'too little to tell'}, {found.why}{counted}")
    launching = device.idle_of(*(LAUNCHING - device.not_counted))
    waited = (
        f"{us(launching)} of its idle time pass in dispatching and launching, {share(launching / found.counted_us)} of the time"
        " that counts"
    )
    left = device.window_us - found.counted_us
    return fired(
        f"Overhead-bound: the GPU is idle for {share(1 - found.counted_busy)} of {'the recording' if left <= 0 else us(found.counted_us)},"
        " dispatching and launching operators decides the time",
        Evidence(f"CPU self time {us(cpu)} (waiting for the GPU included), GPU busy {us(device.busy_us)}"),
        Evidence(numbers, device.window_start_us, device.window_start_us + device.window_us),
        Evidence(waited),
        *(
            [Evidence(f"not counted: {us(left)} of start-up, captures, the profiler's own, or unexplained")]
            if left > 0
            else []
        ),
        Evidence(_counterfactual(found)),
        why=f"{found.why}; {waited}",
        advice=(RECORD_AGAIN if recoverable(device) < MOSTLY * (device.window_us - device.busy_us) else "")
        + fewer_launches(analysis),
        at_stake_us=launching,
    )


BOUND_WORDS = {
    "compute-bound": "Compute-bound",
    "memory-bound": "Memory-bound",
    "communication-bound": "Communication-bound",
}


KERNELS = {
    "compute-bound": "Work on the products: a lower precision where it is not taken yet (bf16, TF32, fp8), better shapes.",
    "memory-bound": "Move less: fuse what only moves data, or a narrower dtype.",
    "communication-bound": "Overlap the collectives with computing, or send less.",
    "mixed": "Work on the kernels at the top of the table.",
}


def device_bound(analysis: Analysis) -> Outcome:
    """R2."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, found = busiest(analysis)
    cpu = analysis.host.self_cpu_total_us
    numbers = f"GPU {device.device} works {us(device.busy_us)} of {us(device.window_us)} ({share(found.busy_share)})"
    if device.busy_us < LEAST_US or found.counted_busy < BUSY:
        return quiet(f"{numbers}: below {share(BUSY)} of the time that counts, or below {us(LEAST_US)}")
    span = f" of {us(found.counted_us)}" if found.counted_us < device.window_us else " of the recording"
    threads = "one thread" if analysis.host.threads == 1 else f"{analysis.host.threads} threads"
    return fired(
        f"{BOUND_WORDS.get(found.bound, 'Bound by the GPU')}: the GPU works for {share(found.counted_busy)}{span}, its kernels"
        " decide the time",
        Evidence(numbers, device.window_start_us, device.window_start_us + device.window_us),
        Evidence(
            f"CPU self time {us(cpu)}, summed over {threads}; {us(analysis.host.synchronize_us)} of it wait for the GPU"
        ),
        Evidence(
            f"of the GPU's time: {', '.join(f'{share(part)} {name}' for name, part in list(found.shares.items())[:4])}",
            device.start_us,
            device.start_us + device.span_us,
        ),
        Evidence(_counterfactual(found)),
        why=found.why,
        advice=f"{KERNELS.get(found.bound, KERNELS['mixed'])} Launches that cost nothing give at most {factor(found.free_launches)}x.",
        at_stake_us=device.busy_us / 2,
    )


def hotspot(analysis: Analysis) -> Outcome:
    """R3."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    top = analysis.kernels[0]
    gpu = f"GPU {top.device}" if len(analysis.devices) > 1 else "the GPU"
    numbers = (
        f"{short(top.name)}: {us(top.total_us)} in {top.count:,} calls, {share(top.share)} of GPU {top.device}'s time"
    )
    if top.share < DOMINANT:
        return quiet(f"the longest is {numbers}")
    device = next(found for found in analysis.devices if found.device == top.device)
    if top.kernel_class == "collective" and device.exposed_us < DOMINANT * device.communication_us:
        covered = 1 - device.exposed_us / max(device.communication_us, 1e-9)
        return quiet(f"{numbers}, but computing covers {share(covered)} of the collectives' time")
    what, advice = _kind_of_hotspot(top)
    return fired(
        f"{what} takes {share(top.share)} of {gpu}'s time",
        Evidence(numbers, *moment(analysis.trace, int(top.rows[0]))),
        why=f"its share is at least {share(DOMINANT)}",
        advice=advice,
        at_stake_us=top.total_us / 2,
    )


def _kind_of_hotspot(top: KernelStats) -> tuple[str, str]:
    """What to call it, and what can be done: only a kernel is made faster by a better kernel."""
    if top.kind == "memset" or top.kernel_class == "fill":
        return (
            "One kind of fill",
            "Look at what clears memory, and whether it is overwritten anyway (empty in place of zeros).",
        )
    if (top.kind == "memcpy" and device_to_device(top.name)) or (top.kind == "kernel" and top.kernel_class == "copy"):
        return (
            "Copying device memory" if top.kind == "memcpy" else "One kernel that copies",
            "Look at what copies (clone, contiguous, cat, copy_), and whether a view or an output in place does.",
        )
    if top.kind == "memcpy" and re.search(r"PtoP|Peer", top.name):
        return "Copying between GPUs", "Send less between the GPUs, or while they compute."
    if top.kind == "memcpy" and "Pageable" not in top.name:
        return (
            "Copying between host and device",
            "Copy less (a narrower dtype, what is used again stays on the device), or earlier, so that it overlaps with kernels.",
        )
    if top.kind == "memcpy":
        return (
            "Copying between host and device",
            "Copy from pinned memory (pin_memory=True) without waiting (non_blocking=True), so that it overlaps with kernels; copy less,"
            " or earlier; keep on the device what is used again.",
        )
    if top.kernel_class == "collective":
        return (
            "One collective (communication between GPUs)",
            "Its time holds the waiting for the slowest rank: hold the other ranks' traces beside this one before you blame the network."
            " Then overlap it with computing, or send less.",
        )
    return "One kernel", "Look at this kernel first: nothing else can give more than the rest of the time."


def many_calls(analysis: Analysis) -> Outcome:
    """R4."""
    trace = analysis.trace
    operators = trace.rows(Kind.OP)
    if not operators.size:
        return not_applicable("the trace holds no operators")
    steps = len(analysis.steps)
    inside = operators
    if steps:
        begins = np.array([step.start_us for step in analysis.steps]) * 1000 + trace.origin
        ends = np.array([step.end_us for step in analysis.steps]) * 1000 + trace.origin
        number = np.searchsorted(begins, trace.slices.start[operators], side="right") - 1
        inside = operators[(number >= 0) & (trace.slices.start[operators] < ends[np.maximum(number, 0)])]
    names = trace.slices.name[inside]
    counts, own = np.bincount(names), np.bincount(names, trace.nesting.self_time[inside].astype(float)) / 1000
    total = np.bincount(names, trace.slices.duration[inside].astype(float)) / 1000
    each = [
        code
        for code in np.flatnonzero(counts >= MANY_CALLS * max(steps, 1)).tolist()
        if total[code] / counts[code] <= SHORT_US and not STEP.fullmatch(trace.slices.names[code])
    ]
    if not each:
        most = int(np.argmax(counts)) if counts.size else -1
        return quiet(
            f"the most frequent, {trace.slices.names[most]}, is called {_often(int(counts[most]), steps)}"
            if most >= 0
            else "no operator was called within a step"
        )
    each.sort(key=lambda code: -own[code])
    spent = float(own[each].sum())
    if analysis.devices:
        # Beside a GPU only what keeps it waiting can be had back.
        spent = min(spent, max(device.idle_of(*LAUNCHING) for device in analysis.devices))
        if spent < WORTH * recorded_us(analysis):
            return quiet(
                f"{len(each)} operators are called often, and keep no GPU waiting: {us(spent)} of its idle time at most"
            )
    top = trace.slices.names[each[0]]
    return fired(
        f"{len(each)} operators are each called at least {_often(MANY_CALLS * max(steps, 1), steps)}, for a few microseconds"
        if len(each) > 1
        else f"{top} is called {_often(int(counts[each[0]]), steps)}, for a few microseconds each",
        *(
            Evidence(
                f"{trace.slices.names[code]}: {counts[code]:,} calls, {_often(int(counts[code]), steps)},"
                f" {us(total[code] / counts[code])} each"
            )
            for code in each[:5]
        ),
        why=f"at least {MANY_CALLS} calls a step (in the recording, where it has no steps) of at most {us(SHORT_US)} each",
        advice="Fuse or batch them: foreach variants and larger batches make fewer calls."
        + unless_compiled(analysis, " torch.compile fuses elementwise operators."),
        at_stake_us=spent,
    )


def _often(count: int, steps: int) -> str:
    """Calls a step, which are known only where steps were recorded."""
    return f"{figures(count / steps, 4)} times a step" if steps else f"{count:,} times in this recording without steps"


def children(analysis: Analysis) -> Outcome:
    """R5."""
    total = analysis.host.self_cpu_total_us - analysis.host.synchronize_us
    found = [
        stats
        for stats in analysis.operators
        if stats.kind != "runtime"
        and not stats.name.startswith("ProfilerStep#")
        and stats.total_us >= CHILDREN * stats.self_us
        and stats.total_us >= HOST_SHARE * total
    ]
    if not analysis.operators:
        return not_applicable("the trace holds no operators")
    if not found:
        return quiet(
            f"no operator spends {CHILDREN:g} times its own time, and {share(HOST_SHARE)} of the host's, in what it calls"
        )
    top = max(found, key=lambda stats: stats.total_us - stats.self_us)
    return fired(
        f"{short(top.name)} spends its time in what it calls: look at its children",
        Evidence(f"total {us(top.total_us)}, self {us(top.self_us)}, {top.count:,} calls"),
        why=f"its total time is {factor(top.total_us / max(top.self_us, 1e-3))} times its self time",
        advice="Follow the dispatch chain down to the first row whose self time is large; rank by self time, never add totals.",
    )


OVERVIEW_RULES = (
    Rule(
        id="R1",
        title="CPU time far above GPU time: overhead-bound",
        family="overview",
        severity="problem",
        formula=(
            "busy of the GPU (union of its slices) / time that counts: the window (first host slice to the last end) less start-up,"
            " captures of graphs, the profiler's own work, and what nothing explains; idle time in dispatching operators, the optimizer's"
            " step, launches under way and a cold first step"
        ),
        threshold="busy below 50 %, and dispatching and launching the largest cause of the rest",
        refuted_by="a recording without the profiler in which the step takes no longer than the GPU's busy time",
        explanation=(
            "The GPU can only work on what the host has launched. Dispatching and launching an operator costs the host 5 to 20 us whatever"
            " the size of the work, so small work leaves the GPU waiting. The table shows it as a CPU total far above the CUDA total,"
            " the trace as a nearly empty GPU lane. Making the kernels faster changes nothing here; fewer or larger launches do."
        ),
        check=overhead_bound,
        needs=frozenset({"idle", "window", "cause"}),
    ),
    Rule(
        id="R2",
        title="The GPU works nearly all the time: bound by the GPU",
        family="overview",
        severity="explanation",
        formula="busy of the GPU (union of its slices) / time that counts (see R1)",
        threshold=f"at least {share(BUSY)}, with at least 1 ms of GPU work",
        refuted_by="the same step taking as long with kernels that do half of the work",
        explanation=(
            "When the kernels are long, the host runs ahead, fills the queue and waits in cudaDeviceSynchronize. In the profiler's"
            " table of a program with one thread, CPU and CUDA totals are then about the same, because the host's time is mostly"
            " waiting. Now the kernels are what to work on: in matrix products arithmetic is the limit (compute-bound), in"
            " elementwise work memory traffic is (memory-bound)."
        ),
        check=device_bound,
        needs=frozenset({"idle", "window"}),
    ),
    Rule(
        id="R3",
        title="One kernel dominates the GPU's time",
        family="overview",
        severity="hint",
        formula="total time of a kernel's name / total time of all GPU slices",
        threshold="at least 50 %",
        refuted_by="a longer recording with other work in it",
        explanation=(
            "Sort the profiler's table by device time: if the first row has most of it, that row is the program. Whatever you do to the"
            " other rows cannot give more than their share."
        ),
        check=hotspot,
    ),
    Rule(
        id="R4",
        title="A huge number of calls",
        family="overview",
        severity="hint",
        formula="calls of an operator within steps / steps; total time / calls",
        threshold="at least 100 calls a step of at most 20 us each",
        refuted_by="the calls' total self time being negligible beside the step",
        explanation=(
            "Each call of an operator costs the host some microseconds of dispatch, whatever it does. Hundreds of tiny calls cost more"
            " than the work in them. Fuse them (torch.compile), batch them, or use variants that take lists (foreach)."
        ),
        check=many_calls,
    ),
    Rule(
        id="R5",
        title="Total time far above self time: look at the children",
        family="overview",
        severity="explanation",
        formula="total time / self time of an operator or annotation",
        threshold="at least 3, with at least 10 % of the host's time (waiting left out)",
        refuted_by="children that do not add up to the difference",
        explanation=(
            "Self time is spent in the operator's own code, total time also in everything it calls. A large total with a small self time"
            " means the row is a container. Totals of nested rows overlap: they must never be added up."
        ),
        check=children,
    ),
)
