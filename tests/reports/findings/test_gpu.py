"""The GPU lane: the profiler's gaps, uneven kernels, vendor kernels, copies before products."""

from __future__ import annotations

import pytest

from tests.reports.findings.made import A100, ADD, DTOD, GEMM, ROCM_DTOD, Made, said, texts, verdict

REQUEST = "Activity Buffer Request"


def test_a_request_for_a_buffer_is_r12() -> None:
    made = Made().kernel(ADD, 0.25, 10.25, 20)
    assert verdict(made, "R12") == "quiet"
    made.add("overhead", REQUEST, 40.25, 1_040.25, tid=0, pid=-1)
    found = said(made, "R12")
    assert found.outcome.claim == "The profiler asked for 1 buffer while recording, the longest time 1 ms"
    assert (found.outcome.evidence[0].start_us, found.outcome.evidence[0].end_us) == (40, 1040)


def gapped(late: float = 0.0, wide: tuple[int, ...] = (1,), overhead: bool = False) -> Made:
    """Four steps of two kernels; in the wide ones 300 us pass between them, though the second was launched `late` us after the first."""
    made = Made()
    for number in range(4):
        at = 0.25 + 1000 * number
        made.note(f"ProfilerStep#{number}", at, at + 500)
        gap = 300.0 if number in wide else 5.0
        made.kernel(ADD, at + 1, at + 20, 50)
        made.kernel(ADD, at + 7 + (late if number in wide else 0.0), at + 70 + gap, 50)
        if overhead and number in wide:
            made.add("overhead", REQUEST, at + 71, at + 361, tid=0, pid=-1)
    return made


def test_a_gap_of_one_step_without_a_cause_is_r13() -> None:
    found = said(gapped(), "R13")
    assert found.outcome.claim == "300 us pass between two kernels of step #1, and nothing recorded says why"
    assert verdict(gapped(wide=()), "R13") == "quiet" and verdict(gapped(wide=(0, 1, 2)), "R13") == "quiet"


def test_a_gap_in_the_profiler_s_own_work_is_said_to_be_the_profiler_s() -> None:
    found = said(gapped(overhead=True), "R13")
    assert "290 us of it in the profiler's own work" in found.outcome.claim
    assert found.outcome.advice.startswith("The profiler asked for another buffer")


def test_a_gap_before_a_late_launch_is_not_blamed_on_the_profiler() -> None:
    found = said(gapped(late=340), "R13")
    assert found.outcome.verdict.value == "quiet" and "host unrecorded" in found.outcome.why


def test_a_gap_is_not_looked_for_between_two_gpus() -> None:
    made = Made(dict(A100), dict(A100, id=1))
    for number in range(3):
        at = 0.25 + 1000 * number
        made.note(f"ProfilerStep#{number}", at, at + 500)
        made.kernel(ADD, at + 1, at + 20, 50)
        made.kernel(ADD, at + 7, at + (370 if number == 1 else 75), 50, device=1)
    assert verdict(made, "R13") == "n/a"


def repeated(*lengths: float, name: str = ADD) -> Made:
    made = Made()
    for number, length in enumerate(lengths):
        at = 0.25 + 2000 * number
        made.kernel(name, at, at + 10, length)
    return made


def test_uneven_calls_are_r14() -> None:
    found = said(repeated(100, 100, 100, 150), "R14")
    assert found.outcome.claim.endswith("takes different times: 100 us to 150 us, typically 100 us")
    assert found.outcome.at_stake_us == 50
    assert verdict(repeated(100, 100, 105), "R14") == "quiet" and verdict(repeated(100, 100), "R14") == "n/a"


def test_rounding_of_a_coarse_clock_is_no_unevenness() -> None:
    def coarse(*lengths: float) -> Made:
        made = Made()
        for number, length in enumerate(lengths):
            made.kernel(ADD, 100 * number, 100 * number + 10, length)
        return made

    assert verdict(coarse(5, 5, 6, 7), "R14") == "quiet" and verdict(coarse(5, 5, 5, 8), "R14") == "fired"


def test_vendor_products_of_two_gpus_share_the_time_of_both() -> None:
    made = Made(dict(A100), dict(A100, id=1))
    for number in range(3):
        for device in (0, 1):
            made.kernel(GEMM, 0.25 + 500 * number + 6 * device, 20.25 + 500 * number, 90, device=device)
            made.kernel(ADD, 20.25 + 500 * number + 6 * device, 120.25 + 500 * number, 10, device=device)
    found = said(made, "R15")
    assert found.outcome.claim == (
        "One kernel is a matrix product of the vendor's library (cuBLAS), with 90 % of the time of all GPUs"
    )
    assert verdict(repeated(10, name=ADD), "R15") == "quiet"


def test_products_of_two_makers_name_both_libraries() -> None:
    made = repeated(10, name="Cijk_Alik_Bljk_BBS_BH").kernel(GEMM, 5_000.25, 5_010.25, 10)
    assert "(cuBLAS and rocBLAS or hipBLASLt), with 100 % of the time of the GPU" in said(made, "R15").outcome.claim


def before_product(operator: str, calls: int, copy: float = 20.0, name: str = DTOD, made: Made | None = None) -> Made:
    made = made or Made()
    for _ in range(calls):
        at = 0.25 + 1000 * len(made.events)
        made.op(operator, at, at + 50)
        made.copy(name, at + 5, at + 30, copy)
        made.kernel("Cijk_Alik_Bljk_BBS" if name == ROCM_DTOD else GEMM, at + 15, at + 31 + copy, 300)
    return made


@pytest.mark.parametrize("name", [DTOD, ROCM_DTOD])
def test_a_copy_before_a_product_is_r16(name: str) -> None:
    found = said(before_product("aten::addmm", 5, name=name), "R16")
    assert found.outcome.claim == (
        "A device-to-device copy stands right before the matrix product in 5 calls of aten::addmm: the bias, put where the product"
        " adds to it"
    )
    assert verdict(repeated(10, 10, 10), "R16") == "quiet"


def test_the_operator_with_the_longest_copies_is_named_with_its_own_number() -> None:
    made = before_product("aten::foo", 20, 100.0, made=before_product("aten::addmm", 1, 1.5))
    found = said(made, "R16")
    assert "in 20 calls of aten::foo" in found.outcome.claim and "bias" not in found.outcome.claim
    assert "aten::addmm, once" in texts(found)


def test_a_workspace_that_is_cleared_in_between_hides_no_copy() -> None:
    made = Made().product("aten::addmm", 0.25, 60)
    made.copy(DTOD, 2.25, 70.25, 10)
    made.call("cudaMemsetAsync", 10.25, 12.25)
    made.work("Memset (Device)", 81.25, 82.25)["cat"] = "gpu_memset"
    made.kernel(GEMM, 20.25, 84.25, 100)
    assert verdict(made, "R16") == "fired"
