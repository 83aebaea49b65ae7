"""Whether a trace can be trusted, before anything else is said of it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.trace.analyse import Analysis
from reports.trace.categories import Call, Kind
from reports.trace.read import Trace
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


CAPTURE = re.compile(r"StreamBeginCapture|StreamEndCapture")


def _captured(trace: Trace) -> NDArray[np.bool_]:
    """Of `enqueue_rows`, the calls that a graph capture on their thread recorded: they start nothing by themselves."""
    rows, slices = trace.enqueue_rows, trace.slices
    found = np.zeros(rows.size, bool)
    marks = [row for row in trace.rows(Kind.RUNTIME).tolist() if CAPTURE.search(trace.name(row))]
    opened: dict[int, int] = {}
    for mark in sorted(marks, key=lambda row: int(slices.start[row])):
        lane = int(slices.lane[mark])
        if "Begin" in trace.name(mark):
            opened.setdefault(lane, int(trace.end[mark]))
        elif lane in opened:
            begun = slices.start[rows]
            found |= (slices.lane[rows] == lane) & (begun >= opened.pop(lane)) & (begun <= slices.start[mark])
    return found


def activity_missing(analysis: Analysis) -> Outcome:
    """Launches without GPU slices."""
    trace = analysis.trace
    rows = trace.enqueue_rows
    if not rows.size:
        return not_applicable("nothing was launched on a GPU")
    captured = _captured(trace)
    note = (
        f"; {int(captured.sum()):,} more were captured in a graph and start nothing by themselves"
        if captured.any()
        else ""
    )
    rows = rows[~captured]
    if not rows.size:
        return not_applicable(f"nothing was launched on a GPU{note}")
    if not analysis.devices:
        start = (int(trace.slices.start[rows[0]]) - trace.origin) / 1000
        return fired(
            "GPU activity is missing: work was launched and none of it was recorded. The GPU was NOT idle",
            Evidence(f"{rows.size:,} launches, 0 GPU slices{note}", start, start),
            why="launches without any kernel mean that the profiler did not see the GPU",
            advice="Profile with ProfilerActivity.CUDA, as a user who may read GPU counters, with no other profiler (nsys, DCGM) attached.",
        )
    graphs = trace.call[rows] == Call.GRAPH_LAUNCH
    if graphs.any():
        # Work that a graph runs was launched once more, when it was captured: only the graph's own launches tell.
        note = f"; launches of {int(graphs.sum()):,} graphs are looked at alone, since capturing them launches nothing"
        rows = rows[graphs]
    unseen = int((~np.isin(rows, trace.links.launch)).sum())
    if unseen > 0.5 * rows.size:
        return fired(
            "More than half of the launches have no GPU slice: part of the GPU's activity is missing",
            Evidence(f"{unseen:,} of {rows.size:,} launches have no slice{note}"),
            why=f"{share(unseen / rows.size)} of the launches led to nothing that was recorded",
            advice="Stop the profiler only after torch.cuda.synchronize(), and record fewer steps.",
        )
    return quiet(f"{rows.size - unseen:,} of {rows.size:,} launches have their GPU slices{note}")


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
            advice="Do not read launch delays off this trace, nor why the GPU was idle; how long it worked and was idle is not touched.",
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
        threshold="all of them, or more than half (of the graphs' launches, where graphs ran; captured ones are left out)",
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
