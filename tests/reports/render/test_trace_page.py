"""The page of a trace: its order, its sentences, and that every name stays text."""

import dataclasses
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.findings.contract import Evidence, Finding, fired
from reports.render.publish import publish
from reports.render.trace_document import packed_copy, render_html, render_trace
from reports.render.trace_tables import branches, kernels, tables
from reports.render.trace_units import sentence
from reports.render.trace_view import seen
from reports.render.trace_words import headline, minute, ordered, trust
from suite.bundle.errors import BundleError
from tests.reports.render.findings_made import EVIL, finding, rule, some
from tests.reports.trace import corpus
from tests.reports.trace.kineto import Recording, analysed, packed, save, two_steps


class Page(HTMLParser):
    """Everything that a page would fetch, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [
            v for name, v in attributes if name in ("src", "href", "srcset", "data") and v and not v.startswith("data:")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def cpu_only() -> Recording:
    """100 us on one thread: 60 in aten::mm, 20 in aten::add, 20 in none."""
    recording = Recording(devices=[])
    recording.note("work", 0.25, 100.25)
    recording.op("aten::mm", 10.25, 70.25)
    recording.op("aten::add", 75.25, 95.25)
    return recording


def told(recording: Recording, folder: Path) -> dict[str, str]:
    return {title: text.replace("\u00a0", " ") for title, text in minute(recording.analyse(folder), ())}


def test_problems_come_by_the_time_at_stake_then_hints_then_explanations() -> None:
    assert [finding.rule.id for finding in ordered(some())] == ["P-large", "P-small", "H1", "E1"]


def test_the_page_has_its_parts_in_order(tmp_path: Path) -> None:
    html = render_html(two_steps().analyse(tmp_path), some(), ["the table agrees"])
    parts = ['id="trust"', 'id="minute"', 'role="img"', 'id="findings"']
    parts += [f"title of {each}" for each in ("P-large", "P-small", "H1", "E1")]
    parts += ["Withheld", "W1", 'id="perfetto"', 'id="numbers"', "Idle time by cause", "Dispatch chains"]
    parts += ["The table agrees.", 'id="quiet"', "Q1", "N1"]
    places = [html.index(part) for part in parts]
    assert places == sorted(places)


def test_a_card_says_all_that_a_rule_knows(tmp_path: Path) -> None:
    html = render_html(two_steps().analyse(tmp_path), [finding("R9", at_stake_us=12.0, advice="do that")])
    for what in ("title", "formula", "threshold", "refutation", "explanation"):
        assert f"{what} of R9" in html
    for text in ("Claim of R9.", "evidence of R9", "Reason of R9.", "Do that.", "at stake: 12.0\u00a0µs"):
        assert text in html


def test_evidence_gives_the_moment_in_the_numbers_of_the_trace(tmp_path: Path) -> None:
    found = seen(two_steps().analyse(tmp_path), Evidence("x", 20.0, 45.5))
    assert found.perfetto == "120250 to 145750"
    assert found.range.replace("\u00a0", " ") == "20.0 to 45.5 µs"
    assert seen(two_steps().analyse(tmp_path), Evidence("x")).perfetto == ""


def test_the_minute_tells_the_bound_with_both_counterfactuals(tmp_path: Path) -> None:
    found = told(two_steps(), tmp_path)
    assert "works for 70.0 µs of 240 µs (29.2 %): overhead-bound" in found["What bounds it"]
    assert "at most 2.18×, with twice as fast kernels by 1.17×" in found["What bounds it"]
    assert found["Where the idle time went"].startswith("It is idle for 170 µs: ")
    assert "torch.compile" in found["What to do next"]


def test_the_first_problem_and_its_advice_are_in_the_minute_and_an_explanation_is_not(tmp_path: Path) -> None:
    analysis = two_steps().analyse(tmp_path)
    assert dict(minute(analysis, some()))["The first finding"] == "Claim of P-large. (P-large)"
    assert dict(minute(analysis, some()))["What to do next"] == "Save a lot."
    assert "The first finding" not in dict(minute(analysis, [finding("E1", "explanation", advice="nothing")]))


def test_where_kernels_are_the_larger_lever_they_come_first(tmp_path: Path) -> None:
    recording = two_steps()
    recording.launch("sm80_gemm_bf16", 101.25, 110.25, 335.25)
    advice = dict(minute(recording.analyse(tmp_path), [finding("P", advice="Launch less")]))["What to do next"]
    assert advice.startswith("Look at the kernels") and advice.endswith("Second: Launch less.")


def test_a_damaged_whole_is_to_be_recorded_again(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, json.dumps(two_steps().document())[:-300])
    assert dict(minute(analysis, [finding("P", advice="Launch less")]))["What to do next"].startswith("Record again")


def test_doubt_about_the_trace_comes_before_what_costs_time() -> None:
    doubt = finding("T")
    doubt = Finding(dataclasses.replace(doubt.rule, family="trust"), doubt.outcome)
    assert [each.rule.id for each in ordered([*some(), doubt])][:2] == ["T", "P-large"]


def test_a_damaged_trace_is_said_first(tmp_path: Path) -> None:
    recording = two_steps()
    recording.work("orphan", 330.25, 335.25, correlation=999)
    analysis = recording.analyse(tmp_path)
    assert next(iter(dict(minute(analysis, ())))) == "Can it be believed"
    assert [note[:2] for note in trust(analysis).notes] == [("orphan", "1")]


def test_missing_gpu_activity_is_not_called_idle(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events = [event for event in recording.events if event["cat"] != "kernel"]
    analysis = recording.analyse(tmp_path)
    assert headline(analysis) == "The GPU's activity is missing from this recording"
    assert "the GPU was not idle" in dict(minute(analysis, ()))["What bounds it"]


def test_a_cut_trace_makes_no_claim_about_the_whole(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, json.dumps(two_steps().document())[:-300])
    assert "window" in analysis.trace.withheld
    assert "is not said, because the recording is damaged" in dict(minute(analysis, ()))["What bounds it"]
    found = {table.title: table for table in tables(analysis)}
    assert "Idle time by cause" not in found
    values = {row[0].text: row[1].text for row in found["GPUs"].rows}
    assert values["window"] == values["regime"] == "withheld" and values["busy"] != "withheld"


def test_without_a_gpu_the_operators_are_the_story(tmp_path: Path) -> None:
    analysis = cpu_only().analyse(tmp_path)
    assert headline(analysis).replace("\u00a0", " ") == "On the CPU: aten::mm takes 75.0 % of the operators' time"
    found = told(cpu_only(), tmp_path)
    assert "operators cover 80.0 % of the main thread" in found["What bounds it"]
    assert found["What to do next"].startswith(
        "Begin with aten::mm: without it the whole would be at most 2.50× as fast"
    )
    assert "GPU" not in [table.title[:3] for table in tables(analysis)]


def test_where_hardly_an_operator_runs_the_annotation_is_the_story(tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.note("ProfilerStep#5", 0.25, 900.25)
    recording.note("gloo:all_reduce", 100.25, 800.25)
    recording.op("aten::empty", 10.25, 12.25)
    assert headline(recording.analyse(tmp_path)).replace("\u00a0", " ") == (
        "On the CPU: gloo:all_reduce takes 700 µs in 1 call, hardly any operator runs"
    )
    assert told(recording, tmp_path)["What to do next"].startswith("Look at what runs within gloo:all_reduce")


def test_the_share_of_what_inductor_fused_is_told(tmp_path: Path) -> None:
    recording = cpu_only()
    recording.op("graph_1_cpp_fused_add_mul_0", 96.25, 100.25)
    assert "Kernels that Inductor fused take 4.76 %." in told(recording, tmp_path)["What bounds it"]


def test_an_empty_trace_has_a_page(tmp_path: Path) -> None:
    html = render_html(Recording().analyse(tmp_path), ())
    assert (
        "no active step of the profiler&#39;s schedule was reached" in html
        and "Nothing was recorded that could be drawn" in html
    )


def test_idle_causes_in_the_table_sum_to_what_is_under_them(tmp_path: Path) -> None:
    analysis = two_steps().analyse(tmp_path)
    found = next(table for table in tables(analysis) if table.title == "Idle time by cause")
    assert found.total[1].text.replace("\u00a0", " ") == "170 µs"
    assert all(row[-1].text for row in found.rows)


def test_every_quantity_of_a_gpu_stands_beside_its_definition(tmp_path: Path) -> None:
    found = tables(two_steps().analyse(tmp_path))
    for table in found:
        defined = table.columns[-1][1] == "definition"
        assert defined or table.definitions
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert not defined or all(row[-1].text for row in table.rows)


def test_a_kernel_shows_what_it_was_launched_with(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events[4]["args"] |= {
        "grid": [4, 1, 1],
        "block": [128, 1, 1],
        "registers per thread": 32,
        "shared memory": 2048,
    }
    small = kernels(recording.analyse(tmp_path)).rows[0][0].small.replace("\u00a0", " ")
    assert "gemm; grid 4×1×1, block 128×1×1, 32 registers a thread, 2.00 KiB shared memory a block" in small


def test_the_dispatch_tree_is_indented_and_bounded(tmp_path: Path) -> None:
    recording = two_steps()
    for number in range(40):
        recording.op(f"aten::op{number}", 160.25 + number, 160.75 + number)
    lines = branches(recording.analyse(tmp_path).chains)
    assert [(line.depth, line.name) for line in lines[:4]] == [
        (0, "ProfilerStep"),
        (1, "aten::linear"),
        (2, "aten::addmm"),
        (3, "cudaLaunchKernel"),
    ]
    assert any(line.name.startswith("… ") for line in lines) and len(lines) < 30


@pytest.mark.parametrize(
    ("text", "shown"),
    [("the gpu waits", "The gpu waits."), ("aten::mm is slow", "aten::mm is slow."), ("", ""), ("why?", "Why?")],
)
def test_a_claim_is_a_sentence_and_a_name_stays_as_it_is(text: str, shown: str) -> None:
    assert sentence(text) == shown


def hostile(name: str) -> tuple[Recording, list[Finding]]:
    recording = two_steps()
    recording.note(name, 101.25, 199.25)
    recording.op(name, 230.25, 260.25)
    recording.launch(name, 240.25, 400.25, 500.25)
    recording.devices[0]["name"] = name
    claims = fired(name, Evidence(name, 0, 1), why=name, advice=name)
    return recording, [Finding(rule("R1"), claims)]


@pytest.mark.parametrize(
    "name", [EVIL, "&lt;script&gt;", "{{ 7 * 7 }}{% raw %}", "\ud800\x00\x1b[31m", "]]></svg><script>"]
)
def test_names_with_markup_stay_text(tmp_path: Path, name: str) -> None:
    recording, findings = hostile(name)
    html = render_html(recording.analyse(tmp_path), findings, [name], title=name)
    shown = Page(html)
    assert "script" not in shown.tags and shown.fetched == []
    assert html.encode() and "\x00" not in html and "\x1b" not in html
    if "\x00" not in name:
        assert name in shown.text


def test_names_of_thousands_of_characters_are_cut(tmp_path: Path) -> None:
    recording, findings = hostile("N" * 5000)
    html = render_html(recording.analyse(tmp_path), findings)
    assert "N" * 601 not in html and len(html) < 60_000


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    html = render_html(two_steps().analyse(tmp_path), some())
    assert Page(html).fetched == []
    assert not re.findall(r"url\((?!#)", html) and "@import" not in html


def test_the_document_is_page_paper_and_the_trace_itself(tmp_path: Path) -> None:
    recording, findings = hostile(EVIL)
    source = save(tmp_path, json.dumps(recording.document()))
    written = render_trace(recording.analyse(tmp_path), findings, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["trace.html", "trace.pdf", "trace.json.gz"]
    assert written[1].read_bytes().startswith(b"%PDF")
    assert gzip.decompress(written[2].read_bytes()) == source.read_bytes()
    before = [path.read_bytes() for path in written]
    assert [
        path.read_bytes() for path in render_trace(recording.analyse(tmp_path), findings, tmp_path / "new" / "folder")
    ] == before


def copied(source: Path, target: Path) -> None:
    with packed_copy(source, target) as files:
        publish(target.parent, files)


def test_a_packed_trace_is_copied_byte_for_byte(tmp_path: Path) -> None:
    source = save(tmp_path, packed("{}") + b"tail", "odd.name")
    copied(source, tmp_path / "trace.json.gz")
    assert (tmp_path / "trace.json.gz").read_bytes() == source.read_bytes()


def test_a_trace_that_lies_there_already_is_left_alone(tmp_path: Path) -> None:
    source = save(tmp_path, packed("{}"), "trace.json.gz")
    before = source.stat()
    copied(source, tmp_path / "trace.json.gz")
    assert source.stat().st_ino == before.st_ino and gzip.decompress(source.read_bytes()) == b"{}"


def test_a_trace_that_has_gone_is_a_sentence_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot be read"):
        copied(tmp_path / "gone.json", tmp_path / "trace.json.gz")
    assert list(tmp_path.iterdir()) == []


@corpus.needed
@pytest.mark.parametrize(
    "name", sorted(p.name for folder in ("real", "synthetic") for p in (corpus.FOLDER / folder).glob("*.json*"))
)
def test_every_published_trace_has_a_page(name: str) -> None:
    folder = "synthetic" if (corpus.FOLDER / "synthetic" / name).exists() else "real"
    html = render_html(corpus.analysed(f"{folder}/{name}"), ())
    assert len(html) < 300_000
    for part in ('role="img"', "What bounds it", "What to do next", "<h3>Host"):
        assert part in html or (part == "<h3>Host" and "gpu_only" in name)
