"""Cases as the plan sees them, without torch."""

import subprocess
import sys

import pytest

from suite.cases import REGISTRY, workload
from suite.cases.contract import Context
from suite.errors import UserError
from suite.presets import PRESETS


@pytest.mark.parametrize("name", REGISTRY)
def test_every_workload_describes_every_variant_of_its_presets(name: str) -> None:
    found = workload(name)
    assert found.name == name
    assert set(found.variants) == set(PRESETS)
    for preset, variants in found.variants.items():
        for variant in variants:
            case = found.describe(variant, Context(preset))
            assert case.name == f"{name}/{variant}"
            assert all(tensor.distribution and "zero" not in tensor.distribution for tensor in case.inputs)


def test_batch_and_dtype_stand_in_the_description() -> None:
    case = workload("matmul_add").describe("b8-64-bf16", Context("paper"))
    assert case.inputs[0].shape == [8, 64, 64] and case.dtype == "bfloat16"
    # x, w, b read and the result written once, two bytes each
    assert case.minimum_bytes == 4 * 8 * 64 * 64 * 2
    assert case.floating_point_operations == 8 * 64 * 64 * (2 * 64 + 1)


def test_the_fused_chain_moves_three_tensors_and_three_rows() -> None:
    case = workload("pointwise_chain").describe("16384x512-fp32", Context("quick"))
    assert case.minimum_bytes == 3 * 16384 * 512 * 4 + 3 * 512 * 4


def test_the_paper_preset_has_the_walkthroughs_own_counts_and_schedules() -> None:
    bert = workload("mobilebert_qa").describe("b128-s128-fp32", Context("paper"))
    assert (bert.warmup_iterations, bert.measured_iterations) == (10, 50)
    assert bert.schedule.steps == 65  # checklist: 50 iterations complete 3 of 5 cycles only
    chain = workload("pointwise_chain").describe("16384x512-fp32", Context("paper"))
    assert chain.measured_iterations == 100
    matmul = workload("matmul_add").describe("64-bf16", Context("paper"))
    assert (matmul.schedule.wait, matmul.schedule.warmup, matmul.schedule.active, matmul.schedule.steps) == (1, 1, 3, 5)


def test_a_schedule_counts_the_steps_of_all_its_cycles() -> None:
    from suite.bundle.schema import ProfilerSchedule

    assert ProfilerSchedule(skip_first=10, wait=5, warmup=5, active=1, repeat=5).steps == 65
    assert ProfilerSchedule().steps == 5


@pytest.mark.parametrize(
    "variant", ["", "64", "64-fp64", "0-fp32", "64-fp32-x", "-64-fp32", "64x64-fp32", "b0-64-fp32", "64-fp32\n"]
)
def test_a_variant_of_another_form_is_refused_with_the_form(variant: str) -> None:
    with pytest.raises(UserError, match=r"\[b<batch>-\]<size>-<dtype>"):
        workload("matmul_add").describe(variant, Context("quick"))


def test_an_unknown_case_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'matmul_add'"):
        workload("matmul_ad")


def test_describing_and_planning_never_imports_torch() -> None:
    script = (
        "import sys; from suite.plan import Request, plan; from suite.launch.engine import native;"
        "plan(Request('quick'), native('test'), []); assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
