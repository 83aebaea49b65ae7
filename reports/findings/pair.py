"""Two recordings of one case, eager and compiled: what compiling cost the host, what it won, and what kind of fusion took place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.findings.compiled import COMPILE_RULES, needs_a_pair
from reports.findings.contract import Evidence, Finding, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.copies import device_to_device
from reports.findings.cpu_code import ELEMENTWISE, PACKED
from reports.findings.pair_changes import (
    FUSED_GPU,
    Change,
    Copy,
    copies_added,
    cpu_us,
    gpu_us,
    growths,
    has_addmm,
    kernel_changes,
    left_out,
    operator_changes,
    units,
    warm_steps,
    why_apart,
    why_no_gpu,
)
from reports.findings.seen import FRAMES, FUSED_CPP, compiled_rows, host_bound, rows_named, self_us
from reports.trace.analyse import Analysis
from reports.trace.regime import ARITHMETIC
from reports.words import size as size_of_bytes
from reports.words import us

Fusion = Literal["dispatcher-level", "kernel-level", "dispatcher- and kernel-level", "none", "unknown"]

TAX = 1.1
"""Compiled over eager host time per step from which R25 fires, where the steps of the two do not overlap besides."""

EXPLAINED = 0.5
"""Compiled code's own slices, or the operator that grew most net of what it replaced, are the cause from half of the excess on."""

FUNCTOR = re.compile(r"CUDAFunctor_(\w+?)\b|::(\w+?)_kernel_(?:cuda|impl)|(\w+?)Functor")


@dataclass(frozen=True)
class Pair:
    """Numbers of an eager and a compiled recording of one case. Times in us per step: medians over the steps, without a cold first one.

    `cpu_step_ratio` is compiled / eager (above 1: the host works longer), `gpu_time_ratio` eager / compiled (above 1: the GPU finishes
    sooner); None where they cannot be had, for the reason in `why_no_cpu` and `why_no_gpu`. `step_ratios` are compiled / eager
    step by step, `steps_overlap` whether the two recordings' steps have times in common. `frames_us` is what compiled code's own slices
    (guards, wrappers, graph calls) take per step by themselves. Kernels and operators count per step (per recording where there are no
    steps): `same_products` are matrix products of the same full name on both sides, `gone` kernels or operators that became fewer,
    `fused` what Inductor generated.
    """

    eager: str
    compiled: str
    eager_cpu_us: float | None
    compiled_cpu_us: float | None
    cpu_step_ratio: float | None
    why_no_cpu: str
    step_ratios: tuple[float, ...]
    steps_overlap: bool
    frames_us: float
    eager_gpu_us: float | None
    compiled_gpu_us: float | None
    gpu_time_ratio: float | None
    why_no_gpu: str
    same_products: tuple[Change, ...]
    new_products: tuple[Change, ...]
    elementwise_gone: tuple[Change, ...]
    copies_added: tuple[Copy, ...]
    fused: tuple[Change, ...]
    operators: tuple[Change, ...]
    addmm_for_mm_and_add: bool
    linears_eager: float
    packed_compiled: float
    fusion: Fusion
    apart: str
    """Why nothing is claimed of the pair: the two are not of one case; empty where they are."""
    story: str
    outcome: Outcome
    """R25."""


def compare(eager: Analysis, compiled: Analysis) -> Pair:
    """Compare two recordings of one case."""
    eager_cpu, compiled_cpu = cpu_us(eager), cpu_us(compiled)
    no_cpu = "" if eager_cpu and compiled_cpu else f"the {'compiled' if eager_cpu else 'eager'} recording has no steps"
    eager_gpu, compiled_gpu = gpu_us(eager), gpu_us(compiled)
    no_gpu = "" if eager_gpu and compiled_gpu else why_no_gpu(eager_gpu, compiled_gpu)
    kernels, operators = kernel_changes(eager, compiled), operator_changes(eager, compiled)
    products = [change for change in kernels if change.what in ARITHMETIC]
    addmm = has_addmm(eager, compiled)
    if eager.devices or compiled.devices:
        gone = [
            change for change in kernels if change.what == "elementwise" and change.compiled_calls < change.eager_calls
        ]
        fused = [
            change for change in kernels if FUSED_GPU.search(change.name) and change.compiled_calls > change.eager_calls
        ]
    else:
        gone = [c for c in operators if c.name in ELEMENTWISE and c.compiled_calls < c.eager_calls]
        fused = [c for c in operators if FUSED_CPP.fullmatch(c.name) and c.compiled_calls > c.eager_calls]
    copies = copies_added(eager, compiled)
    same = [change for change in products if change.eager_calls and change.compiled_calls]
    fresh = [change for change in products if change.compiled_calls and not change.eager_calls]
    fusion = _fusion(compiled, addmm, bool(fused))
    apart = why_apart(eager, compiled)
    ratio = compiled_cpu / eager_cpu if eager_cpu and compiled_cpu else None
    linears = sum(c.eager_calls for c in operators if c.name == "aten::linear")
    packed = sum(c.compiled_calls for c in operators if c.name in PACKED)
    frames = self_us(compiled.trace, rows_named(compiled.trace, FRAMES.fullmatch)) / units(compiled)
    return Pair(
        eager=eager.trace.path,
        compiled=compiled.trace.path,
        eager_cpu_us=eager_cpu,
        compiled_cpu_us=compiled_cpu,
        cpu_step_ratio=ratio,
        why_no_cpu=no_cpu,
        step_ratios=tuple(
            after.host_us / before.host_us
            for before, after in zip(eager.steps, compiled.steps, strict=False)
            if before.host_us > 0
        ),
        steps_overlap=overlap(warm_steps(eager), warm_steps(compiled)),
        frames_us=frames,
        eager_gpu_us=eager_gpu,
        compiled_gpu_us=compiled_gpu,
        gpu_time_ratio=eager_gpu / compiled_gpu if eager_gpu and compiled_gpu else None,
        why_no_gpu=no_gpu,
        same_products=tuple(same),
        new_products=tuple(fresh),
        elementwise_gone=tuple(gone),
        copies_added=copies,
        fused=tuple(fused),
        operators=operators,
        addmm_for_mm_and_add=addmm,
        linears_eager=linears,
        packed_compiled=packed,
        fusion=fusion,
        apart=apart,
        story=_story(fusion, bool(eager.devices), same, fresh, gone, copies, fused, linears, packed),
        outcome=not_applicable(no_cpu or f"nothing is compared: {apart}")
        if apart
        else _tax(eager, compiled, no_cpu, frames, operators),
    )


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two ranges of times have values in common."""
    return bool(one and other) and max(min(one), min(other)) <= min(max(one), max(other))


def finding(pair: Pair) -> Finding:
    """R25 with what the pair says."""
    return Finding(next(rule for rule in COMPILE_RULES if rule.id == "R25"), pair.outcome)


def findings(pair: Pair) -> tuple[Finding, ...]:
    """All that only a pair of recordings can tell."""
    return finding(pair), Finding(FUSION_RULE, _fused(pair))


def _fused(pair: Pair) -> Outcome:
    if pair.apart:
        return not_applicable(f"nothing is compared: {pair.apart}")
    if pair.fusion == "unknown":
        return not_applicable("the second recording holds no compiled code")
    evidence = [
        Evidence(
            f"{change.name}: {change.eager_calls:.4g} calls and {us(change.eager_us)} a step eager, {change.compiled_calls:.4g} and"
            f" {us(change.compiled_us)} compiled"
        )
        for change in (*pair.same_products, *pair.new_products, *pair.elementwise_gone, *pair.fused)[:8]
    ]
    for copy in pair.copies_added:
        rate = f", {copy.read_plus_write_tb_s:.4g} TB/s read and written" if copy.read_plus_write_tb_s else ""
        size = "" if copy.bytes is None else f", {size_of_bytes(copy.bytes)}"
        evidence.append(Evidence(f"added: {copy.name}, {copy.per_step:.4g} a step, {us(copy.us)} each{size}{rate}"))
    if pair.gpu_time_ratio is not None and pair.eager_gpu_us is not None and pair.compiled_gpu_us is not None:
        evidence.append(
            Evidence(
                f"GPU time a step: {us(pair.eager_gpu_us)} eager, {us(pair.compiled_gpu_us)} compiled:"
                f" {pair.gpu_time_ratio:.4g} times as fast"
            )
        )
    return fired(
        f"What compile changed: {pair.story}",
        *(evidence or [Evidence("no kernel and no operator changed its number of calls")]),
        why="kernels compared by their full names, operators by their number of calls a step",
        advice="A 1-D bias, or code generation for products (max-autotune), can give the kernel-level fusion that was hoped for."
        if pair.fusion == "dispatcher-level"
        else "",
    )


FUSION_RULE = Rule(
    id="fusion",
    title="Did compile fuse the kernels?",
    family="compile",
    severity="explanation",
    formula="kernels (by full name) and operators, calls and time a step, eager against compiled",
    threshold="shown for every pair of traces",
    refuted_by="the generated code (output_code) calling other kernels",
    explanation=(
        "torch.compile can save work in two places. Inductor writes new kernels that do several elementwise steps in one pass: kernel-level"
        " fusion, whose names begin with triton_ or cpp_fused. And the dispatcher may replace two operators by one that exists already, as"
        " add(mm) by addmm: then the library's kernel stays the same, and a copy may be added. Names tell which of them happened."
    ),
    check=needs_a_pair,
)


def _fusion(compiled: Analysis, addmm: bool, kernels: bool) -> Fusion:
    if not compiled_rows(compiled.trace).size:
        return "unknown"
    if addmm and kernels:
        return "dispatcher- and kernel-level"
    if addmm:
        return "dispatcher-level"
    return "kernel-level" if kernels else "none"


def _tax(eager: Analysis, compiled: Analysis, why: str, frames: float, operators: tuple[Change, ...]) -> Outcome:
    before, after = cpu_us(eager), cpu_us(compiled)
    if not before or not after:
        return not_applicable(why)
    ratio, excess = after / before, after - before
    medians = f"medians{left_out(eager, compiled)}"
    numbers = f"{us(after)} compiled against {us(before)} eager per step on the host ({medians}): {ratio:.2f} times"
    if ratio < TAX:
        return quiet(f"{numbers}, below {TAX:g}")
    if overlap(warm_steps(eager), warm_steps(compiled)):
        slowest, fastest = max(warm_steps(eager)), min(warm_steps(compiled))
        return quiet(
            f"{numbers}; but the steps overlap: the slowest eager one takes {us(slowest)}, the fastest compiled one {us(fastest)}"
        )
    bound = host_bound(compiled)
    numbers += (
        f"; guards, wrappers and graph calls take {us(frames)} per step by themselves, {us(excess)} are to be explained"
    )
    cause, advice = _cause(frames, excess, operators)
    first = compiled.steps[0]
    return fired(
        f"In these recordings a compiled step takes the host {ratio:.2f} times as long as an eager one{cause}"
        + (", and the host is what the run waits for." if bound else ", hidden behind the GPU's work."),
        Evidence(f"{numbers}; the first compiled step", first.start_us, first.end_us),
        why=f"{numbers}; fires from {TAX:g} times on, when every compiled step is slower than every eager one",
        advice=advice if advice or not bound else FRAMES_ADVICE + (ON_A_GPU if compiled.devices else "."),
        at_stake_us=excess * len(compiled.steps) if bound else 0.0,
    )


FRAMES_ADVICE = "Compile a larger piece of the program, or use larger inputs"
ON_A_GPU = "; or try mode='reduce-overhead'."
"""It replays CUDA graphs: on a processor there is nothing to replay."""


def _cause(frames: float, excess: float, operators: tuple[Change, ...]) -> tuple[str, str]:
    """What makes up half of the excess, as the claim says it, and what to do about an operator; nothing is blamed that explains less."""
    if frames >= EXPLAINED * excess:
        return ": mostly the price of guards and wrappers", ""
    grown = next(iter(growths(operators)), None)
    if grown is None or grown.net_us < EXPLAINED * excess:
        return (
            f"; guards and wrappers are {us(frames)} of the {us(excess)}, and no operator's growth makes up half of it",
            "",
        )
    net = f"{grown.name} itself takes {us(grown.more_us)} more"
    if grown.less_us:
        net += f", {', '.join(grown.instead_of)} in its place {us(grown.less_us)} less: {us(grown.net_us)} in all"
    return f"; that is not the price of guards and wrappers: {net}", (
        f"Look at {grown.name} first: the same operator in eager mode tells whether it is slower or does more work, and a longer"
        " recording whether the difference stays."
    )


def short(name: str) -> str:
    """What an elementwise kernel does ("add"), where its name tells; else the operator's or kernel's own name."""
    match = FUNCTOR.search(name)
    found = next((group for group in match.groups() if group), "") if match else ""
    return found.lower() or name.removeprefix("aten::")


def _story(
    fusion: Fusion,
    gpu: bool,
    same: list[Change],
    fresh: list[Change],
    gone: list[Change],
    copies: tuple[Copy, ...],
    fused: list[Change],
    linears: float,
    packed: float,
) -> str:
    parts = []
    if gpu and (same or fresh):
        parts.append(
            "same GEMM kernel"
            if same and not fresh
            else f"{len(same)} matrix-product kernels as before, {len(fresh)} others"
            if same
            else "other matrix-product kernels than in eager mode"
        )
    if gone:
        names = list(dict.fromkeys(short(change.name) for change in gone))
        parts.append(f"elementwise {', '.join(names[:4])}{' and others' if len(names) > 4 else ''} gone")
    for copy in copies:
        size = "" if copy.bytes is None else f"{size_of_bytes(copy.bytes)} "
        count = "one" if copy.per_step == 1 else f"{copy.per_step:.3g}"
        where = "device copy" if device_to_device(copy.name) else copy.name
        rate = f" ({copy.read_plus_write_tb_s:.2f} TB/s read and written)" if copy.read_plus_write_tb_s else ""
        parts.append(f"{count} {size}{where} added{rate}")
    if packed:
        parts.append(
            f"{packed:.4g} products with packed weights per step against {linears:.4g} aten::linear in eager mode"
        )
    kernels = ", ".join(change.name for change in fused[:3])
    parts.append(
        f"{len(fused)} fused kernel{'s' if len(fused) > 1 else ''} in their place ({kernels})"
        if fused
        else "no new fused kernel"
    )
    return f"{fusion}: {', '.join(parts[:-1])}{'; ' if parts[:-1] else ''}{parts[-1]}"


PAIR_RULES = (next(rule for rule in COMPILE_RULES if rule.id == "R25"), FUSION_RULE)
"""What only a pair of recordings can answer."""
