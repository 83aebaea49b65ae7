"""Whether a trace can be trusted, in words that fit what is the matter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.findings.contract import judge
from reports.findings.registry import RULES
from tests.reports.findings.made import ADD, GEMM, Made, said, texts, verdict
from tests.reports.trace.kineto import analysed


def whole() -> Made:
    return Made().kernel(GEMM, 0.25, 10.25, 20)


def coarse() -> Made:
    return Made().kernel(GEMM, 0, 10, 20)


def orphaned() -> Made:
    made = whole()
    made.work("k", 50.25, 60.25, correlation=999)
    return made


def damaged() -> Made:
    made = orphaned()
    made.work("k", 70.25, 60.25)
    return made


@pytest.mark.parametrize(
    ("made", "claim"),
    [
        (coarse(), "The clock of this trace is coarse (whole microseconds): the file is whole"),
        (orphaned(), "Some GPU work was launched before the recording began: the file is whole"),
        (damaged(), "This trace is damaged or incomplete"),
    ],
)
def test_only_damage_is_called_damage(made: Made, claim: str) -> None:
    assert said(made, "trust").outcome.claim.startswith(claim)


def test_a_whole_trace_has_nothing_to_say() -> None:
    assert verdict(whole(), "trust") == "quiet"


def test_launches_without_any_slice_are_missing_activity() -> None:
    made = Made()
    made.call("cudaLaunchKernel", 0.25, 5.25)
    found = said(made, "gpu-activity-missing")
    assert "The GPU was NOT idle" in texts(found) or "The GPU was NOT idle" in found.outcome.why + found.outcome.claim
    assert verdict(whole(), "gpu-activity-missing") == "quiet"


def unseen(number: int, made: Made, at: float = 1000.25) -> Made:
    for call in range(number):
        made.call("cudaLaunchKernel", at + 10 * call, at + 10 * call + 4)
    return made


def graph(made: Made, launches: int, recorded: bool = True) -> Made:
    for number in range(launches):
        at = 5000.25 + 100 * number
        made.call("cudaGraphLaunch", at, at + 5)
        if recorded:
            made.work(ADD, at + 20, at + 40)
    return made


def test_more_than_half_of_the_launches_without_a_slice_is_missing_activity() -> None:
    assert "3 of 4 launches have no slice" in texts(said(unseen(3, whole()), "gpu-activity-missing"))


def test_launches_that_a_graph_captured_start_nothing() -> None:
    made = whole()
    made.call("cudaStreamBeginCapture", 990.25, 992.25)
    unseen(5, made)
    made.call("cudaStreamEndCapture", 1100.25, 1102.25)
    found = said(made, "gpu-activity-missing")
    assert found.outcome.verdict.value == "quiet" and "5 more were captured in a graph" in found.outcome.why
    assert verdict(unseen(5, made, 2000.25), "gpu-activity-missing") == "fired"


def test_where_graphs_ran_their_own_launches_tell() -> None:
    assert verdict(graph(unseen(100, whole()), 3), "gpu-activity-missing") == "quiet"
    assert verdict(graph(unseen(100, whole()), 3, recorded=False), "gpu-activity-missing") == "fired"


def test_a_kernel_before_its_launch_tells_of_the_clocks() -> None:
    found = said(Made().kernel(GEMM, 100.25, 50.25, 20), "clock-skew")
    assert found.outcome.claim == "The clocks of host and GPU disagree by at least 50 us"
    assert verdict(whole(), "clock-skew") == "quiet"


def test_activity_that_a_cut_file_may_have_lost_is_not_called_missing(tmp_path: Path) -> None:
    made = Made()
    for number in range(4):
        made.call("cudaLaunchKernel", 1.25 + 10 * number, 5.25 + 10 * number)
    text = json.dumps(made.document())
    rule = next(rule for rule in RULES if rule.id == "gpu-activity-missing")
    (whole,), (cut,) = (judge((rule,), analysed(tmp_path, part)) for part in (text, text[: int(len(text) * 0.8)]))
    assert (whole.outcome.verdict.value, cut.outcome.verdict.value) == ("fired", "withheld")
