from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports import telemetry
from reports.render.document import render_html
from reports.render.processes import ProcessTable, process_table
from reports.render.telemetry_chart import telemetry_chart
from suite.bundle import reader
from suite.bundle.reader import Loaded
from suite.bundle.schema import Telemetry
from suite.bundle.writer import Bundle
from tests import samples
from tests.telemetry.rows import clocked, process, row

CASE = "matmul_add/64-fp32"
TIMES = {CASE: {"eager": [2e6] * 3, "eager#2": [2e6] * 3, "inductor": [1e6] * 3}}


def bundle(path: Path, rows: Sequence[Telemetry]) -> Loaded:
    samples.write(path, TIMES)
    for one in rows:
        Bundle(path).telemetry(one)
    return reader.load(path)


def column(table: ProcessTable, title: str) -> list[str]:
    place = table.titles.index(title)
    return [f"{row.cells[place].text} {row.cells[place].detail}".strip().replace("\u00a0", " ") for row in table.rows]


def metal(number: int, mhz: Sequence[float], **series: Any) -> list[Telemetry]:
    """A process on a bare machine that shows everything."""
    count = len(mhz) + 2
    return clocked(
        mhz,
        number,
        start_s=60 * number,
        temperature_c=[50.0, *[60.0 + number] * len(mhz), 55.0],
        energy_uj=[{"package-0": 240_000_000 * index} for index in range(count)],
        core_throttles=[0] * count,
        package_throttles=[number * index for index in range(count)],
        throttled_us=[0] * count,
        pressure_memory_us=[0] * count,
        pressure_io_us=[3000 * index for index in range(count)],
        swap_in_bytes=[0] * count,
        swap_out_bytes=[0] * count,
        worker_waiting_ns=[None, *[100_000_000 * index for index in range(len(mhz))], None],
        worker_voluntary_switches=[None, *[100 * index for index in range(len(mhz))], None],
        worker_involuntary_switches=[None, *[20 * index for index in range(len(mhz))], None],
        worker_migrations=[None, *range(len(mhz)), None],
        **series,
    )


def test_a_machine_that_shows_everything_fills_its_columns(tmp_path: Path) -> None:
    rows = [one for number in range(3) for one in metal(number, [3000, 2900, 3100, 3000])]
    table = process_table(bundle(tmp_path, rows))
    assert column(table, "Clock") == ["3.00 GHz least 2.90"] * 3
    assert column(table, "Hottest") == ["60 °C", "61 °C", "62 °C"]
    assert column(table, "Power") == ["120 W"] * 3
    assert column(table, "Heat") == ["0", "5", "10"]
    assert column(table, "Stolen") == ["0 %"] * 3
    assert column(table, "Switches\na second") == ["45 7.5 forced"] * 3


def test_columns_that_are_zero_or_empty_everywhere_are_left_out_and_named_once(tmp_path: Path) -> None:
    rows = [
        one
        for number in range(3)
        for one in process(number, start_s=60 * number, swap_in_bytes=[0] * 6, throttled_us=[0] * 6)
    ]
    rows[0] = row(
        0, "before", unreadable={"power": "denied: only root may read energy_uj"}, sampled_on="2", sampled_apart=True
    )
    table = process_table(bundle(tmp_path, rows))
    assert not {"Swapped", "Quota", "Power", "Clock"} & set(table.titles)
    notes = " ".join(table.notes)
    assert "Nothing in any process: other programs on the measured CPUs, quota throttling, swapping." in notes
    assert "Not readable here: power (denied: only root may read energy_uj)." in notes
    assert "clock, waiting for a CPU, heat throttling" in notes.partition("Not in this run's telemetry")[2]


def test_what_readings_cost_and_where_they_were_taken_is_said(tmp_path: Path) -> None:
    rows = process(cost_ns=[2_000_000] * 6, sampled_on=["2", *[""] * 5], sampled_apart=[True, *[None] * 5])
    assert "took 0.10 % of one core and were taken on CPU 2, apart" in process_table(bundle(tmp_path, rows)).notes[
        -1
    ].replace("\u00a0", " ")


def test_an_old_bundle_keeps_its_columns(tmp_path: Path) -> None:
    old = [
        row(s, m, cpus="", steal_ticks=s, busy_ticks=s * 99, idle_ticks=s * 100)
        for s, m in ((0, "before"), (10, "after"))
    ]
    table = process_table(bundle(tmp_path, old))
    assert table.titles == ["CPU\nbusy", "Stolen"]
    assert column(table, "Stolen") == ["1.0 %", "–", "–"]
    assert column(table, "CPU\nbusy") == ["50 %", "–", "–"]


def test_a_bundle_without_telemetry_still_lists_its_processes(tmp_path: Path) -> None:
    table = process_table(bundle(tmp_path, []))
    assert ([row.process for row in table.rows], table.titles) == (["0", "1", "2"], [])
    assert table.notes == ["The machine's state was not read in this run."]


def test_the_chart_draws_what_the_machine_shows_and_nothing_that_stays_zero(tmp_path: Path) -> None:
    rows = [one for number in range(3) for one in metal(number, [3000, 2900, 3100, 3000])]
    loaded = bundle(tmp_path, rows)
    assert [course.name for course in telemetry.courses(loaded.telemetry, loaded.events)] == [
        "clock at work",
        "temperature",
    ]
    assert "clock at work" in telemetry_chart(loaded)


def test_no_chart_is_drawn_of_few_readings(tmp_path: Path) -> None:
    assert telemetry_chart(bundle(tmp_path, metal(0, [3000, 2900]))) == ""


def test_other_programs_are_what_the_worker_did_not_use_between_two_readings() -> None:
    used = [None, 4_000_000_000, 7_000_000_000, 11_000_000_000, 15_000_000_000, 19_000_000_000, None]
    rows = [one for number in range(2) for one in process(number, readings=7, start_s=60 * number, worker_cpu_ns=used)]
    (course,) = telemetry.courses(rows, [])
    assert course.name == "other programs"
    assert [round(value) for value in course.values] == [0, 25, 0, 0, 0] * 2


def test_the_report_shows_the_table_the_notes_and_the_chart(tmp_path: Path) -> None:
    rows = [one for number in range(3) for one in metal(number, [3000, 2900, 3100, 3000])]
    html = render_html(bundle(tmp_path, rows))
    environment = html[html.index('id="environment"') :]
    assert "<small>least 2.90</small>" in environment
    assert "Stolen: share of the time" in environment
    assert "clock at work" in environment
    assert render_html(bundle(tmp_path / "old", []))
