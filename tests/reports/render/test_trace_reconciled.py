"""A profiler's table beside its trace, on the page."""

from pathlib import Path

from reports.render.trace_reconciled import reconciled
from reports.trace.averages import averages
from suite.bundle.schema import ProfileRow
from tests.reports.trace.kineto import two_steps


def rows(folder: Path) -> list[ProfileRow]:
    """The table that the profiler would print of `two_steps`."""
    return [
        ProfileRow(
            name=line.name,
            calls=line.calls,
            self_cpu_ns=round(line.self_cpu_us * 1000),
            cpu_ns=round(line.cpu_us * 1000),
            self_device_ns=round(line.self_device_us * 1000),
            device_ns=round(line.device_us * 1000),
        )
        for line in averages(two_steps().analyse(folder).trace)
    ]


def test_a_table_that_agrees_is_said_to(tmp_path: Path) -> None:
    given = rows(tmp_path)
    told = reconciled(two_steps().analyse(tmp_path), given)
    assert told[0] == f"Of {len(given)} rows of the table {len(given)} agree with the trace"


def test_a_row_that_differs_is_named(tmp_path: Path) -> None:
    given = rows(tmp_path)
    wrong = next(number for number, row in enumerate(given) if row.name == "aten::addmm")
    given[wrong] = ProfileRow(name="aten::addmm", calls=2, self_cpu_ns=9_000_000, cpu_ns=9_900_000)
    told = reconciled(two_steps().analyse(tmp_path), given)
    assert (
        f"Of {len(given)} rows of the table {len(given) - 1} agree" in told[0]
        and "1 differ for none that is known" in told[0]
    )
    assert any("aten::addmm" in sentence for sentence in told[1:])


def test_without_a_table_nothing_is_said(tmp_path: Path) -> None:
    assert reconciled(two_steps().analyse(tmp_path), None) == []
