"""Whether a trace can be trusted, before anything else is said of it."""

from __future__ import annotations

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.trace.analyse import Analysis
from reports.words import share, us


def health(analysis: Analysis) -> Outcome:
    """Whatever was mended or left out."""
    notes = analysis.trace.notes
    if not notes:
        return quiet(f"all {analysis.trace.count:,} slices could be read, and none contradicts another")
    withheld = sorted(analysis.trace.withheld)
    return fired(
        "This trace is damaged or incomplete; read what follows with these notes in mind",
        *(Evidence(f"{note.kind.replace('_', ' ')} ({note.count:,}): {note.effect}") for note in notes),
        why=f"withheld because of it: {', '.join(withheld)}" if withheld else "no claim had to be withheld",
        advice="Record the trace again where a claim is withheld that you need.",
    )


def activity_missing(analysis: Analysis) -> Outcome:
    """Launches without GPU slices."""
    launches = analysis.host.launches
    if not launches:
        return not_applicable("nothing was launched on a GPU")
    if not analysis.devices:
        row = int(analysis.trace.enqueue_rows[0])
        start = (int(analysis.trace.slices.start[row]) - analysis.trace.origin) / 1000
        return fired(
            "GPU activity is missing: work was launched and none of it was recorded. The GPU was NOT idle",
            Evidence(f"{launches:,} launches, 0 GPU slices", start, start),
            why="launches without any kernel mean that the profiler did not see the GPU",
            advice="Profile with ProfilerActivity.CUDA, as a user who may read GPU counters, with no other profiler (nsys, DCGM) attached.",
        )
    unseen = launches - sum(device.launches for device in analysis.devices)
    if unseen > 0.5 * launches:
        return fired(
            "More than half of the launches have no GPU slice: part of the GPU's activity is missing",
            Evidence(f"{unseen:,} of {launches:,} launches have no slice"),
            why=f"{share(unseen / launches)} of the launches led to nothing that was recorded",
            advice="Stop the profiler only after torch.cuda.synchronize(), and record fewer steps.",
        )
    return quiet(f"{launches - unseen:,} of {launches:,} launches have their GPU slices")


def clocks(analysis: Analysis) -> Outcome:
    """GPU slices before their launch."""
    if not analysis.devices:
        return not_applicable("there is no GPU slice whose launch could be compared")
    early = analysis.trace.links.delay[analysis.trace.links.first]
    worst = int(early.min()) if early.size else 0
    if not early.size:
        return not_applicable("no launch was recorded")
    if worst < 0:
        row = int(analysis.trace.gpu_rows[analysis.trace.links.first][int(early.argmin())])
        at = (int(analysis.trace.slices.start[row]) - analysis.trace.origin) / 1000
        return fired(
            f"The clocks of host and GPU disagree by at least {us(-worst / 1000)}",
            Evidence(
                f"{analysis.trace.name(row)[:80]} begins {us(-worst / 1000)} before its launch", at, at - worst / 1000
            ),
            why="nothing can run before it was launched",
            advice="Do not read launch delays off this trace; busy and idle time of the GPU are not touched.",
        )
    return quiet(f"every GPU slice begins after its launch, the earliest {us(worst / 1000)} after")


TRUST_RULES = (
    Rule(
        id="trust",
        title="Can this trace be trusted?",
        family="trust",
        severity="hint",
        formula="number of events that were mended, cut or left out, by kind",
        threshold="any",
        refuted_by="the same program recorded again gives a trace without notes",
        explanation=(
            "A profiler can be killed, run out of buffers or write times that cannot be true. Tools that read such a file without a word"
            " give numbers that look right and are not. Here every kind of damage is counted, and a claim that it could falsify is"
            " withheld instead of made."
        ),
        check=health,
    ),
    Rule(
        id="gpu-activity-missing",
        title="Is the GPU's activity in the trace?",
        family="trust",
        severity="problem",
        formula="launches (kernels, graphs, copies, fills) without a GPU slice / launches",
        threshold="all of them, or more than half",
        refuted_by="GPU slices with the correlation ids of these launches",
        explanation=(
            "The host's part of a trace shows launches, the GPU's part what they led to. When the profiler"
            " cannot attach to the GPU the second"
            " part stays empty. That looks like an idle GPU and is the opposite: nobody looked."
        ),
        check=activity_missing,
        needs=frozenset({"window"}),
    ),
    Rule(
        id="clock-skew",
        title="Do host and GPU agree on the time?",
        family="trust",
        severity="hint",
        formula="start of the first GPU slice of a launch - start of the launch",
        threshold="below 0",
        refuted_by="a launch recorded with another id",
        explanation=(
            "Host and GPU have clocks of their own, which the profiler aligns. When it fails, kernels seem to begin before they were"
            " launched. Lengths stay right; anything measured from the host to the GPU does not."
        ),
        check=clocks,
    ),
)
