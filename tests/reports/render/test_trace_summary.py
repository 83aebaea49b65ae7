"""The traces of a bundle in its report."""

import json
from pathlib import Path

import pytest

from reports.findings.contract import Finding
from reports.render import trace_summary
from reports.render.document import render, render_html
from reports.trace.analyse import Analysis
from suite.bundle import manifest, reader, schema
from suite.bundle.writer import write_document
from tests import samples
from tests.reports.render.findings_made import finding, some
from tests.reports.trace.kineto import Recording, packed, two_steps

CASE = "matmul_add/64-fp32"
TIMES = {CASE: {"eager": [2e6, 2.02e6, 1.98e6], "inductor": [1e6, 1.01e6, 0.99e6]}}


def bundle(folder: Path, **traces: bytes) -> Path:
    path = samples.write(folder / "run", TIMES, changes={"arms": [arm for arm in samples.ARMS if arm.role != "noise"]})
    for arm, content in traces.items():
        place = path / "cases" / CASE / arm
        place.mkdir(parents=True)
        (place / "trace.json.gz").write_bytes(content)
    manifest.write(path)
    return path


def trace(recording: Recording) -> bytes:
    return packed(json.dumps(recording.document()))


def cpu() -> Recording:
    recording = Recording(devices=[])
    recording.op("aten::mm", 0.25, 60.25)
    return recording


def test_the_report_tells_what_each_profiled_arm_s_trace_means(tmp_path: Path) -> None:
    html = render_html(reader.load(bundle(tmp_path, eager=trace(cpu()), inductor=trace(two_steps()))))
    told = html[html.index("What the traces mean") :]
    assert "aten::mm has the largest self time" in told and "overhead-bound" in told
    assert f'href="cases/{CASE}/inductor/trace.html"' in told


def test_a_bundle_without_traces_says_nothing_of_them(tmp_path: Path) -> None:
    assert "What the traces mean" not in render_html(reader.load(bundle(tmp_path)))


@pytest.mark.parametrize("content", [b"", b"not json", packed("[1, 2"), packed('{"traceEvents": 3}')])
def test_a_trace_that_cannot_be_read_is_a_sentence_without_the_machine_s_paths(tmp_path: Path, content: bytes) -> None:
    path = bundle(tmp_path, eager=content, inductor=trace(two_steps()))
    html = render_html(reader.load(path))
    assert str(tmp_path) not in html and "overhead-bound" in html
    found = trace_summary.case_traces(reader.load(path))[0]
    assert found.analysis is not None or found.summary.problem.startswith(f"cases/{CASE}/eager/trace.json.gz: ")


def test_a_rule_that_breaks_does_not_cost_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(trace_summary, "findings", broken)
    html = render_html(reader.load(bundle(tmp_path, eager=trace(two_steps()))))
    assert "could not be analysed (ZeroDivisionError: division by zero)" in html


def test_rendering_writes_a_page_beside_each_trace_and_again_the_same_bytes(tmp_path: Path) -> None:
    path = bundle(tmp_path, eager=trace(two_steps()), inductor=b"broken")
    page = path / "cases" / CASE / "eager" / "trace.html"
    first = [file.read_bytes() for file in (*render(path), page)]
    assert [file.read_bytes() for file in (*render(path), page)] == first
    assert not (path / "cases" / CASE / "inductor" / "trace.html").exists()
    check = manifest.check(path)
    assert check.changed == check.missing == check.unlisted == []


def test_a_changed_trace_is_still_said(tmp_path: Path) -> None:
    path = bundle(tmp_path, eager=trace(two_steps()))
    render(path)
    (path / "cases" / CASE / "eager" / "trace.json.gz").write_bytes(trace(cpu()))
    assert "not as they were measured: 1 changed" in render_html(reader.load(path))


def test_the_title_of_a_page_is_its_case_and_arm(tmp_path: Path) -> None:
    path = bundle(tmp_path, eager=trace(two_steps()))
    render(path)
    assert (
        f"<title>Speedproof trace {CASE}, eager</title>" in (path / "cases" / CASE / "eager" / "trace.html").read_text()
    )


def test_a_page_tells_how_the_profiler_s_table_agrees(tmp_path: Path) -> None:
    path = bundle(tmp_path, eager=trace(cpu()))
    cycle = schema.ProfileCycle(
        last_step=5,
        active_steps=1,
        trace="trace.json.gz",
        rows=[schema.ProfileRow(name="aten::mm", calls=1, self_cpu_ns=60_000, cpu_ns=60_000)],
    )
    profile = schema.Profile(
        case=CASE,
        arm="eager",
        schedule=schema.ProfilerSchedule(),
        sort_key="",
        activities=[],
        kernel_profile=False,
        cycles=[cycle],
    )
    write_document(path / "cases" / CASE / "eager" / "profile.json", profile)
    render(path)
    assert "1 of 1 rows of the table agree" in (path / "cases" / CASE / "eager" / "trace.html").read_text()


def test_a_compiled_arm_is_held_against_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def told(analysis: Analysis, eager: Analysis | None = None) -> tuple[Finding, ...]:
        asked.append((Path(analysis.trace.path).parent.name, eager and Path(eager.trace.path).parent.name))
        return ()

    monkeypatch.setattr(trace_summary, "findings", told)
    render_html(reader.load(bundle(tmp_path, eager=trace(cpu()), inductor=trace(cpu()))))
    assert asked == [("eager", None), ("inductor", "eager")]


def test_a_summary_names_problems_and_hints_and_counts_the_rest(tmp_path: Path) -> None:
    short = trace_summary.summary(two_steps().analyse(tmp_path), some(), "eager", "page")
    assert [told.id for told in short.findings] == ["P-large", "P-small", "H1"] and short.more == 1
    short = trace_summary.summary(two_steps().analyse(tmp_path), [finding("E1", "explanation")], "eager", "page")
    assert [told.id for told in short.findings] == ["E1"] and short.more == 0
