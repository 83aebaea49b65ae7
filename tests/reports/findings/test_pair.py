"""An eager and a compiled recording side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports.findings.pair import compare, finding, findings, short
from reports.findings.pair_changes import Change, growths
from reports.render.trace_against import told_against
from reports.trace.analyse import Analysis
from tests.reports.findings.recordings import ADD, GEMM, Recording, Verdict, compiled, eager, real


def test_the_walkthroughs_pair() -> None:
    pair = compare(eager().analysis(), compiled().analysis())
    assert (pair.eager_cpu_us, pair.compiled_cpu_us, pair.cpu_step_ratio) == (70, 140, 2.0)
    assert pair.step_ratios == (2.0, 2.0, 2.0)
    assert pair.gpu_time_ratio == pytest.approx(647.7 / 621.0)
    assert (pair.fusion, pair.addmm_for_mm_and_add) == ("dispatcher-level", True)
    assert [(change.name, change.eager_us, change.compiled_us) for change in pair.same_products] == [(GEMM, 580, 588)]
    assert (pair.new_products, pair.fused) == ((), ())
    assert [(change.name, change.eager_calls, change.compiled_calls) for change in pair.elementwise_gone] == [
        (ADD, 1, 0)
    ]
    (copy,) = pair.copies_added
    assert (copy.per_step, copy.bytes, copy.us) == (1, 1 << 25, 33)
    assert copy.read_plus_write_tb_s == pytest.approx(2.0336, rel=1e-4)
    assert pair.story == (
        "dispatcher-level: same GEMM kernel, elementwise add gone, one 32 MiB device copy added (2.03 TB/s read and written);"
        " no new fused kernel"
    )


def test_the_hosts_price_is_r25() -> None:
    found = finding(compare(eager().analysis(), compiled().analysis()))
    assert (found.rule.id, found.outcome.verdict) == ("R25", Verdict.FIRED)
    assert "the price of guards and wrappers, hidden behind the GPU's work" in found.outcome.claim


def test_a_compiled_step_that_costs_no_more_is_quiet() -> None:
    pair = compare(real("pointwise-eager"), real("pointwise-inductor"))
    assert (pair.outcome.verdict, pair.fusion) == (Verdict.QUIET, "kernel-level")
    assert [change.name for change in pair.fused] == ["graph_1_cpp_fused_add_mul_relu_sub_0"]
    assert pair.why_no_gpu == "neither recording holds GPU work" and pair.gpu_time_ratio is None


def test_a_slow_operator_is_not_blamed_on_guards() -> None:
    pair = compare(real("matmul_add-eager"), real("matmul_add-inductor"))
    assert pair.outcome.verdict is Verdict.FIRED
    assert "that is not the price of guards and wrappers: aten::addmm itself takes" in pair.outcome.claim
    assert pair.frames_us < 100 < (pair.compiled_cpu_us or 0)


def test_steps_that_overlap_are_not_called_dearer() -> None:
    slow = eager()
    slow.events[[event["name"] for event in slow.events].index("ProfilerStep#4")]["dur"] = 150
    pair = compare(slow.analysis(), compiled().analysis())
    assert (pair.outcome.verdict, pair.steps_overlap, pair.cpu_step_ratio) == (Verdict.QUIET, True, 2.0)
    assert "the slowest eager one takes 150 us, the fastest compiled one 140 us" in pair.outcome.why
    assert "but the steps overlap" in told_against(pair, Path("eager.json")).told


def test_what_an_operator_replaced_is_taken_off_its_growth() -> None:
    addmm = Change("aten::addmm", "operator", 0, 1, 0, 50)
    gone = (Change("aten::mm", "operator", 1, 0, 30, 0), Change("aten::add", "operator", 1, 0, 15, 0))
    (found,) = growths((addmm, *gone, Change("aten::relu", "operator", 1, 0, 40, 0)))
    assert (found.more_us, found.less_us, found.net_us) == (50, 45, 5)
    assert found.instead_of == ("aten::mm", "aten::add")


def test_packed_linears_are_counted_against_eager_ones() -> None:
    pair = compare(real("layer-eager"), real("layer-inductor-freezing"))
    assert (pair.linears_eager, pair.packed_compiled) == (1, 1)
    assert "1 products with packed weights per step against 1 aten::linear" in pair.story


def test_a_fused_kernel_on_the_gpu_is_kernel_level() -> None:
    fast = compiled()
    for event in fast.events:
        if event["name"] == "aten::addmm":
            event["name"] = "aten::mm"
        if event["cat"] == "gpu_memcpy":
            event.update(cat="kernel", name="triton_poi_fused_add_0")
    pair = compare(eager().analysis(), fast.analysis())
    assert (pair.fusion, pair.copies_added) == ("kernel-level", ())
    assert [change.name for change in pair.fused] == ["triton_poi_fused_add_0"]


def test_a_copy_that_was_there_before_is_not_added() -> None:
    assert compare(compiled().analysis(), compiled().analysis()).copies_added == ()


def test_an_addmm_beside_as_many_sums_as_before_is_not_theirs() -> None:
    beside = compiled()
    for number in range(3):
        beside.op("aten::add", 200.0 * number + 130, 1)
    pair = compare(eager().analysis(), beside.analysis())
    assert (pair.addmm_for_mm_and_add, pair.fusion) == (False, "none")


def test_another_gemm_is_not_called_the_same() -> None:
    other = compiled()
    for event in other.events:
        event["name"] = event["name"].replace("ampere_bf16", "ampere_fp16")
    pair = compare(eager().analysis(), other.analysis())
    assert (pair.same_products, len(pair.new_products)) == ((), 1)
    assert "other matrix-product kernels" in pair.story


def test_recordings_without_steps_cannot_be_compared_by_step() -> None:
    pair = compare(Recording().op("aten::mm", 0, 5).analysis(), compiled().analysis())
    assert (pair.outcome.verdict, pair.cpu_step_ratio) == (Verdict.NOT_APPLICABLE, None)
    assert pair.why_no_cpu == "the eager recording has no steps"


def test_two_eager_recordings_tell_nothing_of_fusion() -> None:
    assert compare(eager().analysis(), eager().analysis()).fusion == "unknown"


@pytest.mark.parametrize(
    ("name", "said"), [(ADD, "add"), ("aten::mul", "mul"), ("void at::native::GeluFunctor<float>", "gelu")]
)
def test_a_kernels_name_is_cut_to_what_it_does(name: str, said: str) -> None:
    assert short(name) == said


def test_a_rocm_copy_is_a_device_copy_too() -> None:
    rocm = compiled()
    for event in rocm.events:
        event["name"] = event["name"].replace("Memcpy DtoD (Device -> Device)", "CopyDeviceToDevice")
    pair = compare(eager().analysis(), rocm.analysis())
    assert pair.copies_added[0].read_plus_write_tb_s == pytest.approx(2.0336, rel=1e-4)
    assert "one 32 MiB device copy added (2.03 TB/s read and written)" in pair.story


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (eager, eager, "the first trace holds no compiled code"),
        (compiled, eager, "are the two swapped?"),
        (lambda: real("layer-eager"), lambda: real("pointwise-inductor"), "they are not of one case"),
    ],
)
def test_recordings_that_are_no_pair_are_not_compared(first: Any, second: Any, why: str) -> None:
    one, two = (made if isinstance(made, Analysis) else made.analysis() for made in (first(), second()))
    pair = compare(one, two)
    assert why in pair.apart
    assert all(f.outcome.verdict is Verdict.NOT_APPLICABLE and why in f.outcome.why for f in findings(pair))


def test_the_pairs_in_short() -> None:
    told = told_against(compare(eager().analysis(), compiled().analysis()), Path("run/eager/trace.json.gz"))
    assert told.name == "run/eager/trace.json.gz"
    assert told.told.replace("\u00a0", " ") == (
        "same GEMM, add gone, copy added; GPU 648 µs → 621 µs a step (1.043× as fast); host step 70.0 µs → 140 µs (2.00× as long)"
    )
