"""Rules on what an arm was seen to be: which evidence makes it one that is not shown, and what is told of one that is."""

from __future__ import annotations

from typing import Any

import pytest

from suite.arms import ARMS
from suite.bundle.schema import ArmEvidence
from suite.profiling import proof
from tests import samples

CASE = "mobilebert_qa/b1-s32-fp32-l2"


def seen(arm: str, moment: str = "before", **changes: Any) -> ArmEvidence:
    return samples.evidence(CASE, arm, 0, moment, **changes)


def faults(arm: str, *, on_gpu: bool = False, **changes: Any) -> list[str]:
    return proof.faults_before(ARMS[arm], seen(arm, **changes), on_gpu=on_gpu)


@pytest.mark.parametrize("arm", ["eager", "inductor", "inductor-freezing", "inductor-reduce-overhead"])
def test_an_arm_that_is_what_it_says_has_no_fault(arm: str) -> None:
    assert faults(arm) == []
    assert proof.faults_after(ARMS[arm], seen(arm, "after"), seen(arm)) == []


@pytest.mark.parametrize(
    ("arm", "changes", "words"),
    [
        ("inductor", {"graphs": 0, "graph_calls": 0, "regions": []}, "no graph was compiled for it"),
        ("inductor", {"graph_calls": 0}, "no compiled graph ran in its call"),
        ("inductor", {"frozen": 132}, "132 weights were frozen"),
        ("inductor", {"cpp_wrapper": True}, "cpp_wrapper"),
        ("inductor", {"max_autotune": True}, "its kernels were tried out"),
        ("inductor", {"cuda_graphs": 1}, "its graphs are CUDA graphs"),
        ("inductor", {"operators": 51, "eager_operators": 100}, "51 operators of the 100 that eager runs ran outside"),
        ("inductor-freezing", {"frozen": 0}, "no weight was frozen"),
        ("inductor-max-autotune", {"max_autotune": False}, "its kernels were not tried out"),
        ("eager", {"graph_calls": 2}, "compiled code ran in its call (2 times)"),
        ("eager", {"regions": ["0/0"]}, "compiled code ran in its call (1 time)"),
    ],
)
def test_an_arm_that_is_another_has_a_fault(arm: str, changes: dict[str, Any], words: str) -> None:
    assert any(words in fault for fault in faults(arm, **changes))


@pytest.mark.parametrize(
    "name",
    ["torch._dynamo.config.disable", "torch._inductor.config.epilogue_fusion", "torch._inductor.config.cpp.simdlen",
     "torch._functorch.config.view_replay_for_aliased_outputs", "torch._inductor.config.freezing"],
)  # fmt: skip
def test_a_setting_that_nobody_asked_for_and_changes_code_is_a_fault(name: str) -> None:
    (fault,) = faults("inductor", settings={name: "True"})
    assert fault == f"{name} is True: not torch's default, and not set by the suite"


@pytest.mark.parametrize(
    "name", ["torch._inductor.config.trace.enabled", "torch._dynamo.config.verbose", proof.SUPPRESSING]
)
def test_a_setting_that_changes_no_code_is_told(name: str) -> None:
    assert faults("inductor", settings={name: "True"}) == []
    (finding,) = proof.findings([seen("inductor", settings={name: "True"})])
    assert (finding.rule, finding.severity) == (
        "arms.compiler-settings",
        "doubtful",
    ) and f"{name} is True" in finding.claim


def test_suppressed_errors_are_a_fault_where_a_frame_was_skipped() -> None:
    (fault,) = faults(
        "inductor", settings={proof.SUPPRESSING: "True"}, frames_skipped=1, operators=50, eager_operators=100
    )
    assert fault == "1 frame could not be compiled, and the compiler's errors are suppressed"


@pytest.mark.parametrize("arm", ["inductor-reduce-overhead", "inductor-max-autotune"])
def test_an_arm_of_cuda_graphs_has_some_on_a_gpu(arm: str) -> None:
    tried = arm == "inductor-max-autotune"
    (fault,) = faults(arm, on_gpu=True, max_autotune=tried, cuda_graphs_refused="mutated inputs")
    assert fault == "none of its graphs is a CUDA graph (mutated inputs)"
    assert faults(arm, on_gpu=True, max_autotune=tried, cuda_graphs=1) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graph_calls": 0, "regions": []}, "0 of 1 calls of compiled graphs are left"),
        ({"regions": ["0/1"]}, "it was compiled again meanwhile (frames 0/0, then 0/1)"),
        ({"operators": 3}, "3 operators ran outside of compiled graphs, and 0 did before"),
    ],
)
def test_an_arm_that_changed_while_it_was_timed_has_a_fault(changes: dict[str, Any], words: str) -> None:
    after = seen("inductor", "after", **changes)
    found = proof.faults_after(ARMS["inductor"], after, seen("inductor"))
    assert any(words in fault for fault in found)


def test_an_arm_whose_compiled_frames_are_gone_was_not_compiled_again() -> None:
    after = seen("inductor", "after", graph_calls=0, regions=[], operators=2)
    assert proof.faults_after(ARMS["inductor"], after, seen("inductor")) == [
        "0 of 1 calls of compiled graphs are left in its call",
        "2 operators ran outside of compiled graphs, and 0 did before",
    ]


def test_the_reason_is_one_clause_that_says_when() -> None:
    assert proof.reason(seen("inductor", faults=["a", "b"])) == "it is not what it says: a; b"
    assert proof.reason(seen("inductor", "after", faults=["a"])) == "after the last block it is not what it says: a"
    assert proof.reason(seen("inductor")) == ""


def test_graph_breaks_are_told_with_the_share_outside_and_the_first_reason() -> None:
    row = seen(
        "inductor",
        graph_breaks=3,
        graphs=4,
        graph_calls=4,
        operators=10,
        eager_operators=40,
        break_reason="print (x.py:3: f())",
    )
    (finding,) = proof.findings([row, seen("inductor", graph_breaks=3)])
    assert finding.rule == "arms.partly-compiled" and finding.severity == "doubtful"
    assert (
        "has 3 graph breaks; 10 operators of the 40 that eager runs ran outside of compiled graphs (25 %)"
        in finding.claim
    )
    assert "the first break: print (x.py:3: f())" in finding.evidence


def test_attention_that_was_replaced_is_told() -> None:
    (finding,) = proof.findings([seen("inductor", attention=2)])
    assert finding.rule == "arms.attention-replaced" and "in 2 places" in finding.claim


def test_nothing_is_told_of_an_arm_that_is_whole_or_not_shown() -> None:
    rows = [seen("eager"), seen("inductor"), seen("inductor-freezing", graph_breaks=2, faults=["no weight was frozen"])]
    assert proof.findings(rows) == []
    late = [seen("inductor", attention=2), seen("inductor", "after", faults=["it was compiled again meanwhile"])]
    assert proof.findings(late) == []


def test_an_arm_that_is_not_shown_is_wrong_for_strict() -> None:
    (finding,) = proof.untrue({(CASE, "inductor"): "it is not what it says: no graph was compiled for it"})
    assert finding.severity == "wrong" and finding.evidence == ["it is not what it says: no graph was compiled for it"]
