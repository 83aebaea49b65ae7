"""Window, span, busy and idle time of a GPU, idle time by cause, launch delays and the queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reports.trace.usage import Device, Spread, queue_depth
from tests.reports.trace.kineto import Recording, two_steps


def idle(gpu: Device) -> dict[str, float]:
    assert sum(gpu.idle_us.values()) == pytest.approx(gpu.window_us - gpu.busy_us)
    return {cause: time for cause, time in gpu.idle_us.items() if time}


def test_two_steps_in_numbers(tmp_path: Path) -> None:
    (gpu,) = two_steps().analyse(tmp_path).devices
    assert (gpu.busy_us, gpu.span_us, gpu.window_us) == (70.0, 160.0, 240.0)
    assert gpu.idle_of_window == pytest.approx(170 / 240) and gpu.idle_of_span == pytest.approx(90 / 160)
    assert gpu.launch_delay_us == Spread(2, 30.0, 30.0, 30.0, 30.0, 30.0)
    assert gpu.first_launch_to_first_kernel_us == 30.0
    assert (gpu.slices, gpu.kernels, gpu.copies, gpu.sets, gpu.streams, gpu.launches) == (2, 2, 0, 0, 1, 2)
    # 20 until the first launch, 60 from the first kernel's end to the second's launch, 30 after the last one; 30 of latency twice. Of it
    # 22 before the first operator and after the last one, and 18 in the wait at the end.
    assert idle(gpu) == {"dispatch": 70.0, "host_unrecorded": 22.0, "synchronisation": 18.0, "launch_latency": 60.0}


def test_streams_that_overlap_count_once(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("a", 10.5, 20.5, 60.5, stream=7)
    recording.launch("b", 16.5, 40.5, 90.5, stream=8)
    (gpu,) = recording.analyse(tmp_path).devices
    assert (gpu.busy_us, gpu.span_us, gpu.streams) == (70.0, 70.0, 2)


def test_a_wait_that_was_recorded_explains_a_late_kernel(tmp_path: Path) -> None:
    for waits, cause in ((False, "unknown"), (True, "dependency_wait")):
        recording = Recording()
        recording.launch("a", 10.5, 20.5, 40.5)
        recording.launch("b", 30.5, 140.5, 150.5)
        if waits:
            recording.add("cuda_sync", "Stream Wait Event", 41.5, 139.5, 7, 0, stream=7, correlation=9)
        assert idle(recording.analyse(tmp_path).devices[0])[cause] == 100.0


def test_a_kernel_without_a_launch_leaves_its_gap_unexplained(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("a", 10.5, 20.5, 40.5)
    recording.work("b", 60.5, 80.5, correlation=99)
    assert idle(recording.analyse(tmp_path).devices[0])["unknown"] == 20.0


def test_the_profiler_s_own_time_is_taken_out_of_the_other_causes(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("a", 10.5, 20.5, 40.5)
    recording.launch("b", 90.5, 100.5, 110.5)
    before = idle(recording.analyse(tmp_path).devices[0])
    recording.add("overhead", "Activity Buffer Request", 30.5, 70.5, 0, -1)
    after = idle(recording.analyse(tmp_path).devices[0])
    assert after["profiler"] == 30.0
    assert after["dispatch"] == before["dispatch"] - 30.0 and after["launch_latency"] == before["launch_latency"]


def test_a_cold_first_step_has_its_own_cause(tmp_path: Path) -> None:
    recording = Recording()
    at = 100.5
    for number, length in enumerate((900.0, 100.0, 100.0)):
        recording.note(f"ProfilerStep#{number}", at, at + length)
        recording.launch("a", at + length - 20, at + length - 10, at + length - 4)
        at += length
    found = recording.analyse(tmp_path)
    assert found.cold_first_step
    assert idle(found.devices[0])["cold_start"] == 880.0 + 4.0, "up to its launch, and after its kernel"


def test_the_queue_counts_what_was_launched_and_has_not_begun() -> None:
    # At 20 the one of 10 waits, at 30 that of 20; the one launched at that moment does not count.
    assert queue_depth(np.array([0, 10, 20, 30]), np.array([5, 25, 35, 45])) == (1, 0.5)
    assert queue_depth(np.array([0, 1, 2, 3]), np.array([100, 101, 102, 103])) == (3, 1.5)
    assert queue_depth(np.array([], np.int64), np.array([], np.int64)) == (0, 0.0)


def test_the_host_s_time_is_summed_over_threads_and_overlaps_count_once(tmp_path: Path) -> None:
    recording = Recording()
    recording.op("outer", 10.5, 60.5, tid=1)
    recording.op("inner", 20.5, 30.5, tid=1)
    recording.op("other", 20.5, 90.5, tid=2)
    recording.call("cudaStreamSynchronize", 70.5, 80.5, tid=1)
    recording.call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 81.5, 82.5, tid=1)
    host = recording.analyse(tmp_path).host
    assert (host.self_cpu_total_us, host.threads, host.operations) == (131.0, 2, 3)
    assert (host.synchronize_us, host.synchronizations, host.queries, host.launches) == (10.0, 1, 1, 0)


def test_steps_in_numbers(tmp_path: Path) -> None:
    recording = two_steps()
    recording.note("forward", 105.25, 165.25)
    first, second = recording.analyse(tmp_path).steps
    assert (first.number, first.start_us, first.host_us, first.annotation, first.first_op) == (
        0,
        0.0,
        100.0,
        "forward",
        "aten::linear",
    )
    assert (first.gap_us, second.gap_us, second.annotation) == (5.0, 10.0, "")
    assert (first.gpu_busy_us, first.gpu_start_us, first.gpu_end_us, first.idle) == (30.0, 50.0, 80.0, 0.7)
    assert (second.gpu_busy_us, second.launches, second.kernels, second.queries) == (40.0, 1, 1, 0)


def test_what_another_thread_launched_in_a_step_is_of_the_step(tmp_path: Path) -> None:
    recording = two_steps()
    recording.call("cudaLaunchKernel", 150.25, 155.25, tid=77)
    recording.work("backward", 185.25, 195.25)
    first, second = recording.analyse(tmp_path).steps
    assert (first.kernels, first.gpu_busy_us, second.kernels) == (2, 40.0, 1)


def test_an_operation_that_outlives_its_step_is_not_its_first(tmp_path: Path) -> None:
    recording = two_steps()
    recording.op("aten::stray", 102.25, 215.25)
    first, _ = recording.analyse(tmp_path).steps
    assert (first.first_op, first.gap_us) == ("aten::linear", 10.0)
