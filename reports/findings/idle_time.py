"""Where the GPU's idle time went, by cause."""

from __future__ import annotations

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.overview import busiest, recoverable
from reports.findings.words import no_gpu
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from reports.words import share, us


def idle(analysis: Analysis) -> Outcome:
    """Where idle time went."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, _ = busiest(analysis)
    lost = device.window_us - device.busy_us
    parts = sorted(
        ((Cause(cause), time) for cause, time in device.idle_us.items() if time > 0), key=lambda part: -part[1]
    )
    if device.idle_of_window < 0.1 or not parts:
        return quiet(f"GPU {device.device} is idle for {share(device.idle_of_window)} of its window")
    cause, time = parts[0]
    longest = {
        cause: max(
            (number for number, found in enumerate(device.idle.cause) if found is cause),
            key=lambda number: int(device.idle.end[number] - device.idle.start[number]),
        )
        for cause, _ in parts
    }
    origin = analysis.trace.origin
    return fired(
        f"GPU {device.device} is idle for {us(lost)} of {us(device.window_us)}, {share(time / lost)} of that {WORDS[cause]}",
        *(
            Evidence(
                f"{WORDS[found]}: {us(part)} ({share(part / lost)} of the idle time)",
                (int(device.idle.start[longest[found]]) - origin) / 1000,
                (int(device.idle.end[longest[found]]) - origin) / 1000,
            )
            for found, part in parts
        ),
        why=(
            f"idle of the window {share(device.idle_of_window)}; of the span between first and last kernel only"
            f" {share(device.idle_of_span)}"
        ),
        advice=ADVICE[cause],
        at_stake_us=recoverable(device),
    )


WORDS = {
    Cause.HOST: "because the host had launched nothing, or had not returned from a launch",
    Cause.COLD: "in the cold first step, before its launches",
    Cause.LATENCY: "while launches were under way",
    Cause.QUEUED: "between kernels that were queued already",
    Cause.WAIT: "waiting for another stream",
    Cause.PROFILER: "made by the profiler itself",
    Cause.UNKNOWN: "launched and not begun, for reasons the trace does not show",
}
ADVICE = {
    Cause.HOST: "Get the host out of the way: fewer and larger launches, torch.compile, CUDA graphs, data loading in the background.",
    Cause.COLD: "Warm up before you measure: the first step loads modules, picks algorithms and compiles.",
    Cause.LATENCY: "Queue more work ahead of the GPU, or launch it as a graph.",
    Cause.QUEUED: "Fewer, longer kernels: each pass from one to the next costs the GPU about a microsecond.",
    Cause.WAIT: "Look at what the streams wait for: an event in the wrong place makes parallel work serial.",
    Cause.PROFILER: "This gap is not there without the profiler: do not optimise it.",
    Cause.UNKNOWN: (
        "Before the first kernel this is usually the profiler's start, module loading or the lane's offset: warm up before recording."
        " Between kernels, look for other processes on the GPU."
    ),
}


IDLE_RULES = (
    Rule(
        id="idle",
        title="Where the GPU's idle time went",
        family="overview",
        severity="problem",
        formula="window - busy, every gap split by what was recorded in it; the parts sum to the whole",
        threshold="at least 10 % of the window",
        refuted_by="a recording without the profiler whose gaps have other lengths",
        explanation=(
            "An empty stretch of the GPU's lane has a cause, and each asks for something else: the host had not launched anything, the"
            " launch was on its way, a stream waited for another, the profiler itself was busy, or the first step was still warming up."
            " Tools that count only from the first to the last kernel never see the largest gap: the one before the first kernel."
        ),
        check=idle,
        needs=frozenset({"idle", "window", "delay"}),
    ),
)
