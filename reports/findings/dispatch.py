"""Rules about the way of a call from Python to a kernel: the chain of operators, and what a matrix product becomes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reports.findings.contract import Evidence, Outcome, Rule, explaining, fired, not_applicable, quiet
from reports.findings.seen import (
    FRAMES,
    SHOWN,
    Rows,
    compiled_rows,
    exactly,
    host_bound,
    host_self_us,
    rows_named,
    total_us,
    under,
    unless_compiled,
)
from reports.findings.words import moment
from reports.trace.analyse import Analysis
from reports.trace.categories import ENQUEUES, Call, Kind, call_of
from reports.trace.operators import METADATA_ONLY, ChainNode
from reports.trace.read import Trace
from reports.words import share, times, us

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addbmm")
"""Operators that end in a matrix product of the vendor's library."""

SUMS = ("aten::add", "aten::add_")

METADATA_SHARE = 0.05
"""Share of the host's own time from which metadata-only operators are worth a change: below, a step's noise is larger."""
METADATA_LEAST_US = 20.0
"""... and at least this much in all: below, nothing could be measured before and after."""

NO_OPERATORS = "the trace holds no operators: the profiler did not record the CPU's activity"


def canonical_chain(analysis: Analysis) -> Outcome:
    """R17: step, annotation, operator, matrix product, launch."""
    trace = analysis.trace
    if analysis.host.operations == 0:
        return not_applicable(NO_OPERATORS)
    if not any(stats.kind == "annotation" and _users(stats.name) for stats in analysis.operators):
        return quiet("no region is annotated: put record_function around the code to find its operators in the trace")
    needs_launch = analysis.has_gpu
    found = [path for root in analysis.chains for path in _paths(root, ()) if _canonical(path, needs_launch)]
    if not found:
        return quiet(
            f"{len(analysis.chains)} annotated chains, and none goes from an annotation straight to an aten operator and on to"
            f" {'a launch' if needs_launch else 'a matrix product'}"
            + ("; compiled code's own slices stand in between" if compiled_rows(trace).size else "")
        )
    # The chain of a matrix product is the one to learn from; else the one that takes most.
    found.sort(key=lambda path: (not any(node.name in PRODUCTS for node in path), -path[-1].total_us))
    evidence = []
    for path in found[:SHOWN]:
        words = " → ".join(node.name for node in path)
        row = _first(trace, path)
        text = f"{words}, {times(path[-1].count)}"
        evidence.append(Evidence(text, *moment(trace, row)))
    longest = " → ".join(node.name for node in found[0])
    step = (
        "" if any(_step(path[0].name) for path in found) else " (no ProfilerStep above: the recording has no schedule)"
    )
    return fired(
        f"Calls take the usual way from the annotated code to the {'GPU' if needs_launch else 'kernel'}: {longest}{step}.",
        *evidence,
        why=f"{len(found)} different chains of annotation, operator and"
        f" {'launch' if needs_launch else 'matrix product'} were found by nesting in time",
    )


def _users(name: str) -> bool:
    """Whether an annotation is the user's, or a library's for the user: no step, and no frame of compiled code."""
    return not _step(name) and not FRAMES.fullmatch(name)


def _step(name: str) -> bool:
    return name.startswith("ProfilerStep")


def _paths(node: ChainNode, above: tuple[ChainNode, ...]) -> Iterator[tuple[ChainNode, ...]]:
    path = (*above, node)
    if node.kind == "runtime" or not node.children:
        yield path
        return
    if node.name in PRODUCTS:
        # Without a GPU the product is the end of the chain, whatever views it makes.
        yield path
    for child in node.children.values():
        yield from _paths(child, path)


def _canonical(path: tuple[ChainNode, ...], needs_launch: bool) -> bool:
    annotations = [number for number, node in enumerate(path) if node.kind == "annotation" and _users(node.name)]
    if not annotations or annotations[-1] + 1 >= len(path):
        return False
    below = path[annotations[-1] + 1 :]
    operators = below[:-1] if needs_launch else below
    if not operators or not all(node.kind == "operator" and node.name.startswith("aten::") for node in operators):
        return False
    if any(node.kind != "annotation" or FRAMES.fullmatch(node.name) for node in path[: annotations[-1]]):
        return False
    if needs_launch:
        return below[-1].kind == "runtime" and call_of(below[-1].name) in ENQUEUES
    return below[-1].name in PRODUCTS


def _first(trace: Trace, path: tuple[ChainNode, ...]) -> int:
    """The first slice at the end of a chain (or, where the search runs long, of its last name)."""
    rows = rows_named(trace, exactly(path[-1].name))
    names = [node.name for node in reversed(path)]
    for row in rows[:1000].tolist():
        here = row
        for name in names:
            if here < 0 or (trace.name(here) != name and not (_step(name) and _step(trace.name(here)))):
                break
            here = int(trace.nesting.parent[here])
        else:
            return int(row)
    return int(rows[0])


def _calls_under(trace: Trace, above: Rows) -> tuple[float, float]:
    """Run-time calls and queries per slice of `above`."""
    runtime = trace.rows(Kind.RUNTIME)
    inside = runtime[under(trace, runtime, above) >= 0]
    queries = int((trace.call[inside] == Call.QUERY).sum())
    return inside.size / max(above.size, 1), queries / max(above.size, 1)


def _matmul(analysis: Analysis, product: str, meaning: str) -> Outcome:
    trace = analysis.trace
    if analysis.host.operations == 0:
        return not_applicable(NO_OPERATORS)
    matmul = rows_named(trace, exactly("aten::matmul"))
    products = rows_named(trace, exactly(product))
    inside = products[under(trace, products, matmul) >= 0]
    if not inside.size:
        return quiet(
            f"{matmul.size} aten::matmul, {products.size} {product}, and none of these was called by an aten::matmul"
        )
    calls, queries = _calls_under(trace, inside)
    words = f"{calls:.3g} run-time calls each, {queries:.3g} of them queries" if analysis.has_gpu else "no GPU"
    evidence = [
        Evidence(
            f"the first {product} under aten::matmul, {us(total_us(trace, inside[:1]))} on the host",
            *moment(trace, inside[0]),
        )
    ]
    return fired(
        f"aten::matmul became {product} {times(int(inside.size))}: {meaning}.",
        *evidence,
        why=f"{inside.size} of {products.size} {product} lie in one of {matmul.size} aten::matmul ({words})",
    )


def matmul_is_2d(analysis: Analysis) -> Outcome:
    """R18: matmul that ends in mm."""
    return _matmul(analysis, "aten::mm", "both operands are matrices (2-D), or were folded to matrices")


def matmul_is_batched(analysis: Analysis) -> Outcome:
    """R19: matmul that ends in bmm."""
    outcome = _matmul(analysis, "aten::bmm", "the operands have a batch dimension, and one call multiplies all of them")
    trace = analysis.trace
    plain = rows_named(trace, exactly("aten::mm"))
    batched = rows_named(trace, exactly("aten::bmm"))
    if not outcome.evidence or not plain.size or not analysis.has_gpu:
        return outcome
    mm, bmm = _calls_under(trace, plain)[0], _calls_under(trace, batched)[0]
    return fired(
        outcome.claim,
        *outcome.evidence,
        why=f"{outcome.why}; run-time calls per aten::bmm {bmm:.3g}, per aten::mm {mm:.3g}",
    )


def one_addmm(analysis: Analysis) -> Outcome:
    """R20: product and sum in one addmm, and who put them together."""
    trace = analysis.trace
    if analysis.host.operations == 0:
        return not_applicable(NO_OPERATORS)
    fused = rows_named(trace, exactly("aten::addmm", "aten::baddbmm"))
    apart = rows_named(trace, exactly("aten::mm", "aten::bmm"))
    if not fused.size:
        sums = rows_named(trace, exactly(*SUMS))
        return quiet(f"no aten::addmm; {apart.size} products and {sums.size} sums are separate operators")
    linear = under(trace, fused, rows_named(trace, exactly("aten::linear"))) >= 0
    compiled = ~linear & (under(trace, fused, compiled_rows(trace)) >= 0)
    direct = ~linear & ~compiled
    parts, evidence = [], []
    for mask, sentence, one in (
        (
            compiled,
            "in compiled code, product and bias are one aten::addmm: a fusion by the choice of operator (dispatcher-level), not a"
            " new kernel",
            "in compiled code",
        ),
        (
            linear,
            "aten::linear (nn.Linear) calls aten::addmm: eager PyTorch itself folds the bias in, and torch.compile fused nothing here",
            "under aten::linear",
        ),
        (
            direct,
            "aten::addmm is called directly in eager code (torch.addmm, or a layer that uses it)",
            "called directly",
        ),
    ):
        rows = fused[mask]
        if rows.size:
            parts.append(f"{times(int(rows.size)).capitalize()}, {sentence}.")
            evidence.append(Evidence(f"the first aten::addmm {one}; there are {rows.size}", *moment(trace, rows[0])))
    return fired(
        " ".join(parts),
        *evidence,
        why=f"{fused.size} aten::addmm ({int(compiled.sum())} in compiled code, {int(linear.sum())} under aten::linear,"
        f" {int(direct.sum())} direct); {apart.size} products stand without a sum",
        advice="Compare the kernels' full names with those of an eager trace: the same name means the same kernel, and only the"
        " separate addition was saved."
        if compiled.any() and analysis.devices
        else "",
    )


ALLOCATES = frozenset({"aten::empty", "aten::empty_strided", "aten::empty_like"})
VIEWS = METADATA_ONLY - ALLOCATES


def _host_cost(analysis: Analysis, names: frozenset[str], claim: str, advice: str) -> Outcome:
    """What operators of these names cost on the host; they do nothing on the device."""
    if analysis.host.operations == 0:
        return not_applicable(NO_OPERATORS)
    found = [stats for stats in analysis.operators if stats.kind == "operator" and stats.name in names]
    rows = rows_named(analysis.trace, names.__contains__, Kind.OP)
    longest = float(analysis.trace.nesting.self_time[rows].max(initial=0)) / 1000
    spent, host = sum(stats.self_us for stats in found), host_self_us(analysis)
    part = spent / host if host else 0.0
    calls = sum(stats.count for stats in found)
    numbers = f"{calls:,} calls take {us(spent)} of self time, {share(part)} of the host's {us(host)}"
    if part < METADATA_SHARE or spent < METADATA_LEAST_US:
        return quiet(f"{numbers}: below {share(METADATA_SHARE)} or {us(METADATA_LEAST_US)}")
    if spent - longest < METADATA_SHARE * host:
        return quiet(f"{numbers}, {us(longest)} of it in one call: that is no cost of every call")
    trace, evidence = analysis.trace, []
    for stats in found[:SHOWN]:
        row = rows_named(trace, exactly(stats.name), Kind.OP)[0]
        text = f"{stats.name}: {times(stats.count)}, {us(stats.self_us)} of self time"
        evidence.append(Evidence(text, *moment(trace, row)))
    bound = host_bound(analysis)
    return fired(
        f"{claim} {us(spent)} on the host, {share(part)} of its time.",
        *evidence,
        why=numbers + ("" if bound else "; the GPU is what the run waits for, so this time is hidden behind it"),
        advice=advice if bound else "",
        at_stake_us=spent if bound else 0.0,
    )


def metadata_operators(analysis: Analysis) -> Outcome:
    """What views cost."""
    return _host_cost(
        analysis,
        VIEWS,
        "Operators that only change a tensor's shape or strides cost",
        "Make views once, outside the loop; keep weights in the layout in which they are used."
        + unless_compiled(analysis, " torch.compile resolves views while it compiles."),
    )


def allocations(analysis: Analysis) -> Outcome:
    """What allocations cost."""
    return _host_cost(
        analysis,
        ALLOCATES,
        "Operators that only allocate a tensor cost",
        "Write into tensors that are there already (out=, in-place operators)."
        + unless_compiled(analysis, " torch.compile plans the memory: its graphs allocate less often."),
    )


_rule = partial(explaining, "dispatch")


DISPATCH_RULES: tuple[Rule, ...] = (
    _rule(
        "R17",
        "The chain from annotation to kernel",
        canonical_chain,
        "nesting by time on one thread: ProfilerStep ⊃ annotation ⊃ aten operator ⊃ … ⊃ launch",
        "at least one whole chain; without a GPU it ends at the matrix product",
        "a launch in the annotated code's time that lies in no aten operator",
        "One line of Python becomes several slices inside each other, like boxes in boxes. ProfilerStep is one round of your loop. In"
        " it lies the region that you named with record_function, then the operator that you called (aten::matmul), then the one that"
        " does the work (aten::mm). The innermost call, cudaLaunchKernel, hands the work to the GPU. To find where a kernel comes"
        " from, start at its launch and read the boxes from the inside out.",
    ),
    _rule(
        "R18",
        "matmul became mm: a product of two matrices",
        matmul_is_2d,
        "number of aten::mm that lie in an aten::matmul",
        "at least 1",
        "an operand with three dimensions in this call (record_shapes=True shows them)",
        "torch.matmul looks at the shapes of what it is given and picks the operator for them. With two matrices that is aten::mm. A"
        " batch times one matrix is folded to one tall matrix first, so it ends in aten::mm too. Nothing is wrong here: it tells you"
        " which of the vendor's routines to look for. Use record_shapes=True to see the sizes.",
    ),
    _rule(
        "R19",
        "matmul became bmm: a batch of products",
        matmul_is_batched,
        "number of aten::bmm that lie in an aten::matmul",
        "at least 1",
        "operands of two dimensions in this call (record_shapes=True shows them)",
        "When both operands of torch.matmul have a batch dimension, it calls aten::bmm, which multiplies all pairs in one call. It"
        " prepares more on the host than aten::mm does: you may see several run-time calls before the kernel. One batched call is"
        " much cheaper than a loop of single ones. If one operand is the same for the whole batch, folding the batch into the rows"
        " (reshape) makes it one larger product.",
    ),
    _rule(
        "R20",
        "One addmm in place of mm and add",
        one_addmm,
        "number of aten::addmm, by what they lie in: compiled code, aten::linear, or neither",
        "at least 1",
        "an aten::add after each product, or another kernel name than the eager run's",
        "A product followed by an addition can be asked for in one call, aten::addmm. torch.compile makes this exchange by itself, and"
        " nn.Linear always does. It is a fusion on the level of operators: one call and one launch fewer on the host. The library's"
        " kernel may well be the same as before, and the bias may first be copied to the output by a hidden copy. So look for that"
        " copy on the GPU's lane before you count the addition as saved.",
    ),
    Rule(
        id="metadata-operators",
        title="Operators that move no data",
        family="dispatch",
        severity="hint",
        formula="sum of self time of view, t, as_strided, expand ... / self time of the host without waits",
        threshold=f"at least {share(METADATA_SHARE)} of the host's time and {us(METADATA_LEAST_US)}",
        refuted_by="a run with the views made once outside the loop that takes as long per step",
        explanation="view, t or as_strided launch nothing: they write down another way to look at the same memory. Each still costs a"
        " microsecond or so on the host, because it passes through the dispatcher like any operator. In a model of many small layers"
        " that adds up. It matters only where the host is what the run waits for; when the GPU is busy all the time, this cost is"
        " hidden. Then leave it as it is.",
        check=metadata_operators,
    ),
    Rule(
        id="allocations",
        title="Operators that only allocate",
        family="dispatch",
        severity="hint",
        formula="sum of self time of empty, empty_like, empty_strided / self time of the host without waits",
        threshold=f"at least {share(METADATA_SHARE)} of the host's time and {us(METADATA_LEAST_US)}",
        refuted_by="a run with outputs allocated once that takes as long per step",
        explanation="empty asks PyTorch's allocator for memory and writes nothing into it; most operators call it for their output. On a"
        " GPU the memory nearly always comes from blocks that were freed before, so it costs a microsecond or two on the host and nothing"
        " on the device. On the CPU it may ask the operating system. Many small operators make many of these calls.",
        check=allocations,
    ),
)
"""R17 to R20, and what views and allocations cost."""

__all__ = ["DISPATCH_RULES", "METADATA_LEAST_US", "METADATA_SHARE"]
