"""Rules for recordings of the CPU alone, about its code: fused kernels, what is left unfused, packed weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.cpu_only import by_name, cpu_rule, share_of, whole_us
from reports.findings.seen import (
    FUSED_CPP,
    SHOWN,
    Rows,
    compiled_rows,
    exactly,
    is_compiled,
    rows_named,
    self_us,
    total_us,
    under,
)
from reports.findings.words import moment
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.read import Trace
from reports.words import share, times, us

_ELEMENTWISE = (
    "add sub rsub mul div neg abs exp log sqrt rsqrt pow square reciprocal sin cos tanh sigmoid relu gelu silu elu hardtanh hardswish"
    " leaky_relu clamp clamp_min clamp_max maximum minimum where masked_fill addcmul addcdiv lerp sign erf floor ceil round threshold"
    " eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not"
)
ELEMENTWISE = frozenset(f"aten::{name}{suffix}" for name in _ELEMENTWISE.split() for suffix in ("", "_"))
"""Operators that read and write each element once: what Inductor fuses."""

PACKED = ("mkl::_mkl_linear", "mkldnn::_linear_pointwise", "mkldnn::_convolution_pointwise")
"""Operators whose weights were laid out for the library once, while freezing."""

CHAIN_SHARE = 0.3
"""Share of elementwise operators from which fusing them is the first thing to try: halving a third of the time shows."""

LEFT_SHARE = 0.01
"""Share of the time from which an elementwise operator in compiled code is named: below, it is a scalar or an index."""


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
    return Fused(spent, share_of(spent, whole_us(analysis)), int(rows.size), names, rows)


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
        Evidence(f"{name}: {times(int(rows.size))}, {us(self_us(trace, rows))} in all", *moment(trace, rows[0]))
        for name, rows in by_name(trace, found.rows)[:SHOWN]
    ]
    return fired(
        f"{share(found.share)} of the time runs in {found.kernels} fused kernel{'s' if found.kernels > 1 else ''} written by Inductor"
        f" ({us(found.self_us)} in {found.calls} calls).",
        *evidence,
        why=f"self time of cpp_fused_* {us(found.self_us)} of {us(whole_us(analysis))}",
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
    whole = whole_us(analysis)
    found = [(name, of) for name, of in by_name(trace, rows) if share_of(total_us(trace, of), whole) >= LEFT_SHARE]
    if not found:
        return quiet(
            f"{rows.size} elementwise operators in compiled code, none of them with {share(LEFT_SHARE)} of the time: all were fused"
        )
    spent = sum(total_us(trace, of) for _, of in found)
    return fired(
        f"{len(found)} elementwise operator{'s' if len(found) > 1 else ''} in compiled code still run one by one:"
        f" {', '.join(name for name, _ in found[:SHOWN])} ({us(spent)}, {share(share_of(spent, whole))} of the time).",
        *(
            Evidence(f"{name}: {times(int(of.size))}, {us(total_us(trace, of))} in all", *moment(trace, of[0]))
            for name, of in found[:SHOWN]
        ),
        why=f"elementwise aten operators in a compiled region and in no other operator; those from {share(LEFT_SHARE)} of the time",
        advice="Look with TORCH_LOGS=fusion at why they were not fused: a graph break, an operator with a fallback, or a view between"
        " them.",
        at_stake_us=spent,
    )


def unfused_chain(analysis: Analysis) -> Outcome:
    """Elementwise operators of an eager run, each of which passes over memory by itself."""
    if is_compiled(analysis):
        return not_applicable("the trace holds compiled code: see what of it is left unfused")
    trace = analysis.trace
    rows = rows_named(trace, ELEMENTWISE.__contains__, Kind.OP)
    ranked, whole = by_name(trace, rows), whole_us(analysis)
    spent = self_us(trace, rows)
    numbers = f"{rows.size} calls of {len(ranked)} elementwise operators, {us(spent)}, {share(share_of(spent, whole))} of the time"
    if share_of(spent, whole) < CHAIN_SHARE or rows.size < 2:
        return quiet(f"{numbers}: below {share(CHAIN_SHARE)}")
    return fired(
        f"{share(share_of(spent, whole))} of the time goes to elementwise operators one by one: each reads and writes whole tensors.",
        *(
            Evidence(f"{name}: {times(int(of.size))}, {us(self_us(trace, of))} of self time", *moment(trace, of[0]))
            for name, of in ranked[:SHOWN]
        ),
        why=numbers,
        advice="Let torch.compile fuse the chain: it then passes over memory once for its inputs and once for its result.",
        at_stake_us=spent,
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
            Evidence(f"{name}: {times(int(of.size))}, {us(self_us(trace, of))} of self time", *moment(trace, of[0]))
            for name, of in by_name(trace, packed)
        ),
        why=f"{packed.size} of {packed.size + products.size} matrix products are operators of MKL or oneDNN with prepared weights;"
        " compare their number with aten::linear of the eager trace",
    )


def _mean(trace: Trace, rows: Rows) -> float:
    return total_us(trace, rows) / max(rows.size, 1)


CPU_CODE_RULES: tuple[Rule, ...] = (
    cpu_rule(
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
    cpu_rule(
        "cpu-elementwise-left",
        "Elementwise operators left in compiled code",
        "hint",
        elementwise_left,
        "elementwise aten operators that lie in a compiled region and in no other operator",
        f"{share(LEFT_SHARE)} of the time",
        "generated code in which the operator is part of a fused kernel",
        "In compiled code you expect additions and multiplications to vanish into fused kernels. One that still shows up by its own name"
        " reads and writes its tensors by itself. Often a graph break or an operator that Inductor does not generate stands between it and"
        " its neighbours. TORCH_LOGS=graph_breaks and TORCH_LOGS=fusion say which.",
    ),
    cpu_rule(
        "cpu-unfused-chain",
        "Elementwise operators one by one",
        "problem",
        unfused_chain,
        "self time of elementwise aten operators / self time of everything, in a trace without compiled code",
        f"{share(CHAIN_SHARE)} of the time",
        "a compiled run of the same chain that takes as long",
        "An addition of two large tensors is limited by memory, not by arithmetic: it reads two tensors and writes a third. A chain of"
        " such operators writes every intermediate result to memory only to read it back. torch.compile turns the chain into one kernel"
        " that keeps the intermediate values in registers. Count the passes over memory before and after to see what can be won.",
    ),
    cpu_rule(
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
)
"""What compiling did to the code, on a CPU."""
