"""A comparison as a table for spreadsheets (CSV, RFC 4180), none of whose cells a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import re

from reports.compare.ceilings import Share
from reports.compare.cells import Cell, Row
from reports.compare.matrix import Comparison
from reports.plain import one_line
from reports.render.comparison_table import note, status_word
from suite.statistics.ratio import Interval, Ratio

COLUMNS = (
    "case", "arm", "run", "run_id", "machine_model", "units_of_model", "publishable", "baseline_run", "status", "verdict", "reason",
    "dtype", "processes", "time_ns", "time_low_ns", "time_high_ns", "ratio_to_baseline", "ratio_low", "ratio_high", "adjusted_p",
    "noise_floor", "speedup_over_eager", "speedup_low", "speedup_high", "speedup_verdict", "ceiling", "ceiling_fraction",
)  # fmt: skip

# A spreadsheet starts a formula at = + - or @ (OWASP, "CSV injection"; the wide forms too), at the start of a cell, or behind
# what a wrongly guessed separator would make the start of one.
_FORMULA = re.compile(r"(^|[,;|\t\r\n\"'])(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def text_cell(text: object) -> str:
    """A text that no spreadsheet executes: on one line, with an apostrophe before whatever could begin a formula."""
    return _FORMULA.sub(r"\1\2'", one_line(text, 500))


def table_csv(found: Comparison) -> str:
    """One line a cell of the comparison; numbers unrounded, empty where there is none. Times in ns, shares as fractions."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in found.rows:
        for cell in row.cells:
            writer.writerow([_written(value) for value in _values(found, row, cell)])
    return stream.getvalue()


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Our own numbers are never negative, so that none needs an apostrophe.
    return repr(abs(value)) if isinstance(value, int | float) else text_cell(value)


def _values(found: Comparison, row: Row, cell: Cell) -> tuple[object, ...]:
    group = found.group(cell.member)
    share = cell.share if isinstance(cell.share, Share) else None
    candidate = cell.arm is not None and cell.arm.arm.role == "candidate"
    speedup = cell.arm.ratio if cell.arm and candidate else None
    judged = cell.arm.verdict if cell.arm and candidate else None
    interval = cell.interval_ns if isinstance(cell.interval_ns, Interval) else None
    return (
        row.case,
        row.arm,
        cell.member.letter,
        cell.member.bundle.run.run_id,
        group.model.name,
        len(group.units),
        cell.member.publishable,
        found.baseline.letter,
        cell.status,
        status_word(cell) if cell.status == "ranked" else "",
        note(row, cell),
        cell.case.case.dtype if cell.case else None,
        len(cell.log_times),
        cell.typical_ns,
        *((interval.low, interval.high) if interval else (None, None)),
        *_of_ratio(cell.ratio),
        cell.adjusted_p,
        cell.floor.delta if cell.floor else None,
        *_of_ratio(speedup),
        (judged.word or "no verdict") if judged else None,
        share.ceiling.bound if share else None,
        share.fraction if share else None,
    )


def _of_ratio(ratio: Ratio | None) -> tuple[float | None, float | None, float | None]:
    if ratio is None:
        return None, None, None
    return (ratio.estimate, ratio.interval.low, ratio.interval.high) if ratio.interval else (ratio.estimate, None, None)
