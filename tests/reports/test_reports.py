"""From bundles to results, numbers and documents."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.render import charts, numbers, tables
from reports.render.document import render, render_html
from reports.results import results
from suite.bundle import reader, schema
from suite.bundle.writer import EVENTS, append
from suite.statistics.ratio import Interval, Ratio
from tests import samples

CASE = "matmul_add/64-fp32"
CLEAR = {
    CASE: {"eager": [2e6, 2.02e6, 1.98e6], "eager#2": [2.001e6, 2.02e6, 1.979e6], "inductor": [1e6, 1.01e6, 0.99e6]}
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "run", CLEAR)


def test_results_are_the_ratios_of_the_samples(bundle: Path) -> None:
    found = results(reader.load(bundle))
    arm = found.cases[0].candidates[0]
    assert arm.ratio is not None and arm.ratio.estimate == pytest.approx(2.0)
    assert arm.typical_ns == pytest.approx(1e6, rel=1e-3)
    assert arm.verdict is not None and arm.verdict.word == "faster"
    assert found.cases[0].noise_floor == 0.01


def test_the_headline_is_fixed_by_the_plan(tmp_path: Path) -> None:
    times = {"a/1": {"eager": [2e6] * 3, "inductor": [1e5] * 3}, "b/1": {"eager": [2e6] * 3, "inductor": [1.9e6] * 3}}
    arms = [arm for arm in samples.ARMS if arm.role != "noise"]
    found = results(reader.load(samples.write(tmp_path / "run", times, changes={"arms": arms})))
    assert found.headline is not None and found.headline.case.case.name == "b/1"


def test_two_processes_give_no_interval_and_no_verdict_and_say_why(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", {CASE: {arm: times[:2] for arm, times in CLEAR[CASE].items()}})
    html = render_html(reader.load(path))
    assert "2 processes: an interval needs at least 3" in html
    assert "no verdict" in html


def test_a_crashed_process_is_shown_with_its_reason(bundle: Path) -> None:
    append(bundle / EVENTS, samples.ended(CASE, 5, "crashed", "crashed with SIGSEGV"))
    assert "crashed with SIGSEGV" in render_html(reader.load(bundle))


def test_an_arm_that_did_not_run_says_why_instead_of_a_number(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", {CASE: {arm: CLEAR[CASE][arm] for arm in ("eager", "eager#2")}})
    append(
        path / EVENTS,
        schema.ArmNotRun(at=samples.AT, case=CASE, arm="inductor", process=0, incarnation=0, reason="no C++ compiler"),
    )
    html = render_html(reader.load(path))
    assert "not run: no C++ compiler" in html


def test_an_empty_run_renders(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", {CASE: {"eager": [], "inductor": []}}, changes={"status": "interrupted"})
    assert "No block of this case was measured" in render_html(reader.load(path))


def test_a_failed_accuracy_check_is_red_and_its_speed_not_to_be_quoted(bundle: Path) -> None:
    from suite.bundle.writer import write_document

    accuracy = schema.Accuracy(
        case=CASE, arm="inductor", passed=False, rule="", tolerance=1e-4, outputs=[], message="output is off by 0.1"
    )
    write_document(bundle / "cases" / CASE / "inductor" / "accuracy.json", accuracy)
    html = render_html(reader.load(bundle))
    assert "FAILED" in html and "not to be quoted" in html


def test_changed_samples_are_said_on_the_first_screen(bundle: Path) -> None:
    text = (bundle / "samples.jsonl").read_text()
    (bundle / "samples.jsonl").write_text(text.replace("990000", "990001"))
    html = render_html(reader.load(bundle))
    assert "not as they were measured: 1 changed (samples.jsonl)" in html[: html.index('id="results"')]


def test_a_report_is_the_same_bytes_twice(bundle: Path) -> None:
    first = [path.read_bytes() for path in render(bundle)]
    assert [path.read_bytes() for path in render(bundle)] == first


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>'
    path = samples.write(
        tmp_path / "run", CLEAR, changes={"command": evil}, case_changes={"title": evil, "notes": [evil, "$x^"]}
    )
    html = render_html(reader.load(path))
    assert "<script" not in html


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.fetched += [
            value
            for name, value in attributes
            if name in ("src", "href", "xlink:href") and value and not value.startswith(("#", "data:"))
        ]


def test_the_page_fetches_nothing(bundle: Path) -> None:
    html = render_html(reader.load(bundle))
    parser = _Links()
    parser.feed(html)
    assert parser.fetched == []
    assert not re.findall(r"url\((?!#)", html) and "@import" not in html


def test_charts_do_not_depend_on_the_clock(bundle: Path) -> None:
    found = results(reader.load(bundle))
    assert charts.ratios(found) == charts.ratios(found)
    assert "<dc:date>" not in charts.ratios(found)


def test_help_imports_neither_torch_nor_what_only_rendering_needs() -> None:
    script = (
        "import sys, runpy; sys.argv = ['reports', '--help']\n"
        "try: runpy.run_module('reports', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'matplotlib', 'weasyprint', 'scipy', 'numpy', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_bad_input_is_one_sentence_and_status_2(tmp_path: Path, bundle: Path) -> None:
    (bundle / "run.json").write_text('{"schema_version": "2.0"}')
    for arguments, message in (
        ([str(tmp_path / "none")], "not a bundle"),
        ([str(bundle)], "schema 2.0"),
        ([], "name a run's directory"),
        (["--latest", str(tmp_path / "none")], "no run yet"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "reports", "render", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def _ratio(estimate: float, half: float) -> Ratio:
    return Ratio(estimate, Interval(estimate - half, estimate + half, 0.95), (estimate,), (0,))


@pytest.mark.parametrize(
    ("estimate", "half", "text"),
    [
        (1.23456, 0.034, "1.235×"),
        (1.23456, 0.036, "1.23×"),
        (1.23456, 0.34, "1.23×"),
        (1.23456, 0.6, "1.2×"),
        (1.23456, 0.0001, "1.235×"),
        (12.3456, 0.001, "12.35×"),
        (123.456, 3.0, "123.5×"),
        (123.456, 30.0, "123×"),
    ],
)
def test_a_ratio_has_the_digits_that_its_interval_allows(estimate: float, half: float, text: str) -> None:
    assert numbers.ratio(_ratio(estimate, half)) == text


def test_an_interval_never_collapses_to_one_number() -> None:
    low, high = numbers.interval(_ratio(1.5, 0.0004)).split(" to ")
    assert low != high


@pytest.mark.parametrize(
    ("ns", "text"),
    [(284_123_456, "284 ms"), (1_500, "1.50 µs"), (2e9, "2.00 s"), (0.5, "0.500 ns"), (999.6, "1,000 ns")],
)
def test_times_stand_in_the_unit_that_fits(ns: float, text: str) -> None:
    assert numbers.time(ns).replace("\u00a0", " ") == text


def test_significant_digits() -> None:
    assert [numbers.significant(value) for value in (1234.5, 12.345, 0.012345, 0, float("nan"))] == [
        "1,230",
        "12.3",
        "0.0123",
        "0",
        "–",
    ]


def test_profile_tables_count_per_step() -> None:
    rows = [schema.ProfileRow(name="aten::addmm", calls=1086, self_cpu_ns=3_000_000, cpu_ns=3_000_000)]
    cycle = schema.ProfileCycle(last_step=5, active_steps=3, trace="trace.json.gz", rows=rows)
    profile = schema.Profile(
        case=CASE,
        arm="eager",
        schedule=schema.ProfilerSchedule(),
        sort_key="",
        activities=[],
        kernel_profile=False,
        cycles=[cycle],
    )
    assert tables.profile_table(profile).rows[0][1] == "362"
