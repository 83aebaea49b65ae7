"""A comparison's table of cells as text, and what is said of one cell. No HTML here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.compare.ceilings import Share
from reports.compare.cells import Cell, Row
from reports.compare.matrix import Comparison
from reports.plain import one_line
from reports.render import numbers
from reports.results import ArmResult
from suite.statistics.ratio import Interval
from suite.statistics.verdict import MINIMUM_NOISE_FLOOR

CLAIMS = {"faster", "slower", "equivalent"}
STATUS_WORDS = {
    "baseline": "baseline",
    "refused": "refused",
    "asked": "not ranked",
    "unmeasured": "not measured",
    "no baseline": "no baseline",
}


def status_word(cell: Cell) -> str:
    """A cell's verdict, or why it has none, in a word or two."""
    if cell.status == "ranked":
        return (cell.verdict.word if cell.verdict else None) or "no verdict"
    return STATUS_WORDS[cell.status]


def planned(cell: Cell) -> bool:
    """Whether the run has the case at all; what it does not have is told once, not in a row for each arm."""
    return cell.case is not None


@dataclass(frozen=True)
class TableRow:
    """One cell as text. `kind` chooses colour and hatching; the `by_*` are sort keys, empty where a cell is never ranked."""

    case: str
    arm: str
    letter: str
    run: str
    time: str
    time_interval: str
    ratio: str
    interval: str
    word: str
    kind: str
    speedup: str
    speedup_interval: str
    speedup_word: str
    share: str
    share_note: str
    note: str
    by_time: str
    by_ratio: str
    by_speedup: str
    by_share: str


def table(found: Comparison) -> list[TableRow]:
    """The table: case by case, arm by arm, the runs that have the case in their order."""
    return [_table_row(found, row, cell) for row in found.rows for cell in row.cells if planned(cell)]


def _table_row(found: Comparison, row: Row, cell: Cell) -> TableRow:
    share = cell.share if isinstance(cell.share, Share) else None
    speedup = cell.arm.ratio if cell.arm and cell.arm.arm.role == "candidate" else None
    measured = cell.typical_ns is not None
    ranked = cell.status in ("ranked", "baseline")
    interval = cell.interval_ns if isinstance(cell.interval_ns, Interval) else None
    return TableRow(
        case=one_line(row.case, 120),
        arm=one_line(row.arm, 60),
        letter=cell.member.letter,
        run=f"{cell.member.letter}{'' if cell.member.publishable else '*'}",
        time=numbers.time(cell.typical_ns),
        time_interval=_times(interval, cell.typical_ns or interval.low) if interval else "",
        ratio="1" if cell.status == "baseline" else numbers.ratio(cell.ratio),
        interval=numbers.interval(cell.ratio) if cell.ratio and cell.ratio.interval else "",
        word=status_word(cell),
        kind=status_word(cell).replace(" ", "-"),
        speedup=numbers.ratio(speedup) if measured else numbers.NO_NUMBER,
        speedup_interval=numbers.interval(speedup) if speedup and speedup.interval and measured else "",
        speedup_word=_speedup_word(cell.arm) if measured else "",
        share=numbers.percent(share.fraction) if share else numbers.NO_NUMBER,
        share_note=share.ceiling.bound if share else "",
        note=note(row, cell),
        by_time=f"{cell.typical_ns:.6e}" if cell.typical_ns is not None and ranked else "",
        by_ratio=f"{cell.ratio.estimate:.6e}" if cell.ratio else "1" if cell.status == "baseline" else "",
        by_speedup=f"{speedup.estimate:.6e}" if speedup and ranked else "",
        by_share=f"{share.fraction:.6e}" if share and ranked else "",
    )


def _times(interval: Interval, typical_ns: float) -> str:
    """An interval of times in the unit that its time is told in."""
    scale, unit = numbers.time_unit(typical_ns)
    low, high = (numbers.significant(edge / scale) for edge in (interval.low, interval.high))
    return f"{low} to {high} {unit}"


def _speedup_word(arm: ArmResult | None) -> str:
    if arm is None or arm.verdict is None:
        return ""
    return arm.verdict.word or "no verdict"


def note(row: Row, cell: Cell) -> str:
    """Why a cell is refused, not ranked or without a verdict; what was allowed; what would settle it."""
    parts = [each.text for each in cell.reasons] + [f"{each.text} (allowed)" for each in cell.allowed]
    if cell.case and cell.case.case.name != row.case:
        parts.append(f"measured as {cell.case.case.name}")
    if cell.session and status_word(cell) in CLAIMS:
        parts.append("the same unit with the same settings again: so far do two of its sessions differ")
    if cell.verdict and cell.verdict.word in (None, "inconclusive"):
        parts += [cell.verdict.reason, *([on_each(cell.verdict.advice)] if cell.verdict.advice else [])]
    return "; ".join(one_line(part, 400) for part in parts)


def on_each(advice: str) -> str:
    """An advice of more processes, which between runs means in either."""
    return re.sub(r"(more process(es)?) would", r"\1 in either run would", advice)


def floors(row: Row) -> str:
    """The noise floor of every comparison of a row, with where it comes from; those that share one together."""
    told: dict[str, list[str]] = {}
    for cell in row.cells:
        if cell.floor:
            least = cell.floor.delta <= MINIMUM_NOISE_FLOOR
            source = "the least that is ever assumed" if least else cell.floor.source
            doubt = f"; {cell.floor.doubt}" if cell.floor.doubt else ""
            told.setdefault(f"{numbers.percent(cell.floor.delta)} ({source}{doubt})", []).append(cell.member.letter)
    listed = "; ".join(f"{', '.join(letters)} {text}" for text, letters in told.items())
    return f"{one_line(row.arm, 60)}: {listed}" if listed else ""
