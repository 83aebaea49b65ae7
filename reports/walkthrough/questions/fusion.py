"""What torch.compile did to the kernels: whether it fused, whether the product's kernel is the same, and what runs beside it."""

from __future__ import annotations

from reports.findings.cpu_code import fused
from reports.findings.pair_changes import Change, Copy
from reports.findings.rates import peaks_of
from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Proof, Question, lacks, prove
from reports.walkthrough.families import differing_words, family
from reports.walkthrough.numbers import between, share, size, us, whole
from reports.walkthrough.questions.couples import NEEDS_PAIR, pair_proofs, usual_couple
from reports.walkthrough.questions.kernels import other_machine
from reports.walkthrough.recording import COMPILED, EAGER, Recording, Recordings
from reports.walkthrough.seen import PRODUCTS, device, inside, launches, memsets, product
from suite.peaks import Figure, NotKnown

NO_GPU_KERNEL = (
    "a GPU: on a CPU the product is a call into the processor's library, which leaves no kernel's name in the trace"
)


def fusion(recordings: Recordings) -> Answer:
    """Whether compile fused the kernel."""
    couple = usual_couple(recordings)
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
        says += (
            f" {share(of.share)} of the compiled recording's time runs in {of.kernels} cpp_fused kernels ({of.calls} calls)."
            if of.calls
            else " Nothing of the compiled recording's time runs in cpp_fused kernels."
        )
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
        pair_proofs(couple, found, "fusion"),
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
    couple = usual_couple(recordings)
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
    couple = usual_couple(recordings)
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
        f"A copy of the bias: {moved}in {whole(copy.us)}{rate}, {copy.per_step:.3g} a step. addmm adds the product to what its"
        f" output holds,"
        " so b is copied there first; the copy's own call is easily missed beside the kernel's launch."
    )
    return Answer(
        says,
        (
            Beside(
                "copied",
                f"{size(theirs.COPY_BYTES)} in {whole(theirs.COPY_US)}",
                f"{moved.strip() or 'size not recorded'} in {whole(copy.us)}",
            ),
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
            f"source and target ({size(2 * copy.bytes)}) fit this GPU's last cache ({size(peaks.cache_bytes)}), so that the rate"
            f" need not be"
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
        f"The CPU has its twin: aten::copy_ within aten::addmm, {each:.3g} a step, {us(spent)}{of}: the bias is put where the"
        f" product adds"
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


FUSION_QUESTIONS = (
    Question("fusion", "Did compile fuse the kernel?", "torch.compile", (), fusion),
    Question("same-kernel", "Is it the same GEMM kernel?", "torch.compile", (), same_kernel),
    Question(
        "second-operation",
        "What is the second GPU operation of one launch?",
        "torch.compile",
        (),
        second_operation,
    ),
)
"""Items 100, 101, 107 to 110."""
