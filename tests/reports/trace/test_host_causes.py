"""Idle time while nothing was launched, laid to what the launching thread did; and what is no idle time of the program's."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.trace.analyse import Analysis
from tests.reports.trace.kineto import PID, Recording


def causes(found: Analysis) -> dict[str, float]:
    """The causes that have some time, in us."""
    (device,) = found.devices
    assert sum(device.idle_us.values()) == pytest.approx(device.window_us - device.busy_us)
    return {cause: round(time, 3) for cause, time in device.idle_us.items() if round(time, 3)}


def waiting(steps: int = 3, work: float = 1000.0) -> tuple[Recording, list[float]]:
    """Steps of 20 ms that launch one kernel of `work` us each at their end; the moments (us) at which each begins."""
    recording, begins = Recording(), []
    for number in range(steps):
        at = 0.5 + 20_000 * number
        recording.note(f"ProfilerStep#{number}", at, at + 20_000)
        recording.op("aten::mm", at + 18_000, at + 18_040)
        recording.launch("sm80_gemm_bf16", at + 18_010, at + 18_020, at + 18_020 + work)
        begins.append(at)
    return recording, begins


@pytest.mark.parametrize(
    ("category", "name", "cause", "bound"),
    [
        (
            "user_annotation",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            "data_loading",
            "input-bound",
        ),
        ("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "data_loading", "input-bound"),
        ("user_annotation", "preprocess", "data_loading", "input-bound"),
        ("user_annotation", "get_batch", "data_loading", "input-bound"),
        ("python_function", "torch/utils/data/dataloader.py(701): __next__", "data_loading", "input-bound"),
        ("python_function", "pipelines/video.py(129): preprocess", "data_loading", "input-bound"),
        ("python_function", "train.py(40): log_everything", "python", "host-bound"),
        ("python_function", "torch/_inductor/compile_fx.py(600): compile_fx", "repeated_setup", "host-bound"),
        ("user_annotation", "compile_fx.<locals>.fw_compiler_base (dynamo_timed)", "repeated_setup", "host-bound"),
        ("cuda_runtime", "cudaMalloc", "allocation", "host-bound"),
        ("cuda_runtime", "hipFree", "allocation", "host-bound"),
        ("cuda_driver", "cuMemCreate", "allocation", "host-bound"),
        ("cpu_op", "c10d::allreduce_", "host_communication", "communication-bound"),
        ("user_annotation", "gloo:all_reduce", "host_communication", "communication-bound"),
        ("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step", "cpu_operators", "host-bound"),
        ("cpu_op", "aten::uniform_", "cpu_operators", "host-bound"),
        ("user_annotation", "forward", "annotated", "host-bound"),
        ("user_annotation", "log: write data to tensorboard", "annotated", "host-bound"),
        ("python_function", "<method 'acquire' of '_thread.lock' objects>", "host_waits", "host-bound"),
        (
            "python_function",
            "torch/distributed/distributed_c10d.py(4000): barrier",
            "host_communication",
            "communication-bound",
        ),
    ],
)
def test_idle_time_has_the_cause_that_the_host_was_in(
    category: str, name: str, cause: str, bound: str, tmp_path: Path
) -> None:
    recording, begins = waiting(work=1950.0)
    for at in begins:
        recording.add(category, name, at + 100, at + 17_990)
    found = recording.analyse(tmp_path)
    # What allocates before the first GPU slice is start-up.
    assert causes(found)[cause] >= (2 if cause == "allocation" else 3) * 15_000
    assert found.regimes[0].bound == bound


def test_an_optimizer_that_launches_is_the_optimizer_s(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(40):
        at = 0.5 + 200 * number
        recording.op("aten::mul_", at + 10, at + 190)
        recording.launch("mul", at + 100, at + 110, at + 120)
    recording.note("Optimizer.step#Adam.step", 0.5, 8000.5)
    found = recording.analyse(tmp_path)
    assert causes(found)["optimizer"] > 6000 and found.regimes[0].bound == "overhead-bound"


def test_what_is_compiled_in_one_step_is_start_up(tmp_path: Path) -> None:
    recording, begins = waiting(steps=6, work=1950.0)
    recording.add(
        "python_function", "torch/_inductor/compile_fx.py(600): compile_fx", begins[1] + 100, begins[1] + 17_990
    )
    assert causes(recording.analyse(tmp_path))["start_up"] >= 15_000


def test_a_gpu_that_waits_for_another_one_is_not_left_out(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3):
        at = 0.5 + 10_000 * number
        recording.launch("gemm", at, at + 10, at + 4010, device=0)
        recording.launch("gemm", at + 10, at + 5000, at + 9000, device=1)
        recording.call("cudaDeviceSynchronize", at + 20, at + 9010)
    first, second = recording.analyse(tmp_path).devices
    assert first.idle_us["another_gpu"] > 3 * 3900 and not first.idle_us["unrecorded_work"]
    assert second.idle_us["another_gpu"] > 2 * 3900


def test_a_loader_that_starts_its_workers_once_is_start_up(tmp_path: Path) -> None:
    recording = Recording()
    at = 0.5
    for number in range(8):
        load = 500_000 if number == 0 else 200
        recording.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + load)
        recording.op("aten::mm", at + load + 10, at + load + 40)
        recording.launch("sm80_gemm", at + load + 20, at + load + 30, at + load + 5000)
        at += load + 5050
    found = recording.analyse(tmp_path)
    assert causes(found)["start_up"] > 490_000 and found.regimes[0].bound == "compute-bound"


def test_a_cold_first_step_does_not_count_where_enough_is_left(tmp_path: Path) -> None:
    recording = Recording()
    at = 0.5
    for number in range(5):
        slow = 50 if number == 0 else 1
        recording.note(f"ProfilerStep#{number}", at, at + 2000 * slow)
        for part in range(slow * 10):
            recording.op("aten::mm", at + 200 * part, at + 200 * part + 190)
        recording.launch("sm80_gemm", at + 2000 * slow - 20, at + 2000 * slow - 10, at + 2000 * slow + 1900)
        at += 2000 * slow
    found = recording.analyse(tmp_path)
    assert causes(found)["cold_start"] > 95_000 and found.regimes[0].bound == "compute-bound"


def test_one_long_wait_for_a_gpu_that_does_nothing_is_not_idle_time(tmp_path: Path) -> None:
    recording, begins = waiting(work=1950.0)
    for at in begins:
        recording.call("cudaStreamSynchronize", at + 100, at + 17_990)
    found = recording.analyse(tmp_path)
    assert causes(found)["unrecorded_work"] >= 3 * 15_000
    assert found.regimes[0].bound == "compute-bound" and found.regimes[0].counted_busy > 0.9


def test_a_gap_that_began_in_a_wait_is_the_wait_s_for_as_long_as_that_lasted(tmp_path: Path) -> None:
    for wait, told in ((200, "synchronisation-bound"), (20, "overhead-bound")):
        recording = Recording()
        for number in range(20):
            at = 0.5 + (400 + wait) * number
            recording.op("aten::mm", at, at + 30)
            recording.launch("gemm", at + 10, at + 20, at + 35 + wait)
            recording.call("cudaStreamSynchronize", at + 35, at + 40 + wait)
            recording.op("aten::view", at + 42 + wait, at + 230 + wait)
            recording.op("aten::view", at + 235 + wait, at + 395 + wait)
        found = recording.analyse(tmp_path)
        assert causes(found)["synchronisation"] == pytest.approx(20 * min(wait + 5, 375), rel=0.1)
        assert found.regimes[0].bound == told or wait == 200


def test_a_copy_that_blocks_the_host_is_a_wait(tmp_path: Path) -> None:
    recording, begins = waiting()
    for at in begins:
        recording.call("cudaMemcpyAsync", at + 100, at + 15_000)
        recording.work("Memcpy HtoD (Pageable -> Device)", at + 14_900, at + 14_990).update(cat="gpu_memcpy")
    assert causes(recording.analyse(tmp_path))["synchronisation"] >= 3 * 14_000


def test_short_pauses_between_operators_are_what_dispatching_costs(tmp_path: Path) -> None:
    for pause, cause in ((100, "dispatch"), (1000, "host_unrecorded")):
        recording = Recording()
        for number in range(10):
            at = 0.5 + (pause + 20) * number
            recording.op("aten::mm", at, at + 20)
            recording.launch("gemm", at + 5, at + 10, at + 15)
        told = causes(recording.analyse(tmp_path))
        assert max(told, key=lambda name: told[name]) == cause


@pytest.mark.parametrize("within", ["aten::conv1d", ""])
def test_one_launch_that_blocks_is_start_up_and_not_the_regime(within: str, tmp_path: Path) -> None:
    recording = Recording()
    if within:
        recording.op(within, 0.5, 700_000.5)
    recording.call("cudaLaunchKernel", 1000.5, 651_000.5)
    recording.work("cudnn_gemm", 650_500.5, 652_500.5)
    for number in range(50):
        at = 700_000.5 + 100 * number
        recording.op("aten::mul", at, at + 20)
        recording.launch("gemm", at + 5, at + 12, at + 97)
    found = recording.analyse(tmp_path)
    assert causes(found)["start_up"] >= 640_000
    regime = found.regimes[0]
    if within:
        assert (regime.bound, round(regime.counted_busy, 2)) == ("compute-bound", 0.89)
    else:
        assert regime.bound == "host-bound", "what the host did for 48 ms after it is not recorded"


def test_what_a_thread_did_not_record_is_what_the_other_launching_thread_did(tmp_path: Path) -> None:
    recording, begins = waiting()
    for at in begins:
        recording.note("enumerate(DataLoader)#x", at + 100, at + 17_990, tid=PID)
        recording.call("cudaLaunchKernel", at + 17_995, at + 17_999, tid=7)
        recording.work("gemm", at + 18_002, at + 18_010)
    assert causes(recording.analyse(tmp_path))["data_loading"] >= 3 * 15_000


def test_an_annotation_loads_data_until_it_launches_a_kernel(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(3):
        at = 0.5 + 20_000 * number
        recording.note("train_with_dataloader", at, at + 20_000)
        for later in (100, 15_000):
            recording.op("aten::mm", at + later, at + later + 30)
            recording.launch("gemm", at + later + 10, at + later + 20, at + later + 60)
    assert causes(recording.analyse(tmp_path))["data_loading"] < 1000


def test_the_capture_of_a_graph_is_no_idle_time(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("gemm", 0.5, 10.5, 110.5)
    recording.call("cudaStreamBeginCapture", 120.5, 125.5)
    for number in range(50):
        recording.call("cudaLaunchKernel", 130.5 + 1000 * number, 140.5 + 1000 * number)
    recording.call("cudaStreamEndCapture", 50_130.5, 50_140.5)
    recording.launch("gemm", 50_145.5, 50_150.5, 50_250.5)
    found = recording.analyse(tmp_path)
    assert causes(found)["graph_capture"] == 50_130.5 - 125.5
    assert found.regimes[0].counted_us < 400 and not found.trace.lost_rows.size


def test_python_s_long_frames_are_kept_and_counted_once(tmp_path: Path) -> None:
    recording, begins = waiting()
    for at in begins:
        recording.add("python_function", "train.py(1): main", at, at + 19_000)
        recording.add("python_function", "train.py(2): tiny", at + 5, at + 8)
    found = recording.analyse(tmp_path)
    assert found.trace.slices.python_frames == 3 and found.trace.count == len(recording.events)
    assert found.host.threads == 1 and found.trace.origin == 500


def test_collectives_that_nothing_covers_are_exposed(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("sm80_gemm", 0.5, 10.5, 1010.5)
    recording.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 6.5, 510.5, 2010.5, stream=13)
    (device,) = recording.analyse(tmp_path).devices
    assert (device.communication_us, device.exposed_us) == (1500.0, 1000.0)


@pytest.mark.parametrize("with_stack", [True, False])
def test_a_part_that_was_cut_out_of_the_recording_is_no_idle_time(with_stack: bool, tmp_path: Path) -> None:
    recording = Recording()
    for number in (1, 2, 3, 40, 41):
        at = 0.5 + 1000 * number
        recording.note(f"ProfilerStep#{number}", at, at + 995)
        recording.op("aten::mm", at + 5, at + 40)
        recording.launch("sm80_gemm", at + 10, at + 20, at + 985)
        if with_stack:
            recording.add("python_function", "train.py(1): step", at, at + 995)
    found = recording.analyse(tmp_path)
    assert causes(found)["cut_out"] == pytest.approx(36_005, abs=30)
    assert found.regimes[0].bound == "compute-bound" and found.regimes[0].counted_busy > 0.95


def test_time_of_which_nothing_is_recorded_is_idle_where_no_step_is_missing(tmp_path: Path) -> None:
    recording = Recording()
    for at in (0.5, 50_000.5):
        recording.op("aten::mm", at, at + 40)
        recording.launch("sm80_gemm", at + 10, at + 20, at + 985)
    assert causes(recording.analyse(tmp_path))["host_unrecorded"] > 49_000


@pytest.mark.parametrize("call", ["cuModuleLoadData", "hipModuleLoad", "cuLibraryLoadData", "cudaGraphInstantiate"])
def test_what_is_loaded_is_start_up_each_time(call: str, tmp_path: Path) -> None:
    recording = Recording()
    for number in range(8):
        at = 0.5 + 2000 * number
        recording.call(call, at, at + 1000)
        recording.launch("gemm", at + 1005, at + 1015, at + 1995)
    assert causes(recording.analyse(tmp_path))["start_up"] >= 7 * 980


def test_a_pageable_copy_to_the_host_lets_the_queue_run_dry(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(10):
        at = 0.5 + 600 * number
        recording.op("aten::mm", at, at + 30)
        recording.launch("gemm", at + 10, at + 20, at + 260)
        recording.call("cudaMemcpyAsync", at + 40, at + 310)
        recording.work("Memcpy DtoH (Device -> Pageable)", at + 261, at + 270).update(cat="gpu_memcpy")
        for later in (350, 400, 450, 500, 550):
            recording.op("aten::view", at + later, at + later + 20)
    told = causes(recording.analyse(tmp_path))
    assert told["synchronisation"] > 9 * 240 and told["synchronisation"] > told.get("dispatch", 0)
