"""What torch.compile makes one ask: its rows, the fusion, the kernel, the second GPU operation, the host's price, reduce-overhead."""

from __future__ import annotations

from reports.findings.contract import Verdict
from reports.findings.cpu_code import fused
from reports.findings.pair import Change, Copy, Pair, findings
from reports.findings.rates import peaks_of
from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Proof, Question, lacks, proofs_of, prove
from reports.walkthrough.families import differing_words, family
from reports.walkthrough.numbers import between, listed, share, size, us, whole
from reports.walkthrough.questions.kernels import other_machine
from reports.walkthrough.recording import COMPILED, EAGER, REDUCE_OVERHEAD, Recording, Recordings
from reports.walkthrough.seen import PRODUCTS, device, inside, launches, memsets, product
from suite.peaks import Figure, NotKnown

Couple = tuple[Recording, Recording]

NEEDS_PAIR = "an eager and a compiled profile of one size, made alike"
NO_GPU_KERNEL = (
    "a GPU: on a CPU the product is a call into the processor's library, which leaves no kernel's name in the trace"
)
PAYS = 1.02
"""A step's GPU time, or a host's, that changes by less is called the same."""


def _couple(recordings: Recordings, arm: str = COMPILED) -> Couple | None:
    small, large = recordings.sizes
    return recordings.couple(arm, large) or recordings.couple(arm, small)


def rows(recordings: Recordings) -> Answer:
    """What the compile rows mean, and whether all steps call one graph."""
    small, large = recordings.sizes
    recording = recordings.pick(COMPILED, large) or recordings.pick(COMPILED, small)
    if recording is None:
        return lacks("a compiled profile")
    said = [recording.outcome(rule) for rule in ("R21", "R22", "R23", "R24")]
    same = said[3]
    hashes = (
        "the same graph in every step"
        if same.verdict is Verdict.FIRED
        else "not the same in every step"
        if same.verdict is Verdict.QUIET
        else "no key to compare"
    )
    return Answer(
        " ".join(
            outcome.claim if outcome.verdict is Verdict.FIRED else f"{outcome.why[:1].upper()}{outcome.why[1:]}."
            for outcome in said
        ),
        (
            Beside("Torch-Compiled Region", "0/0, in each step", _brief(said[0].claim)),
            Beside("TorchDynamo Cache Lookup", "in each step", _brief(said[1].why)),
            Beside("Runtime Wrapper Prologue", "in each step, without gradients too", _brief(said[2].why)),
            Beside("CompiledFxGraph", "the same hash in all steps", hashes),
        ),
        prove(recording, "R21", "R22", "R23", "R24"),
        ()
        if same.verdict is Verdict.FIRED
        else ("a graph without a key was not compiled again for that: frozen graphs have none",)
        if same.verdict is Verdict.NOT_APPLICABLE
        else (same.why,),
    )


def _brief(text: str) -> str:
    return text.partition(";")[0].rstrip(".") or "not recorded"


def _pair_proofs(couple: Couple, found: Pair, *rules: str) -> tuple[Proof, ...]:
    told = {finding.rule.id: finding.outcome for finding in findings(found)}
    return tuple(proof for rule in rules for proof in proofs_of(couple[1], rule, told[rule]))


def fusion(recordings: Recordings) -> Answer:
    """Whether compile fused the kernel."""
    couple = _couple(recordings)
    if couple is None:
        return lacks(NEEDS_PAIR)
    found = recordings.pair(couple)
    kernels = "kernel-level" in found.fusion
    verdict = {
        "dispatcher-level": "No new kernel: two operators became one that exists already, addmm",
        "kernel-level": "Yes: Inductor wrote a kernel of its own",
        "dispatcher- and kernel-level": "Both: two operators became addmm, and Inductor wrote kernels of its own",
        "none": "No: neither operators nor kernels were put together",
        "unknown": "It cannot be told: the second recording holds no compiled code",
    }[found.fusion]
    says = f"{verdict}. At {couple[0].shape}: {found.story}."
    if not couple[1].analysis.devices:
        of = fused(couple[1].analysis)
        says += f" {share(of.share)} of the compiled recording's time runs in {of.kernels} cpp_fused kernels ({of.calls} calls)."
    elif found.gpu_time_ratio is not None:
        says += f" GPU time a step: {us(found.eager_gpu_us or 0)} eager, {us(found.compiled_gpu_us or 0)} compiled."
    contrast = _bias(recordings)
    return Answer(
        says + contrast,
        (
            Beside("fusion", "dispatcher-level: mm and add became addmm", found.fusion),
            Beside("kernels written by Inductor", "none", between([one.name for one in found.fused[:3]])),
            Beside("elementwise kernel", "gone", "gone" if found.elementwise_gone else "still there"),
        ),
        _pair_proofs(couple, found, "fusion"),
        (f"another fusion than on the A100: {found.fusion}",) if kernels or found.fusion == "none" else (),
    )


def _bias(recordings: Recordings) -> str:
    found = next((one for one in recordings.all if one.bias_1d and one.arm == COMPILED), None)
    eager = next((one for one in recordings.all if one.bias_1d and one.arm == EAGER), None)
    if found is None or eager is None:
        return ""
    return f" With a bias of one dimension: {recordings.pair((eager, found)).story}."


def same_kernel(recordings: Recordings) -> Answer:
    """Whether it is the same GEMM kernel."""
    if not recordings.has_gpu:
        return lacks(NO_GPU_KERNEL)
    couple = _couple(recordings)
    if couple is None:
        return lacks(NEEDS_PAIR)
    found = recordings.pair(couple)
    before, after = product(couple[0].analysis), product(couple[1].analysis)
    if before is None or after is None:
        return lacks("an eager and a compiled profile that both hold the product's kernel")
    same = bool(found.same_products) and not found.new_products
    if same:
        says = f"Yes: the same GEMM kernel, {before.name}, {whole(before.median_us)} eager and {whole(after.median_us)} compiled (medians)."
    else:
        says = (
            f"No: {before.name} eager ({whole(before.median_us)}), {after.name} compiled ({whole(after.median_us)})."
            f" {_alike(before.name, after.name, couple[1])}"
        )
    return Answer(
        says,
        (
            Beside("eager", theirs.PRODUCT, before.name),
            Beside("compiled", theirs.PRODUCT, after.name),
        ),
        tuple(Proof("fusion", _changed(one), couple[1]) for one in (*found.same_products, *found.new_products)[:3]),
        () if same else other_machine(couple[0], launches(couple[0].analysis, *PRODUCTS))[:1],
    )


def _alike(before: str, after: str, compiled: Recording) -> str:
    words = differing_words(before, after)
    if family(before) != family(after) or words is None or len(words) > 1:
        return "The names are built otherwise: another kernel of the library, chosen for another call."
    (old, new), adds = words[0], compiled.analysis.operator("aten::addmm") is not None
    why = ", as addmm asks for a product that is added to something" if adds else ""
    return f"The names differ in one word ({old} became {new}): the same tile and layout with another ending{why}."


def _changed(change: Change) -> str:
    return (
        f"{change.name}: {change.eager_calls:.4g} calls and {us(change.eager_us)} a step eager, {change.compiled_calls:.4g} and"
        f" {us(change.compiled_us)} compiled"
    )


def second_operation(recordings: Recordings) -> Answer:
    """What the second GPU operation of one launch is."""
    couple = _couple(recordings)
    if couple is None:
        return lacks(NEEDS_PAIR)
    compiled, found = couple[1], recordings.pair(couple)
    if not compiled.analysis.devices:
        return _copy_on_cpu(compiled)
    copy = next((one for one in found.copies_added if "DtoD" in one.name), None)
    if copy is None:
        others = ", ".join(f"{one.name[:60]} ({whole(one.median_us)})" for one in compiled.analysis.kernels[:4])
        return Answer(
            f"There is no copy beside the product here; a step runs {others}.",
            (Beside("second GPU operation", "Memcpy DtoD", "no device-to-device copy"),),
            prove(compiled, "R11", "R16"),
            ("no bias had to be put where the product adds to it",),
        )
    each, _ = memsets(compiled.analysis)
    moved = f"{size(copy.bytes)} " if copy.bytes is not None else ""
    rate = f", {copy.read_plus_write_tb_s:.2f} TB/s read and written" if copy.read_plus_write_tb_s else ""
    says = (
        f"A copy of the bias: {moved}in {whole(copy.us)}{rate}, {copy.per_step:.3g} a step. addmm adds the product to what its output holds,"
        " so b is copied there first; the copy's own call is easily missed beside the kernel's launch."
    )
    return Answer(
        says,
        (
            Beside("copied", size(theirs.COPY_BYTES), moved.strip() or "not recorded"),
            Beside("in", whole(theirs.COPY_US), whole(copy.us)),
            Beside(
                "read and written",
                f"{theirs.COPY_TB_S} TB/s",
                rate.removeprefix(", ").removesuffix(" read and written") or "unknown",
            ),
            Beside(
                "GPU operations a step",
                "2 (copy, product)",
                f"{2 + each:.3g}{' (copy, memset, product)' if each else ' (copy, product)'}",
            ),
        ),
        prove(compiled, "R16", "R11"),
        (
            *_memory(compiled, copy),
            *((other_machine(compiled, launches(compiled.analysis, *PRODUCTS))[-1],) if each else ()),
        ),
    )


def _memory(compiled: Recording, copy: Copy) -> tuple[str, ...]:
    here = device(compiled.analysis)
    if here is None or copy.read_plus_write_tb_s is None or copy.bytes is None:
        return ()
    peaks = peaks_of(compiled.analysis, here.device)
    if isinstance(peaks, NotKnown):
        return ()
    memory, told = peaks.memory_bytes_per_s, []
    if peaks.cache_bytes and 2 * copy.bytes <= peaks.cache_bytes:
        told.append(
            f"source and target ({size(2 * copy.bytes)}) fit this GPU's last cache ({size(peaks.cache_bytes)}), so that the rate need not be"
            " the memory's"
        )
    if isinstance(memory, Figure) and abs(copy.read_plus_write_tb_s / theirs.COPY_TB_S - 1) > 0.1:
        told.append(
            f"another memory: {peaks.model} is published with {memory.value / 1e12:.3g} TB/s, of which the copy reaches"
            f" {share(copy.read_plus_write_tb_s * 1e12 / memory.value)}"
        )
    return tuple(told)


def _copy_on_cpu(compiled: Recording) -> Answer:
    each, spent = inside(compiled.analysis, "aten::copy_", "aten::addmm")
    steps = max(len(compiled.analysis.steps), 1)
    addmm = compiled.analysis.operator("aten::addmm")
    if not each:
        why = "its addmm copies nothing" if addmm else "the compiled code holds no aten::addmm"
        return Answer(
            f"The CPU's twin would be an aten::copy_ within aten::addmm: there is none, {why}.",
            (Beside("copy of the bias", "Memcpy DtoD, 32 MiB in 33 us", "none"),),
            (Proof("", f"aten::copy_ within aten::addmm: {each:g} a step", compiled),),
        )
    of = f" of the {us(addmm.total_us / steps)} that aten::addmm takes" if addmm else ""
    return Answer(
        f"The CPU has its twin: aten::copy_ within aten::addmm, {each:.3g} a step, {us(spent)}{of}: the bias is put where the product adds"
        " to it.",
        (
            Beside(
                "copy of the bias",
                "Memcpy DtoD, 32 MiB in 33 us",
                f"aten::copy_ within aten::addmm, {us(spent)} a step",
            ),
        ),
        (Proof("", f"aten::copy_ within aten::addmm: {each:.3g} a step, {us(spent)}", compiled),),
        ("no GPU operation: on a CPU the copy is an operator of its own within addmm",),
    )


def host_price(recordings: Recordings) -> Answer:
    """Whether the CPU's step is dearer when compiled."""
    couples = [couple for one in recordings.sizes[::-1] if (couple := recordings.couple(COMPILED, one)) is not None]
    couples = [couple for couple in couples if recordings.pair(couple).cpu_step_ratio]
    if not couples:
        return lacks(f"{NEEDS_PAIR}, with steps")
    told, beside = [], []
    for couple in couples:
        found = recordings.pair(couple)
        ratio = found.cpu_step_ratio or 0.0
        told.append(
            f"At {couple[0].shape} a compiled step takes the CPU {ratio:.1f}x an eager one ({us(found.eager_cpu_us or 0)} to"
            f" {us(found.compiled_cpu_us or 0)}, medians{_dearer(ratio)}; guards, wrappers and graph calls take {us(found.frames_us)} of it)."
        )
        beside.append(
            Beside(
                f"step by step, compiled / eager, at {couple[0].shape}",
                listed(theirs.STEP_RATIOS),
                listed(found.step_ratios),
            )
        )
        if timed := recordings.machine.timed.get((couple[0].size, COMPILED)):
            told.append(f"Without the profiler: {timed}.")
    first = recordings.pair(couples[0]).cpu_step_ratio or 0.0
    return Answer(
        " ".join(told),
        tuple(beside),
        tuple(proof for couple in couples for proof in _pair_proofs(couple, recordings.pair(couple), "R25")),
        ()
        if first >= PAYS
        else (
            "not dearer here under the profiler: with three steps and their spread, the times without the profiler decide",
        ),
    )


def _dearer(ratio: float) -> str:
    return "" if ratio >= PAYS else ": not dearer"


def reduce_overhead(recordings: Recordings) -> Answer:
    """Whether CUDA graphs help."""
    if not recordings.has_gpu:
        return lacks('a GPU (the mode "reduce-overhead" replays CUDA graphs)')
    couples = [couple for one in recordings.sizes if (couple := recordings.couple(REDUCE_OVERHEAD, one)) is not None]
    if not couples:
        return lacks('a profile compiled with mode="reduce-overhead" (arm inductor-reduce-overhead)')
    told, beside, differs = [], [], []
    for couple in couples:
        found, plain = recordings.pair(couple), recordings.couple(COMPILED, couple[0].size)
        host = f"{us(found.eager_cpu_us or 0)} eager, {us(found.compiled_cpu_us or 0)} with graphs"
        if plain is not None:
            host = f"{host}, {us(recordings.pair(plain).compiled_cpu_us or 0)} compiled without"
        gpu = f"{us(found.eager_gpu_us or 0)} eager, {us(found.compiled_gpu_us or 0)} with graphs"
        told.append(f"At {couple[0].shape}: host time a step {host}; GPU time a step {gpu}.")
        if timed := recordings.machine.timed.get((couple[0].size, REDUCE_OVERHEAD)):
            told.append(f"Without the profiler: {timed}.")
        copies = [one for one in couple[1].analysis.kernels if one.kernel_class == "copy" and one.kind == "kernel"]
        if copies:
            spent = sum(one.total_us for one in copies) / max(len(couple[1].analysis.steps), 1)
            told.append(f"Copying its inputs to where the graph expects them takes {us(spent)} of GPU time a step.")
        large = couple[0].size == recordings.sizes[1]
        beside.append(
            Beside(
                f"at {couple[0].shape}",
                "hurts: inputs are copied for the graph" if large else "helps: launches cost less",
                _effect(found),
            )
        )
        if not large and found.cpu_step_ratio and found.cpu_step_ratio >= PAYS:
            differs.append(
                f"it does not make the host's step shorter than an eager one here ({found.cpu_step_ratio:.2f}x): guards and wrappers"
                f" ({us(found.frames_us)}) stay, and an eager step has two launches only"
            )
    return Answer(
        " ".join(told),
        tuple(beside),
        tuple(proof for couple in couples for proof in _pair_proofs(couple, recordings.pair(couple), "R25", "fusion")),
        tuple(differs),
    )


def _effect(found: Pair) -> str:
    parts = []
    if found.cpu_step_ratio:
        parts.append(f"host {found.cpu_step_ratio:.2f}x as long as eager")
    if found.gpu_time_ratio:
        parts.append(f"GPU {1 / found.gpu_time_ratio:.2f}x as long")
    return ", ".join(parts) or "not comparable"


COMPILE_QUESTIONS = (
    Question(
        "rows",
        "What do the rows of torch.compile mean, and is the graph the same in all steps?",
        "torch.compile",
        ("R21", "R24"),
        rows,
    ),
    Question("fusion", "Did compile fuse the kernel?", "torch.compile", (), fusion),
    Question("same-kernel", "Is it the same GEMM kernel?", "torch.compile", (), same_kernel),
    Question(
        "second-operation",
        "What is the second GPU operation of one launch?",
        "torch.compile",
        (),
        second_operation,
    ),
    Question("host-price", "Is the CPU's step dearer when compiled?", "torch.compile", (), host_price),
    Question("reduce-overhead", 'Does mode="reduce-overhead" help?', "torch.compile", (), reduce_overhead),
)
"""Items 99 to 113."""
