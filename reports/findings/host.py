"""The CPU lane: cold start (R6, R7), and waiting at the end (R10)."""

from __future__ import annotations

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.words import moment, no_gpu
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Call
from reports.trace.steps import BEYOND_ALL, COLD_LEAST_US, COLD_RATIO
from reports.words import factor, share, short, us

GAP_LEAST_US = 50.0
GAP_RATIO = 5.0
GAP_SHARE = 0.2
LONG_WAIT = 1 / 3
WORKING = 0.5
AT_THE_END = 0.05
"""A wait is at the end of the recording when the host goes on for at most this share of the window."""


def wide_first_step(analysis: Analysis) -> Outcome:
    """R6."""
    steps = analysis.steps
    if len(steps) < 2:
        return not_applicable(f"{len(steps)} recorded steps: at least two are needed to compare")
    rest = float(np.median([step.host_us for step in steps[1:]]))
    if rest <= 0:
        return not_applicable("the steps after the first have no recorded length: nothing to compare it with")
    numbers = f"step #{steps[0].number} takes {us(steps[0].host_us)} on the host, the others typically {us(rest)}"
    if not analysis.cold_first_step:
        return quiet(numbers)
    return fired(
        f"The first step is slower than all others: {us(steps[0].host_us)} against {us(rest)}",
        Evidence(numbers, steps[0].start_us, steps[0].end_us),
        why=f"{factor(steps[0].host_us / rest)} times the median of the others",
        advice="Usually one-time work: run the step a few times before the recording, and leave the first step out of every average.",
        at_stake_us=steps[0].host_us - rest,
    )


def gap_before_first_operator(analysis: Analysis) -> Outcome:
    """R7."""
    gaps = [(step.gap_us, step) for step in analysis.steps if step.gap_us is not None and step.annotation]
    if not gaps:
        return not_applicable("no step holds an annotation with operators in it")
    values = [gap for gap, _ in gaps]
    most, step = max(gaps, key=lambda item: item[0])
    others = float(np.median([gap for gap, at in gaps if at is not step])) if len(gaps) > 1 else None
    listed = ", ".join(f"#{at.number} {us(gap)}" for gap, at in gaps[:5])
    stands_out = most >= GAP_RATIO * others if others is not None else most >= GAP_SHARE * step.host_us
    if most < GAP_LEAST_US or not stands_out:
        return quiet(
            f"from {gaps[0][1].annotation} to {gaps[0][1].first_op}: {listed}; median {us(float(np.median(values)))}"
        )
    return fired(
        f"{us(most)} pass in step #{step.number} from the start of {short(step.annotation, 60)} to {short(step.first_op, 60)}, the first"
        " operator after it",
        Evidence(f"by step: {listed}", step.start_us, step.end_us),
        why=f"the others take {us(others)}" if others is not None else f"{share(most / step.host_us)} of the only step",
        advice="One-time work (workspace, library handles, lazy modules): warm up before recording. Recurring gaps are Python's own time.",
        at_stake_us=most - (others or 0.0),
    )


def long_synchronize(analysis: Analysis) -> Outcome:
    """R10."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    waits = trace.host_rows[trace.call[trace.host_rows] == Call.SYNCHRONIZE]
    if not waits.size:
        return not_applicable("no synchronising call was recorded")
    last = int(waits[np.argmax(trace.end[waits])])
    start, end = int(trace.slices.start[last]), int(trace.end[last])
    window = max(device.window_us for device in analysis.devices)
    after = (int(trace.end[trace.host_rows].max()) - end) / 1000
    length = (end - start) / 1000
    rows = trace.gpu_rows
    busy = intervals.union(trace.slices.start[rows], trace.end[rows])
    working = int(intervals.covered(*busy, np.array([start]), np.array([end]))[0]) / max(end - start, 1)
    numbers = f"the last {trace.name(last)} takes {us(length)}, the GPU works in {us(working * length)} ({share(working)}) of it"
    if after > AT_THE_END * window:
        return quiet(f"{numbers}; the host works on for {us(after)} after it, so it is no wait at the end")
    if length < LONG_WAIT * window or working > WORKING:
        return quiet(numbers)
    return fired(
        f"The recording ends with {us(length)} of {trace.name(last)}, in which the GPU has next to nothing to do",
        Evidence(numbers, *moment(trace, last)),
        why=f"{share(length / window)} of the window, the GPU working in {share(working)} of it",
        advice="The profiler waits here to collect its records: leave this call out when you judge the program.",
    )


HOST_RULES = (
    Rule(
        id="R6",
        title="The first step is much wider",
        family="host",
        severity="hint",
        formula="host time of the first recorded step / median of the others",
        threshold=f"above {COLD_RATIO:g}, and {COLD_LEAST_US:g} us more; {BEYOND_ALL:g} times each of the others",
        refuted_by="a recording after more warm-up steps with the same wide first step",
        explanation=(
            "What happens only once happens in the first step: modules are loaded, workspaces allocated, algorithms chosen, code compiled."
            " If that step is recorded it looks like the program's own cost. A warm-up before the recording moves this cost, it does not"
            " remove it: report it apart."
        ),
        check=wide_first_step,
    ),
    Rule(
        id="R7",
        title="A big gap between an annotation and its first operator",
        family="host",
        severity="hint",
        formula="start of the step's first operator - start of the annotation around or before it, per step",
        threshold=f"at least {GAP_LEAST_US:g} us and {GAP_RATIO:g} times the other steps' (a fifth of the step, where there is one only)",
        refuted_by="Python frames (with_stack=True) that show work of your own in the gap",
        explanation=(
            "record_function marks where your code begins; the first aten operator is where PyTorch begins to work. In between lies Python,"
            " and, once, everything that is set up lazily. A gap in the first step alone is a cold start; one in"
            " every step is your own code."
        ),
        check=gap_before_first_operator,
    ),
    Rule(
        id="R10",
        title="A long wait at the end of the recording",
        family="host",
        severity="explanation",
        formula="length of the last synchronising call / window; busy time of the GPU in it / its length",
        threshold=(
            f"a third of the window; the GPU works in at most half of the wait, and the host for at most {share(AT_THE_END)} of the"
            " window after it"
        ),
        refuted_by="GPU work in that time that the trace does not hold",
        explanation=(
            "When a recording ends, the profiler calls cudaDeviceSynchronize and waits for its own records. If"
            " the GPU had work, the wait is"
            " for that work. If it had none, the wait is the profiler's alone, and it swells the CPU total of the table."
        ),
        check=long_synchronize,
        needs=frozenset({"window"}),
    ),
)
