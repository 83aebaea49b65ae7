"""Whether a trace can be trusted, before anything else is said of it."""

from __future__ import annotations

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.trace.analyse import Analysis
from reports.trace.categories import Call
from reports.words import share, us

BENIGN = {
    "whole_microseconds": "the clock of this trace is coarse (whole microseconds)",
    "orphan": "some GPU work was launched before the recording began",
    "device_unknown": "the file does not name the GPU",
    "unfinished": "some operations had not ended when the recording stopped",
    "clock_skew": "the clocks of host and GPU disagree",
    "gpu_activity_missing": "the GPU's activity was not recorded",
    "nothing_recorded": "nothing was recorded",
    "repeated_correlation": "launches of several processes share their ids",
    "unread_category": "some slices are of kinds that are not read",
    "device_unread": "a device of another kind was recorded, which is not read",
    "lost_records": "records of GPU work are missing",
    "second_document": "a second document follows in the file and is not read",
}
"""Notes on traces that are whole as they were written: each has its own words."""


def _headline(kinds: list[str]) -> str:
    if any(kind not in BENIGN for kind in kinds):
        return "This trace is damaged or incomplete; read what follows with these notes in mind"
    said = "; ".join(BENIGN[kind] for kind in kinds)
    return f"{said[0].upper()}{said[1:]}: the file is whole, read what follows with that in mind"


def health(analysis: Analysis) -> Outcome:
    """Whatever was mended, left out, or has to be kept in mind."""
    notes = analysis.trace.notes
    if not notes:
        return quiet(f"all {analysis.trace.count:,} slices could be read, and none contradicts another")
    withheld = sorted(analysis.trace.withheld)
    return fired(
        _headline([note.kind for note in notes]),
        *(Evidence(f"{note.kind.replace('_', ' ')} ({note.count:,}): {note.effect}") for note in notes),
        why=f"withheld because of it: {', '.join(withheld)}" if withheld else "no claim had to be withheld",
        advice="Record the trace again where a claim is withheld that you need." if withheld else "",
    )


def activity_missing(analysis: Analysis) -> Outcome:
    """Launches without GPU slices, and waits for work that is not recorded."""
    trace = analysis.trace
    rows, captured = trace.enqueue_rows, int(trace.captured.sum())
    note = f"; {captured:,} more were captured in a graph and start nothing by themselves" if captured else ""
    told = next((one for one in trace.notes if one.kind in ("gpu_activity_missing", "device_unread")), None)
    if told is not None and told.kind == "device_unread":
        return fired(
            "Activity of a device of another kind is recorded, and not read: nothing is known here of how long that device worked",
            Evidence(f"{told.count:,} slices: {told.effect}"),
            why="their categories are none of a CUDA or ROCm device's",
            advice="Read this recording with the device maker's own tool; what is said of the host holds.",
        )
    if not analysis.devices and (told is not None or rows.size > captured):
        first = rows[~trace.captured][:1]
        start = (int(trace.slices.start[first[0]]) - trace.origin) / 1000 if first.size else None
        what = "work was launched" if first.size else "the host waited for work"
        return fired(
            f"GPU activity is missing: {what} and none of it was recorded. The GPU was NOT idle",
            Evidence(f"{rows.size - captured:,} launches, 0 GPU slices{note}", start, start),
            *([Evidence(told.effect)] if told is not None else []),
            why="launches of work, or long waits for it, without any kernel mean that the profiler did not see the GPU",
            advice="Profile with ProfilerActivity.CUDA, as a user who may read GPU counters, with no other profiler (nsys, DCGM) attached.",
        )
    if rows.size == captured:
        return not_applicable(f"nothing was launched on a GPU{note}")
    kinds = trace.call[rows]
    graphs = int((kinds[~trace.captured] == Call.GRAPH_LAUNCH).sum())
    if graphs:
        # Work that a graph runs was launched once more, when it was captured: only the graph's own launches tell.
        note = f"; launches of {graphs:,} graphs are looked at alone, since capturing them launches nothing"
    of = graphs or int((kinds[~trace.captured] == Call.LAUNCH).sum())
    lost = trace.lost_rows if any(note.kind == "lost_records" for note in trace.notes) else rows[:0]
    if not lost.size:
        return quiet(f"each of {of:,} launches of kernels has its GPU slices, or it is noted why not{note}")
    at = (trace.slices.start[lost] - trace.origin) / 1000
    where = (
        "all of them before the first recorded slice"
        if trace.slices.start[lost[-1]] < trace.slices.start[trace.gpu_rows[0]]
        else (f"between {us(float(at[0]))} and {us(float(at[-1]))} of the recording")
    )
    return fired(
        f"{lost.size:,} of {of:,} launches of kernels have no GPU slice: part of the GPU's activity is missing",
        Evidence(
            f"{lost.size:,} of {of:,} launches have no slice ({share(lost.size / of)}), {where}{note}",
            float(at[0]),
            float(at[-1]),
        ),
        why="in a whole recording each launch of a kernel has its slice; busy time is a lower bound here",
        advice="Record fewer steps at a time, and stop the profiler only after torch.cuda.synchronize().",
    )


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
            advice="Do not read launch delays off this trace"
            + (", nor why the GPU was idle" if "cause" in analysis.trace.withheld else "")
            + "; how long it worked and was idle is not touched.",
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
        formula="launches of kernels and graphs without a GPU slice / launches of them",
        threshold="any (of the graphs' launches, where graphs ran; captured ones are left out), or a wait of 1 ms for no work",
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
