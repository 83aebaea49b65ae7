"""What the profiler's table makes one ask: what bounds the small and the large product."""

from __future__ import annotations

from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Question, lacks, prove
from reports.walkthrough.numbers import share, us
from reports.walkthrough.recording import EAGER, Recording, Recordings
from reports.walkthrough.seen import bound, device, product

WAITS_APART = 0.25
"""Shares of the CPU's time spent waiting that differ by more make two CPU totals two different things."""


def _beside(recording: Recording, cpu: float, gpu: float, word: str) -> tuple[Beside, ...]:
    analysis, here = recording.analysis, device(recording.analysis)
    assert here is not None
    total = analysis.host.self_cpu_total_us
    return (
        Beside("bound", word, bound(analysis)),
        Beside("self CPU time total", us(cpu), us(total)),
        Beside("GPU time", us(gpu), us(here.busy_us)),
        Beside("GPU time / CPU time", share(gpu / cpu), share(here.busy_us / total)),
    )


def _says(recording: Recording) -> str:
    analysis, here = recording.analysis, device(recording.analysis)
    assert here is not None
    host = analysis.host
    regime = analysis.regimes[analysis.devices.index(here)]
    waits = f", {us(host.synchronize_us)} of it waiting in a synchronising call" if host.synchronize_us > 0 else ""
    return (
        f"At {recording.shape} the CPU's own time is {us(host.self_cpu_total_us)}{waits}, the GPU works {us(here.busy_us)}"
        f" ({share(here.busy_us / host.self_cpu_total_us)} of it): {regime.bound}, since {regime.why}."
    )


def _without_gpu(recording: Recording) -> Answer:
    analysis = recording.analysis
    steps = len(analysis.steps)
    outcome = recording.outcome("cpu-hotspot")
    says = (
        f"No GPU's work is recorded: at {recording.shape} the CPU's own time is {us(analysis.host.self_cpu_total_us)} in"
        f" {steps} steps. {outcome.claim or outcome.why[:1].upper() + outcome.why[1:] + '.'}"
    )
    gaps = recording.outcome("cpu-gaps")
    says += f" Outside of operators: {gaps.why}." if gaps.why else ""
    return Answer(
        says,
        (),
        prove(recording, "cpu-hotspot", "cpu-gaps"),
        ("a question about launches needs a GPU; the CPU's twin is the time that runs in no operator (cpu-gaps)",),
    )


def small(recordings: Recordings) -> Answer:
    """Why the CPU takes 2.3 ms for 23 us of GPU work."""
    recording = recordings.pick(EAGER, recordings.sizes[0], "cold", "main", "wait0", "warm")
    if recording is None:
        return lacks(f"an eager profile of a small size (the walkthrough's is {theirs.SMALL})")
    if not recording.analysis.devices:
        return _without_gpu(recording)
    host = recording.analysis.host
    waits, their_waits = host.synchronize_us / host.self_cpu_total_us, theirs.SYNCHRONIZE_US / theirs.SMALL_CPU_US
    differs = []
    if abs(waits - their_waits) > WAITS_APART:
        differs.append(
            f"of the A100's CPU total {share(their_waits)} is the profiler's own wait in cudaDeviceSynchronize, here {share(waits)}: the"
            " totals are not of the same things, and without their waits they are"
            f" {us(theirs.SMALL_CPU_US - theirs.SYNCHRONIZE_US)} and {us(host.self_cpu_total_us - host.synchronize_us)}"
        )
    return Answer(
        _says(recording),
        _beside(recording, theirs.SMALL_CPU_US, theirs.SMALL_GPU_US, "overhead-bound"),
        prove(recording, "R1"),
        (*differs, *_size(recording, theirs.SMALL)),
    )


def large(recordings: Recordings) -> Answer:
    """What bounds the large one."""
    recording = recordings.pick(EAGER, recordings.sizes[1], "cold", "main", "warm", "active20")
    if recording is None:
        return lacks(f"an eager profile of a large size (the walkthrough's is {theirs.LARGE})")
    if not recording.analysis.devices:
        return _without_gpu(recording)
    return Answer(
        _says(recording),
        _beside(recording, theirs.LARGE_CPU_US, theirs.LARGE_GPU_US, "compute-bound"),
        prove(recording, "R2" if bound(recording.analysis) in ("compute-bound", "memory-bound") else "idle", "R3"),
        (*_other_bound(recording), *_size(recording, theirs.LARGE)),
    )


def _other_bound(recording: Recording) -> tuple[str, ...]:
    """Why a large product is not compute-bound where the A100's is: its GPU is done before its host has launched the next."""
    analysis = recording.analysis
    word, found = bound(analysis), product(analysis)
    if word == "compute-bound" or found is None:
        return ()
    idle = recording.outcome("idle")
    where = f": {idle.claim}" if idle.claim else ""
    return (
        f"not compute-bound here, but {word}: a product takes {us(found.median_us)} ({us(theirs.TYPICAL_US)} on the A100), and what the"
        f" host needs for its launches and its first step weighs more beside it{where}",
    )


def _size(recording: Recording, usual: int) -> tuple[str, ...]:
    return (
        () if recording.size == usual else (f"asked of {recording.size} in {recording.dtype}, not of {usual} in bf16",)
    )


TABLE_QUESTIONS = (
    Question(
        "overhead",
        "Why does the CPU take 2.3 ms for 23 us of GPU work?",
        "The table",
        ("R1",),
        small,
    ),
    Question("bound", "And what bounds the large product, 4096 by 4096?", "The table", ("R2",), large),
)
"""Items 76 to 78 of the walkthrough's claims."""
