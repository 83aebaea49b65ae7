"""What the trace makes one ask of the host's lane: the wide first step, the late first kernel, the profiler's buffer, the last wait."""

from __future__ import annotations

import numpy as np

from reports.findings.contract import Verdict
from reports.trace.gaps import LATENCY_NS, Cause
from reports.trace.steps import Step
from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Proof, Question, fires, lacks, prove
from reports.walkthrough.numbers import raw, us
from reports.walkthrough.recording import EAGER, Recording, Recordings
from reports.walkthrough.seen import device, first_step_extras

NEEDS_GPU = "a GPU (this run was recorded on the CPU alone)"

ARRIVES_US = LATENCY_NS / 1000
"""A launch that takes longer to arrive than this is held up by something else."""


def first_step(recordings: Recordings) -> Answer:
    """Why step #2 is wider, and where 227.757 us go."""
    recording = recordings.pick(EAGER, recordings.sizes[0], "cold", "wait0", "main", "warm")
    recording = recording or recordings.pick(EAGER, recordings.sizes[1], "cold", "main", "warm")
    if recording is None or len(recording.analysis.steps) < 2:
        return lacks("an eager profile with two recorded steps or more, best without calls before it (pass cold)")
    steps = recording.analysis.steps
    first, gaps = steps[0], [step.gap_us for step in steps]
    rest = float(np.median([step.host_us for step in steps[1:]]))
    begins = f"Step #{first.number} takes the host {us(first.host_us)}, the others typically {us(rest)}"
    listed = ", ".join(f"#{step.number} {raw(step.gap_us)}" for step in steps[:5] if step.gap_us is not None)
    in_gap = fires(recording, "R7")
    if in_gap and first.gap_us is not None:
        middle = float(np.median([gap for gap in gaps[1:] if gap is not None] or [0.0]))
        says = (
            f"{begins}. Of that, {raw(first.gap_us)} pass between {first.annotation} and its first operator, {first.first_op}"
            f" (the others: {us(middle)}): one-time work, as workspaces and the library's choice of a kernel."
        )
    elif recording.analysis.cold_first_step:
        says = (
            f"{begins}: it is cold here too, but the gap before its first operator ({_gap(first)}) is not what makes it so."
            f" {_extras(recording)}"
        )
    else:
        says = f"{begins}: this first step is not cold. The gap before its first operator is {_gap(first)}."
    return Answer(
        says,
        (
            Beside(
                "annotation to first operator, by step",
                ", ".join(f"#{number} {raw(gap)}" for number, gap in enumerate(theirs.GAPS_US, 2)),
                listed or "not recorded",
            ),
        ),
        prove(recording, "R6", "R7"),
        () if in_gap else (_why_no_gap(recording),),
    )


def _gap(step: Step) -> str:
    return "not recorded" if step.gap_us is None else raw(step.gap_us)


def _extras(recording: Recording) -> str:
    found = first_step_extras(recording.analysis)[:3]
    return "It spends more than the others in " + ", ".join(f"{one.name} ({us(one.us)})" for one in found) + "."


def _why_no_gap(recording: Recording) -> str:
    name = {"main": "one call", "warm": "a loop of calls", "active20": "a loop of calls"}.get(recording.kind, "")
    if name:
        return f"what the A100's first step pays for may have been paid for before: {name} ran before this profile"
    if recording.analysis.cold_first_step:
        found = first_step_extras(recording.analysis)[:1]
        where = f", most of it in {found[0].name}" if found else ""
        return f"the first step pays for its one-time work within its operators and launches, not before them{where}"
    return "nothing that happens once is left for this first step: the profiler's own wait and warm-up steps came before it"


def late_kernel(recordings: Recordings) -> Answer:
    """Why the GPU begins 2.32 ms after the launch."""
    if not recordings.has_gpu:
        return lacks(NEEDS_GPU)
    recording = recordings.pick(EAGER, recordings.sizes[0], "cold", "wait0", "main", "warm")
    recording = recording or recordings.pick(EAGER, recordings.sizes[1], "cold", "main", "warm")
    here = device(recording.analysis) if recording else None
    if recording is None or here is None or here.first_launch_to_first_kernel_us is None:
        return lacks("an eager profile with a GPU's kernels and their launches")
    delay, spread = here.first_launch_to_first_kernel_us, here.launch_delay_us
    begins = f"The first kernel begins {us(delay)} after its launch"
    if delay <= ARRIVES_US:
        says = f"{begins}: no delay of milliseconds, but what it takes to reach a GPU that has nothing else to do."
    else:
        cause, lost = max(
            ((cause, here.idle_us.get(cause.value, 0.0)) for cause in (Cause.PROFILER, Cause.WAIT, Cause.UNKNOWN)),
            key=lambda item: item[1],
        )
        says = f"{begins}, and of the GPU's idle time {us(lost)} {REASONS[cause]}."
    return Answer(
        says,
        (
            Beside("first launch to first kernel", us(theirs.FIRST_DELAY_US), us(delay)),
            *(() if spread is None else (Beside("typical launch to its kernel", "not published", us(spread.median)),)),
        ),
        (*_delay_proof(recording, delay), *prove(recording, "clock-skew", "R12")),
        ("no offset between the lanes here that one would see: a delay of milliseconds is no property of launching",)
        if delay <= ARRIVES_US
        else (),
    )


REASONS = {
    Cause.PROFILER: "lies within the profiler's own work: it asked for a buffer while recording",
    Cause.WAIT: "was spent waiting for another stream",
    Cause.UNKNOWN: "passed with work launched and not begun, for no reason that was recorded: usually the profiler's start, or an offset"
    " between the lanes of host and GPU. No program waits that long for a launch",
}


def _delay_proof(recording: Recording, delay: float) -> tuple[Proof, ...]:
    here = device(recording.analysis)
    if here is None:
        return ()
    return (
        Proof(
            "",
            f"{us(delay)} from the first launch to the first kernel; idle {us(here.window_us - here.busy_us)} of {us(here.window_us)}",
            recording,
            here.start_us - delay,
            here.start_us,
        ),
    )


def buffer_request(recordings: Recordings) -> Answer:
    """What the Activity Buffer Request is."""
    if not recordings.has_gpu:
        return lacks(NEEDS_GPU)
    small, large = recordings.sizes
    recording = recordings.pick(EAGER, small, "wait0") or recordings.pick(EAGER, large, "wait0")
    seen = next((one for one in recordings.all if fires(one, "R12")), None)
    if recording is None and seen is None:
        return lacks(
            "a profile without wait and warm-up steps (pass wait0, schedule wait=0, warmup=0); no other recording holds such a request"
        )
    recording = recording if recording is not None and (seen is None or fires(recording, "R12")) else seen
    assert recording is not None
    outcome = recording.outcome("R12")
    meaning = (
        "The profiler keeps its records in buffers of the host's memory (not the GPU's); a request in the lane is the profiler"
        " at work."
    )
    fired = outcome.verdict is Verdict.FIRED
    seen_here = outcome.evidence[0].text if fired else "none recorded"
    says = f"Seen in {recording.label}: {seen_here}. {meaning}" if fired else f"Here {outcome.why}. {meaning}"
    here = device(recording.analysis)
    lost = here.idle_us.get(Cause.PROFILER.value, 0.0) if here else 0.0
    return Answer(
        says,
        (
            Beside(
                "Activity Buffer Request with wait=0, warmup=0",
                "seen, at the head of the GPU's lane",
                seen_here,
            ),
            Beside("the GPU's idle time within it", "not published", us(lost)),
        ),
        prove(recording, "R12"),
        ()
        if outcome.verdict is Verdict.FIRED
        else ("this version of the profiler had its buffers before it recorded",),
    )


def synchronize(recordings: Recordings) -> Answer:
    """What cudaDeviceSynchronize waits for."""
    if not recordings.has_gpu:
        return lacks(NEEDS_GPU)
    recording = recordings.pick(EAGER, recordings.sizes[0], "cold", "wait0", "main", "warm")
    recording = recording or recordings.pick(EAGER, recordings.sizes[1], "cold", "main", "warm")
    here = device(recording.analysis) if recording else None
    if recording is None or here is None or not recording.analysis.host.synchronizations:
        return lacks("an eager profile with a synchronising call at its end")
    wait, span = recording.analysis.host.last_synchronize_us, here.span_us
    outcome = recording.outcome("R10")
    decided = outcome.evidence[0].text if outcome.evidence else outcome.why
    fired = outcome.verdict is Verdict.FIRED
    fits = 0 < span < wait
    idle = f"{100 * (1 - span / wait):.1f} %" if fits else "the GPU's work does not lie within it"
    if fired and fits:
        says = (
            f"The last wait takes {us(wait)}, and all of the GPU's work spans {us(span)}: the GPU is {idle} idle in it. The"
            f" profiler calls"
            " it to collect its own records when the window ends; it is no part of the program."
        )
    elif fired:
        says = f"{outcome.claim}: the profiler collects its records."
    else:
        says = f"It waits for nothing unusual here: {decided}."
    return Answer(
        says,
        (
            Beside("last synchronising call", us(theirs.SYNCHRONIZE_US), us(wait)),
            Beside("the GPU's work, from first to last", us(theirs.SYNCHRONIZE_GPU_US), us(span)),
            Beside("idle in the wait", f"{theirs.SYNCHRONIZE_IDLE * 100:.1f} %", idle),
        ),
        prove(recording, "R10"),
        () if fired else (_short_wait(recording, wait, span),),
    )


def _short_wait(recording: Recording, wait: float, span: float) -> str:
    here = device(recording.analysis)
    delay = here.first_launch_to_first_kernel_us if here else None
    if delay is not None and delay <= ARRIVES_US and span >= wait:
        return (
            f"the A100's kernels began {us(theirs.FIRST_DELAY_US)} late, so that its host waited at the end; here the first begins after"
            f" {us(delay)}, and no such delay is left to wait for at the end"
        )
    return f"the wait ({us(wait)}) is for work here: what the GPU still has to do then"


TRACE_QUESTIONS_OF_THE_HOST = (
    Question(
        "first-step",
        "Why is step #2 wider, and where do its 227.757 us go?",
        "The trace",
        ("R6", "R7"),
        first_step,
    ),
    Question(
        "late-kernel",
        "Why does the GPU begin 2.32 ms after the launch?",
        "The trace",
        ("idle", "clock-skew"),
        late_kernel,
    ),
    Question("buffer-request", "What is the Activity Buffer Request?", "The trace", (), buffer_request),
    Question(
        "synchronize",
        "What does cudaDeviceSynchronize wait for: 1.78 ms over 26 us of work?",
        "The trace",
        ("R10",),
        synchronize,
    ),
)
"""Items 82 to 87 and 93."""
