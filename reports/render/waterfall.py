"""The waterfall of an ablation: how each level of settings moves a time, or a speedup, from what it was before."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.figure import Figure

from reports.ablation import SPEEDUP, CaseAblation, LevelResult, Quantity
from reports.render import numbers
from reports.render.charts import GRID, MUTED, STYLE, VERDICT_COLOURS, svg
from suite.statistics.ratio import Ratio

WHOLE = "#c7ced9"


def waterfall(case: CaseAblation, design: str) -> str:
    """One panel a quantity, one bar a level, from the level before it (or from none); under the first and the last a pale bar from zero.

    Coloured by the step's verdict, grey where nothing is claimed; the whisker is the 95 % interval of the level against none.
    """
    levels = [level for level in case.levels if level.times_ns]
    quantities = case.quantities
    with matplotlib.rc_context({**STYLE, "font.size": 7.5}):
        figure = Figure(figsize=(7.4, 0.75 + 0.3 * len(levels)))
        panels = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for axes, quantity in zip(panels, quantities, strict=True):
            _panel(axes, case, levels, quantity, design)
        panels[0].set_yticks(range(len(levels)), [level.level.label for level in levels])
        panels[0].set_ylim(len(levels) - 0.4, -0.6)
        figure.tight_layout(w_pad=1.6)
        return svg(figure, f"What each setting does to {case.case.name}")


def _value(level: LevelResult, quantity: Quantity) -> float | None:
    label, kind = quantity
    if kind != SPEEDUP:
        return level.times_ns.get(label)
    found = level.speedups.get(label)
    return found.estimate if isinstance(found, Ratio) else None


def _panel(axes: Any, case: CaseAblation, levels: list[LevelResult], quantity: Quantity, design: str) -> None:
    label, kind = quantity
    first = _value(levels[0], quantity)
    scale, unit = numbers.time_unit(first or 1.0) if kind != SPEEDUP else (1.0, numbers.TIMES)
    before, highest = first, 0.0
    for row, level in enumerate(levels):
        value = _value(level, quantity)
        if value is None or first is None:
            axes.text(0, row, " not measured", va="center", color=MUTED, fontsize=7)
            continue
        if row in (0, len(levels) - 1):
            axes.barh(row, value / scale, height=0.58, color=WHOLE, linewidth=0)
        start = value / scale if row == 0 or before is None else before / scale
        shade = WHOLE if row == 0 else _shade(level, quantity)
        left, right = sorted((start, value / scale))
        axes.barh(row, right - left, left=left, height=0.58, color=shade, linewidth=0)
        # A step of nothing would leave no mark at all.
        axes.plot([value / scale] * 2, [row - 0.29, row + 0.29], color=shade, linewidth=1.6)
        edge = max(right, _whisker(axes, row, level, quantity, first, scale))
        text = f"{numbers.significant(value / scale)}{unit if kind == SPEEDUP else f' {unit}'}"
        axes.annotate(text, (edge, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=6.8)
        highest = max(highest, edge)
        if design == "steps" and level.level.knobs != levels[0].level.knobs:
            before = value
    axes.set_xlim(0, highest * 1.28 or 1)
    axes.set_title(f"speedup of {label}" if kind == SPEEDUP else f"time of {label}", fontsize=8, loc="left")
    axes.set_xlabel("times as fast as eager" if kind == SPEEDUP else f"{unit} a call")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def _shade(level: LevelResult, quantity: Quantity) -> str:
    effect = level.step.get(quantity)
    word = effect.verdict.word if effect and effect.verdict else None
    return VERDICT_COLOURS[word] if word in ("faster", "slower") else VERDICT_COLOURS[None]


def _whisker(axes: Any, row: int, level: LevelResult, quantity: Quantity, first: float, scale: float) -> float:
    """The level's interval against none, on the scale of the panel; returns its right end (0 without one)."""
    effect = level.whole.get(quantity)
    if effect is None or not isinstance(effect.ratio, Ratio) or effect.ratio.interval is None:
        return 0.0
    interval = effect.ratio.interval
    ends = (first * interval.low, first * interval.high)
    if quantity[1] != SPEEDUP:
        ends = (first / interval.high, first / interval.low)
    low, high = (end / scale for end in ends)
    axes.plot([low, high], [row, row], color="#1b2330", linewidth=0.9)
    return high
