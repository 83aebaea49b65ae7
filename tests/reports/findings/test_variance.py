"""Claims about distributions, and about rates."""

from __future__ import annotations

import pytest

from tests.reports.findings.made import ADD, GEMM, SGEMM, Made, said, texts, verdict


def calls(*lengths: float, name: str = ADD, offset: float = 0.25) -> Made:
    made = Made()
    for number, length in enumerate(lengths):
        at = offset + 3000 * number
        made.kernel(name, at, at + 10, length)
    return made


def test_slow_calls_are_counted_among_those_that_the_mean_is_of() -> None:
    found = said(calls(1890, 1790, 580, 580, 580, *[580] * 13, 700, 700), "variance")
    assert (
        found.outcome.claim
        == "Typical is 580 us; the mean of the first 5 calls is 1.084 ms, because two of them are slow"
    )
    assert found.outcome.at_stake_us == pytest.approx(1310 + 1210)
    assert "of all 20 calls, 16 are not slow: they take 580 us to 580 us" in texts(found)


def test_one_slow_call_among_all_is_told_as_one() -> None:
    found = said(calls(*[100] * 7, 1000), "variance")
    assert found.outcome.claim == "Typical is 100 us; the mean of all 8 calls is 212.5 us, because one of them is slow"


def test_even_calls_are_quiet_and_two_tell_nothing() -> None:
    assert (
        verdict(calls(100, 101, 1000, name=GEMM), "variance") == "n/a"
    )  # how deep the product is, its grid does not tell
    assert verdict(calls(100, 101, 102), "variance") == "quiet" and verdict(calls(100, 300), "variance") == "n/a"


def test_a_mean_that_differs_by_the_clock_s_rounding_is_quiet() -> None:
    coarse = (8, 8, 7, 7, 7, *[5] * 15, *[6] * 15)
    assert verdict(calls(*coarse, offset=0), "variance") == "quiet"
    assert verdict(calls(*(800, 800, 700, 700, 700, *[500] * 15, *[600] * 15), offset=0), "variance") == "fired"


def test_two_times_of_one_kernel_are_two_groups() -> None:
    found = said(calls(1820, 1820, *[580] * 18), "two-groups")
    assert "has two groups of times: 580 us (18 times) and 1.82 ms (2 times)" in found.outcome.claim
    assert "they are the first 2" in texts(found) and found.outcome.advice.startswith("Warm up longer")
    assert found.outcome.at_stake_us == 2480


def test_slow_calls_in_between_are_not_called_the_first() -> None:
    found = said(calls(580, 1820, *[580] * 9, 1820), "two-groups")
    assert "the first of them is call 2" in texts(found) and "Warm up longer" not in found.outcome.advice


def test_a_tail_or_a_coarse_clock_makes_no_groups() -> None:
    assert verdict(calls(100, 110, 120, 130, 140, 150), "two-groups") == "quiet"
    assert verdict(calls(2, 2, 3, 3, 2, 3, offset=0), "two-groups") == "quiet"
    assert verdict(calls(100, 100, 200), "two-groups") == "n/a"


def test_a_first_call_above_all_others_is_told() -> None:
    found = said(calls(200, 100, 101, 99, 100), "first-call")
    assert "takes 200 us, the others typically 100 us" in found.outcome.claim and found.outcome.at_stake_us == 100
    assert verdict(calls(200, 100, 250, 99, 100), "first-call") == "quiet"
    assert verdict(calls(120, 100, 100, 100, 100), "first-call") == "quiet"
    assert verdict(calls(200, 100, 100), "first-call") == "n/a"


def test_a_kernel_that_gets_slower_drifts() -> None:
    found = said(calls(*(100 + number for number in range(20))), "drift")
    assert "gets slower over the recording" in found.outcome.claim
    assert verdict(calls(*[100, 103] * 10), "drift") == "quiet" and verdict(calls(100, 110), "drift") == "n/a"


def product(kernel: str, length: float, dtype: str = "float", size: int = 4096) -> Made:
    made = Made()
    for number in range(4):
        at = 0.25 + 20_000 * number
        made.product("aten::mm", at, 20, [size, size], [size, size], dtype=dtype)
        made.kernel(kernel, at + 3, at + 30, length)
    return made


@pytest.mark.parametrize(
    ("kernel", "dtype", "length", "told"),
    [
        (SGEMM, "float", 7200.0, "97.9 % of the dense fp32 peak of 19.5 TFLOP/s"),
        ("cutlass_80_simt_sgemm_128x32_nn", "float", 7200.0, "97.9 % of the dense fp32 peak of 19.5 TFLOP/s"),
        ("cutlass_80_tensorop_s1688gemm_128x128_nn", "float", 1000.0, "88.1 % of the dense TF32 peak of 156 TFLOP/s"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn", "float", 1000.0, "88.1 % of the dense TF32 peak of 156 TFLOP/s"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn", "float", 7200.0, "97.9 % of the dense fp32 peak of 19.5 TFLOP/s"),
        (GEMM, "c10::BFloat16", 500.0, "88.1 % of the dense bf16 peak of 312 TFLOP/s"),
    ],
)
def test_a_product_is_held_against_the_peak_of_what_it_uses(kernel: str, dtype: str, length: float, told: str) -> None:
    found = texts(said(product(kernel, length, dtype), "rate"))
    assert told in found and found.count("peak of") == 1


def test_a_name_that_does_not_tell_is_held_against_both() -> None:
    found = texts(said(product("mystery_gemm", 7200.0), "rate"))
    assert "97.9 % of the dense fp32 peak" in found and "12.2 % of the dense TF32 peak" in found
    assert "does not tell which" in found


def test_float32_may_be_as_fast_as_tf32_and_no_faster() -> None:
    assert verdict(product(SGEMM, 1000.0), "too-fast") == "quiet"
    found = said(product(SGEMM, 500.0), "too-fast")
    assert "the dense TF32 peak is 156" in texts(found) and found.rule.severity == "problem"
    assert verdict(Made().kernel(GEMM, 0.25, 10.25, 5), "too-fast") == "n/a"


@pytest.mark.parametrize("name", ["Memcpy DtoD (Device -> Device)", "CopyDeviceToDevice"])
def test_a_copy_above_the_memory_s_bandwidth_is_too_fast(name: str) -> None:
    def copied(length: float) -> Made:
        return Made().copy(name, 0.25, 20.25, length, 1 << 30)

    assert verdict(copied(900.0), "too-fast") == "fired" and verdict(copied(1400.0), "too-fast") == "quiet"


def test_a_coarse_clock_s_rounding_is_not_too_fast() -> None:
    def small(offset: float) -> Made:
        made = Made()
        # 2·512³ operations take 0.86 us at the peak; "0" of a clock of whole microseconds may be that.
        made.product("aten::mm", offset, 20, [512, 512], [512, 512], dtype="c10::BFloat16")
        made.kernel(GEMM, offset + 3, offset + 30, 0 if not offset else 0.5)
        return made

    assert verdict(small(0), "too-fast") == "quiet" and verdict(small(0.25), "too-fast") == "fired"
