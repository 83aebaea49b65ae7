"""The report's charts, as SVG text that is the same every time for the same numbers."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from reports.render import numbers
from reports.results import ArmResult, CaseResult, Results
from reports.state import REFERENCES, Regime, series
from suite.bundle.reader import Loaded

INK, MUTED, GRID, BAND = "#1b2330", "#6b7585", "#e3e7ee", "#eef1f6"
ARM_COLOURS = ("#5b6675", "#a3acb9", "#0f766e", "#b45309", "#6d28d9", "#be123c", "#1d4ed8")
VERDICT_COLOURS = {
    "faster": "#0f766e",
    "slower": "#be123c",
    "equivalent": "#5b6675",
    "inconclusive": "#b45309",
    None: "#8b95a5",
}
SHADE = "#fbe3d3"
POINTS = 200
"""Iterations drawn per arm at most, taken evenly over the run: enough for the shape, small enough for a page."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "speedproof",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "axes.unicode_minus": False,
}


def colour(position: int) -> str:
    """Colour of the arm at a position of the plan."""
    return ARM_COLOURS[position % len(ARM_COLOURS)]


def svg(figure: Figure, title: str) -> str:
    """A figure as SVG text without dates and without a fixed size."""
    stream = io.StringIO()
    figure.savefig(
        stream,
        format="svg",
        bbox_inches="tight",
        pad_inches=0.04,
        metadata={"Date": None, "Title": title, "Creator": None},
    )
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    # Fixed sizes in points make the picture overflow narrow screens; the viewBox is enough.
    return re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1), count=1
    )


def ratios(results: Results) -> str:
    """Every comparison as a dot with its interval on a log axis, its processes as small dots, the noise floor as a band."""
    rows = results.comparisons
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 0.9 + 0.42 * max(1, len(rows))))
        axes = figure.subplots()
        values = [1.0]
        labels = []
        for position, (case, arm) in enumerate(rows):
            labels.append(f"{case.case.name}\n{arm.arm.label}")
            floor = 1 + case.noise_floor.delta
            axes.fill_betweenx([position - 0.42, position + 0.42], 1 / floor, floor, color=BAND, linewidth=0)
            if arm.ratio is None:
                axes.text(1.0, position, f"  {_shortened(arm.reason, 60)}", va="center", color=MUTED, fontsize=8)
                continue
            values += _draw_ratio(axes, position, arm)
        axes.axvline(1.0, color=MUTED, linewidth=0.8)
        low, high = min(values), max(values)
        axes.set_xscale("log")
        axes.set_xlim(min(low / 1.08, 0.9), max(high * 1.18, 1.15))
        ticks = nice_ratios(*axes.get_xlim())
        axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
        axes.minorticks_off()
        axes.set_yticks(range(len(rows)), labels, fontsize=8)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlabel(
            "times as fast as eager (log scale); band: noise floor; bar: 95 % interval; small dots: processes"
        )
        return svg(figure, "Speedup of every arm over eager")


def _draw_ratio(axes: Any, position: int, arm: ArmResult) -> list[float]:
    assert arm.ratio is not None
    shade = VERDICT_COLOURS[arm.verdict.word if arm.verdict else None]
    values = [arm.ratio.estimate, *arm.ratio.per_process]
    axes.scatter(
        arm.ratio.per_process, [position + 0.26] * len(arm.ratio.per_process), s=7, color=shade, alpha=0.55, linewidth=0
    )
    edge = arm.ratio.estimate
    if arm.ratio.interval is not None:
        low, high = arm.ratio.interval.low, arm.ratio.interval.high
        axes.plot([low, high], [position, position], color=shade, linewidth=3, solid_capstyle="butt", alpha=0.75)
        values += [low, high]
        edge = high
    axes.scatter([arm.ratio.estimate], [position], s=30, color=shade, zorder=3, linewidth=0)
    axes.annotate(
        numbers.ratio(arm.ratio),
        (edge, position),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=shade,
        weight="bold",
    )
    return values


def nice_ratios(low: float, high: float) -> list[float]:
    """Tick positions between two ratios: powers of two, with halves between when there are few."""
    fine = [0.125, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128]
    ticks = [tick for tick in fine if low <= tick <= high]
    # Ticks nearer than a seventh of the axis collide.
    room = math.log(high / low) / 14
    kept: list[float] = []
    for tick in sorted(ticks, key=lambda value: (value != 1, abs(math.log(value)))):
        if all(abs(math.log(tick / other)) > room for other in kept):
            kept.append(tick)
    return sorted(kept)


def distribution(case: CaseResult, found: Sequence[Regime] = ()) -> str:
    """Left: single iterations of every arm; right: block times over the run, joined within each process, other regimes shaded."""
    arms = [(number, arm) for number, arm in enumerate(case.arms) if arm.blocks]
    with matplotlib.rc_context({**STYLE, "font.size": 7.5}):
        figure = Figure(figsize=(7.4, 0.95 + 0.36 * max(2, len(arms))))
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        scale, unit = numbers.time_unit(case.baseline.typical_ns or 1.0)
        start = min((block.started_at_ns for _, arm in arms for block in arm.blocks), default=0)
        last = max((block.started_at_ns for _, arm in arms for block in arm.blocks), default=0)
        span, span_name = (60e9, "minutes") if last - start > 120e9 else (1e9, "seconds")
        everything: list[float] = []
        for row, (number, arm) in enumerate(arms):
            samples = [sample / scale for sample in _samples(arm)]
            everything += samples
            shown = thinned(samples, POINTS)
            heights = [row + 0.3 * (_halton(index) - 0.5) * 2 for index in range(len(shown))]
            left.scatter(shown, heights, s=3.5, color=colour(number), alpha=0.35, linewidth=0)
            if arm.typical_ns is not None:
                left.plot([arm.typical_ns / scale] * 2, [row - 0.4, row + 0.4], color=colour(number), linewidth=1.8)
            _draw_blocks(right, arm, number, scale, start, span)
        for edges in _shaded(case, found):
            right.axvspan(*((edge - start) / span for edge in edges), color=SHADE, linewidth=0)
        limit = _upper_limit(everything)
        left.set_xlim(0, limit)
        beyond = sum(sample > limit for sample in everything)
        left.set_yticks(range(len(arms)), [arm.arm.label for _, arm in arms])
        left.set_ylim(len(arms) - 0.45, -0.55)
        left.set_xlabel(
            f"{unit} a call"
            + (f" ({beyond:,} of {len(everything):,} iterations lie beyond the edge)" if beyond else "")
        )
        right.set_ylim(bottom=0)
        right.set_xlabel(f"{span_name} since the case's first block")
        right.set_ylabel(f"{unit} a call, blocks")
        for axes in (left, right):
            axes.grid(color=GRID, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(length=0)
        figure.tight_layout(w_pad=2)
        return svg(figure, f"Times of {case.case.name}")


def _draw_blocks(axes: Any, arm: ArmResult, number: int, scale: float, start: int, span: float) -> None:
    for process, times in arm.times.items():
        elapsed = [(block.started_at_ns - start) / span for block in arm.blocks if block.process == process]
        axes.plot(
            elapsed, [value / scale for value in times], color=colour(number), linewidth=0.8, marker="o", markersize=2.2
        )


def states(bundle: Loaded, found: Sequence[Regime]) -> str:
    """The machine-state reference over the run: one panel a reference, readings coloured alike, other regimes shaded."""
    readings = sorted(bundle.states, key=lambda state: state.at_ns)
    start = readings[0].at_ns
    minutes = [(reading.at_ns - start) / 60e9 for reading in readings]
    with matplotlib.rc_context({**STYLE, "font.size": 7.5}):
        figure = Figure(figsize=(7.4, 1.9))
        panels = zip(figure.subplots(1, 2), REFERENCES, ("B/s", "FLOP/s"), strict=True)
        for axes, reference, unit in panels:
            for regime in found:
                if regime.reference == reference:
                    edges = ((regime.start_ns - start) / 60e9, (regime.end_ns - start) / 60e9)
                    axes.axvspan(*edges, color=SHADE, linewidth=0)
            levels = [value / 1e9 for value in series(readings, reference)]
            giga = max(levels) < 10_000
            levels = levels if giga else [level / 1000 for level in levels]
            axes.scatter(minutes, levels, s=6, color=ARM_COLOURS[2], linewidth=0)
            axes.set_ylim(0, 1.08 * max(levels))
            axes.set_xlabel("minutes since the first reading")
            axes.set_ylabel(f"{reference}, {'G' if giga else 'T'}{unit}")
            axes.grid(color=GRID, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(length=0)
        figure.tight_layout(w_pad=2)
        return svg(figure, "The machine during the run")


def thinned(samples: Sequence[float], most: int) -> list[float]:
    """At most `most` samples taken evenly, and the extremes, none of them twice."""
    if len(samples) <= most:
        return list(samples)
    step = len(samples) / most
    places = range(len(samples))
    kept = {int(index * step) for index in range(most)}
    kept |= {min(places, key=samples.__getitem__), max(places, key=samples.__getitem__)}
    return [samples[place] for place in sorted(kept)]


def distribution_caption(case: CaseResult, found: Sequence[Regime] = ()) -> str:
    """What the dots of `distribution` are, how many of how many are drawn, and what is shaded where something is."""
    drawn = {arm.arm.label: (len(thinned(_samples(arm), POINTS)), arm.iterations) for arm in case.arms if arm.blocks}
    calls = sorted({block.calls_per_iteration for arm in case.arms for block in arm.blocks})
    everything = [sample for arm in case.arms for sample in _samples(arm)]
    if all(shown == total for shown, total in drawn.values()):
        dots = "every iteration is a dot"
    else:
        told = ", ".join(f"{shown:,} of {total:,} of {label}" for label, (shown, total) in drawn.items())
        dots = f"a dot is one iteration; drawn are {told}, evenly taken, with the fastest and the slowest"
    if max(everything, default=0.0) > _upper_limit(everything):
        dots += ", but for those beyond the edge"
    if calls[-1] > 1:
        group = f"{calls[0]} to {calls[-1]}" if len(calls) > 1 else f"{calls[0]}"
        dots += f"; an iteration is the mean of {group} calls"
    shades = (
        "; shaded: a stretch in which the machine averaged another level than usual" if _shaded(case, found) else ""
    )
    return (
        f"Left: {dots}; the line is the arm's time a call. Right: block times, by when they were measured, one line a process"
        f"{shades}."
    )


def _shaded(case: CaseResult, found: Sequence[Regime]) -> list[tuple[int, int]]:
    """The parts of other regimes, (start, end) in ns, that lie within the time in which the case was measured."""
    times = [block.started_at_ns for arm in case.arms for block in arm.blocks]
    if not times:
        return []
    start, last = min(times), max(times)
    return [
        (max(regime.start_ns, start), min(regime.end_ns, last))
        for regime in found
        if regime.start_ns <= last and regime.end_ns >= start
    ]


def _samples(arm: ArmResult) -> list[float]:
    """Iteration times per call, in ns."""
    return [sample / block.calls_per_iteration for block in arm.blocks for sample in block.iterations_ns]


def _upper_limit(samples: Sequence[float]) -> float:
    """A little above the 99th percentile: one preempted iteration must not squeeze the rest. The label counts what is beyond."""
    if not samples:
        return 1.0
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)))] * 1.08


def _halton(index: int, base: int = 2) -> float:
    """The Halton sequence: an even spread that is the same every time."""
    result, fraction, number = 0.0, 1.0, index + 1
    while number:
        fraction /= base
        result += fraction * (number % base)
        number //= base
    return result


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
