"""One case over all runs: the time of every arm in every run with its interval, and what each machine's own ceilings would allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator

from reports.compare.ceilings import ceilings, least_times
from reports.compare.cells import Cell, Row
from reports.plain import one_line
from reports.render import numbers
from reports.render.charts import GRID, INK, MUTED, STYLE, VERDICT_COLOURS, svg
from reports.render.comparison_table import status_word
from suite.statistics.ratio import Interval

CEILING_STYLES = {"memory": (INK, "-"), "arithmetic": (INK, ":")}
HATCH = "#d6dbe3"
MOST_REASON = 70
FEW_DECADES = 1.6
AXIS_PT, CHARACTER_PT, OFFSET_PT = 413.0, 4.1, 14.0
"""The axis's length, and what a character beside a dot takes of it on average, in points."""
MOST_TAKEN = 0.8
FARTHEST_CEILING = 6.0
"""A ceiling that allows a time this many times below the fastest is only pointed at: drawn to scale it would squeeze all else."""


def times(rows: Sequence[Row]) -> str:
    """The rows of one case as an SVG; nothing when no run measured it.

    A line an arm and run, on a log axis of time: a dot for the geometric mean over processes, its bar Student's 95 % interval, small dots
    the processes; coloured by the verdict against the baseline. What is not ranked is hollow, on hatched ground, with its reason.
    """
    lines = [(row, cell) for row in rows for cell in row.cells if cell.typical_ns is not None]
    if not lines:
        return ""
    with matplotlib.rc_context({**STYLE, "font.size": 8, "hatch.linewidth": 0.5}):
        figure = Figure(figsize=(7.4, 0.75 + 0.25 * len(lines)))
        axes = figure.subplots()
        scale, unit = numbers.time_unit(min(cell.typical_ns or 1.0 for _, cell in lines))
        values = [edge / scale for _, cell in lines for edge in _edges(cell)]
        nearest = min(values) / FARTHEST_CEILING
        values += [least / scale for _, cell in lines for _, least in _ceilings(cell) if least / scale >= nearest]
        low, high = min(values) / 1.15, max(values) * 1.15
        if any(least / scale < nearest for _, cell in lines for _, least in _ceilings(cell)):
            low /= (high / low) ** 0.15  # for the pointers at the left edge
        axes.set_xscale("log")
        # Room at the right for what is written beside the dots.
        axes.set_xlim(low, _right(low, high, [cell for _, cell in lines], scale))
        for place, (_, cell) in enumerate(lines):
            _line(axes, place, cell, scale)
        for place in range(1, len(lines)):
            if lines[place][0] is not lines[place - 1][0]:
                axes.axhline(place - 0.5, color=GRID, linewidth=1)
        axes.set_yticks(range(len(lines)), [_label(row, cell) for row, cell in lines])
        axes.set_ylim(len(lines) - 0.45, -0.55)
        few = math.log10(high / low) < FEW_DECADES
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlabel(f"{unit} a call (log scale), less is faster")
        return svg(figure, f"Times of {one_line(rows[0].case, 120)} in every run")


def _right(low: float, high: float, cells: Sequence[Cell], scale: float) -> float:
    """The axis's right end, so far that what is written beside each dot ends before it: else the picture grows, and shrinks on the page."""
    span = math.log(high / low)
    for cell in cells:
        behind = [
            least for _, least in _ceilings(cell) if least / scale < high
        ]  # a text begins behind what would run through it
        start = math.log(max(*_edges(cell), *behind) / scale / low)
        span = max(span, start / (1 - _taken(_beside(cell, status_word(cell)))))
    return low * math.exp(span)


def _taken(text: str) -> float:
    """What a text beside a dot takes of the axis, as a share of it."""
    return min(MOST_TAKEN, (len(text) * CHARACTER_PT + OFFSET_PT) / AXIS_PT)


def _edges(cell: Cell) -> list[float]:
    edges = [cell.typical_ns or 1.0, *(math.exp(value) for value in cell.log_times)]
    if isinstance(cell.interval_ns, Interval):
        edges += [cell.interval_ns.low, cell.interval_ns.high]
    return edges


def _ceilings(cell: Cell) -> list[tuple[str, float]]:
    if cell.case is None:
        return []
    return [(ceiling.bound, least) for ceiling, least in least_times(cell.case.case, ceilings(cell.member.bundle))]


def _label(row: Row, cell: Cell) -> str:
    return one_line(f"{row.arm}  {cell.member.letter}{'' if cell.member.publishable else '*'}", 60)


def _line(axes: Any, place: int, cell: Cell, scale: float) -> None:
    typical = (cell.typical_ns or 1.0) / scale
    takes_part = cell.status in ("ranked", "baseline")
    word = status_word(cell)
    shade = INK if cell.status == "baseline" else VERDICT_COLOURS.get(word, VERDICT_COLOURS[None])
    if not takes_part:
        left, right = axes.get_xlim()
        ground = Rectangle(
            (left, place - 0.5),
            right - left,
            1,
            hatch="////",
            edgecolor=HATCH,
            facecolor="white",
            linewidth=0,
            zorder=0,
        )
        axes.add_patch(ground)
        shade = MUTED
    _draw_ceilings(axes, place, cell, scale)
    edge = typical
    if isinstance(cell.interval_ns, Interval):
        low, high = cell.interval_ns.low / scale, cell.interval_ns.high / scale
        axes.plot([low, high], [place, place], color=shade, linewidth=3, alpha=0.7, solid_capstyle="butt", zorder=3)
        edge = max(edge, high)
    processes = [math.exp(value) / scale for value in cell.log_times]
    axes.scatter(processes, [place + 0.24] * len(processes), s=5, color=shade, alpha=0.5, linewidth=0, zorder=3)
    filling = (
        {"color": shade, "linewidth": 0} if takes_part else {"facecolor": "white", "edgecolor": shade, "linewidth": 1}
    )
    axes.scatter([typical], [place], s=26, zorder=4, **filling)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if not takes_part else None
    text = _beside(cell, word)
    left, right = axes.get_xlim()
    # Behind every ceiling that would run through the text.
    start, width = max(edge, *processes), (right / left) ** _taken(text)
    for _, least in sorted(_ceilings(cell), key=lambda each: each[1]):
        start = least / scale if start < least / scale < start * width else start
    axes.annotate(
        text, (start, place), xytext=(6, 0), textcoords="offset points", va="center",
        fontsize=7.5, color=shade, bbox=box, zorder=5,
    )  # fmt: skip


def _draw_ceilings(axes: Any, place: int, cell: Cell, scale: float) -> None:
    left, _ = axes.get_xlim()
    outside = []
    for bound, least in _ceilings(cell):
        ink, style = CEILING_STYLES[bound]
        if least / scale < left:
            outside.append(least)
        else:
            axes.plot(
                [least / scale] * 2, [place - 0.38, place + 0.38], color=ink, linestyle=style, linewidth=1.3, zorder=2
            )
    if outside:
        text = f"◂ {numbers.time(max(outside))}"
        axes.annotate(
            text,
            (left, place),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color=MUTED,
            zorder=2,
        )


def _beside(cell: Cell, word: str) -> str:
    time = numbers.time(cell.typical_ns)
    if cell.status == "baseline":
        return f"{time}, baseline"
    if cell.ratio is None:
        why = cell.reasons[0].text.partition(", in the baseline")[0] if cell.reasons else ""
        return one_line(f"{time}, {word}: {why}", MOST_REASON)
    return f"{time}, {numbers.ratio(cell.ratio)} {word}"
