"""The chart of the machine during the run: what its telemetry shows, one panel a quantity."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from reports.render.charts import ARM_COLOURS, GRID, STYLE, svg
from reports.telemetry import Course, courses
from suite.bundle.reader import Loaded

PANELS_A_ROW = 2


def telemetry_chart(bundle: Loaded) -> Markup | str:
    """The chart, or "" where telemetry shows nothing that could be drawn. Every text in it is escaped by matplotlib."""
    found = courses(bundle.telemetry, bundle.events)
    return Markup(draw(found)) if found else ""


def draw(found: Sequence[Course]) -> str:
    """Points of every process joined, over minutes since the first; cases coloured alike in all panels."""
    cases = list(dict.fromkeys(key[0] for course in found for key in course.processes))
    start = min(at for course in found for points in course.processes.values() for at, _ in points)
    rows = -(-len(found) // PANELS_A_ROW)
    with matplotlib.rc_context({**STYLE, "font.size": 7.5}):
        figure = Figure(figsize=(7.4, 1.75 * rows + 0.25))
        panels = figure.subplots(rows, PANELS_A_ROW, squeeze=False).flatten()
        for axes, course in zip(panels, found, strict=False):
            for key, points in course.processes.items():
                minutes = [(at - start) / 60e9 for at, _ in points]
                shade = ARM_COLOURS[2 + cases.index(key[0]) % (len(ARM_COLOURS) - 2)]
                axes.plot(minutes, [value for _, value in points], color=shade, linewidth=0.8, marker="o", markersize=2)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(f"{course.name},\n{course.unit}")
            axes.set_xlabel("minutes since the first reading")
            axes.grid(color=GRID, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(length=0)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
        legend = [(case, ARM_COLOURS[2 + number % (len(ARM_COLOURS) - 2)]) for number, case in enumerate(cases)]
        for number, (case, shade) in enumerate(legend[:6]):
            figure.text(0.01 + 0.33 * (number % 3), 1.0 + 0.045 * (number // 3), f"● {case}", color=shade, fontsize=7)
        figure.tight_layout(w_pad=2)
        return svg(figure, "What the machine did while processes ran")
