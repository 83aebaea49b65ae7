"""What a recording without a GPU tells by itself: sentences from an analysis. No HTML here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.findings.seen import FUSED_CPP
from reports.render import numbers
from reports.render.plain_text import plain
from reports.render.timeline_lanes import window
from reports.render.trace_units import share, times, us
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.steps import STEP


@dataclass(frozen=True)
class CpuStory:
    """A recording without a GPU.

    `covered` is the share of the window in which the main thread is in an operator; `top` the operator with the largest self time, its
    share of all operators', and its calls (both None without operators); `fused` the share of Inductor's own kernels. `annotation` is
    the one (no step) with the largest self time, that time in us, and its calls.
    """

    window_us: float
    threads: int
    covered: float | None
    top: tuple[str, float, int] | None
    fused: float
    annotation: tuple[str, float, int] | None


HARDLY = 0.1
"""Operators that cover less than a tenth of the main thread are not the story: the annotation with the largest self time is."""


def cpu_story(analysis: Analysis) -> CpuStory:
    """What a CPU-only recording tells by itself."""
    trace = analysis.trace
    begin, finish = window(trace)
    rows = trace.rows(Kind.OP)
    lanes, counts = np.unique(trace.slices.lane[rows], return_counts=True)
    covered = None
    if rows.size and finish > begin:
        on = rows[trace.slices.lane[rows] == lanes[counts.argmax()]]
        covered = intervals.length(trace.slices.start[on], trace.end[on]) / (finish - begin)
    found = [stats for stats in analysis.operators if stats.kind == "operator"]
    total = sum(stats.self_us for stats in found)
    fused = sum(stats.self_us for stats in found if FUSED_CPP.match(stats.name))
    top = (found[0].name, found[0].self_us / total, found[0].count) if total else None
    marks = (stats for stats in analysis.operators if stats.kind == "annotation" and not STEP.fullmatch(stats.name))
    annotation = next(((stats.name, stats.self_us, stats.count) for stats in marks), None)
    share_fused = fused / total if total else 0.0
    return CpuStory((finish - begin) / 1000, analysis.host.threads, covered, top, share_fused, annotation)


def cpu_headline(analysis: Analysis) -> str:
    """A CPU-only recording in a sentence."""
    story = cpu_story(analysis)
    if (story.covered is None or story.covered < HARDLY) and story.annotation:
        name, time, count = story.annotation
        return f"On the CPU: {plain(name, 60)} takes {us(time)} in {numbers.counted(count, 'call')}, hardly any operator runs"
    if story.top is None:
        return "A recording of the CPU without operators"
    return f"On the CPU: {plain(story.top[0], 60)} takes {share(story.top[1])} of the operators' time"


def cpu_sentence(analysis: Analysis) -> str:
    """What decides the time on a CPU."""
    story = cpu_story(analysis)
    if analysis.trace.slices.start.size == 0 and analysis.trace.count:
        return "The file holds Python's frames alone: no operator ran in the recorded steps, or activities named none."
    if analysis.trace.slices.start.size == 0:
        return "The file holds no slice: no active step of the profiler's schedule was reached. Call prof.step() once an iteration."
    threads = numbers.counted(story.threads, "thread")
    if story.top is None or story.covered is None:
        return f"No work of a GPU is recorded; {us(story.window_us)} on {threads}, and no operator among it."
    name, part, count = story.top
    within = ""
    if story.covered < HARDLY and story.annotation:
        mark, time, calls = story.annotation
        within = f" {plain(mark, 80)}, an annotation, takes {us(time)} of its own in {numbers.counted(calls, 'call')}."
    fused = f" Kernels that Inductor fused take {share(story.fused)}." if story.fused else ""
    return (
        f"No work of a GPU is recorded. In {us(story.window_us)} on {threads}, operators cover {share(story.covered)} of the main thread; "
        f"the rest is Python and what lies between them. {plain(name, 80)} has the largest self time: {share(part)} of all operators', "
        f"in {numbers.counted(count, 'call')}.{within}{fused}"
    )


def cpu_next(analysis: Analysis) -> str:
    """What to do next, where no finding advises anything."""
    story = cpu_story(analysis)
    if story.top is None or story.covered is None:
        return ""
    if story.covered < HARDLY and story.annotation:
        return f"Look at what runs within {plain(story.annotation[0], 80)}: operators are not what takes the time."
    if story.covered < 0.5:
        return (
            "Most of the time no operator runs: make fewer and larger calls, or let torch.compile join them;"
            " faster operators give little."
        )
    rest = 1 / max(1 - story.covered * story.top[1], 0.001)
    name = plain(story.top[0], 80)
    return f"Begin with {name}: without it the whole would be at most {times(rest)} as fast, and nothing else gives as much."
