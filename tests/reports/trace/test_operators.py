"""Operators with self, total and GPU time; dispatch chains; kernels by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reports.trace.kernels import class_of, two_groups
from tests.reports.trace.kineto import Recording, two_steps


def test_operators_in_numbers(tmp_path: Path) -> None:
    found = two_steps().analyse(tmp_path)
    addmm, linear, step = (found.operator(name) for name in ("aten::addmm", "aten::linear", "ProfilerStep#0"))
    assert addmm and linear and step
    assert (addmm.count, addmm.total_us, addmm.self_us, addmm.device_us, addmm.self_device_us) == (
        2,
        70.0,
        60.0,
        70.0,
        70.0,
    )
    assert (linear.count, linear.total_us, linear.self_us, linear.device_us, linear.self_device_us) == (
        2,
        100.0,
        30.0,
        70.0,
        0.0,
    )
    assert (step.kind, step.total_us, step.self_us, step.device_us) == ("annotation", 100.0, 50.0, 30.0)


def test_an_operator_that_calls_itself_counts_its_time_once(tmp_path: Path) -> None:
    recording = Recording()
    recording.op("aten::sum", 0.5, 100.5)
    recording.op("aten::sum", 10.5, 60.5)
    recording.launch("reduce", 20.5, 40.5, 60.5)
    found = recording.analyse(tmp_path).operator("aten::sum")
    assert found and (found.count, found.total_us, found.self_us, found.device_us) == (2, 100.0, 95.0, 20.0)


def test_chains_follow_the_calls_of_an_annotation(tmp_path: Path) -> None:
    (root,) = two_steps().analyse(tmp_path).chains
    assert (root.name, root.count, root.total_us) == ("ProfilerStep", 2, 200.0)
    linear = root.children["aten::linear"]
    assert list(linear.children) == ["aten::addmm"]
    assert list(linear.children["aten::addmm"].children) == ["cudaLaunchKernel"]


def test_kernels_by_name_in_numbers(tmp_path: Path) -> None:
    recording = Recording()
    for number, length in enumerate((40, 10, 20, 10, 20)):
        recording.launch("sm80_gemm", 10.5 + number * 100, 50.5 + number * 100, 50.5 + length + number * 100)
        recording.events[-1]["args"] |= {"grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32}
    (stats,) = recording.analyse(tmp_path).kernels
    assert (stats.count, stats.total_us, stats.mean_us, stats.median_us) == (5, 100.0, 20.0, 20.0)
    assert (stats.least_us, stats.most_us, stats.share, stats.kernel_class) == (10.0, 40.0, 1.0, "gemm")
    assert stats.first_ratio == pytest.approx(40 / 15) and stats.first_mean_us == 20.0
    assert stats.times_us.tolist() == [40, 10, 20, 10, 20], "in the order of start"
    (resources,) = stats.resources
    assert (resources.grid, resources.block, resources.registers) == ((4, 1, 1), (128, 1, 1), 32)
    assert resources.shared_memory_bytes is None and resources.occupancy_percent is None


def test_two_groups_are_told_from_one_with_a_tail() -> None:
    chance = np.random.default_rng(1)
    fast, slow = chance.normal(100, 2, 30), chance.normal(180, 3, 20)
    found = two_groups(np.concatenate((fast, slow)))
    assert found and (found[0][1], found[1][1]) == (30, 20)
    assert found[0][0] == pytest.approx(100, rel=0.02) and found[1][0] == pytest.approx(180, rel=0.02)
    assert two_groups(chance.normal(100, 2, 50)) is None
    assert two_groups(chance.lognormal(3, 0.6, 200)) is None
    assert two_groups(np.geomspace(1, 1000, 20)) is None, "every jump is large, and no group narrow"
    assert two_groups(np.array([1.0, 9.0])) is None and two_groups(np.zeros(50)) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn", "gemm"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1", "gemm"),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>", "gemm"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>", "attention"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "elementwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "reduction"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", "copy"),
        ("triton_poi_fused_add_relu_0", "triton"),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3", "convolution"),
        ("some_user_kernel_of_mine", "unknown"),
    ],
)
def test_kernels_are_classed_by_how_vendors_name_theirs(name: str, expected: str) -> None:
    assert class_of(name) == expected
