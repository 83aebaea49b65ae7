"""Why a GPU was idle, told apart: the queue, the driver's loading, waits of other kinds, several processes; and what is no damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.trace.categories import Call, call_of
from reports.trace.classes import class_of
from reports.trace.operators import METADATA_ONLY
from tests.reports.trace.kineto import Recording, noted, two_steps


def idle(recording: Recording, folder: Path) -> dict[str, float]:
    """The causes that have some time, rounded to the nanosecond."""
    (device,) = recording.analyse(folder).devices
    assert sum(device.idle_us.values()) == pytest.approx(device.window_us - device.busy_us)
    return {cause: round(time, 3) for cause, time in device.idle_us.items() if round(time, 3)}


def queued() -> Recording:
    """Three kernels, all launched within 30 us, that run one after the other from 100 us on with 2 us between them."""
    recording = Recording()
    for number in range(3):
        recording.launch("gemm", 10.5 * number, 100 + 102.0 * number, 200 + 102.0 * number)
    return recording


def test_what_lies_between_queued_kernels_is_no_launch_s(tmp_path: Path) -> None:
    found = idle(queued(), tmp_path)
    assert found == {"between_queued": 4.0, "unknown": 100.0}, (
        "100 us between launch and first kernel have no recorded cause"
    )


def test_a_gap_within_a_graph_is_no_launch_s(tmp_path: Path) -> None:
    recording = Recording()
    recording.call("cudaGraphLaunch", 0.5, 5.5)
    for number in range(4):
        recording.work("elementwise_kernel", 10.5 + 10 * number, 18.5 + 10 * number, correlation=recording.correlation)
    assert idle(recording, tmp_path) == {"launch_latency": 10.0, "between_queued": 6.0}


def test_a_launch_that_has_just_arrived_is_latency(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("gemm", 0.5, 8.5, 20.5)
    recording.launch("gemm", 30.5, 38.5, 50.5)
    assert idle(recording, tmp_path) == {"launch_latency": 16.0, "dispatch": 10.0}


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Activity Buffer Request", "profiler"),
        ("Instrumentation", "profiler"),
        ("Lazy Function Loading", "start_up"),
        ("Runtime Triggered Module Loading", "start_up"),
        ("Command Buffer Full", "host_unrecorded"),
    ],
)
def test_each_kind_of_overhead_is_laid_to_who_made_it(tmp_path: Path, name: str, cause: str) -> None:
    recording = Recording()
    recording.launch("gemm", 0.5, 10.5, 20.5)
    recording.launch("gemm", 220.5, 230.5, 240.5)
    recording.add("overhead", name, 50.5, 150.5, tid=0, pid=-1)
    assert idle(recording, tmp_path)[cause] >= 100
    if cause != "host_unrecorded":
        assert idle(recording, tmp_path)[cause] == 100


@pytest.mark.parametrize(("name", "cause"), [("Stream Wait Event", "dependency_wait"), ("Context Sync", "unknown")])
def test_only_a_stream_that_waits_is_a_dependency(tmp_path: Path, name: str, cause: str) -> None:
    recording = Recording()
    recording.launch("gemm", 0.5, 10.5, 20.5)
    recording.launch("gemm", 15.5, 300.5, 310.5)
    recording.add("cuda_sync", name, 21.5, 299.5, tid=7, pid=0)
    assert idle(recording, tmp_path)[cause] == 280


def test_a_step_is_not_idle_while_the_gpu_works_for_the_one_before(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3):
        at = 0.5 + 50 * number
        recording.note(f"ProfilerStep#{number}", at, at + 40)
        recording.launch("gemm", at + 10, 20.5 + 100 * number, 120.5 + 100 * number)
    steps = recording.analyse(tmp_path).steps
    assert [step.idle_of_span for step in steps] == [0, 0, 0]
    assert steps[2].idle == 0 and steps[0].idle == pytest.approx(20 / 120)


def test_an_empty_last_step_makes_no_cold_first_one(tmp_path: Path) -> None:
    recording = two_steps()
    recording.note("ProfilerStep#9", 400.25, 403.25)
    assert not recording.analyse(tmp_path).cold_first_step


def test_the_gap_is_from_the_annotation_around_the_first_operation(tmp_path: Path) -> None:
    recording = Recording()
    recording.note("ProfilerStep#0", 0.5, 100.5)
    recording.note("enumerate(DataLoader)#next", 1.5, 60.5)
    recording.note("forward", 61.5, 99.5)
    recording.op("aten::linear", 65.5, 80.5)
    (step,) = recording.analyse(tmp_path).steps
    assert (step.annotation, step.first_op, step.gap_us) == ("forward", "aten::linear", 4.0)


def test_steps_of_two_threads_keep_their_launches_apart(tmp_path: Path) -> None:
    recording = Recording()
    for thread in (1, 2):
        recording.note("ProfilerStep#0", 0.5, 100.5, tid=thread)
        recording.call("cudaLaunchKernel", 10.5 + thread, 12.5 + thread, tid=thread)
        recording.work("gemm", 50.5 + 100 * thread, 90.5 + 100 * thread, stream=thread)
    assert [step.gpu_busy_us for step in recording.analyse(tmp_path).steps] == [40, 40]


def test_kernels_of_one_stream_may_overlap_at_the_end(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("first", 0.5, 10.5, 60.5)
    recording.launch("long", 5.5, 100.5, 1100.5)
    recording.launch("within", 11.5, 600.5, 1000.5)
    found = recording.analyse(tmp_path)
    assert noted(found) == {} and found.devices[0].busy_us == 1050


def test_one_slice_at_time_zero_is_no_slice_without_a_time(tmp_path: Path) -> None:
    recording = Recording()
    recording.note("ProfilerStep#0", 0, 5_000_000.5)
    recording.launch("gemm", 4_999_000.25, 4_999_010, 4_999_020)
    found = recording.analyse(tmp_path)
    assert noted(found) == {} and len(found.steps) == 1 and found.devices[0].window_us == 5_000_000.5


def test_launches_of_two_processes_with_equal_ids_are_told_apart_by_time(tmp_path: Path) -> None:
    recording = Recording()
    for process in range(2):
        for number in range(3):
            at = 50_000.5 * process + 100 * number
            recording.add("cuda_runtime", "cudaLaunchKernel", at, at + 5, pid=100 + process, correlation=number + 7)
            recording.work("gemm", at + 10, at + 50, correlation=number + 7)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"repeated_correlation": 3} and "delay" in found.trace.withheld
    assert found.devices[0].launches == 6
    assert found.devices[0].launch_delay_us is not None and found.devices[0].launch_delay_us.most == 10


def test_categories_that_are_not_read_are_named(tmp_path: Path) -> None:
    recording = two_steps()
    recording.add("mtia_ccp_events", "ccp", 1.5, 2.5)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"device_unread": 1} and found.trace.withheld == {"idle", "delay", "cause"}
    assert "mtia_ccp_events" in found.trace.notes[0].effect


def test_the_first_launch_is_the_earliest_that_led_to_something(tmp_path: Path) -> None:
    recording = Recording()
    recording.work("orphan", 1.5, 5.5, correlation=999)
    recording.launch("gemm", 10.5, 22.5, 30.5)
    assert recording.analyse(tmp_path).devices[0].first_launch_to_first_kernel_us == 12


def product(recording: Recording, at: float, kernels: tuple[tuple[str, float], ...]) -> None:
    """aten::mm of 256x256 by 256x256 in float32, whose kernels follow each other."""
    operation = recording.op("aten::mm", at, at + 30)
    operation["args"] |= {"Input Dims": [[256, 256], [256, 256]], "Input type": ["float", "float"]}
    begin = at + 40
    for number, (name, length) in enumerate(kernels):
        recording.launch(name, at + 2 + 6 * number, begin, begin + length)
        begin += length


def test_what_adds_up_a_split_product_multiplies_nothing(tmp_path: Path) -> None:
    recording = Recording()
    product(recording, 0.5, (("volta_sgemm_64x32_sliced1x4_nn", 20.0), ("void splitKreduce_kernel<32, 16>", 1.0)))
    (found,) = recording.analyse(tmp_path).products
    assert (found.kernel, found.times_us.tolist(), found.flops) == (
        "volta_sgemm_64x32_sliced1x4_nn",
        [20.0],
        2 * 256.0**3,
    )


def test_a_product_of_two_kernels_took_the_time_of_both(tmp_path: Path) -> None:
    recording = Recording()
    product(recording, 0.5, (("cutlass_gemm_a", 20.0), ("cutlass_gemm_b", 5.0)))
    (found,) = recording.analyse(tmp_path).products
    assert (found.kernel, found.times_us.tolist()) == ("cutlass_gemm_a", [25.0])


def test_products_without_shapes_are_compared_by_their_place_in_the_step(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3):
        at = 0.5 + 1000 * number
        recording.note(f"ProfilerStep#{number}", at, at + 900)
        for place, length in enumerate((100.0, 30.0)):
            kernel = recording.launch(
                "nvjet_hsh_128x128", at + 10 + 300 * place, at + 20 + 300 * place, at + 20 + 300 * place + length
            )
            kernel["args"]["grid"] = [132, 1, 1]
    assert sorted(group.median_us for group in recording.analyse(tmp_path).alike) == [30, 100]


def test_products_without_shapes_or_steps_are_compared_with_nothing(tmp_path: Path) -> None:
    recording = Recording()
    for number, length in enumerate((75.0, 31.0, 31.0, 31.0)):
        kernel = recording.launch(
            "nvjet_hsh_128x128", 0.5 + 200 * number, 10.5 + 200 * number, 10.5 + 200 * number + length
        )
        kernel["args"]["grid"] = [132, 1, 1]
    assert recording.analyse(tmp_path).alike == ()


def test_a_gpu_that_talks_most_of_the_time_is_communication_bound(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0.5, 10.5, 1000.5)
    assert recording.analyse(tmp_path).regimes[0].bound == "communication-bound"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("triton_tem_fused_mm_0", "gemm"),
        ("triton_tem_fused_convolution_1", "convolution"),
        ("triton_tem_fused_flex_attention_0", "attention"),
        ("triton_poi_fused_add_mm_0", "triton"),
        ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", "normalization"),
        ("void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>", "elementwise"),
        ("flashinfer::BatchPrefillWithRaggedKVCacheKernel", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "copy"),
        ("void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits>", "attention"),
        ("void moe::dev::finalize::finalizeKernelVecLoad<cutlass::bfloat16_t>", "unknown"),
        ("message_usage_kernel", "unknown"),
        ("void splitKreduce_kernel<32, 16, int, float>", "reduction"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA", "gemm"),
    ],
)
def test_kernels_are_classed_by_their_makers_schemes(name: str, expected: str) -> None:
    assert class_of(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaPointerGetAttributes", Call.OTHER),
        ("cudaMemPoolGetAttribute", Call.OTHER),
        ("cudaFuncGetAttributes", Call.QUERY),
        ("cudaStreamWaitEvent", Call.OTHER),
        ("urQueueFinish", Call.SYNCHRONIZE),
        ("urEventWait", Call.SYNCHRONIZE),
        ("urEnqueueUSMFill", Call.SET),
        ("urEnqueueUSMMemcpy", Call.COPY),
        ("urEnqueueKernelLaunch", Call.LAUNCH),
    ],
)
def test_run_time_calls_of_every_maker(name: str, expected: Call) -> None:
    assert call_of(name) == expected


def test_a_launch_that_does_not_return_is_the_host_s_time(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("gemm", 0.5, 10.5, 20.5)
    recording.call("hipLaunchKernel", 30.5, 6530.5)
    recording.work("gemm", 6536.5, 6540.5)
    assert idle(recording, tmp_path) == {"launch_latency": 16.0, "dispatch": 10.0, "start_up": 6500.0}


def test_reading_a_value_is_no_view() -> None:
    assert "aten::is_nonzero" not in METADATA_ONLY and "aten::view" in METADATA_ONLY
