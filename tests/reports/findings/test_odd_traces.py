"""No rule raises, whatever the trace; every rule explains itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from reports.findings.contract import FAILED, Verdict, judge
from reports.findings.pair import compare
from reports.findings.registry import RULES
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from reports.trace.reconcile import reconcile
from reports.trace.table import Table, TableRow
from tests.reports.findings.recordings import GEMM, Recording, eager

CORPUS = os.environ.get("TRACE_CORPUS")
needs_corpus = pytest.mark.skipif(not CORPUS, reason="TRACE_CORPUS is not set")

ODD = {
    "nothing": Recording(),
    "steps alone": Recording().step(0, 0, 10).step(1, 20, 10),
    "a second step of no length": Recording().step(1, 10, 500).step(2, 600, 0).op("aten::add", 20, 5),
    "kernels of no length": Recording().launch(0, GEMM, 10, 0).launch(20, GEMM, 30, 0).launch(40, GEMM, 50, 0),
    "a GPU before its host": Recording().launch(500, GEMM, 10, 100).launch(600, GEMM, 120, 50),
    "steps of no length": Recording().step(0, 0, 0).step(1, 0, 0).op("aten::mm", 0, 0),
    "old steps": Recording().op("ProfilerStep#0", 0, 10).op("ProfilerStep#1", 20, 10).op("aten::mm", 1, 5),
    "no names": Recording().note("", 0, 10).op("", 1, 8).call("", 2, 1),
    "kernels alone": Recording().launch(0, GEMM, 10, 5, recorded=False),
    "annotations alone": Recording().note("a", 0, 10).note("b", 1, 5),
    "calls alone": Recording().call("cudaLaunchKernel", 0, 5),
    "operators of no length": Recording().op("aten::mm", 0, 0).op("aten::add", 0, 0).op("aten::view", 0, 0),
    "a frame alone": Recording().op("Torch-Compiled Region: 0/0", 0, 10),
    "a frame with broken ids": Recording()
    .op("Torch-Compiled Region: x/y", 0, 10)
    .op("## Call CompiledFxGraph ##", 1, 5),
    "a product in itself": Recording().op("aten::mm", 0, 10).op("aten::mm", 0, 10).op("aten::mm", 0, 10),
    "markup": Recording().note("<b>&", 0, 10).op("aten::<script>", 1, 5).launch(2, "<img src=x>", 5, 5),
}


def survives(analysis: Analysis) -> None:
    for found in judge(RULES, analysis):
        outcome = found.outcome
        assert outcome.why and FAILED not in outcome.why, (found.rule.id, outcome.why)
        assert bool(outcome.evidence) is bool(outcome.claim) is (outcome.verdict is Verdict.FIRED), found.rule.id
        assert outcome.at_stake_us >= 0
    for pair in (
        compare(analysis, analysis),
        compare(analysis, eager().analysis()),
        compare(eager().analysis(), analysis),
    ):
        assert pair.story and pair.outcome.why
    reconcile(analysis, Table((TableRow("aten::mm", 3, 1.0, None, None, None),), 1.0, 1.0, False))


@pytest.mark.parametrize("recording", ODD.values(), ids=ODD.keys())
def test_no_rule_raises_on_an_odd_trace(recording: Recording) -> None:
    survives(recording.analysis())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_explains_itself_to_a_beginner(rule: object) -> None:
    assert all((rule.title, rule.formula, rule.threshold, rule.refuted_by))  # type: ignore[attr-defined]
    sentences = re.findall(r"[.!?:](?= [A-Z'a-z]|$)", rule.explanation)  # type: ignore[attr-defined]
    assert 2 <= len(sentences) <= 9


def test_every_rule_has_its_own_id() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def corpus(*folders: str) -> list[Path]:
    return (
        [path for folder in folders for path in sorted((Path(CORPUS or "") / folder).glob("*.json*"))] if CORPUS else []
    )


@needs_corpus
@pytest.mark.parametrize("path", corpus("real", "damaged", "synthetic"), ids=lambda path: path.name)
def test_no_rule_raises_on_the_corpus(path: Path) -> None:
    try:
        analysis = analyse(path)
    except TraceError:
        return
    survives(analysis)


@needs_corpus
@pytest.mark.parametrize("path", corpus("synthetic"), ids=lambda path: path.stem)
def test_the_corpus_verdicts(path: Path) -> None:
    expected = msgspec.json.decode((path.parent.parent / "expected.json").read_bytes())[path.stem]["rules"]
    found = {found.rule.id: found.outcome.verdict.value for found in judge(RULES, analyse(path))}
    asked = set(expected) & set(found)
    assert len(asked) >= 7
    assert {identity: found[identity] for identity in asked} == {identity: expected[identity] for identity in asked}


@needs_corpus
def test_the_corpus_pair() -> None:
    (expected,) = msgspec.json.decode((Path(CORPUS or "") / "expected.json").read_bytes())["pairs"]
    folder = Path(CORPUS or "") / "synthetic"
    pair = compare(*(analyse(folder / f"{expected[side]}.json") for side in ("eager", "compiled")))
    numbers = expected["numbers"]
    assert pair.cpu_step_ratio == pytest.approx(numbers["cpu_step_ratio"], rel=1e-3)
    assert pair.gpu_time_ratio == pytest.approx(numbers["gpu_time_ratio"], rel=1e-3)
    assert pair.eager_gpu_us == pytest.approx(numbers["eager_gpu_us_per_step"], rel=1e-3)
    assert pair.compiled_gpu_us == pytest.approx(numbers["compiled_gpu_us_per_step"], rel=1e-3)
    assert pair.outcome.verdict.value == expected["rules"]["R25"]
    assert re.sub(r" \(2\.03 TB/s read and written\)", "", pair.story) == expected["fusion"]
