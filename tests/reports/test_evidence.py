"""What a report shows of the evidence of its arms, and what it does not show of an arm without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.compare.matrix import compare
from reports.evidence import lines, unproved, variables
from reports.render.document import render_html
from reports.results import results
from suite import rules
from suite.bundle import manifest, reader, schema
from suite.bundle.reader import Loaded
from suite.bundle.writer import EVENTS, FINGERPRINT, append, write_document
from tests import samples
from tests.reports.compare.bundles import POINTWISE, arms, gathered
from tests.reports.compare.bundles import bundle as machine

CASE = "matmul_add/64-fp32"
TIMES = {CASE: {"eager": [100e3, 101e3, 99e3], "eager#2": [100e3, 100e3, 100e3], "inductor": [50e3, 51e3, 49e3]}}
REASON = "after the last block it is not what it says: no compiled graph ran in its call"


def not_run(process: int = 1, **changes: Any) -> schema.ArmNotRun:
    fields = {"at": samples.AT, "case": CASE, "arm": "inductor", "process": process, "incarnation": 0, "reason": REASON}
    return schema.ArmNotRun(**{**fields, **changes})


def bundle(directory: Path, *events: schema.Event, drop: str = "", **changes: Any) -> Loaded:
    """Three processes of three arms; `drop` takes out every event whose line has these words."""
    path = samples.write(directory / "run", TIMES, changes=changes)
    if drop:
        kept = [line for line in (path / EVENTS).read_text().splitlines(keepends=True) if drop not in line]
        (path / EVENTS).write_text("".join(kept))
    for event in events:
        append(path / EVENTS, event)
    manifest.write(path)
    return reader.load(path)


def test_what_one_process_withholds_no_process_shows(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, not_run(withheld=True))
    assert {block.arm for block in loaded.blocks} == {"eager", "eager#2"}
    assert {block.process for block in loaded.withheld_blocks} == {0, 1, 2}
    found = results(loaded)
    (arm,) = found.cases[0].candidates
    assert (arm.typical_ns, arm.ratio, arm.verdict, arm.reason) == (None, None, None, REASON)
    assert isinstance(found.aggregate, str)
    html = render_html(loaded)
    assert html.count(REASON) >= 3 and "2.0&times;" not in html
    assert any(REASON in complaint for complaint in rules.complaints(loaded))


def test_an_arm_that_one_process_could_not_run_is_still_shown(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, not_run(reason="RuntimeError: no compiler"))
    assert loaded.withheld == {} and results(loaded).cases[0].candidates[0].ratio


def test_an_arm_that_nobody_looked_at_after_its_last_block_has_no_verdict(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, drop='"moment":"after"')
    (arm,) = results(loaded).cases[0].candidates
    assert arm.verdict and arm.verdict.word is None and "no process looked after its last block" in arm.verdict.reason
    assert (
        f"{CASE}: 3 processes did not look after the last block whether inductor is what it says"
        in rules.complaints(loaded)
    )


def test_the_evidence_of_eager_counts_too(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, drop='"arm":"eager","process"')
    (arm,) = results(loaded).cases[0].candidates
    assert unproved(loaded, CASE, "eager") and not unproved(loaded, CASE, "inductor")
    assert arm.verdict and arm.verdict.word is None


def test_of_an_older_bundle_nothing_is_asked_and_nothing_is_shown(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, drop="ArmEvidence", schema_version="1.2")
    (arm,) = results(loaded).cases[0].candidates
    assert arm.verdict and arm.verdict.word == "faster"
    assert lines(loaded, CASE) == [] and "An arm is what it says" not in render_html(loaded)
    assert not any("look after the last block" in complaint for complaint in rules.complaints(loaded))


def test_each_arm_has_a_line_of_what_it_was_seen_to_be(tmp_path: Path) -> None:
    eager, again, inductor = lines(bundle(tmp_path), CASE)
    assert (eager.told, eager.after) == (("2 operators, no compiled code",), "the same in 3 of 3 processes")
    assert again.arm == "eager#2"
    assert inductor.told == (
        "1 graph with 1 kernel of its own",
        "no graph break",
        "0 of eager's 2 operators outside of compiled graphs (0 %)",
        "no weight frozen",
    )


def test_breaks_attention_and_settings_stand_in_the_line(tmp_path: Path) -> None:
    seen = samples.evidence(
        CASE, "inductor", 0, operators=1, graph_breaks=2, break_reason="print (\x1b[31mx.py:3)", attention=2,
        cuda_graphs=1, graphs=2, settings={"torch._dynamo.config.verbose": "True"}, frames_skipped=1,
    )  # fmt: skip
    (line,) = lines(bundle(tmp_path, seen, drop="ArmEvidence"), CASE)
    assert line.told[1:] == (
        "2 graph breaks, first: print ( [31mx.py:3)",
        "1 of eager's 2 operators outside of compiled graphs (50 %)",
        "1 frame not compiled",
        "no weight frozen",
        "1 of 2 graphs replayed as CUDA graphs",
        "fused attention in place of plain, 2 times",
        "torch._dynamo.config.verbose is True",
    )
    assert line.after == "the same in 0 of 3 processes"


def test_what_became_of_the_users_variables_is_in_the_report(tmp_path: Path) -> None:
    loaded = bundle(tmp_path)
    finding = schema.Finding(
        rule="launch.variable-taken-out",
        severity="note",
        claim="TORCH_X=<b> is not handed on to workers: x.",
        evidence=["x"],
    )
    document = schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts={}, findings=[finding])
    write_document(loaded.path / FINGERPRINT, document)
    loaded = reader.load(loaded.path)
    assert variables(loaded) == ["TORCH_X=<b> is not handed on to workers: x."]
    assert "TORCH_X=&lt;b&gt; is not handed on" in render_html(loaded)


def test_a_comparison_ranks_no_arm_without_evidence_on_either_side(tmp_path: Path) -> None:
    times = {POINTWISE: arms(100e3, 50e3)}
    paths = [machine(tmp_path / name, times, unit=name, cpu=f"CPU {name}") for name in ("a", "b")]
    assert _statuses(paths) == {"eager": ["baseline", "ranked"], "inductor": ["baseline", "ranked"]}
    for path in paths:
        events = (path / EVENTS).read_text().splitlines(keepends=True)
        (path / EVENTS).write_text("".join(line for line in events if '"arm":"inductor"' not in line))
        manifest.write(path)
        assert _statuses(paths)["inductor"][1] == "refused"
        assert _statuses(paths)["eager"] == ["baseline", "ranked"]
        (path / EVENTS).write_text("".join(events))
        manifest.write(path)


def _statuses(paths: list[Path]) -> dict[str, list[str]]:
    return {row.arm: [cell.status for cell in row.cells] for row in compare(gathered(*paths)).rows}
