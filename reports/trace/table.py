"""A `key_averages().table()` as text, parsed by its header: columns differ between versions and back-ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
TIME = re.compile(r"(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s)")
TOTAL = re.compile(r"^Self (CPU|CUDA|XPU|[A-Z]+) time total:\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s)", re.MULTILINE)
DEVICE = ("CUDA", "XPU", "HIP", "MTIA", "PrivateUse1", "Device")


class TableError(Exception):
    """A profiler table that cannot be read: one sentence."""


@dataclass(frozen=True)
class TableRow:
    """One row; times in us, None where the table has no such column."""

    name: str
    calls: int
    self_cpu_us: float | None
    cpu_us: float | None
    self_device_us: float | None
    device_us: float | None


@dataclass(frozen=True)
class Table:
    """A parsed table: its rows and the totals under it, in us (None where it has none). `cut_names`: whether long names end in "...".

    `fixed_unit_us` is the unit (in us) of a table that was printed in one unit (`time_unit=`), 0 where each time has its own.
    """

    rows: tuple[TableRow, ...]
    self_cpu_total_us: float | None
    self_device_total_us: float | None
    cut_names: bool
    fixed_unit_us: float = 0.0


def parse(text: str) -> Table:
    """Parse what `key_averages().table()` printed.

    Raises:
        TableError: when it is no such table.
    """
    lines = text.splitlines()
    header = next((number for number, line in enumerate(lines) if "# of Calls" in line and "Name" in line), None)
    ruler = next((line for line in lines if re.fullmatch(r"\s*-{3,}(?:\s+-{3,})+\s*", line)), None)
    if header is None or ruler is None:
        raise TableError("this is no profiler table: there is no line with 'Name' and '# of Calls'.")
    spans = [match.span() for match in re.finditer(r"-+", ruler)]
    # A title may be wider than its column ("CUDA time avg"), and pushes the others to the right.
    titles = _split(lines[header])
    rows: list[TableRow] = []
    for line in lines[header + 1 :]:
        if not line.strip() or set(line.strip()) <= {"-", " "}:
            if rows:
                break
            continue
        parts = _split(line)
        # By position where a cell is empty, or a name holds two blanks.
        cells = dict(zip(titles, parts if len(parts) == len(titles) else _cells(line, spans), strict=False))
        calls = cells.get("# of Calls", "")
        if calls.isdigit():
            rows.append(_row(cells, int(calls)))
    totals = {match[1]: float(match[2]) * UNITS[match[3]] for match in TOTAL.finditer(text)}
    device = next((value for key, value in totals.items() if key != "CPU"), None)
    return Table(
        tuple(rows),
        totals.get("CPU"),
        device,
        any(row.name.endswith("...") for row in rows),
        _unit(lines[header + 1 :]),
    )


def _unit(lines: list[str]) -> float:
    """The unit of all times: by itself the profiler never prints less than 1 ms in ms, nor less than 1 s in s."""
    times = [match for line in lines for match in TIME.finditer(line)]
    units = {match[2] for match in times}
    small = any(abs(float(match[1])) < 1 for match in times)
    return UNITS[units.pop()] if len(units) == 1 and small and not units & {"us", "ns"} else 0.0


def _split(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def _cells(line: str, spans: list[tuple[int, int]]) -> list[str]:
    # A cell may be wider than its column only to the left of nothing: columns are right-aligned, with two blanks between.
    ends = [end for _, end in spans]
    starts = [0, *ends[:-1]]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _row(cells: dict[str, str], calls: int) -> TableRow:
    def time(*titles: str) -> float | None:
        for title in titles:
            if match := TIME.fullmatch(cells.get(title, "")):
                return float(match[1]) * UNITS[match[2]]
        return None

    return TableRow(
        cells.get("Name", ""),
        calls,
        time("Self CPU", "Self CPU total"),
        time("CPU total"),
        time(*(f"Self {device}" for device in DEVICE), *(f"Self {device} total" for device in DEVICE)),
        time(*(f"{device} total" for device in DEVICE)),
    )
