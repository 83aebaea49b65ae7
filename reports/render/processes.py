"""The table of processes: how each ended, and how the machine treated it. No HTML here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.render import numbers
from suite.bundle import readings, schema
from suite.bundle.reader import Loaded
from suite.bundle.readings import Span


@dataclass(frozen=True)
class Cell:
    """A number as text, with a second one that qualifies it."""

    text: str = numbers.NO_NUMBER
    detail: str = ""


@dataclass(frozen=True)
class ProcessRow:
    """One worker: how it ended, how long it took, and a cell for each of the table's columns."""

    case: str
    process: str
    outcome: str
    duration: str
    memory: str
    well: bool
    cells: list[Cell]


@dataclass(frozen=True)
class ProcessTable:
    """The rows, the titles of their cells (with line breaks), and sentences on what the columns mean and which are left out."""

    titles: list[str]
    rows: list[ProcessRow]
    notes: list[str]


@dataclass(frozen=True)
class Column:
    """A column: `value` decides whether it is shown at all, `cell` what it says; `always`: even when it is zero in every process.

    `name` is what a sentence calls it, `cause` the name under which telemetry says why it could not be read, if that is another.
    """

    title: str
    value: Callable[[Span], float | None]
    cell: Callable[[Span], Cell]
    name: str
    cause: str = ""
    always: bool = False

    @property
    def reason_name(self) -> str:
        return self.cause or self.name


def _percent(value: float | None, detail: str = "") -> Cell:
    return Cell(numbers.percent(value), detail)


def _clock(span: Span) -> Cell:
    least = span.least_clock
    if span.clock_mhz is None or least is None:
        return Cell()
    return Cell(f"{numbers.significant(span.clock_mhz / 1e3)}\u00a0GHz", f"least {numbers.significant(least[1] / 1e3)}")


def _quota(span: Span) -> Cell:
    held = numbers.time(span.throttled_s * 1e9, 2) if span.throttled_s else ""
    return _percent(span.throttled, held)


def _heat(span: Span) -> float | None:
    known = [count for count in (span.core_throttles, span.package_throttles) if count is not None]
    return sum(known) if known else None


def _switches(span: Span) -> Cell:
    if span.worker_switches_per_s is not None:
        forced = f"{numbers.significant(span.involuntary_per_s, 2)} forced" if span.involuntary_per_s else ""
        return Cell(numbers.significant(span.worker_switches_per_s, 2), forced)
    return _plain(span.switches_per_s)


def _plain(value: float | None, unit: str = "") -> Cell:
    return Cell() if value is None else Cell(f"{numbers.significant(value, 2)}{unit}")


def _stalled(resource: str) -> Callable[[Span], float | None]:
    return lambda span: (span.pressure or {}).get(resource)


COLUMNS = (
    Column("CPU\nbusy", lambda span: span.busy, lambda span: _percent(span.busy), "CPU time", "steal", always=True),
    Column("Clock", lambda span: span.clock_mhz, _clock, "clock"),
    Column("Stolen", lambda span: span.stolen, lambda span: _percent(span.stolen), "stolen time", "steal", always=True),
    Column(
        "Others",
        lambda span: span.neighbours,
        lambda span: _percent(span.neighbours),
        "other programs on the measured CPUs",
        "the worker's children",
    ),
    Column("Waited", lambda span: span.waiting, lambda span: _percent(span.waiting), "waiting for a CPU"),
    Column("Quota", lambda span: span.throttled_s, _quota, "quota throttling"),
    Column(
        "Heat",
        _heat,
        lambda span: Cell() if (events := _heat(span)) is None else Cell(f"{events:,.0f}"),
        "heat throttling",
    ),
    Column(
        "Memory\nstalls",
        _stalled("memory"),
        lambda span: _percent(_stalled("memory")(span)),
        "memory stalls",
        "pressure",
    ),
    Column("I/O\nstalls", _stalled("io"), lambda span: _percent(_stalled("io")(span)), "I/O stalls", "pressure"),
    Column("Swapped", lambda span: span.swap_bytes, lambda span: Cell(numbers.size(span.swap_bytes)), "swapping"),
    Column(
        "Switches\na second",
        lambda span: span.worker_switches_per_s if span.worker_switches_per_s is not None else span.switches_per_s,
        _switches,
        "context switches",
    ),
    Column(
        "Migrations\na second",
        lambda span: span.migrations_per_s,
        lambda span: _plain(span.migrations_per_s),
        "migrations",
    ),
    Column(
        "Hottest", lambda span: span.temperature_c, lambda span: _plain(span.temperature_c, "\u00a0°C"), "temperature"
    ),
    Column("Power", lambda span: span.watts, lambda span: _plain(span.watts, "\u00a0W"), "power"),
)

MEANINGS = {
    "Stolen": "Stolen: share of the time in which the measured CPUs had work that the hypervisor gave to other machines.",
    "Clock": "Clock: median and least over the readings in which the measured CPUs were at work.",
    "Others": "Others: share of the measured CPUs' time that programs other than the worker and its children took.",
    "Waited": "Waited: share of the time in which the worker's threads were ready to run and had no CPU.",
    "Quota": "Quota: share of its periods in which the CPU quota stopped the worker, and for how long.",
    "Heat": "Heat: how often measured cores and their packages slowed down because of it.",
    "Memory\nstalls": "Stalls: share of time in which some task of the machine waited for memory or for I/O.",
    "I/O\nstalls": "Stalls: share of time in which some task of the machine waited for memory or for I/O.",
}


def process_table(bundle: Loaded) -> ProcessTable:
    """Every worker, case by case in the order in which they ended, with what telemetry says of the stretch in which it measured."""
    found = {span.key: span for span in readings.spans(bundle.telemetry, bundle.events)}
    ends = [event for event in bundle.events if isinstance(event, schema.ProcessEnded)]
    cases = list(dict.fromkeys(end.case for end in ends))
    ends.sort(key=lambda end: cases.index(end.case))
    shown, silent, quiet = _sort_out([found[_key(end)] for end in ends if _key(end) in found])
    rows = [_row(end, found.get(_key(end)), shown) for end in ends]
    return ProcessTable(
        [column.title for column in shown], rows, _notes(bundle, list(found.values()), shown, silent, quiet)
    )


def _key(end: schema.ProcessEnded) -> readings.Key:
    return end.case, end.role, end.process, end.incarnation


def _sort_out(found: Sequence[Span]) -> tuple[list[Column], list[Column], list[Column]]:
    """Columns with something in them, those that are empty in every process, and those that are zero in every process."""
    shown, silent, quiet = [], [], []
    for column in COLUMNS:
        values = [value for span in found if (value := column.value(span)) is not None]
        if not values:
            silent.append(column)
        elif any(values) or column.always:
            shown.append(column)
        else:
            quiet.append(column)
    return shown, silent, quiet


def _row(end: schema.ProcessEnded, span: Span | None, shown: Sequence[Column]) -> ProcessRow:
    outcome = "ok" if end.outcome == "ok" else f"{end.outcome.replace('_', ' ')}: {end.message}"
    if end.incarnation:
        outcome += f" (start {end.incarnation + 1})"
    return ProcessRow(
        case=end.case,
        process="profile" if end.role == "profile" else str(end.process),
        outcome=outcome,
        duration=numbers.time(end.duration_ns, 2),
        memory=numbers.size(end.peak_rss_bytes),
        well=end.outcome == "ok",
        cells=[column.cell(span) if span else Cell() for column in shown],
    )


def _notes(
    bundle: Loaded, found: Sequence[Span], shown: Sequence[Column], silent: Sequence[Column], quiet: Sequence[Column]
) -> list[str]:
    if not bundle.telemetry:
        return ["The machine's state was not read in this run."]
    notes = list(dict.fromkeys(MEANINGS[column.title] for column in shown if column.title in MEANINGS))
    if any(span.measured_only for span in found):
        notes.append("Numbers are of the stretch in which a process measured; of profiling processes, of the whole.")
    if any(column.value(span) is None for column in shown for span in found):
        notes.append(f"{numbers.NO_NUMBER}: not read in that process, or too short a stretch to tell.")
    if quiet:
        notes.append(f"Nothing in any process: {', '.join(column.name for column in quiet)}.")
    notes += _unreadable(bundle, silent)
    share = readings.cost_share(bundle.telemetry)
    if share is not None:
        notes.append(f"The readings took {numbers.percent(share)} of one core{_where(bundle)}.")
    return notes


def _unreadable(bundle: Loaded, silent: Sequence[Column]) -> list[str]:
    reasons = readings.unreadable(bundle.telemetry)
    named = {name: reason for name, reason in reasons.items() if name in {column.reason_name for column in silent}}
    notes = []
    if named:
        notes.append(f"Not readable here: {'; '.join(f'{name} ({reason})' for name, reason in named.items())}.")
    rest = [column.name for column in silent if column.reason_name not in named]
    if rest:
        notes.append(f"Not in this run's telemetry, or too short a run to tell: {', '.join(rest)}.")
    return notes


def _where(bundle: Loaded) -> str:
    """Where readings were taken; an ablation's levels may have left different CPUs free."""
    told = []
    for row in bundle.telemetry:
        if row.sampled_apart is not None:
            where = f"on CPU{'' if row.sampled_on.isdigit() else 's'} {row.sampled_on}"
            how = (
                "apart from the measured cores"
                if row.sampled_apart
                else "of measured cores: there is no other to be had"
            )
            told.append(f"{where}, {how}")
    places = list(dict.fromkeys(told))
    return f" and were taken {'; or '.join(places)}" if places else ""
