"""From bundles to results, numbers and documents."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reports.commands import app
from reports.compilation import compilation_of
from reports.render import charts, document, numbers, tables
from reports.render.document import render, render_html
from reports.render.view import aggregate_sentence
from reports.results import results, withheld
from suite.bundle import manifest, reader, schema
from suite.bundle.errors import BundleError
from suite.bundle.writer import EVENTS, append
from suite.statistics.ratio import Interval, Ratio
from suite.statistics.verdict import Verdict
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
    assert found.cases[0].noise_floor.delta == 0.01


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
    manifest.write(bundle)
    loaded = reader.load(bundle)
    html = render_html(loaded)
    assert "FAILED" in html and "the speed of torch.compile is not to be quoted; its accuracy check failed" in html
    found = results(loaded)
    assert found.count("faster") == 0 and found.aggregate == "no case was completed by every arm"


def test_an_arm_that_was_still_changing_makes_no_claim() -> None:
    judged = Verdict("faster", "the whole interval lies above the noise floor")
    for classes in ({"eager": "no steady state", "inductor": "flat"}, {"eager": "flat", "inductor": "no steady state"}):
        assert withheld(judged, None, classes).word == "inconclusive"
    assert withheld(judged, None, {"eager": "flat", "inductor": "warm-up"}) == judged


def test_a_crashed_process_with_half_a_pair_is_no_replicate(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", {CASE: {arm: times[:2] for arm, times in CLEAR[CASE].items()}})
    for number, arm in enumerate(("eager", "eager#2", "inductor")):
        append(path / "samples.jsonl", samples.block(CASE, arm, 2, number, 1e6))
    found = results(reader.load(path)).cases[0].candidates[0]
    assert found.ratio is not None and found.ratio.processes == (0, 1) and found.ratio.interval is None


def test_percentiles_are_given_of_single_calls_only(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", CLEAR)
    text = (path / "samples.jsonl").read_text()
    (path / "samples.jsonl").write_text(text.replace('"calls_per_iteration":1,', '"calls_per_iteration":4,'))
    percentiles = results(reader.load(path)).cases[0].baseline.percentiles
    assert set(percentiles) == {"calls are timed in groups of up to 4"}


def test_compile_times_are_told_apart_by_what_the_cache_answered() -> None:
    def ready(process: int, seconds: float, cache: str, arm: str = "inductor") -> schema.ArmReady:
        ns = round(seconds * 1e9)
        fields = {"case": CASE, "arm": arm, "process": process, "incarnation": 0, "role": "measure", "at": samples.AT}
        return schema.ArmReady(**fields, first_call_ns=ns, compile_ns=ns, cache=cache)  # type: ignore[arg-type]

    events = [ready(0, 9, "cold"), ready(1, 2, "warm"), ready(2, 3, "warm"), ready(3, 8, "cold")]
    found = compilation_of(events, CASE, "inductor")
    assert (found.cold_ns, found.warm_ns, found.bypassed) == (9e9, 2.5e9, False)
    frozen = compilation_of([ready(0, 9, "bypassed"), ready(1, 4, "bypassed")], CASE, "inductor")
    assert (frozen.cold_ns, frozen.warm_ns, frozen.bypassed) == (9e9, 4e9, True)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("samples.jsonl", "[1980000,", "[0,", "samples.jsonl:1"),
        ("samples.jsonl", '"calls_per_iteration":1', '"calls_per_iteration":0', "samples.jsonl:1"),
        ("run.json", '"label": "eager#2"', '"label": "../../../tmp/x"', "arms"),
        ("run.json", '"name": "matmul_add/64-fp32"', '"name": "../64-fp32"', "cases"),
        ("run.json", '"role": "baseline"', '"role": "candidate"', "0 baseline arms"),
        ("run.json", '"label": "eager#2"', '"label": "eager"', "one arm stands twice"),
    ],
)
def test_a_bundle_that_no_run_could_have_written_is_refused(
    bundle: Path, file: str, old: str, new: str, message: str
) -> None:
    text = (bundle / file).read_text()
    assert old in text
    (bundle / file).write_text(text.replace(old, new, 1))
    with pytest.raises(BundleError, match=message):
        reader.load(bundle)


def test_a_damaged_accuracy_file_is_left_out_with_a_note(bundle: Path) -> None:
    directory = bundle / "cases" / CASE / "inductor"
    directory.mkdir(parents=True)
    (directory / "accuracy.json").write_text('{"outputs": null}')
    loaded = reader.load(bundle)
    assert loaded.accuracies == {} and any("accuracy.json" in note for note in loaded.notes)


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
    [(284_123_456, "284 ms"), (1_500, "1.50 µs"), (2e9, "2.00 s"), (0.5, "0.500 ns"), (999.9, "1.00 µs")],
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


def sealed(tmp_path: Path) -> Path:
    """A bundle that says of itself that it meets every rule."""
    return samples.write(tmp_path / "run", CLEAR, changes={"publishable": True})


def test_a_bundle_as_it_was_sealed_is_publishable_and_has_its_verdict(tmp_path: Path) -> None:
    html = render_html(reader.load(sealed(tmp_path)))
    assert "yes, every run rule is met" in html and '<div class="number faster">' in html


@pytest.mark.parametrize("what", ["changed", "missing", "not listed", "no checksums"])
def test_a_bundle_that_was_changed_after_sealing_is_not_publishable_and_claims_nothing(
    tmp_path: Path, what: str
) -> None:
    path = sealed(tmp_path)
    if what == "changed":
        text = (path / "samples.jsonl").read_text()
        (path / "samples.jsonl").write_text(text.replace("1000000", "100000"))
    elif what == "missing":
        (path / "fingerprint.json").unlink()
    elif what == "not listed":
        (path / "added.txt").write_text("x")
    else:
        (path / "SHA256SUMS").unlink()
    html = html_text(render_html(reader.load(path)))
    assert "yes, every run rule is met" not in html
    assert "<h1>a test of matmul_add: no claim is made about torch.compile; the bundle" in html
    assert re.search(r'<dt>Publishable</dt><dd><b class="no">no</b>: the bundle[^;]* ' + what, html)
    assert '<div class="number none">' in html and 'class="verdict faster"' not in html
    assert re.search("Why this run is not publishable</h3>\n  <ul><li>the bundle", html)


def test_the_reason_of_the_files_stands_before_the_runs_own(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", CLEAR, changes={"reasons": ["not containerised"]})
    (path / "added.txt").write_text("x")
    found = "no</b>: the bundle's files are not as they were measured: 1 not listed (added.txt); not containerised"
    assert found in html_text(render_html(reader.load(path)))


def test_a_run_that_never_ended_has_no_checksums_yet_and_that_is_nobodys_change(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", CLEAR, changes={"status": "running"})
    (path / "SHA256SUMS").unlink()
    html = render_html(reader.load(path))
    assert '<div class="number faster">' in html and "yes, every run rule is met" not in html


def html_text(html: str) -> str:
    return html.replace("&#39;", "'")


def test_a_mean_says_in_which_of_its_cases_nothing_is_claimed(tmp_path: Path) -> None:
    noisy = {"eager": [2e6, 2.02e6, 1.98e6], "eager#2": [3e6, 2.02e6, 1.2e6], "inductor": [1e6, 1.01e6, 0.99e6]}
    clear = aggregate_sentence(results(reader.load(samples.write(tmp_path / "a", {"a/1": CLEAR[CASE], **CLEAR}))))
    assert re.fullmatch(r"Geometric mean over 2 of 2 cases, .*: inductor 2\.0+×\.", clear)
    found = aggregate_sentence(results(reader.load(samples.write(tmp_path / "b", {"a/1": noisy, **CLEAR}))))
    assert re.search(r"inductor 2\.0+× \(nothing is claimed in 1 of 2: a/1\)\.$", found)


def test_a_sample_of_the_repository_is_not_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert document.SAMPLES.is_dir()
    monkeypatch.setattr(document, "SAMPLES", tmp_path / "samples")
    path = samples.write(tmp_path / "samples" / "h200" / "run", CLEAR)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    monkeypatch.chdir(path.parent)
    done = CliRunner().invoke(app, ["render", "run"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "copy it first (cp -r run results/)" in done.stderr
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
