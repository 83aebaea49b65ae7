"""The way of a call, and what a product becomes."""

from __future__ import annotations

import pytest

from reports.findings.dispatch import DISPATCH_RULES
from tests.reports.findings.recordings import GEMM, Recording, Verdict, ask, compiled, eager, real


def say(identity: str, recording: Recording) -> tuple[Verdict, str, str]:
    outcome = ask(DISPATCH_RULES, identity, recording.analysis())
    return outcome.verdict, outcome.claim, outcome.why


def test_the_chain_is_named_from_the_step_to_the_launch() -> None:
    outcome = ask(DISPATCH_RULES, "R17", eager().analysis())
    assert outcome.verdict is Verdict.FIRED
    assert "ProfilerStep → matmul_add → aten::matmul → aten::mm → cudaLaunchKernel" in outcome.claim
    first = outcome.evidence[0]
    assert (first.start_us, first.end_us) == (10.0, 15.0)
    assert "3 times" in first.text


def test_without_a_gpu_the_chain_ends_at_the_product() -> None:
    outcome = ask(DISPATCH_RULES, "R17", real("layer-eager"))
    assert outcome.verdict is Verdict.FIRED
    assert outcome.claim.endswith("ProfilerStep → layer → aten::linear → aten::addmm.")


def test_compiled_code_stands_between_annotation_and_operator() -> None:
    verdict, _, why = say("R17", compiled())
    assert verdict is Verdict.QUIET
    assert "compiled code's own slices stand in between" in why


def test_a_graph_call_is_no_annotation_of_the_user() -> None:
    trace = Recording().note("## Call CompiledFxGraph abc ##", 0, 50).op("aten::mm", 5, 30).launch(10, GEMM, 40, 9)
    verdict, _, why = say("R17", trace)
    assert (verdict, "record_function" in why) == (Verdict.QUIET, True)


def test_a_recording_without_steps_has_a_chain_too() -> None:
    trace = Recording().note("mine", 0, 50).op("aten::relu", 5, 30).launch(10, "relu_kernel", 40, 9)
    verdict, claim, _ = say("R17", trace)
    assert verdict is Verdict.FIRED
    assert "mine → aten::relu → cudaLaunchKernel" in claim and "no ProfilerStep" in claim


@pytest.mark.parametrize(("identity", "product", "fires"), [
    ("R18", "aten::mm", True),
    ("R18", "aten::bmm", False),
    ("R19", "aten::mm", False),
    ("R19", "aten::bmm", True),
])  # fmt: skip
def test_a_matmul_is_told_by_the_product_in_it(identity: str, product: str, fires: bool) -> None:
    verdict, _, why = say(identity, eager(product=product))
    assert verdict is (Verdict.FIRED if fires else Verdict.QUIET)
    if fires:
        assert "3 of 3" in why and "2 run-time calls each, 1 of them queries" in why


def test_a_product_outside_a_matmul_does_not_count() -> None:
    trace = Recording().op("aten::matmul", 0, 10).op("aten::mm", 20, 10)
    assert say("R18", trace)[0] is Verdict.QUIET


def test_run_time_calls_of_both_kinds_of_product_are_compared() -> None:
    trace = eager()
    trace.op("aten::matmul", 900, 40).op("aten::bmm", 901, 38).call("cudaStreamIsCapturing", 902, 1)
    trace.call("cudaEventRecord", 904, 1).launch(906, "bmm_kernel", 9000, 5)
    assert "run-time calls per aten::bmm 3, per aten::mm 2" in say("R19", trace)[2]


def test_product_and_sum_apart_are_no_addmm() -> None:
    verdict, _, why = say("R20", eager())
    assert (verdict, why) == (Verdict.QUIET, "no aten::addmm; 3 products and 3 sums are separate operators")


def test_an_addmm_in_compiled_code_is_a_fusion_by_choice_of_operator() -> None:
    verdict, claim, _ = say("R20", compiled())
    assert verdict is Verdict.FIRED
    assert "in compiled code" in claim and "dispatcher-level" in claim


def test_the_addmm_of_an_eager_linear_is_not_credited_to_the_compiler() -> None:
    outcome = ask(DISPATCH_RULES, "R20", real("layer-eager"))
    assert outcome.verdict is Verdict.FIRED
    assert "eager PyTorch itself folds the bias in" in outcome.claim
    assert "compiled code, product" not in outcome.claim and outcome.advice == ""


def test_a_direct_addmm_in_eager_code_is_called_that() -> None:
    verdict, claim, _ = say("R20", Recording().op("aten::addmm", 0, 10))
    assert (verdict, "called directly in eager code" in claim) == (Verdict.FIRED, True)


def views(share: float, gpu_us: float = 0.0) -> Recording:
    trace = Recording().op("aten::mm", 0, 1000 * (1 - share))
    for number in range(10):
        trace.op("aten::view", 1000 * (1 - share) + 100 * share * number, 100 * share)
    if gpu_us:
        trace.launch(1, GEMM, 10, gpu_us)
    return trace


def test_views_that_take_a_tenth_of_the_host_have_a_cost() -> None:
    outcome = ask(DISPATCH_RULES, "metadata-operators", views(0.1).analysis())
    assert outcome.verdict is Verdict.FIRED
    assert outcome.at_stake_us == pytest.approx(100, abs=0.1)
    assert "aten::view: 10 times" in outcome.evidence[0].text


def test_views_that_take_a_fiftieth_do_not() -> None:
    assert say("metadata-operators", views(0.02))[0] is Verdict.QUIET


def test_views_behind_a_busy_gpu_put_nothing_at_stake() -> None:
    outcome = ask(DISPATCH_RULES, "metadata-operators", views(0.1, gpu_us=20000).analysis())
    assert (outcome.verdict, outcome.at_stake_us) == (Verdict.FIRED, 0)
    assert "hidden behind it" in outcome.why


def test_views_and_allocations_are_told_apart() -> None:
    trace = Recording()
    for number in range(20):
        trace.op("aten::mm", 100 * number, 20)
        trace.op("aten::view", 100 * number + 30, 4).op("aten::empty", 100 * number + 40, 9)
    views, allocations = (ask(DISPATCH_RULES, name, trace.analysis()) for name in ("metadata-operators", "allocations"))
    assert views.claim.startswith("Operators that only change a tensor's shape or strides cost 80 us")
    assert "aten::empty" not in " ".join(evidence.text for evidence in views.evidence)
    assert allocations.claim.startswith("Operators that only allocate a tensor cost 180 us")
    assert views.advice != allocations.advice


def test_few_allocations_are_quiet() -> None:
    trace = Recording().op("aten::mm", 0, 1000).op("aten::empty", 2000, 5)
    assert ask(DISPATCH_RULES, "allocations", trace.analysis()).verdict is Verdict.QUIET
