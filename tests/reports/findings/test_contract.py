"""How rules are asked: one that fails does not stop the others, and a problem has something at stake."""

from __future__ import annotations

import pytest

from reports.findings.contract import FAILED, Evidence, Outcome, Rule, Severity, Verdict, fired, judge, quiet
from reports.findings.registry import findings
from reports.trace.analyse import Analysis
from tests.reports.findings.recordings import GEMM, Recording, compiled, eager


def rule(check: object, severity: Severity = "problem", family: str = "gpu") -> Rule:
    return Rule("X", "title", family, severity, "formula", "threshold", "refuted", "explanation", check)  # type: ignore[arg-type]


def raising(_: Analysis) -> Outcome:
    raise ZeroDivisionError("float division by zero")


def test_a_rule_that_raises_does_not_stop_the_others() -> None:
    first, second = judge((rule(raising), rule(lambda _: quiet("asked"))), eager().analysis())
    assert first.outcome.verdict is Verdict.NOT_APPLICABLE
    assert first.outcome.why == f"{FAILED} (ZeroDivisionError: float division by zero); please report it"
    assert second.outcome.why == "asked"


def test_a_comparison_that_raises_leaves_what_one_trace_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reports.findings.pair.compare", lambda *_: raising(None))  # type: ignore[arg-type]
    found = {finding.rule.id: finding.outcome for finding in findings(compiled().analysis(), eager().analysis())}
    assert FAILED in found["R25"].why and FAILED in found["fusion"].why
    assert found["R21"].verdict is Verdict.FIRED


@pytest.mark.parametrize(
    ("at_stake", "family", "severity"),
    [(9.9, "gpu", "hint"), (10.0, "gpu", "problem"), (0.0, "trust", "problem")],
)
def test_a_problem_has_a_hundredth_of_the_recording_at_stake(at_stake: float, family: str, severity: str) -> None:
    analysis = Recording().launch(0, GEMM, 100, 900).analysis()
    assert analysis.devices[0].window_us == 1000
    told = fired("claim", Evidence("evidence"), why="why", at_stake_us=at_stake)
    (found,) = judge((rule(lambda _: told, family=family),), analysis)
    assert (found.rule.severity, found.outcome) == (severity, told)
