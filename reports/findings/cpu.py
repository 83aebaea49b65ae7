"""Rules for recordings of the CPU alone: fused kernels, what is left unfused, hot operators, gaps, threads, packed weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, Severity, fired, not_applicable, quiet
from reports.findings.seen import (
    FUSED_CPP,
    SHOWN,
    Rows,
    compiled_rows,
    exactly,
    is_compiled,
    moment,
    rows_named,
    self_us,
    times,
    total_us,
    under,
    us,
)
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.operators import METADATA_ONLY, OperatorStats
from reports.trace.read import Trace
from reports.trace.steps import step_rows

ELEMENTWISE = frozenset(
    f"aten::{name}{suffix}"
    for name in ["add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "pow", "square", "reciprocal", "sin", "cos", "tanh", "sigmoid", "relu", "gelu", "silu", "elu", "hardtanh", "hardswish", "leaky_relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "where", "masked_fill", "addcmul", "addcdiv", "lerp", "sign", "erf", "floor", "ceil", "round", "threshold", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"]
    for suffix in ("", "_")
)
"""Operators that read and write each element once: what Inductor fuses."""

PACKED = ("mkl::_mkl_linear", "mkldnn::_linear_pointwise", "mkldnn::_convolution_pointwise")
"""Operators whose weights were laid out for the library once, while freezing."""

PLAIN = ("aten::addmm", "aten::mm", "aten::linear")

HOT = 0.5
"""Self time of one operator that makes it the hotspot: half of everything, so that no other can be longer."""

GAPS_SHARE = 0.2
"""Share of the steps outside operators from which Python and dispatch are worth a look ..."""
GAPS_LEAST_US = 10.0
"""... and the least per step: a step always has some microseconds before its first operator."""

MANY_CALLS = 100
"""Calls per step (per recording, where there are no steps) ..."""
SHORT_US = 20.0
"""... each shorter than this: the cost of a call is then a good part of it ..."""
MANY_SHARE = 0.05
"""... and together at least this share of the time, below which nothing is won."""

LEFT_SHARE = 0.01
"""Share of the time from which an elementwise operator in compiled code is named: below, it is a scalar or an index."""

WITH_GPU = "the recording holds GPU work: the rules for GPUs apply"
NO_OPERATORS = "the trace holds no operators: the profiler did not record the CPU's activity"


def _cpu_only(check: Callable[[Analysis], Outcome]) -> Callable[[Analysis], Outcome]:
    def asked(analysis: Analysis) -> Outcome:
        if analysis.has_gpu:
            return not_applicable(WITH_GPU)
        if analysis.host.operations == 0:
            return not_applicable(NO_OPERATORS)
        return check(analysis)

    return asked


def _host_us(analysis: Analysis) -> float:
    return analysis.host.self_cpu_total_us


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _by_name(trace: Trace, rows: Rows) -> list[tuple[str, Rows]]:
    """Rows by name, the largest self time first."""
    codes = trace.slices.name[rows]
    found = [(trace.slices.names[code], rows[codes == code]) for code in np.unique(codes).tolist()]
    return sorted(found, key=lambda entry: (-self_us(trace, entry[1]), entry[0]))


@dataclass(frozen=True)
class Fused:
    """Inductor's C++ kernels: self time in us, share of the host's, calls, distinct names."""

    self_us: float
    share: float
    calls: int
    kernels: int
    rows: Rows


def fused(analysis: Analysis) -> Fused:
    """What ran in `cpp_fused_*` kernels; they never nest, so their own time is their self time."""
    trace = analysis.trace
    rows = rows_named(trace, FUSED_CPP.fullmatch)
    spent = self_us(trace, rows)
    names = int(np.unique(trace.slices.name[rows]).size)
    return Fused(spent, _share(spent, _host_us(analysis)), int(rows.size), names, rows)


def fused_share(analysis: Analysis) -> Outcome:
    """How much of the time runs in kernels that Inductor wrote."""
    found = fused(analysis)
    if not found.calls and not is_compiled(analysis):
        return not_applicable("the trace holds no compiled region, so there are no fused kernels to expect")
    if not found.calls:
        return quiet(
            "compiled code ran, and no cpp_fused kernel is recorded: nothing was fused, or config.cpp.enable_kernel_profile was not set"
            " before the first call (setting it later changes nothing)"
        )
    trace = analysis.trace
    evidence = [
        moment(
            trace, rows[0], f"{name}: {times(int(rows.size))}, {us(self_us(trace, rows))} in all; the first call is at"
        )
        for name, rows in _by_name(trace, found.rows)[:SHOWN]
    ]
    return fired(
        f"{found.kernels} fused kernel{'s' if found.kernels > 1 else ''} written by Inductor take {found.share:.1%} of the time"
        f" ({us(found.self_us)} in {times(found.calls)}).",
        *evidence,
        why=f"self time of cpp_fused_* {us(found.self_us)} of {us(_host_us(analysis))}",
    )


def elementwise_left(analysis: Analysis) -> Outcome:
    """Elementwise operators that still run one by one inside compiled code."""
    if not is_compiled(analysis):
        return not_applicable("the trace holds no compiled region")
    trace = analysis.trace
    rows = rows_named(trace, ELEMENTWISE.__contains__, Kind.OP)
    rows = rows[under(trace, rows, compiled_rows(trace)) >= 0]
    # One that lies in another operator (relu calls clamp_min; addmm may copy) is that one's way of working.
    rows = rows[under(trace, rows, rows_named(trace, lambda name: name.startswith("aten::"), Kind.OP)) < 0]
    whole = _host_us(analysis)
    found = [(name, of) for name, of in _by_name(trace, rows) if _share(total_us(trace, of), whole) >= LEFT_SHARE]
    if not found:
        return quiet(
            f"{rows.size} elementwise operators in compiled code, none of them with {LEFT_SHARE:.0%} of the time: all were fused"
        )
    spent = sum(total_us(trace, of) for _, of in found)
    return fired(
        f"{len(found)} elementwise operator{'s' if len(found) > 1 else ''} in compiled code still run one by one:"
        f" {', '.join(name for name, _ in found[:SHOWN])} ({us(spent)}, {_share(spent, whole):.1%} of the time).",
        *(
            moment(trace, of[0], f"{name}: {times(int(of.size))}, {us(total_us(trace, of))} in all")
            for name, of in found[:SHOWN]
        ),
        why=f"elementwise aten operators that lie in a compiled region and in no other operator; those from {LEFT_SHARE:.0%} of the time",
        advice="Look with TORCH_LOGS=fusion at why they were not fused: a graph break, an operator with a fallback, or a view between"
        " them.",
        at_stake_us=spent,
    )


def _work(analysis: Analysis) -> list[OperatorStats]:
    return [stats for stats in analysis.operators if stats.kind == "operator"]


def hot_operator(analysis: Analysis) -> Outcome:
    """R3's twin: the operator that takes most, by self time."""
    whole, ranked = _host_us(analysis), _work(analysis)
    top = ranked[0]
    listed = "; ".join(
        f"{stats.name} {_share(stats.self_us, whole):.1%} ({times(stats.count)})" for stats in ranked[:5]
    )
    if _share(top.self_us, whole) < HOT:
        return quiet(f"no operator has {HOT:.0%} of the time by itself; the largest by self time: {listed}")
    trace = analysis.trace
    rows = rows_named(trace, exactly(top.name), Kind.OP)
    return fired(
        f"{top.name} is the hotspot: {_share(top.self_us, whole):.1%} of the time is its own ({us(top.self_us)} in"
        f" {times(top.count)}).",
        moment(
            trace,
            max(rows.tolist(), key=lambda row: int(trace.slices.duration[row])),
            f"the longest call of {top.name}; by self time: {listed}",
        ),
        why=f"self time {us(top.self_us)} of {us(whole)}; totals are nested and are not added",
        advice=f"Start with {top.name}: another {top.name} cannot be reached by changing anything else. Twice as fast, the whole would take"
        f" {1 - _share(top.self_us, whole) / 2:.0%} of its time.",
        at_stake_us=top.self_us,
    )


@dataclass(frozen=True)
class StepGaps:
    """Time of each step (us, in order) on its own thread outside every operator, and the step's length."""

    gap_us: tuple[float, ...]
    step_us: tuple[float, ...]
    longest: tuple[int, int]
    """Start and end of the longest gap, in ns of the trace's clock."""


def step_gaps(analysis: Analysis) -> StepGaps:
    """What each step spends in no operator: Python, record_function, and the way into the dispatcher."""
    trace = analysis.trace
    slices, operators = trace.slices, trace.rows(Kind.OP, Kind.RUNTIME)
    steps = np.array(step_rows(trace), np.intp)
    # Old writers record steps as operators; a step is no work of its own.
    operators = operators[~np.isin(operators, steps)]
    outside, lengths, longest = [], [], (0, 0)
    for row in steps.tolist():
        begin, end = int(slices.start[row]), int(trace.end[row])
        inside = operators[
            (slices.lane[operators] == slices.lane[row])
            & (slices.start[operators] >= begin)
            & (slices.start[operators] < end)
        ]
        starts, ends = intervals.union(slices.start[inside], np.minimum(trace.end[inside], end))
        outside.append((end - begin - int((ends - starts).sum())) / 1000)
        lengths.append((end - begin) / 1000)
        edges = np.concatenate(([begin], np.column_stack((starts, ends)).ravel(), [end]))
        gaps = edges[1::2] - edges[0::2]
        widest = int(np.argmax(gaps))
        if int(gaps[widest]) > longest[1] - longest[0]:
            longest = int(edges[2 * widest]), int(edges[2 * widest + 1])
    return StepGaps(tuple(outside), tuple(lengths), longest)


def gaps_between_operators(analysis: Analysis) -> Outcome:
    """Time in which a step runs no operator."""
    found = step_gaps(analysis)
    if not found.gap_us:
        return not_applicable("the recording has no steps (ProfilerStep): call prof.step() once an iteration")
    warm = slice(1, None) if analysis.cold_first_step and len(found.gap_us) > 1 else slice(None)
    gaps, lengths = np.array(found.gap_us[warm]), np.array(found.step_us[warm])
    share, typical = _share(float(gaps.sum()), float(lengths.sum())), float(np.median(gaps))
    numbers = (
        f"{us(typical)} of a step outside operators (median of {gaps.size} steps), {share:.1%} of the steps' time"
        + ("; the cold first step is left out" if warm.start else "")
    )
    if share < GAPS_SHARE or typical < GAPS_LEAST_US:
        return quiet(f"{numbers}: below {GAPS_SHARE:.0%} or {us(GAPS_LEAST_US)}")
    origin = analysis.trace.origin
    begin, end = ((moment_ns - origin) / 1000 for moment_ns in found.longest)
    return fired(
        f"{share:.1%} of the steps' time runs no operator: it goes to Python, to record_function and to the way between operators.",
        Evidence(f"the longest gap, {us(end - begin)}; {numbers}", begin, end),
        why=f"{numbers}; the union of the operators on the step's thread is taken off the step",
        advice="Do more work per call (larger batch, fewer small operators), compile the step, or move Python work out of the loop. The"
        " profiler itself adds about a microsecond per slice.",
        at_stake_us=float(gaps.sum()),
    )


def threads_with_operators(analysis: Analysis) -> Outcome:
    """Which threads run operators."""
    trace = analysis.trace
    rows = trace.rows(Kind.OP)
    lanes = [(lane, rows[trace.slices.lane[rows] == lane]) for lane in np.unique(trace.slices.lane[rows]).tolist()]
    busy = sorted(
        ((intervals.length(trace.slices.start[of], trace.end[of]) / 1000, lane, of) for lane, of in lanes),
        key=lambda entry: (-entry[0], entry[1]),
    )
    limits = "worker threads of OpenMP and MKL leave no slices, so this does not tell how many cores worked"
    if len(busy) == 1:
        return quiet(f"one thread runs all {rows.size} operators ({us(busy[0][0])}); {limits}")
    return fired(
        f"{len(busy)} threads run operators; the busiest for {us(busy[0][0])}, the next for {us(busy[1][0])}.",
        *(
            moment(
                trace,
                of[np.argmin(trace.slices.start[of])],
                f"thread {trace.slices.lanes[lane][1]}: {of.size} operators, {us(spent)} covered; its first is"
                f" {trace.name(of[np.argmin(trace.slices.start[of])])}",
            )
            for spent, lane, of in busy[:SHOWN]
        ),
        why=f"threads with at least one operator; {limits}",
    )


def packed_linear(analysis: Analysis) -> Outcome:
    """Linear layers with packed weights against those without."""
    trace = analysis.trace
    packed = rows_named(trace, exactly(*PACKED), Kind.OP)
    products = rows_named(trace, exactly("aten::addmm", "aten::mm"), Kind.OP)
    if not packed.size and not products.size:
        return not_applicable("the trace holds no matrix product of a layer")
    if not packed.size and not is_compiled(analysis):
        return not_applicable(
            "weights are packed by torch.compile with freezing, and the trace holds no compiled region"
        )
    plain = f"{products.size} aten::addmm and aten::mm of {us(_mean(trace, products))} each" if products.size else ""
    if not packed.size:
        return quiet(
            f"compiled code ran with {plain}, none with packed weights: freezing is off, or a call with gradients enabled lost it"
        )
    numbers = f"{packed.size} calls with packed weights of {us(_mean(trace, packed))} each" + (
        f", {plain}" if plain else ""
    )
    return fired(
        f"Linear layers run with packed weights: {numbers}.",
        *(
            moment(trace, of[0], f"{name}: {times(int(of.size))}, {us(self_us(trace, of))} of self time")
            for name, of in _by_name(trace, packed)
        ),
        why=f"{packed.size} of {packed.size + products.size} matrix products are operators of MKL or oneDNN with prepared weights;"
        " compare their number with aten::linear of the eager trace",
    )


def _mean(trace: Trace, rows: Rows) -> float:
    return total_us(trace, rows) / max(rows.size, 1)


def many_short_calls(analysis: Analysis) -> Outcome:
    """R4's twin: an operator that is called very often for very little."""
    steps = max(len(analysis.steps), 1)
    unit = "step" if analysis.steps else "recording"
    whole = _host_us(analysis)
    found = [
        stats
        for stats in _work(analysis)
        if stats.count / steps >= MANY_CALLS
        and stats.self_us / stats.count < SHORT_US
        and _share(stats.self_us, whole) >= MANY_SHARE
        and stats.name not in METADATA_ONLY
    ]
    most = max(_work(analysis), key=lambda stats: stats.count)
    if not found:
        return quiet(
            f"no operator is called {MANY_CALLS} times a {unit} for less than {us(SHORT_US)} each and {MANY_SHARE:.0%} of the time; the"
            f" most frequent is {most.name}, {most.count / steps:.3g} times a {unit}"
        )
    spent = sum(stats.self_us for stats in found)
    return fired(
        f"{found[0].name} is called {found[0].count / steps:.0f} times a {unit} for {us(found[0].self_us / found[0].count)} each"
        + (f", and {len(found) - 1} more like it." if len(found) > 1 else "."),
        *(
            moment(
                analysis.trace,
                rows_named(analysis.trace, exactly(stats.name), Kind.OP)[0],
                f"{stats.name}: {times(stats.count)}, {us(stats.self_us)} of self time,"
                f" {us(stats.self_us / stats.count)} each",
            )
            for stats in found[:SHOWN]
        ),
        why=f"{us(spent)} of {us(whole)} in calls shorter than {us(SHORT_US)}",
        advice="Batch the calls (stack the tensors, use the foreach or batched form), or let torch.compile fuse them.",
        at_stake_us=spent,
    )


def cold_first_step(analysis: Analysis) -> Outcome:
    """R6's twin: the first step takes much longer than the others."""
    if len(analysis.steps) < 2:
        return not_applicable("fewer than two steps are recorded: there is nothing to compare the first with")
    rest = float(np.median([step.host_us for step in analysis.steps[1:]]))
    first = analysis.steps[0]
    numbers = f"first step {us(first.host_us)}, median of the {len(analysis.steps) - 1} others {us(rest)}"
    if not analysis.cold_first_step:
        return quiet(numbers)
    return fired(
        f"The first recorded step takes {first.host_us / rest if rest else float('inf'):.1f} times as long as the others.",
        Evidence(f"step {first.number}: {us(first.host_us)}", first.start_us, first.end_us),
        why=numbers,
        advice="Warm up before recording (the loop once before the profiler, or schedule(warmup=...)), and leave the first step out of"
        " every mean.",
        at_stake_us=first.host_us - rest,
    )


def _rule(
    identity: str,
    title: str,
    severity: Severity,
    check: Callable[[Analysis], Outcome],
    formula: str,
    threshold: str,
    refuted_by: str,
    explanation: str,
) -> Rule:
    return Rule(
        identity, title, "cpu", severity, formula, threshold, refuted_by, explanation, _cpu_only(check), frozenset()
    )


CPU_RULES: tuple[Rule, ...] = (
    _rule(
        "cpu-hotspot",
        "The operator that takes most",
        "problem",
        hot_operator,
        "self time of the operator / self time of everything",
        f"{HOT:.0%}",
        "a run in which this operator is twice as fast and the step is not shorter",
        "Self time is what an operator spends itself, without the operators that it calls. Sorted by it, the first one is where a change"
        " pays. Do not add the 'total' column: a matmul's total holds its mm's total, so the same time would count twice. If one"
        " operator has more than half of everything, no other change can win as much. If none has, look at how many there are.",
    ),
    _rule(
        "cpu-gaps",
        "Time between the operators",
        "problem",
        gaps_between_operators,
        "sum over steps of (step - union of the operators on its thread) / sum of the steps",
        f"{GAPS_SHARE:.0%} of the time and {us(GAPS_LEAST_US)} a step (median)",
        "the same step without the profiler taking as long per operator",
        "Between two operators the CPU runs Python: your loop, the module's forward, the way into PyTorch. With small tensors this can"
        " take longer than the operators. A wider batch or fewer, larger operators give it less weight; compiled code runs without"
        " Python in between. The profiler adds a little to each operator, so the true share is somewhat smaller.",
    ),
    _rule(
        "cpu-many-calls",
        "Many short calls of one operator",
        "problem",
        many_short_calls,
        "calls per step, mean self time, share of the host's time",
        f"{MANY_CALLS} calls a step, below {us(SHORT_US)} each, {MANY_SHARE:.0%} of the time together",
        "a batched form of the same work that is not faster",
        "Each call of an operator costs about a microsecond before any arithmetic: finding the right kernel, making the result. An"
        " operator that is called hundreds of times for tiny work mostly pays that price. Put the small tensors together and call it"
        " once, or let torch.compile fuse the chain. Views do not count here; they have a rule of their own.",
    ),
    _rule(
        "cpu-cold-first-step",
        "A cold first step",
        "hint",
        cold_first_step,
        "host time of the first recorded step / median of the others",
        "1.5 times and 20 us more (the same as for R6)",
        "a recording after warm-up whose first step stands out too",
        "The first time through, memory is allocated, libraries set themselves up and caches are empty. That is paid once. A mean over a"
        " few steps with the cold one in it tells nothing about the long run. Run the loop a few times before you record, and look at"
        " the later steps.",
    ),
    _rule(
        "cpu-fused-share",
        "Time in fused kernels",
        "explanation",
        fused_share,
        "self time of cpp_fused_* slices / self time of everything",
        "at least one such slice",
        "the same source run in eager mode showing as few passes over memory",
        "torch.compile writes C++ for chains of elementwise work, so that a chain reads and writes memory once instead of once per"
        " operator. The kernels are named after what went into them: cpp_fused_add_mul_0 holds an add and a mul. They appear here only if"
        " config.cpp.enable_kernel_profile is set before the first call. The rest of the time is in matrix products and in getting from"
        " one to the next.",
    ),
    _rule(
        "cpu-elementwise-left",
        "Elementwise operators left in compiled code",
        "hint",
        elementwise_left,
        "elementwise aten operators that lie in a compiled region and in no other operator",
        f"{LEFT_SHARE:.0%} of the time",
        "generated code in which the operator is part of a fused kernel",
        "In compiled code you expect additions and multiplications to vanish into fused kernels. One that still shows up by its own name"
        " reads and writes its tensors by itself. Often a graph break or an operator that Inductor does not generate stands between it and"
        " its neighbours. TORCH_LOGS=graph_breaks and TORCH_LOGS=fusion say which.",
    ),
    _rule(
        "cpu-packed-linear",
        "Linear layers with packed weights",
        "explanation",
        packed_linear,
        "number and mean time of mkl::_mkl_linear and mkldnn::_linear_pointwise against aten::addmm and aten::mm",
        "at least one with packed weights",
        "the same layer unfrozen taking as long per call",
        "A matrix product on the CPU first copies the weights into blocks that fit the caches. Weights that never change can be laid out"
        " so once: freezing (torch._inductor.config.freezing) does it and calls mkl::_mkl_linear instead of aten::addmm. It holds only"
        " for inference: call under torch.no_grad with the model in eval mode. A call with gradients compiles again, without packing.",
    ),
    _rule(
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
"""Rules of a recording without a GPU."""
