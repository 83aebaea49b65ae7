"""The table for spreadsheets: whole, and none of its cells a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
import pytest

from reports.compare.load import Gathered
from reports.compare.matrix import compare
from reports.export.comparison import COLUMNS, table_csv, text_cell
from tests.reports.compare.bundles import POINTWISE, arms, bundle, gathered

TIMES = {POINTWISE: arms(100e3, 50e3)}


@pytest.mark.parametrize(
    "first", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u00a0="]
)
def test_a_cell_that_would_be_a_formula_begins_with_an_apostrophe(first: str) -> None:
    cell = text_cell(f"{first}cmd|' /C calc'!A0")
    assert cell.startswith("'")


@pytest.mark.parametrize("text", ["a,=1+1", "a;@x", 'a"=1', "a\t-1", "x\r\n=1"])
def test_no_formula_begins_behind_a_wrongly_guessed_separator(text: str) -> None:
    cell = text_cell(text)
    assert cell.isprintable()
    for separator in ',;\t"':
        assert all(not part.lstrip()[:1] or part.lstrip()[0] not in "=+-@" for part in cell.split(separator)), cell


@pytest.mark.parametrize("text", ["matmul_add/64-fp32", "AMD EPYC 9B14, 2 cores", "2.13.0+cpu", "a - b", "x=1"])
def test_harmless_texts_stay_as_they_are(text: str) -> None:
    assert text_cell(text) == text


def rows(found: Gathered) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table_csv(compare(found)), newline="")))


def test_every_cell_is_a_line_with_its_numbers(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", TIMES)
    other = bundle(tmp_path / "other", {POINTWISE: arms(50e3, 20e3)}, unit="2", cpu="Other CPU")
    found = rows(gathered(base, other))
    assert [(line["case"], line["arm"], line["run"]) for line in found] == [
        (POINTWISE, arm, run) for arm in ("eager", "inductor") for run in "AB"
    ]
    assert list(found[0]) == list(COLUMNS)
    line = found[1]
    assert line["machine_model"] == "Other CPU, 2 cores"
    assert (line["status"], line["verdict"], line["processes"]) == ("ranked", "faster", "6")
    low, ratio, high = (float(line[name]) for name in ("ratio_low", "ratio_to_baseline", "ratio_high"))
    assert low < ratio < high
    assert ratio == pytest.approx(float(found[0]["time_ns"]) / float(line["time_ns"]))
    assert float(found[3]["speedup_over_eager"]) == pytest.approx(2.5, rel=0.02)
    assert (found[0]["ratio_to_baseline"], found[0]["speedup_over_eager"]) == ("", "")


def test_a_refused_row_has_its_reason_and_no_ratio(tmp_path: Path) -> None:
    other = bundle(tmp_path / "other", TIMES, unit="2", case_changes={"dtype": "bfloat16"})
    line = rows(gathered(bundle(tmp_path / "base", TIMES), other))[1]
    assert (line["status"], line["ratio_to_baseline"], line["verdict"]) == ("refused", "", "")
    assert "dtype bfloat16" in line["reason"]


def test_hostile_texts_of_a_bundle_are_no_formulas(tmp_path: Path) -> None:
    evil = "=cmd|' /C calc'!A0"
    base = bundle(tmp_path / "base", TIMES, cpu=evil, run_id='@SUM(1);=1+1",=2')
    other = bundle(tmp_path / "other", TIMES, cpu="\t=1", unit="2", case_changes={"dtype": "=1+1"}, run_id="-1")
    members = gathered(base, other)
    # The reader refuses such a name of a case; were it to come in, it would be text as well.
    first = members.members[0]
    renamed = msgspec.structs.replace(first.bundle.run.cases[0], name=evil)
    first.bundle.run.cases[0] = renamed
    object.__setattr__(first.results.cases[0], "case", renamed)
    table = table_csv(compare(members))
    assert "'=cmd" in table
    cells = [cell for line in csv.reader(io.StringIO(table, newline="")) for cell in line]
    assert [cell for cell in cells if cell.lstrip()[:1] in tuple("=+-@\t\r\n")] == []
    assert [line for line in table.split("\r\n")[:-1] if not (line.startswith('"') and line.endswith('"'))] == []
