"""What torch.compile costs and gives on the host: its rows in the trace, the price of a step, reduce-overhead."""

from __future__ import annotations

from reports.findings.contract import Verdict
from reports.findings.pair import Pair
from reports.findings.pair_changes import left_out
from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Question, lacks, prove
from reports.walkthrough.numbers import listed, us
from reports.walkthrough.questions.couples import NEEDS_PAIR, PAYS, pair_proofs
from reports.walkthrough.questions.fusion import FUSION_QUESTIONS
from reports.walkthrough.recording import COMPILED, REDUCE_OVERHEAD, Recordings


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
            Beside("CompiledFxGraph", "the same hash in all steps", hashes),
            Beside("Torch-Compiled Region", "0/0, in each step", _brief(said[0].claim)),
            Beside("TorchDynamo Cache Lookup", "in each step", _brief(said[1].why)),
            Beside("Runtime Wrapper Prologue", "in each step, without gradients too", _brief(said[2].why)),
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


def host_price(recordings: Recordings) -> Answer:
    """Whether the CPU's step is dearer when compiled."""
    couples = [couple for one in recordings.sizes[::-1] if (couple := recordings.couple(COMPILED, one)) is not None]
    couples = [couple for couple in couples if recordings.pair(couple).cpu_step_ratio]
    if not couples:
        return lacks(f"{NEEDS_PAIR}, with steps")
    told, beside = [], []
    waits = WAITS if recordings.has_gpu else ""
    for couple in couples:
        found = recordings.pair(couple)
        ratio = found.cpu_step_ratio or 0.0
        medians = f"medians{left_out(couple[0].analysis, couple[1].analysis)}{waits}"
        told.append(
            f"At {couple[0].shape} a compiled step takes {ratio:.1f}x an eager one on the host ({us(found.eager_cpu_us or 0)} to"
            f" {us(found.compiled_cpu_us or 0)}, {medians}{_dearer(ratio)}; guards, wrappers and graph calls take"
            f" {us(found.frames_us)} of it)."
        )
        beside.append(
            Beside(
                f"step by step, compiled / eager, at {couple[0].shape}",
                listed(theirs.STEP_RATIOS) if couple is couples[0] else "not published",
                listed(found.step_ratios),
            )
        )
        if timed := recordings.machine.timed.get((couple[0].size, COMPILED)):
            told.append(f"Without the profiler, the whole call: {timed}.")
    first = recordings.pair(couples[0]).cpu_step_ratio or 0.0
    return Answer(
        " ".join(told),
        tuple(beside),
        tuple(proof for couple in couples for proof in pair_proofs(couple, recordings.pair(couple), "R25")),
        ()
        if first >= PAYS
        else (
            "not dearer here under the profiler, where steps are few and spread"
            f" ({len(recordings.pair(couples[0]).step_ratios)} compared step by step)",
        ),
    )


WAITS = ", waits for the GPU within it included"
"""A step's time on the host is its length: whether the host computes in it or waits."""


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
        told.append(f"At {couple[0].shape}: host time a step{WAITS} {host}; GPU time a step {gpu}.")
        if timed := recordings.machine.timed.get((couple[0].size, REDUCE_OVERHEAD)):
            told.append(f"Without the profiler, the whole call: {timed}.")
        copies = [one for one in couple[1].analysis.kernels if one.kernel_class == "copy" and one.kind == "kernel"]
        if copies:
            spent = sum(one.total_us for one in copies) / max(len(couple[1].analysis.steps), 1)
            told.append(f"Copying its inputs to where the graph expects them takes {us(spent)} of GPU time a step.")
        large = couple[0].size == recordings.sizes[1]
        beside.append(
            Beside(
                f"at {couple[0].shape}",
                "left to the reader as an exercise",
                _effect(found),
            )
        )
        if not large and found.cpu_step_ratio and found.cpu_step_ratio >= PAYS:
            differs.append(
                f"it does not make the host's step shorter than an eager one here ({found.cpu_step_ratio:.2f}x): guards and wrappers"
                f" ({us(found.frames_us)}) stay"
            )
    return Answer(
        " ".join(told),
        tuple(beside),
        tuple(proof for couple in couples for proof in pair_proofs(couple, recordings.pair(couple), "R25", "fusion")),
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
    *FUSION_QUESTIONS,
    Question("host-price", "Is the CPU's step dearer when compiled?", "torch.compile", (), host_price),
    Question("reduce-overhead", 'Does mode="reduce-overhead" help?', "torch.compile", (), reduce_overhead),
)
"""Items 99 to 113."""
