"""A profiler table held against its trace: what agrees, what differs and why, and what stays unexplained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from reports.trace.analyse import Analysis
from reports.trace.averages import STEPS, Line, averages
from reports.trace.remarks import remarks
from reports.trace.table import Table, TableRow
from reports.words import us
from suite.bundle.schema import ProfileRow

Column = Literal["calls", "self CPU", "CPU total", "self device", "device total"]
Status = Literal["matched", "explained", "unexplained"]

PRINTED_DIGITS = 1e-3
"""The profiler prints three decimals, in us below 1 ms, in ms below 1 s, else in s."""

CLOCK_US = 0.001
"""Times are whole nanoseconds; one that was not is rounded once more on its way into the trace."""

OF_ANOTHER, FEWEST_ROWS = 0.2, 3
"""A table of which a smaller share of the rows fits, of at least so many, is another recording's."""

ELLIPSIS = "..."


class Cause(StrEnum):
    """Why a number of the table is not the trace's."""

    LEAKED = "leaked warm-up"
    OVERHEAD = "overhead rows"
    ANNOTATIONS = "annotations counted on the GPU"
    WAITS = "GPU waits counted"
    ROUNDED_TRACE = "whole microseconds in the trace"
    OTHER_STEPS = "another number of steps"
    UNKNOWN = "unexplained"


@dataclass(frozen=True)
class Difference:
    """Table less trace in one column (us, or calls), beyond the rounding of what is printed."""

    column: Column
    table: float
    trace: float
    cause: Cause
    sentence: str

    @property
    def amount(self) -> float:
        return self.table - self.trace


@dataclass(frozen=True)
class RowCheck:
    """One row of the table; `line` is None where the trace has nothing of that name."""

    row: TableRow
    line: Line | None
    status: Status
    differences: tuple[Difference, ...]
    sentence: str


@dataclass(frozen=True)
class TotalCheck:
    """One of the totals under the table against the trace's own; us."""

    name: str
    table_us: float
    trace_us: float
    status: Status
    explained_us: dict[str, float]
    unexplained_us: float
    sentence: str


@dataclass(frozen=True)
class Reconciliation:
    """The whole. `not_printed` are rows of the trace that the table does not show; `remarks` say how to read the table.

    `unexplained_us` adds the self-time differences of all rows that stay unexplained (self times only: totals are nested).
    """

    rows: tuple[RowCheck, ...]
    totals: tuple[TotalCheck, ...]
    not_printed: tuple[Line, ...]
    remarks: tuple[str, ...]
    unexplained_us: float

    def count(self, status: Status) -> int:
        """Rows of a status."""
        return sum(check.status == status for check in self.rows)

    @property
    def of_another_recording(self) -> bool:
        """Whether so few rows fit that the table must have been printed of another recording."""
        fitting = self.count("matched") + self.count("explained")
        return len(self.rows) >= FEWEST_ROWS and fitting < OF_ANOTHER * len(self.rows)

    def sentences(self) -> tuple[str, ...]:
        """The whole for a reader: how many rows agree, each that differs, the totals, and how to read the table."""
        if self.of_another_recording:
            fitting = self.count("matched") + self.count("explained")
            return (f"this table is of another recording: {fitting} of its {len(self.rows)} rows fit the trace",)
        counted = f"{self.count('matched')} of {len(self.rows)} rows of the table agree with the trace"
        return (
            counted + (f"; {us(self.unexplained_us)} of self time stay unexplained." if self.unexplained_us else "."),
            *(check.sentence for check in self.rows if check.status != "matched"),
            *(total.sentence for total in self.totals),
            *self.remarks,
        )


def from_profile(rows: Sequence[ProfileRow]) -> Table:
    """The table of a bundle's profile.json: every row, exact."""
    return Table(
        rows=tuple(
            TableRow(
                row.name,
                row.calls,
                row.self_cpu_ns / 1000,
                row.cpu_ns / 1000,
                row.self_device_ns / 1000,
                row.device_ns / 1000,
            )
            for row in rows
        ),
        self_cpu_total_us=sum(row.self_cpu_ns for row in rows) / 1000,
        self_device_total_us=None,
        cut_names=False,
    )


def reconcile(analysis: Analysis, table: Table | Sequence[ProfileRow]) -> Reconciliation:
    """Hold a table (parsed, or a bundle's rows) against the trace that it was made with."""
    given = table if isinstance(table, Table) else from_profile(table)
    lines = averages(analysis.trace)
    pairs, left = _matched(given.rows, lines)
    coarse = analysis.trace.slices.whole_microseconds
    steps = _steps(pairs)
    checks = tuple(_check(row, line, coarse, steps, given.fixed_unit_us) for row, line in pairs)
    totals = tuple(_totals(analysis, given, lines, checks))
    return Reconciliation(
        checks,
        totals,
        left,
        tuple(remarks(analysis, given, lines, left, steps)),
        sum(
            abs(difference.amount)
            for check in checks
            for difference in check.differences
            if difference.cause is Cause.UNKNOWN and difference.column.startswith("self")
        )
        + sum((check.row.self_cpu_us or 0) + (check.row.self_device_us or 0) for check in checks if check.line is None),
    )


def rounding_us(shown_us: float, fixed_unit_us: float = 0.0) -> float:
    """Half of the last digit that the profiler prints of a time; `fixed_unit_us` is the unit of a table with one for all cells."""
    if fixed_unit_us:
        return fixed_unit_us * PRINTED_DIGITS / 2
    unit = 1.0 if abs(shown_us) < 1e3 else 1e3 if abs(shown_us) < 1e6 else 1e6
    return unit * PRINTED_DIGITS / 2


def _matched(
    rows: Sequence[TableRow], lines: Sequence[Line]
) -> tuple[list[tuple[TableRow, Line | None]], tuple[Line, ...]]:
    """Each row with the line that it shows. Several of one name (an annotation and its copy on the GPU, cut names): the nearest ones."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        by_name[line.name.strip()].append(number)
    shown: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        shown[row.name].append(number)
    found: dict[int, int] = {}
    used: set[int] = set()
    # Whole names first: a cut one may not take what a whole one names.
    for name in sorted(shown, key=lambda name: (name.endswith(ELLIPSIS) and name not in by_name, name)):
        candidates = by_name.get(name)
        if candidates is None and name.endswith(ELLIPSIS):
            beginning = name.removesuffix(ELLIPSIS)
            candidates = [number for number, line in enumerate(lines) if line.name.startswith(beginning)]
        near = sorted(
            (_distance(rows[row], lines[line]), row, line)
            for row in shown[name]
            for line in candidates or ()
            if line not in used
        )
        for _, shown_as, shows in near:
            if shown_as not in found and shows not in used:
                found[shown_as] = shows
                used.add(shows)
    left = tuple(line for number, line in enumerate(lines) if number not in used)
    return [(row, lines[found[number]] if number in found else None) for number, row in enumerate(rows)], left


def _distance(row: TableRow, line: Line) -> float:
    far = 0.0
    for table, trace in (
        (float(row.calls), float(line.calls)),
        (row.self_cpu_us, line.self_cpu_us),
        (row.self_device_us, line.self_device_us),
    ):
        if table is not None:
            far += abs(table - trace) / max(abs(table), abs(trace), 1e-9)
    return far


def _steps(pairs: Sequence[tuple[TableRow, Line | None]]) -> tuple[int, int] | None:
    """Steps in the table and in the trace, where both say."""
    return next(
        (
            (row.calls, line.calls)
            for row, line in pairs
            if row.name == STEPS and line is not None and not line.on_device
        ),
        None,
    )


def _check(row: TableRow, line: Line | None, coarse: bool, steps: tuple[int, int] | None, unit: float) -> RowCheck:
    if line is None:
        time = (row.self_cpu_us or 0) + (row.self_device_us or 0)
        return RowCheck(
            row,
            None,
            "unexplained",
            (),
            f"{row.name}: the table has it ({row.calls} calls, {time:.3f} us of self time), the trace does not",
        )
    differences = []
    if row.calls != line.calls:
        differences.append(_calls(row, line, steps))
    columns: tuple[tuple[Column, float | None, float], ...] = (
        ("self CPU", row.self_cpu_us, line.self_cpu_us),
        ("CPU total", row.cpu_us, line.cpu_us),
        ("self device", row.self_device_us, line.self_device_us),
        ("device total", row.device_us, line.device_us),
    )
    for column, table, trace in columns:
        if (
            table is None
            or abs(table - trace) <= rounding_us(table, unit) + CLOCK_US * line.slices + PRINTED_DIGITS / 2 * line.calls
        ):
            continue
        differences.append(_time(column, table, trace, row, line, coarse, steps))
    if not differences:
        return RowCheck(row, line, "matched", (), f"{row.name}: agrees to the last printed digit")
    unknown = any(difference.cause is Cause.UNKNOWN for difference in differences)
    return RowCheck(
        row,
        line,
        "unexplained" if unknown else "explained",
        tuple(differences),
        f"{row.name}: " + "; ".join(difference.sentence for difference in differences),
    )


def _calls(row: TableRow, line: Line, steps: tuple[int, int] | None) -> Difference:
    more = row.calls - line.calls
    if steps is not None and steps[0] != steps[1] and row.calls * steps[1] == line.calls * steps[0]:
        cause, words = (
            Cause.OTHER_STEPS,
            f"{row.calls} calls in the table's {steps[0]} steps, {line.calls} in the trace's {steps[1]}",
        )
    elif more > 0 and line.on_device:
        cause, words = (
            Cause.LEAKED,
            f"the table counts {more} more than the trace holds: launched before the recorded steps, finished within them",
        )
    else:
        cause, words = Cause.UNKNOWN, f"{row.calls} calls in the table, {line.calls} in the trace"
    return Difference("calls", row.calls, line.calls, cause, words)


def _time(
    column: Column,
    table: float,
    trace: float,
    row: TableRow,
    line: Line,
    coarse: bool,
    steps: tuple[int, int] | None,
) -> Difference:
    amount = table - trace
    if coarse and abs(amount) <= line.slices:
        cause, words = (
            Cause.ROUNDED_TRACE,
            f"{column} differs by {amount:+.3f} us: the trace holds whole microseconds, less than one lost in each of"
            f" {line.slices} slices",
        )
    elif _leaked(column, amount, row, line):
        cause, words = (
            Cause.LEAKED,
            f"{column} is {amount:.3f} us longer: the {row.calls - line.calls} leaked calls",
        )
    elif steps is not None and steps[0] != steps[1] and amount * (steps[0] - steps[1]) > 0:
        cause, words = (
            Cause.OTHER_STEPS,
            f"{column} {table:.3f} us in {steps[0]} steps, {trace:.3f} us in {steps[1]}",
        )
    else:
        cause, words = (
            Cause.UNKNOWN,
            f"{column} {table:.3f} us in the table, {trace:.3f} us in the trace ({amount:+.3f} us unexplained)",
        )
    return Difference(column, table, trace, cause, words)


LEAKED_AT_MOST = 3.0
"""A leaked call is believed up to this many times the mean of the recorded ones: the first calls are slow, not endless."""


def _leaked(column: Column, amount: float, row: TableRow, line: Line) -> bool:
    more = row.calls - line.calls
    if more <= 0 or amount <= 0 or not line.on_device or "device" not in column or not line.calls:
        return False
    return amount <= LEAKED_AT_MOST * more * line.self_device_us / line.calls


def _totals(analysis: Analysis, table: Table, lines: Sequence[Line], checks: Sequence[RowCheck]) -> list[TotalCheck]:
    def sum_of(*origins: str) -> float:
        return sum(line.self_cpu_us + line.self_device_us for line in lines if line.origin in origins)

    def known(cause: Cause, column: Column) -> float:
        return sum(d.amount for c in checks for d in c.differences if d.cause is cause and d.column == column)

    slices = sum(line.slices for line in lines)
    coarse = slices if analysis.trace.slices.whole_microseconds else 0
    tolerance = CLOCK_US * slices + coarse
    if table.fixed_unit_us:
        tolerance += rounding_us(0, table.fixed_unit_us)
    found = []
    if table.self_cpu_total_us is not None:
        found.append(
            _total(
                "Self CPU time total",
                table.self_cpu_total_us,
                analysis.host.self_cpu_total_us,
                {
                    Cause.OVERHEAD: sum_of("overhead"),
                    Cause.OTHER_STEPS: known(Cause.OTHER_STEPS, "self CPU"),
                },
                tolerance,
            )
        )
    if table.self_device_total_us is not None:
        found.append(
            _total(
                "Self device time total",
                table.self_device_total_us,
                sum_of("kernel", "copy", "fill"),
                {
                    Cause.ANNOTATIONS: sum_of("GPU annotation"),
                    Cause.WAITS: sum_of("GPU wait"),
                    Cause.LEAKED: sum(
                        d.amount
                        for c in checks
                        if c.line is not None and c.line.origin != "GPU annotation"
                        for d in c.differences
                        if d.cause is Cause.LEAKED and d.column == "self device"
                    ),
                },
                tolerance,
            )
        )
    return found


def _total(name: str, table: float, trace: float, causes: dict[Cause, float], tolerance: float) -> TotalCheck:
    """Explains a total by the set of causes that fits best; a cause that does not bring it nearer is not named."""
    allowed = rounding_us(table) + tolerance
    given = [(cause, amount) for cause, amount in causes.items() if abs(amount) > allowed]
    best: tuple[float, int, tuple[tuple[Cause, float], ...]] = (abs(table - trace), 0, ())
    for number in range(1 << len(given)):
        chosen = tuple(pair for bit, pair in enumerate(given) if number >> bit & 1)
        rest = abs(table - trace - sum(amount for _, amount in chosen))
        best = min(
            best, (max(rest, allowed), len(chosen), chosen), key=lambda entry: (max(entry[0], allowed), entry[1])
        )
    chosen = best[2]
    rest = table - trace - sum(amount for _, amount in chosen)
    unknown = 0.0 if abs(rest) <= allowed else rest
    status: Status = "unexplained" if unknown else "explained" if chosen else "matched"
    parts = [f"{amount:+.3f} us {cause.value}" for cause, amount in chosen]
    if unknown:
        parts.append(f"{unknown:+.3f} us unexplained")
    words = f"{name}: {table:.3f} us in the table, {trace:.3f} us in the trace"
    return TotalCheck(
        name,
        table,
        trace,
        status,
        {cause.value: amount for cause, amount in chosen},
        unknown,
        words + (f": {', '.join(parts)}" if parts else ", which agree"),
    )
