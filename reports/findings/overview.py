"""The table's overview: what bounds the time (R1, R2), what dominates (R3), how often (R4), and where to look deeper (R5)."""

from __future__ import annotations

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.copies import device_to_device
from reports.findings.seen import host_self_us
from reports.findings.words import moment, no_gpu
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from reports.trace.kernels import KernelStats
from reports.trace.regime import BUSY, Regime
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


def _explained(device: Device) -> float:
    """How much faster at most, if the idle time that has a recorded cause of the program's were gone."""
    rest = device.window_us - recoverable(device)
    return device.window_us / rest if rest > 0 else float("inf")


def _counterfactual(found: Regime) -> str:
    return (
        f"launches that cost nothing would give at most {factor(found.free_launches)}x; kernels twice as fast at most"
        f" {factor(found.twice_as_fast_kernels)}x"
    )


HOST_MADE = (Cause.HOST, Cause.COLD, Cause.LATENCY)
HOST_LEAST = 0.5
MOSTLY = 0.5
RECORD_AGAIN = (
    "First record again, with steps of warm-up before: most of this idle time is the profiler's own, or has no recorded"
    " cause. Then: "
)


def host_made(analysis: Analysis, device: Device) -> tuple[float, float]:
    """Time in which the GPU waited for the host, in us, and its share of the time that the trace explains: the window less what the
    profiler made and what nothing recorded explains.

    Where launch times cannot be believed the causes cannot either: then the host's own time stands for it.
    """
    if "delay" in analysis.trace.withheld:
        own = min(host_self_us(analysis), device.window_us - device.busy_us)
        return own, own / (own + device.busy_us) if own else 0.0
    made = sum(device.idle_us[cause] for cause in HOST_MADE)
    told = device.window_us - device.idle_us[Cause.PROFILER] - device.idle_us[Cause.UNKNOWN]
    return made, made / told if told > 0 else 0.0


def recoverable(device: Device) -> float:
    """Idle time that the program could have back: not what the profiler made, nor what nothing recorded explains."""
    return sum(time for cause, time in device.idle_us.items() if cause not in (Cause.PROFILER, Cause.UNKNOWN))


def overhead_bound(analysis: Analysis) -> Outcome:
    """R1."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, found = busiest(analysis)
    cpu = analysis.host.self_cpu_total_us
    numbers = f"GPU {device.device} works {us(device.busy_us)} of {us(device.window_us)} ({share(found.busy_share)})"
    if found.bound != "overhead-bound":
        return quiet(f"{numbers}: {found.bound}")
    made, part = host_made(analysis, device)
    waited = f"it waited {us(made)} for the host, {share(part)} of the time that the trace explains"
    if part < HOST_LEAST:
        return quiet(f"{numbers}, but {waited}: most of the idle time has another cause (see idle)")
    return fired(
        f"Overhead-bound: the GPU is idle for {share(1 - found.busy_share)} of the recording, the host decides the time",
        Evidence(f"CPU self time {us(cpu)} (waiting for the GPU included), GPU busy {us(device.busy_us)}"),
        Evidence(numbers, device.window_start_us, device.window_start_us + device.window_us),
        Evidence(waited),
        Evidence(f"{_counterfactual(found)}; of idle time whose cause is recorded, {factor(_explained(device))}x"),
        why=f"{found.why}; {waited}",
        advice=(RECORD_AGAIN if recoverable(device) < MOSTLY * (device.window_us - device.busy_us) else "")
        + (
            "Give each launch more work (larger batches or matrices), or pay for fewer launches: torch.compile fuses, and"
            ' mode="reduce-overhead" (CUDA graphs) launches many kernels at once. Faster kernels would not help.'
        ),
        at_stake_us=recoverable(device),
    )


BOUND_WORDS = {"compute-bound": "Compute-bound", "memory-bound": "Memory-bound"}


def device_bound(analysis: Analysis) -> Outcome:
    """R2."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, found = busiest(analysis)
    cpu = analysis.host.self_cpu_total_us
    numbers = f"GPU {device.device} works {us(device.busy_us)} of {us(device.window_us)} ({share(found.busy_share)})"
    if device.busy_us < LEAST_US or found.busy_share < BUSY:
        return quiet(f"{numbers}: below {share(BUSY)}, or below {us(LEAST_US)}")
    threads = "one thread" if analysis.host.threads == 1 else f"{analysis.host.threads} threads"
    return fired(
        f"{BOUND_WORDS.get(found.bound, 'Bound by the GPU')}: the GPU works for {share(found.busy_share)} of the recording, its kernels"
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
        advice=(
            "Work on the kernels: a lower precision (bf16, TF32), better shapes, fusion of what only moves data. Removing host overhead"
            f" gives at most {factor(found.free_launches)}x."
        ),
        at_stake_us=device.busy_us / 2,
    )


def hotspot(analysis: Analysis) -> Outcome:
    """R3."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    top = analysis.kernels[0]
    numbers = (
        f"{short(top.name)}: {us(top.total_us)} in {top.count:,} calls, {share(top.share)} of GPU {top.device}'s time"
    )
    if top.share < DOMINANT:
        return quiet(f"the longest is {numbers}")
    what, advice = _kind_of_hotspot(top)
    return fired(
        f"{what} takes {share(top.share)} of the GPU's time",
        Evidence(numbers, *moment(analysis.trace, int(top.rows[0]))),
        why=f"its share is at least {share(DOMINANT)}",
        advice=advice,
        at_stake_us=top.total_us / 2,
    )


def _kind_of_hotspot(top: KernelStats) -> tuple[str, str]:
    """What to call it, and what can be done: only a kernel is made faster by a better kernel."""
    if top.kind == "memset":
        return (
            "One kind of fill",
            "Look at what clears memory, and whether it is overwritten anyway (empty in place of zeros).",
        )
    if top.kind == "memcpy" and device_to_device(top.name):
        return (
            "Copying device memory",
            "Look at what copies (clone, contiguous, cat, copy_), and whether a view or an output in place does.",
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
    steps = max(len(analysis.steps), 1)
    operators = [stats for stats in analysis.operators if stats.kind == "operator"]
    if not operators:
        return not_applicable("the trace holds no operators")
    each = [
        stats for stats in operators if stats.count / steps >= MANY_CALLS and stats.total_us / stats.count <= SHORT_US
    ]
    if not each:
        most = max(operators, key=lambda stats: stats.count)
        return quiet(f"the most frequent, {most.name}, is called {figures(most.count / steps, 4)} times a step")
    each.sort(key=lambda stats: -stats.self_us)
    return fired(
        f"{len(each)} operators are called {MANY_CALLS} times a step or more, for a few microseconds each"
        if len(each) > 1
        else f"{each[0].name} is called {figures(each[0].count / steps, 4)} times a step, for a few microseconds each",
        *(
            Evidence(
                f"{stats.name}: {stats.count:,} calls ({figures(stats.count / steps, 4)} a step), {us(stats.total_us / stats.count)} each"
            )
            for stats in each[:5]
        ),
        why=f"at least {MANY_CALLS} calls a step of at most {us(SHORT_US)} each",
        advice="Fuse or batch them: torch.compile fuses elementwise operators; foreach variants and larger batches make fewer calls.",
        at_stake_us=sum(stats.self_us for stats in each),
    )


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
            "busy of the GPU (union of its slices) / window (first host slice to the last end); time in which it waited for the host"
            " (nothing launched, a cold first step, launches under way) / window less what the profiler made or nothing explains"
        ),
        threshold="busy below 50 %, and waiting for the host at least 50 %",
        refuted_by="a recording without the profiler in which the step takes no longer than the GPU's busy time",
        explanation=(
            "The GPU can only work on what the host has launched. Launching costs the host 5 to 20 us whatever the size of the work, so"
            " small work leaves the GPU waiting. The table shows it as a CPU total far above the CUDA total, the trace as a nearly empty"
            " GPU lane. Making the kernels faster changes nothing here; fewer or larger launches do."
        ),
        check=overhead_bound,
        needs=frozenset({"idle", "window"}),
    ),
    Rule(
        id="R2",
        title="The GPU works nearly all the time: bound by the GPU",
        family="overview",
        severity="explanation",
        formula="busy of the GPU (union of its slices) / window (first host slice to the last end)",
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
        formula="calls of an operator / steps; total time / calls",
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
