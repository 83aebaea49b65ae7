"""A trace as one picture: threads, GPU streams, steps, and the GPU's idle time coloured by cause."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.render import density, numbers, svg
from reports.render.plain_text import plain
from reports.render.timeline_lanes import CAUSE_NAMES, CAUSES, COLOURS, Lane, Row, Series, closer_look, lanes, window
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from reports.trace.read import Trace

WIDTH, LEFT, RIGHT = 1000.0, 152.0, 990.0
PLOT = RIGHT - LEFT
COLUMNS = 560
"""Columns into which what is narrower than one is gathered: 1.5 units each."""
WIDEST = 260
"""Slices drawn one by one in a row at most, the longest ones; the others are gathered."""
ROW, GAP, AXIS, HEAD = 14.0, 2.0, 20.0, 15.0
INK, MUTED, GRID, SOFT = "#1b2330", "#5f6b7c", "#e3e7ee", "#f6f8fb"
TINY, SMALL = 9.5, 11.0


@dataclass(frozen=True)
class Picture:
    """The SVG ("" where there is nothing to draw), and sentences that belong under it."""

    svg: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """The part of the time that a panel shows, [begin, finish) in ns, and the trace's first time, from which its axis counts."""

    begin: int
    finish: int
    origin: int

    def x(self, time: float) -> float:
        """Where a time lies in the picture."""
        share = (time - self.begin) / max(self.finish - self.begin, 1)
        return LEFT + PLOT * min(max(share, 0.0), 1.0)

    def named(self) -> str:
        """The range in words."""
        return numbers.time_range(self.begin - self.origin, self.finish - self.origin)


def timeline(analysis: Analysis) -> Picture:
    """The picture of a trace; times count from the trace's first event."""
    trace = analysis.trace
    shown, notes = lanes(analysis)
    begin, finish = window(trace)
    if not shown or finish <= begin:
        return Picture("", ())
    whole = View(begin, finish, trace.origin)
    parts, height = _panel(analysis, shown, whole, 6.0, "")
    look = closer_look(analysis, PLOT)
    if look is not None:
        detail = View(look[0], look[1], trace.origin)
        top = height + 16
        parts += _funnel(whole, detail, height - 4, top + 4)
        within = tuple(lane for lane in (_within(lane, detail) for lane in shown) if lane.rows)
        title = f"{look[2][0].upper()}{look[2][1:]}: {detail.named()}"
        more, height = _panel(analysis, within, detail, top, title)
        parts += more
    legend, height = _legend(analysis, shown, height + 10)
    picture = svg.document(WIDTH, height, f"Timeline of {trace.path.rsplit('/', 1)[-1]}", [*parts, *legend])
    return Picture(picture, notes)


def _within(lane: Lane, view: View) -> Lane:
    rows = []
    for row in lane.rows:
        series = tuple(part for part in (_cut(one, view) for one in row.series) if part.start.size)
        if series:
            rows.append(Row(row.label, series, row.stacked))
    return Lane(lane.title, tuple(rows))


def _cut(series: Series, view: View) -> Series:
    inside = (series.start < view.finish) & (series.end > view.begin)
    return Series(
        series.colour, series.start[inside], series.end[inside], None if series.rows is None else series.rows[inside]
    )


def _panel(analysis: Analysis, shown: tuple[Lane, ...], view: View, top: float, title: str) -> tuple[list[str], float]:
    """A panel's elements, and where it ends."""
    parts: list[str] = []
    if title:
        parts.append(svg.text(LEFT, top + 11, title, size=SMALL, fill=INK, bold=True))
        top += 15
    y = top + AXIS + (12 if analysis.steps else 0)
    begins = y
    rows: list[str] = []
    for lane in shown:
        height = HEAD + len(lane.rows) * (ROW + GAP) + 4
        rows.append(svg.rect(LEFT, y + HEAD - 2, PLOT, height - HEAD, fill=SOFT))
        rows.append(svg.text(LEFT - 6, y + 10, lane.title, size=TINY, fill=INK, anchor="end", bold=True))
        for number, row in enumerate(lane.rows):
            at = y + HEAD + number * (ROW + GAP)
            rows.append(svg.text(LEFT - 6, at + 10.5, row.label, size=TINY, fill=MUTED, anchor="end"))
            rows += _row(analysis.trace, row, view, at)
        y += height
    parts += _axis(view, top, begins, y)
    parts += rows
    parts += _steps(analysis, view, begins, y)
    return parts, y


def _row(trace: Trace, row: Row, view: View, y: float) -> Iterator[str]:
    base = np.zeros(COLUMNS)
    for series in row.series:
        if row.stacked:
            found = density.shares(series.start, series.end, view.begin, view.finish, COLUMNS)
            path = density.outline(found, base, LEFT, y, PLOT, ROW)
            base = base + found
        else:
            wide = _wide(series, view)
            yield from _single(trace, series, wide, view, y)
            found = density.shares(series.start[~wide], series.end[~wide], view.begin, view.finish, COLUMNS)
            path = density.outline(density.visible(found), base, LEFT, y, PLOT, ROW)
        if path:
            yield f'<path d="{path}" fill="{series.colour}"/>'


def _wide(series: Series, view: View) -> NDArray[np.bool_]:
    """Which slices are drawn one by one."""
    length = np.minimum(series.end, view.finish) - np.maximum(series.start, view.begin)
    wide = length >= 1.5 * (view.finish - view.begin) / COLUMNS
    if int(wide.sum()) > WIDEST:
        longest = np.sort(length[wide])[-WIDEST]
        wide &= length >= longest
        wide[np.flatnonzero(wide)[WIDEST:]] = False
    return wide


def _single(trace: Trace, series: Series, wide: NDArray[np.bool_], view: View, y: float) -> Iterator[str]:
    shapes, labels, free = [], [], LEFT
    rows = series.rows if series.rows is not None else np.zeros(series.start.size, np.intp)
    for start, end, row in zip(
        series.start[wide].tolist(), series.end[wide].tolist(), rows[wide].tolist(), strict=True
    ):
        left, right = view.x(start), view.x(end)
        name = trace.name(row)
        shapes.append(
            svg.rect(left, y, max(right - left - 0.4, 0.6), ROW, f"{plain(name, 160)}: {numbers.time(end - start)}")
        )
        if left >= free and right - left > 34 and (label := svg.fitting(name, right - left - 6, TINY)):
            labels.append(svg.text(left + 3, y + 10.5, label, size=TINY))
            free = right
    yield svg.group(shapes, fill=series.colour)
    yield svg.group(labels, fill=_ink_on(series.colour))


def _ink_on(colour: str) -> str:
    """Dark or white, whichever can be read on a colour (relative luminance, WCAG 2)."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return INK if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.24 else "#ffffff"


def _axis(view: View, top: float, begins: float, ends: float) -> Iterator[str]:
    """Times above the panel, and lines through it."""
    width = view.finish - view.begin
    scale, unit = numbers.time_unit(max(width, 1))
    step = _nice(width / scale / 7)
    places = max(0, -math.floor(math.log10(step)))
    first = math.ceil((view.begin - view.origin) / scale / step - 1e-9)
    last = math.floor((view.finish - view.origin) / scale / step + 1e-9)
    yield svg.text(LEFT - 6, top + 12, f"time, {unit}", size=TINY, fill=MUTED, anchor="end")
    for tick in range(first, last + 1):
        x = view.x(view.origin + tick * step * scale)
        yield svg.line(x, top + 16, x, ends, GRID)
        anchor = "start" if x < LEFT + 8 else "end" if x > RIGHT - 8 else "middle"
        yield svg.text(x, top + 12, f"{tick * step:,.{places}f}", size=TINY, fill=MUTED, anchor=anchor)


def _nice(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-12)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * 0.999)


def _steps(analysis: Analysis, view: View, begins: float, ends: float) -> Iterator[str]:
    """The bounds of steps, named as long as their names do not collide."""
    after = -1e9
    edges = [(step.start_us, f"step {step.number}") for step in analysis.steps]
    if analysis.steps:
        edges.append((analysis.steps[-1].end_us, ""))
    for moment, name in edges:
        time = view.origin + round(moment * 1000)
        if not view.begin <= time <= view.finish:
            continue
        x = view.x(time)
        yield svg.line(x, begins - 3, x, ends, INK, "2 3")
        if name and x - after > 46 and x < RIGHT - 30:
            yield svg.text(x + 2, begins - 4, name, size=TINY, fill=INK)
            after = x


def _funnel(whole: View, detail: View, bottom: float, top: float) -> list[str]:
    """Lines from a part of one panel to the panel that enlarges it."""
    left, right = whole.x(detail.begin), whole.x(detail.finish)
    shape = (
        f"M{svg.number(left)} {svg.number(bottom)}L{svg.number(max(right, left + 1))} {svg.number(bottom)}"
        f"L{svg.number(RIGHT)} {svg.number(top + 12)}L{svg.number(LEFT)} {svg.number(top + 12)}Z"
    )
    return [f'<path d="{shape}" fill="#e6ebf3" fill-opacity="0.7"/>']


def _legend(analysis: Analysis, shown: tuple[Lane, ...], top: float) -> tuple[list[str], float]:
    """What colours mean; those of causes with their time. Entries flow into lines."""
    parts: list[str] = []
    totals = {cause: sum(device.idle_us[cause.value] for device in analysis.devices) for cause in Cause}
    idle = 0.0 if analysis.trace.withheld & {"idle", "window", "cause"} else sum(totals.values())
    y = top
    if idle:
        entries = [
            (CAUSES[cause], f"{CAUSE_NAMES[cause]} {numbers.time(total * 1000)} ({numbers.percent(total / idle)})")
            for cause, total in totals.items()
            if total
        ]
        of = f"{len(analysis.devices)} GPUs" if len(analysis.devices) > 1 else "the GPU"
        lines, y = _flow(f"Idle time of {of}, {numbers.time(idle * 1000)} in all (white: it works):", entries, y)
        parts += lines
    used = dict.fromkeys(series.colour for lane in shown for row in lane.rows for series in row.series)
    lines, y = _flow(
        "Other colours:" if idle else "Colours:", [(colour, COLOURS[colour]) for colour in used if colour in COLOURS], y
    )
    parts += lines
    parts.append(
        svg.text(
            0,
            y + 10,
            "A bar lower than its row stands for many short ones; its height is their share of the time.",
            size=TINY,
            fill=MUTED,
        )
    )
    return parts, y + 16


def _flow(title: str, entries: list[tuple[str, str]], top: float) -> tuple[list[str], float]:
    parts = [svg.text(0, top + 10, title, size=TINY, fill=INK, bold=True)]
    x, y = svg.CHARACTER * 1.12 * TINY * len(title) + 12, top
    for colour, label in entries:
        width = svg.CHARACTER * TINY * len(label) + 26
        if x + width > RIGHT:
            x, y = 12.0, y + 15
        parts.append(svg.rect(x, y + 2, 9, 9, fill=colour))
        parts.append(svg.text(x + 13, y + 10, label, size=TINY, fill=INK))
        x += width
    return parts, y + 17
