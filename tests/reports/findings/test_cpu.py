"""Recordings of the CPU alone: where the time goes, and what compiling did to the code."""

from __future__ import annotations

import time

import pytest

from reports.findings.contract import judge
from reports.findings.cpu import CPU_RULES as CPU_TIME_RULES
from reports.findings.cpu import step_gaps
from reports.findings.cpu_code import CPU_CODE_RULES, fused
from reports.findings.registry import RULES
from tests.reports.findings.recordings import GEMM, Recording, Verdict, ask, compiled, real

CPU_RULES = CPU_CODE_RULES + CPU_TIME_RULES


@pytest.mark.parametrize("rule", CPU_RULES, ids=lambda rule: rule.id)
def test_a_recording_with_a_gpu_is_none_of_their_business(rule: object) -> None:
    outcome = ask(CPU_RULES, rule.id, compiled().analysis())  # type: ignore[attr-defined]
    assert (outcome.verdict, "GPU" in outcome.why) == (Verdict.NOT_APPLICABLE, True)


def steps(*lengths: float, gap: float = 5.0) -> Recording:
    trace, start = Recording(), 0.25  # times in whole microseconds cannot tell gaps
    for number, length in enumerate(lengths):
        trace.step(number, start, length).op("aten::mm", start + gap, length - gap)
        start += length + 1
    return trace


def test_the_hotspot_is_found_by_self_time_not_by_total() -> None:
    trace = Recording().op("aten::matmul", 0, 100).op("aten::mm", 1, 98)
    outcome = ask(CPU_RULES, "cpu-hotspot", trace.analysis())
    assert outcome.verdict is Verdict.FIRED
    assert outcome.claim.startswith("aten::mm is the hotspot: 98 % of")
    assert outcome.at_stake_us == 98


def test_even_operators_have_no_hotspot() -> None:
    trace = Recording().op("aten::mm", 0, 40).op("aten::add", 40, 35).op("aten::relu", 75, 25)
    assert ask(CPU_RULES, "cpu-hotspot", trace.analysis()).verdict is Verdict.QUIET


def test_an_operator_whose_total_holds_the_others_is_no_hotspot() -> None:
    trace = Recording().op("aten::matmul", 0, 100).op("aten::mm", 1, 35).op("aten::add", 40, 25)
    assert ask(CPU_RULES, "cpu-hotspot", trace.analysis()).verdict is Verdict.QUIET


def test_a_compiled_frame_is_no_hot_operator() -> None:
    trace = Recording().op("Torch-Compiled Region: 0/0", 0, 100).op("aten::mm", 1, 10)
    outcome = ask(CPU_RULES, "cpu-hotspot", trace.analysis())
    assert (outcome.verdict, "Torch-Compiled" in outcome.why) == (Verdict.QUIET, False)


def test_time_outside_operators_is_found_and_the_longest_gap_shown() -> None:
    outcome = ask(CPU_RULES, "cpu-gaps", steps(100, 100, gap=40).analysis())
    assert outcome.verdict is Verdict.FIRED
    assert outcome.at_stake_us == 80
    assert (outcome.evidence[0].start_us, outcome.evidence[0].end_us) == (0, 40)


def test_a_small_gap_is_no_finding() -> None:
    assert ask(CPU_RULES, "cpu-gaps", steps(100, 100, gap=15).analysis()).verdict is Verdict.QUIET


def test_a_large_share_of_almost_nothing_is_no_finding() -> None:
    assert ask(CPU_RULES, "cpu-gaps", steps(20, 20, gap=8).analysis()).verdict is Verdict.QUIET


def test_a_cold_first_step_does_not_decide_about_the_gaps() -> None:
    trace = Recording().step(0, 0.25, 1000).op("aten::mm", 900.25, 100)
    for number in (1, 2):
        trace.step(number, 1000 * number + 100, 100).op("aten::mm", 1000 * number + 105, 95)
    outcome = ask(CPU_RULES, "cpu-gaps", trace.analysis())
    assert (outcome.verdict, "cold first step is left out" in outcome.why) == (Verdict.QUIET, True)


def test_gaps_take_operators_of_the_steps_own_thread_only() -> None:
    trace = Recording().step(0, 0, 100).op("aten::mm", 0, 30).op("aten::mm", 30, 60, thread=2)
    assert step_gaps(trace.analysis()).gap_us == (70,)


@pytest.mark.parametrize(("identity", "recording"), [("R4", "many"), ("R6", "cold")])
def test_many_calls_and_a_cold_start_are_said_once_by_the_rules_for_every_recording(
    identity: str, recording: str
) -> None:
    trace = steps(200, 50, 50)
    for number in range(350 if recording == "many" else 0):
        trace.op("aten::index", 6 + 0.5 * number, 0.4)
    fires = {found.rule.id for found in judge(RULES, trace.analysis()) if found.outcome.verdict is Verdict.FIRED}
    assert identity in fires


def test_threads_with_operators_are_told_apart() -> None:
    two = Recording().op("aten::mm", 0, 50).op("AddmmBackward0", 10, 30, thread=2)
    outcome = ask(CPU_RULES, "cpu-threads", two.analysis())
    assert (outcome.verdict, outcome.claim.startswith("2 threads")) == (Verdict.FIRED, True)
    one = ask(CPU_RULES, "cpu-threads", real("layer-eager"))
    assert (one.verdict, "how many cores" in one.why) == (Verdict.QUIET, True)


def test_fused_kernels_take_their_share_of_a_real_trace() -> None:
    analysis = real("pointwise-inductor")
    found = fused(analysis)
    assert (found.calls, found.kernels) == (3, 1)
    kernel = next(stats for stats in analysis.operators if "cpp_fused" in stats.name)
    assert found.self_us == pytest.approx(kernel.self_us)
    assert ask(CPU_RULES, "cpu-fused-share", analysis).verdict is Verdict.FIRED


def test_compiled_code_without_fused_kernels_says_how_they_are_recorded() -> None:
    outcome = ask(CPU_RULES, "cpu-fused-share", real("matmul_add-inductor"))
    assert (outcome.verdict, "enable_kernel_profile" in outcome.why) == (Verdict.QUIET, True)
    assert ask(CPU_RULES, "cpu-fused-share", real("pointwise-eager")).verdict is Verdict.NOT_APPLICABLE


def test_an_elementwise_operator_left_in_compiled_code_is_named() -> None:
    trace = Recording().op("Torch-Compiled Region: 0/0", 0, 100).op("aten::relu", 10, 20).op("aten::clamp_min", 11, 18)
    outcome = ask(CPU_RULES, "cpu-elementwise-left", trace.analysis())
    assert (outcome.verdict, outcome.at_stake_us) == (Verdict.FIRED, 20)
    assert "aten::relu" in outcome.claim and "aten::clamp_min" not in outcome.claim
    assert ask(CPU_RULES, "cpu-elementwise-left", real("pointwise-inductor")).verdict is Verdict.QUIET
    assert ask(CPU_RULES, "cpu-elementwise-left", real("pointwise-eager")).verdict is Verdict.NOT_APPLICABLE


def test_an_eager_chain_of_elementwise_operators_could_be_fused() -> None:
    outcome = ask(CPU_RULES, "cpu-unfused-chain", real("pointwise-eager"))
    assert (outcome.verdict, "torch.compile" in outcome.advice) == (Verdict.FIRED, True)
    assert ask(CPU_RULES, "cpu-unfused-chain", real("matmul_add-eager")).verdict is Verdict.QUIET
    assert ask(CPU_RULES, "cpu-unfused-chain", real("pointwise-inductor")).verdict is Verdict.NOT_APPLICABLE


def test_packed_weights_are_told_from_plain_products() -> None:
    frozen = ask(CPU_RULES, "cpu-packed-linear", real("layer-inductor-freezing"))
    assert (frozen.verdict, "3 calls with packed weights" in frozen.claim) == (Verdict.FIRED, True)
    plain = ask(CPU_RULES, "cpu-packed-linear", real("layer-inductor"))
    assert (plain.verdict, "freezing is off" in plain.why) == (Verdict.QUIET, True)
    assert ask(CPU_RULES, "cpu-packed-linear", real("layer-eager")).verdict is Verdict.NOT_APPLICABLE


def test_launches_alone_make_it_a_recording_with_a_gpu() -> None:
    trace = Recording().op("aten::mm", 0, 100).launch(10, GEMM, 30, 5)
    assert ask(CPU_RULES, "cpu-hotspot", trace.analysis()).verdict is Verdict.NOT_APPLICABLE


def test_gaps_of_a_coarse_clock_are_not_added_up() -> None:
    trace = Recording().step(0, 0, 100).op("aten::mm", 40, 60).step(1, 101, 100).op("aten::mm", 141, 60)
    outcome = ask(CPU_RULES, "cpu-gaps", trace.analysis())
    assert (outcome.verdict, "whole microseconds" in outcome.why) == (Verdict.WITHHELD, True)


def test_many_steps_on_many_threads_are_told_apart() -> None:
    trace = Recording()
    for number in range(50):
        trace.step(number, 100.25 * number, 90).op("aten::mm", 100.25 * number + 5, 50)
        trace.op("aten::add", 100.25 * number + 10, 30, thread=2 + number)
    analysis = trace.analysis()
    assert set(step_gaps(analysis).gap_us) == {40.0}
    outcome = ask(CPU_RULES, "cpu-threads", analysis)
    assert outcome.claim.startswith("51 threads run operators; the busiest for 2.5 ms, the next for 30 us")


def test_twice_the_steps_cost_no_more_than_about_twice_the_time() -> None:
    def cost(steps: int) -> float:
        trace = Recording()
        for number in range(steps):
            trace.step(number, 100.25 * number, 90).op("aten::mm", 100.25 * number + 5, 50)
        analysis = trace.analysis()
        begun = time.process_time()
        step_gaps(analysis)
        return time.process_time() - begun

    cost(100)
    assert cost(16_000) < 8 * cost(4_000)
