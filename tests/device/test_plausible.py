"""Times that cannot be true."""

from __future__ import annotations

import pytest

from suite.bundle import schema
from suite.device.plausible import against_host, against_peak
from suite.plan import Request, plan_cases
from tests.device.fake import US

H200 = schema.Device(kind="cuda", name="NVIDIA H200", memory_bytes=141 << 30, multiprocessors=132)


def case(name: str) -> schema.Case:
    (found,) = plan_cases(Request("quick", name, device=H200))
    return found


@pytest.mark.parametrize(("host_us", "refused"), [(1000, False), (960, False), (500, True), (1, True)])
def test_a_device_works_no_longer_than_its_host_waited(host_us: int, refused: bool) -> None:
    assert bool(against_host([100 * US] * 10, host_us * US)) is refused


def test_products_in_tf32_are_held_against_tf32s_peak() -> None:
    # 137 GFLOP in 400 us are 344 TFLOP/s: above what float32 can, below what TF32 can.
    assert against_peak(case("matmul_add/4096-tf32-hot"), H200, [400 * US], 1) == ""
    assert "TFLOP/s" in against_peak(case("matmul_add/4096-fp32-hot"), H200, [400 * US], 1)


def test_the_typical_iteration_of_several_calls_is_judged() -> None:
    fast, slow = 30 * US, 500 * US
    assert against_peak(case("matmul_add/4096-bf16-hot"), H200, [fast, slow, slow], 1) == ""
    assert against_peak(case("matmul_add/4096-bf16-hot"), H200, [slow, slow, slow], 10) != ""


def test_a_flushed_cache_spares_less_traffic_than_a_hot_one() -> None:
    # 201 MB in 30 us, of which a hot cache of 50 MB may have spared twice its size, a flushed one once.
    hot, cold = case("pointwise_chain/32768x512-fp32-hot"), case("pointwise_chain/32768x512-fp32-cold")
    assert against_peak(hot, H200, [25 * US], 1) == ""
    assert "TB/s" in against_peak(cold, H200, [25 * US], 1)


def test_a_device_without_published_peaks_is_not_judged() -> None:
    assert against_peak(case("matmul_add/4096-bf16-hot"), schema.Device(name="NVIDIA Unheard"), [1], 1) == ""
    assert against_peak(case("matmul_add/4096-bf16-hot"), schema.Device(), [1], 1) == ""
