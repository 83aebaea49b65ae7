"""What bounds the time, what dominates, where idle time went: each rule fires on what it is for, and only on that."""

from __future__ import annotations

import pytest

from tests.reports.findings.made import ADD, DTOD, GEMM, Made, said, texts, verdict


def launching(pause: float, length: float, calls: int = 10, kernel: str = GEMM) -> Made:
    """The host launches every `pause` us; each kernel begins 10 us later."""
    made = Made()
    for number in range(calls):
        at = 0.25 + pause * number
        made.op("aten::mm", at, at + 30)
        made.kernel(kernel, at + 5, at + 15, length)
    return made


def busy(share: float, kernel: str = GEMM) -> Made:
    """One long kernel in a window of 10 ms, launched at once."""
    made = Made()
    made.kernel(kernel, 0.25, 10.25, 10_000 * share)
    made.op("aten::mm", 9_999.25, 10_000.25)
    return made


def test_a_host_that_launches_late_is_r1() -> None:
    found = said(launching(200, 50), "R1")
    assert found.rule.severity == "problem"
    assert found.outcome.claim.startswith("Overhead-bound: the GPU is idle for 73.")
    assert found.outcome.at_stake_us == pytest.approx(9 * 150 + 15)
    assert verdict(launching(60, 50), "R1") == "quiet"


def test_a_host_that_does_what_is_not_recorded_is_not_r1() -> None:
    found = said(launching(500, 50), "R1")
    assert found.outcome.verdict.value == "quiet" and "host-bound" in found.outcome.why


def test_idle_time_that_waits_for_an_event_is_no_fault_of_the_host() -> None:
    made = Made().kernel("k", 1.25, 10.25, 10).kernel("k", 8.25, 1000.25, 10)
    made.add("cuda_sync", "Context Sync", 15.25, 915.25, tid=7, pid=0, device=0, stream=-1)
    found = said(made, "R1")
    assert found.outcome.verdict.value == "quiet" and "980 us do not count" in found.outcome.why


def test_idle_time_that_nothing_explains_is_no_fault_of_the_host() -> None:
    made = Made()
    for number in range(20):
        made.kernel("k", 1.25 + 6 * number, 30.25 + 200 * number, 99.5)
    assert verdict(made, "R1") == "quiet"


def test_without_launch_times_nothing_is_laid_to_the_host() -> None:
    made = Made()
    for number in range(10):
        made.op("aten::mm", 0.25 + 500 * number, 490.25 + 500 * number)
        made.kernel("k", 100.25 + 500 * number, 50.25 + 500 * number, 50)
    assert verdict(made, "R1") == "withheld"


@pytest.mark.parametrize(
    ("kernel", "word"), [(GEMM, "Compute-bound"), (ADD, "Memory-bound"), ("mystery", "Bound by the GPU")]
)
def test_a_gpu_that_works_nearly_all_the_time_is_r2(kernel: str, word: str) -> None:
    assert said(busy(0.9, kernel), "R2").outcome.claim.startswith(f"{word}: the GPU works for 90 %")


def test_a_half_busy_gpu_does_not_bound_the_time() -> None:
    assert [verdict(busy(share), "R2") for share in (0.56, 0.74, 0.76)] == ["quiet", "quiet", "fired"]


def test_threads_of_the_host_do_not_hide_a_busy_gpu() -> None:
    made = busy(0.95)
    for thread in range(1, 5):
        made.op("aten::mm", 0.25, 9_000.25, tid=thread)
    assert verdict(made, "R2") == "fired"


def test_less_than_a_millisecond_bounds_nothing() -> None:
    made = Made().kernel(GEMM, 0.25, 10.25, 900)
    assert verdict(made, "R2") == "quiet"


def dominant(name: str) -> Made:
    made = Made()
    add = made.copy if "Memcpy" in name else made.kernel
    add(name, 0.25, 20.25, 90.0)
    return made.kernel("other", 10.25, 200.25, 10.0)


@pytest.mark.parametrize(
    ("name", "claim", "advice"),
    [
        (GEMM, "One kernel takes 90 %", "Look at this kernel first"),
        ("Memcpy HtoD (Pinned -> Device)", "Copying between host and device takes 90 %", "Copy less"),
        ("Memcpy HtoD (Pageable -> Device)", "Copying between host and device takes 90 %", "pinned memory"),
        (DTOD, "Copying device memory takes 90 %", "what copies"),
        ("ncclKernel_SendRecv", "One collective (communication between GPUs) takes 90 %", "slowest rank"),
    ],
)
def test_what_dominates_is_called_by_what_it_is(name: str, claim: str, advice: str) -> None:
    found = said(dominant(name), "R3")
    assert found.outcome.claim.startswith(claim) and advice in found.outcome.advice


def test_nothing_dominates_four_equal_kernels() -> None:
    made = Made()
    for number in range(4):
        made.kernel(f"k{number}", 10.25 * number, 20.25 * number + 20, 15)
    assert verdict(made, "R3") == "quiet"


def test_many_small_calls_are_r4() -> None:
    def calls(number: int, length: float) -> Made:
        made = Made()
        for at in range(number):
            made.op("aten::add", 0.25 + 30 * at, 0.25 + 30 * at + length)
        return made

    found = said(calls(150, 5), "R4")
    assert (
        found.outcome.claim
        == "aten::add is called 150 times in this recording without steps, for a few microseconds each"
    )
    assert found.outcome.at_stake_us == 750
    assert verdict(calls(50, 5), "R4") == "quiet" and verdict(calls(150, 25), "R4") == "quiet"
    compiled = calls(150, 5)
    assert "torch.compile" in said(compiled, "R4").outcome.advice
    compiled.note("Torch-Compiled Region: 0/0", 0.1, 4500.25)
    assert "torch.compile" not in said(compiled, "R4").outcome.advice


def test_an_operator_that_only_calls_others_is_r5() -> None:
    def nested(inner: float) -> Made:
        made = Made()
        made.op("aten::linear", 0.25, 100.25)
        made.op("aten::addmm", 1.25, 1.25 + inner)
        return made

    assert said(nested(90), "R5").outcome.claim == "aten::linear spends its time in what it calls: look at its children"
    assert verdict(nested(30), "R5") == "quiet"


def test_idle_time_is_told_by_its_largest_cause() -> None:
    found = said(launching(500, 50), "idle")
    assert "of that while the host had launched nothing, and what it did is not recorded" in found.outcome.claim
    assert found.outcome.evidence[0].end_us is not None
    assert verdict(busy(0.95), "idle") == "quiet"


def test_idle_time_has_no_cause_where_the_clocks_disagree() -> None:
    made = launching(500, 50)
    made.kernel("early", 6000.25, 5000.25, 10)
    found = said(made, "idle")
    assert found.outcome.verdict.value == "withheld" and "clocks" in found.outcome.why


def test_idle_time_that_nobody_can_have_back_is_no_problem() -> None:
    made = Made().kernel("k", 0.25, 5.25, 20)
    made.add("overhead", "Activity Buffer Request", 26.25, 9_026.25, tid=0, pid=-1)
    made.kernel("k", 16.25, 9_030.25, 20)
    found = said(made, "idle")
    assert found.outcome.verdict.value == "fired" and "made by the profiler itself" in found.outcome.claim
    assert found.rule.severity == "hint"


def test_a_share_in_a_claim_has_no_exponent() -> None:
    made = Made().kernel("k", 0.25, 10.25, 1)
    made.op("aten::mm", 0.25, 90_000_000.25)
    found = said(made, "R1")
    assert "more than 99.9 %" in found.outcome.claim and "e-0" not in texts(found) and "e+0" not in texts(found)


def test_idle_time_without_a_cause_asks_for_another_recording_first() -> None:
    made = Made()
    made.op("aten::mm", 0.25, 400.25)
    made.kernel(GEMM, 300.25, 2_300.25, 20)
    outcome = said(made, "R1").outcome
    assert outcome.advice.startswith("First record again")
    assert "launches that cost nothing would give at most 16x" in " ".join(
        evidence.text for evidence in outcome.evidence
    )
    assert said(launching(200, 50), "R1").outcome.advice.startswith("Give each launch more work")


def test_calls_that_keep_no_gpu_waiting_are_no_finding() -> None:
    made = Made()
    made.kernel(GEMM, 0.25, 10.25, 10_000)
    for at in range(150):
        made.op("aten::add", 20.25 + 30 * at, 25.25 + 30 * at)
    found = said(made, "R4").outcome
    assert found.verdict.value == "quiet" and "keep no GPU waiting" in found.why


def test_idle_time_lies_in_the_slice_that_tells_most_of_it() -> None:
    made = Made()
    for number in range(6):
        at = 0.25 + 3000 * number
        made.note("load_batch", at, at + 2000)
        made.kernel(GEMM, at + 2010, at + 2020, 900)
    found = said(made, "idle")
    assert "in load_batch" in found.outcome.evidence[0].text
    whole = Made()
    for number in range(6):
        whole.note("load_batch" if number % 2 else "wait_for_it", 0.25 + 3000 * number, 200.25 + 3000 * number)
        whole.kernel(GEMM, 210.25 + 3000 * number, 220.25 + 3000 * number, 2600)
    whole.note("everything", 0.1, 20_000.25)
    assert "in everything" not in texts(said(whole, "idle"))
