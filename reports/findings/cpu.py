"""Rules for recordings of the CPU alone, about its time: hot operators, gaps, threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.cpu_only import cpu_rule, share_of, whole_us
from reports.findings.idle_time import ADVICE
from reports.findings.seen import FRAMES, SHOWN, exactly, rows_named, self_us, unless_compiled
from reports.findings.words import moment
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.gaps import Cause
from reports.trace.host_causes import data_rows
from reports.trace.operators import OperatorStats
from reports.trace.steps import STEP, step_rows
from reports.words import share, times, us

NO_WORK = "the trace holds steps and compiled frames, and no operator in them"


HOT = 0.5
"""Self time of one operator that makes it the hotspot: half of everything, so that no other can be longer."""

UNPACKED = frozenset({"aten::addmm", "aten::mm", "aten::linear", "aten::convolution"})
"""Operators that multiply by weights as they are."""

MOSTLY_DATA = 0.5
GAPS_SHARE = 0.2
"""Share of the steps outside operators from which Python and dispatch are worth a look ..."""
GAPS_LEAST_US = 10.0
"""... and the least per step: a step always has some microseconds before its first operator."""


def _work(analysis: Analysis) -> list[OperatorStats]:
    """Operators by self time; steps (old writers call them operators) and compiled code's frames are no work of their own."""
    return [
        stats
        for stats in analysis.operators
        if stats.kind == "operator" and not STEP.fullmatch(stats.name) and not FRAMES.fullmatch(stats.name)
    ]


def hot_operator(analysis: Analysis) -> Outcome:
    """R3's twin: the operator that takes most, by self time."""
    whole, ranked = whole_us(analysis), _work(analysis)
    if not ranked:
        return not_applicable(NO_WORK)
    top = ranked[0]
    listed = "; ".join(
        f"{stats.name} {share(share_of(stats.self_us, whole))} ({times(stats.count)})" for stats in ranked[:5]
    )
    if share_of(top.self_us, whole) < HOT:
        return quiet(f"no operator has {share(HOT)} of the time by itself; the largest by self time: {listed}")
    trace = analysis.trace
    rows = rows_named(trace, exactly(top.name), Kind.OP)
    return fired(
        f"{top.name} is the hotspot: {share(share_of(top.self_us, whole))} of the recorded work is its own ({us(top.self_us)} in"
        f" {top.count} call{'s' if top.count > 1 else ''}).",
        Evidence(
            f"the longest call of {top.name}; by self time: {listed}",
            *moment(trace, max(rows.tolist(), key=lambda row: int(trace.slices.duration[row]))),
        ),
        why=f"self time {us(top.self_us)} of {us(whole)}; totals are nested and are not added",
        advice=f"Start here: twice as fast, the recorded work would take {share(1 - share_of(top.self_us, whole) / 2)} of its time. Ask"
        " first whether the same work can be asked for less often, or in a smaller data type"
        + (", or with packed weights (freezing)." if top.name in UNPACKED else "."),
        at_stake_us=top.self_us,
    )


@dataclass(frozen=True)
class StepGaps:
    """Time of each step (us, in order) on its own thread outside every operator, and the step's length."""

    gap_us: tuple[float, ...]
    step_us: tuple[float, ...]
    longest: tuple[tuple[int, int], ...]
    """Start and end of each step's longest gap, in ns of the trace's clock."""


def step_gaps(analysis: Analysis) -> StepGaps:
    """What each step spends in no operator: Python, record_function, and the way into the dispatcher."""
    trace = analysis.trace
    slices, operators = trace.slices, trace.rows(Kind.OP, Kind.RUNTIME)
    steps = np.array(step_rows(trace), np.intp)
    # Old writers record steps as operators; a step is no work of its own.
    operators = operators[~np.isin(operators, steps)]
    # Sorted once: a recording may hold thousands of steps.
    operators = operators[np.lexsort((slices.start[operators], slices.lane[operators]))]
    lanes, starts_all = slices.lane[operators], slices.start[operators]
    outside, lengths, longest = [], [], []
    for row in steps.tolist():
        begin, end, lane = int(slices.start[row]), int(trace.end[row]), slices.lane[row]
        first, last = np.searchsorted(lanes, lane, "left"), np.searchsorted(lanes, lane, "right")
        low, high = first + np.searchsorted(starts_all[first:last], (begin, end), "left")
        inside = operators[low:high]
        starts, ends = intervals.union(slices.start[inside], np.minimum(trace.end[inside], end))
        outside.append((end - begin - int((ends - starts).sum())) / 1000)
        lengths.append((end - begin) / 1000)
        edges = np.concatenate(([begin], np.column_stack((starts, ends)).ravel(), [end]))
        gaps = edges[1::2] - edges[0::2]
        widest = int(np.argmax(gaps))
        longest.append((int(edges[2 * widest]), int(edges[2 * widest + 1])))
    return StepGaps(tuple(outside), tuple(lengths), tuple(longest))


def gaps_between_operators(analysis: Analysis) -> Outcome:
    """Time in which a step runs no operator."""
    found = step_gaps(analysis)
    if not found.gap_us:
        return not_applicable("the recording has no steps (ProfilerStep): call prof.step() once an iteration")
    if all(gap >= length for gap, length in zip(found.gap_us, found.step_us, strict=True)):
        return not_applicable("no operator lies on a step's own thread: its operators were not recorded")
    warm = slice(1, None) if analysis.cold_first_step and len(found.gap_us) > 1 else slice(None)
    gaps, lengths = np.array(found.gap_us[warm]), np.array(found.step_us[warm])
    part, typical = share_of(float(gaps.sum()), float(lengths.sum())), float(np.median(gaps))
    numbers = (
        f"{us(typical)} of a step outside operators (median of {gaps.size} steps), {share(part)} of the steps' time"
        + ("; the cold first step is left out" if warm.start else "")
    )
    if part < GAPS_SHARE or typical < GAPS_LEAST_US:
        return quiet(f"{numbers}: below {share(GAPS_SHARE)} or {us(GAPS_LEAST_US)}")
    origin = analysis.trace.origin
    longest = max(found.longest[warm], key=lambda gap: gap[1] - gap[0])
    begin, end = ((moment_ns - origin) / 1000 for moment_ns in longest)
    loading = self_us(analysis.trace, data_rows(analysis.trace))
    if loading >= MOSTLY_DATA * float(sum(found.gap_us)):
        return fired(
            f"{share(part)} of the steps' time runs no operator, and {share(loading / sum(found.gap_us))} of that loads or prepares data.",
            Evidence(f"the longest gap, {us(end - begin)}; {numbers}", begin, end),
            why=f"{numbers}; {us(loading)} of own time in what is named as loading or preparing data",
            advice=ADVICE[Cause.DATA].replace("Feed the GPU: more", "Use more").replace(", pin_memory", ""),
            at_stake_us=float(gaps.sum()),
        )
    return fired(
        f"{share(part)} of the steps' time runs no operator: it goes to Python, to record_function and to the way between operators.",
        Evidence(f"the longest gap, {us(end - begin)}; {numbers}", begin, end),
        why=f"{numbers}; the union of the operators on the step's thread is taken off the step",
        advice="Do more work per call (larger batch, fewer small operators)"
        + unless_compiled(analysis, ", compile the step")
        + ", or move Python work out of the loop. The profiler itself adds about a microsecond per slice.",
        at_stake_us=float(gaps.sum()),
    )


def threads_with_operators(analysis: Analysis) -> Outcome:
    """Which threads run operators."""
    trace = analysis.trace
    rows = trace.rows(Kind.OP)
    rows = rows[np.argsort(trace.slices.lane[rows], kind="stable")]
    each = np.split(rows, np.flatnonzero(np.diff(trace.slices.lane[rows])) + 1)
    busy = sorted(
        (
            (intervals.length(trace.slices.start[of], trace.end[of]) / 1000, int(trace.slices.lane[of[0]]), of)
            for of in each
        ),
        key=lambda entry: (-entry[0], entry[1]),
    )
    limits = "worker threads of OpenMP and MKL leave no slices, so this does not tell how many cores worked"
    if len(busy) == 1:
        return quiet(f"one thread runs all {rows.size} operators ({us(busy[0][0])}); {limits}")
    return fired(
        f"{len(busy)} threads run operators; the busiest for {us(busy[0][0])}, the next for {us(busy[1][0])}.",
        *(
            Evidence(
                f"thread {trace.slices.lanes[lane][1]}: {of.size} operators, {us(spent)} covered; its first is"
                f" {trace.name(of[np.argmin(trace.slices.start[of])])}",
                *moment(trace, of[np.argmin(trace.slices.start[of])]),
            )
            for spent, lane, of in busy[:SHOWN]
        ),
        why=f"threads with at least one operator; {limits}",
    )


CPU_RULES: tuple[Rule, ...] = (
    cpu_rule(
        "cpu-hotspot",
        "The operator that takes most",
        "problem",
        hot_operator,
        "self time of the operator / self time of everything",
        share(HOT),
        "a run in which this operator is twice as fast and the step is not shorter",
        "Self time is what an operator spends itself, without the operators that it calls. Sorted by it, the first one is where a change"
        " pays. Do not add the 'total' column: a matmul's total holds its mm's total, so the same time would count twice. If one"
        " operator has more than half of everything, no other change can win as much. If none has, look at how many there are.",
    ),
    cpu_rule(
        "cpu-gaps",
        "Time between the operators",
        "problem",
        gaps_between_operators,
        "sum over steps of (step - union of the operators on its thread) / sum of the steps",
        f"{share(GAPS_SHARE)} of the time and {us(GAPS_LEAST_US)} a step (median)",
        "the same step without the profiler taking as long per operator",
        "Between two operators the CPU runs Python: your loop, the module's forward, the way into PyTorch. With small tensors this can"
        " take longer than the operators. A wider batch or fewer, larger operators give it less weight; compiled code runs without"
        " Python in between. The profiler adds a little to each operator, so the true share is somewhat smaller.",
        # Gaps of whole-microsecond times are rounded one by one, and many are shorter than that.
        needs=frozenset({"sub-microsecond"}),
    ),
    cpu_rule(
        "cpu-threads",
        "Threads that run operators",
        "explanation",
        threads_with_operators,
        "threads with at least one operator, and the time their operators cover",
        "more than one",
        "a second thread that only waits",
        "PyTorch starts operators from the thread that runs your Python code, and from others for the backward pass or for loading data."
        " Each of them is a lane of its own in the trace. An operator itself may use many cores through OpenMP; those helper threads do"
        " not appear. So one lane does not mean one core. Look at the machine's utilisation or at torch.get_num_threads() for that.",
    ),
)
"""Where the time of a recording without a GPU goes. Many calls (R4) and a cold first step (R6) are asked of every recording."""
