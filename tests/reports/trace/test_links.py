"""Launches and the GPU work that they started: by correlation id alone, whatever the ids look like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.trace.kineto import WHOLE, Recording, analysed, noted, numbers, two_steps


@pytest.mark.parametrize(
    "number",
    [
        lambda n: n + 2**31,
        lambda n: n + 2**63,
        lambda n: n + 10**30,
        lambda n: -n,
        float,
        lambda n: n + 0.5,
        str,
        lambda n: f"0x{n:x}",
        lambda n: f"ключ {n}",
    ],
    ids=["32 bits", "64 bits", "100 bits", "negative", "float", "broken", "text", "hexadecimal", "words"],
)
def test_ids_are_opaque(number: Any, tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        args = event["args"]
        event["pid"], event["tid"] = number(event["pid"] if isinstance(event["pid"], int) else 0), number(event["tid"])
        for key in ("correlation", "stream", "External id"):
            if key in args:
                args[key] = number(args[key])
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == WHOLE
    assert found.devices[0].streams == 1


def test_an_id_written_as_number_float_and_text_is_one_id(tmp_path: Path) -> None:
    recording = two_steps()
    first, second = (event["args"] for event in recording.events if event["cat"] == "kernel")
    first["correlation"], second["correlation"] = "1", 2.0
    found = recording.analyse(tmp_path)
    assert numbers(found) == WHOLE and found.trace.status == "ok"


def test_ids_that_a_double_cannot_tell_apart_stay_apart(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        if "correlation" in event["args"]:
            event["args"]["correlation"] += 2**53
    found = recording.analyse(tmp_path)
    delay = found.devices[0].launch_delay_us
    assert delay and (delay.n, delay.least, delay.most) == (2, 30.0, 30.0)


@pytest.mark.parametrize("value", [None, [], {}, [1], "@nan@"], ids=repr)
def test_a_kernel_whose_correlation_is_no_id_is_an_orphan(value: Any, tmp_path: Path) -> None:
    recording = two_steps()
    next(event for event in recording.events if event["cat"] == "kernel")["args"]["correlation"] = value
    found = analysed(tmp_path, json.dumps(recording.document()).replace('"@nan@"', "NaN"))
    assert noted(found)["orphan"] == 1
    assert numbers(found) == [("0", 70.0, 160.0, 240.0, 2, 1)]


def test_orphans_count_as_busy_and_claim_no_delay(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events = [event for event in recording.events if event["name"] != "cudaLaunchKernel"]
    found = recording.analyse(tmp_path)
    assert noted(found) == {"orphan": 2} and "delay" in found.trace.withheld
    assert numbers(found) == [("0", 70.0, 160.0, 240.0, 2, 2)]
    assert found.devices[0].launch_delay_us is None and found.devices[0].slice_delay_median_us is None


def test_a_graph_is_one_launch_of_many_slices(tmp_path: Path) -> None:
    recording = Recording()
    recording.call("cudaGraphLaunch", 10.5, 30.5)
    for number in range(5):
        recording.work(f"kernel_{number}", 50.5 + 20 * number, 60.5 + 20 * number)["args"]["graph node id"] = number
    found = recording.analyse(tmp_path).devices[0]
    assert (found.launches, found.graph_launches, found.slices, found.orphans) == (1, 1, 5, 0)
    assert found.launch_delay_us and (found.launch_delay_us.n, found.launch_delay_us.median) == (1, 40.0)
    assert found.slice_delay_median_us == 80.0


def test_two_devices_are_told_apart_in_busy_time_and_launches(tmp_path: Path) -> None:
    recording = Recording(devices=[{"id": 0, "name": "NVIDIA L4"}, {"id": 1, "name": "NVIDIA L40S"}])
    recording.launch("a", 10.5, 20.5, 50.5, device=0)
    recording.launch("b", 20.5, 30.5, 90.5, device=1)
    recording.launch("c", 30.5, 90.5, 95.5, device=1)
    found = recording.analyse(tmp_path)
    assert numbers(found) == [("0", 30.0, 30.0, 40.0, 1, 0), ("1", 65.0, 65.0, 85.0, 2, 0)]
    assert [(gpu.model, gpu.launches) for gpu in found.devices] == [("NVIDIA L4", 1), ("NVIDIA L40S", 2)]
    assert {(stats.device, stats.name, stats.share) for stats in found.kernels} == {
        ("0", "a", 1.0),
        ("1", "b", 60 / 65),
        ("1", "c", 5 / 65),
    }


def test_devices_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    recording = Recording()
    for device in (10, 9, 2, "MIG-GPU-5a/3/0", "1" * 30):
        recording.launch("a", 10.5, 20.5, 50.5, device=device)
    found = recording.analyse(tmp_path)
    assert [gpu.device for gpu in found.devices] == ["2", "9", "10", "1" * 30, "MIG-GPU-5a/3/0"]


def test_a_mig_slice_keeps_its_label_as_a_device(tmp_path: Path) -> None:
    recording = two_steps()
    recording.devices = [{"id": "MIG-4f", "name": "NVIDIA A100 MIG 1g.10gb", "totalGlobalMem": 10 << 30}]
    for event in recording.events:
        if event["cat"] == "kernel":
            event["pid"] = event["args"]["device"] = "MIG-4f"
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and found.devices[0].device == "MIG-4f"
    assert found.devices[0].model == "NVIDIA A100 MIG 1g.10gb" and found.devices[0].memory_bytes == 10 << 30


def test_rocm_numbers_its_devices_after_the_processors(tmp_path: Path) -> None:
    # Two CPU agents come first, so that the first GPU is device 2, and the file describes it as 0.
    recording = two_steps()
    for event in recording.events:
        if event["cat"] == "kernel":
            event["pid"] = event["args"]["device"] = 2
        event["name"] = {
            "cudaLaunchKernel": "hipExtModuleLaunchKernel",
            "cudaDeviceSynchronize": "hipDeviceSynchronize",
        }.get(event["name"], event["name"])
    recording.devices = [{"id": 0, "name": "AMD Instinct MI300X"}, {"id": 1, "name": "AMD Instinct MI300X"}]
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and found.devices[0].model == "AMD Instinct MI300X"
    assert numbers(found) == [("2", 70.0, 160.0, 240.0, 2, 0)]
    assert found.host.launches == 2 and found.host.synchronize_us == 18.0


def test_host_and_gpu_are_told_apart_by_category_never_by_pid(tmp_path: Path) -> None:
    for pid in (0, 2, -1, "0", None):
        recording = two_steps()
        for event in recording.events:
            if event["cat"] != "kernel":
                event["pid"] = pid
        found = recording.analyse(tmp_path)
        assert found.trace.status == "ok" and numbers(found) == WHOLE


@pytest.mark.parametrize(
    "words",
    [
        {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime"},
        {"kernel": "concurrent_kernel", "cuda_runtime": "cuda_driver"},
        {"cuda_runtime": "hip_runtime"},
        {"cuda_runtime": "xpu_runtime"},
    ],
    ids=["2021", "driver", "HIP", "XPU"],
)
def test_categories_of_all_years_and_vendors_give_the_same_numbers(words: dict[str, str], tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        event["cat"] = words.get(event["cat"], event["cat"])
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


@pytest.mark.parametrize(
    ("call", "cat", "name", "word"),
    [
        ("cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "memcpy"),
        ("cudaMemsetAsync", "gpu_memset", "Memset (Device)", "memset"),
        ("cuLaunchKernelEx", "kernel", "triton_poi_fused_add_0", "kernel"),
        ("hipMemcpyWithStream", "gpu_memcpy", "CopyHostToDevice", "memcpy"),
    ],
)
def test_copies_and_fills_are_launched_work_too(call: str, cat: str, name: str, word: str, tmp_path: Path) -> None:
    recording = Recording()
    recording.call(call, 10.5, 15.5)
    recording.work(name, 20.5, 40.5).update(cat=cat)
    recording.events[-1]["args"]["bytes"] = 4096
    found = recording.analyse(tmp_path)
    assert (found.host.launches, found.devices[0].launches, found.devices[0].orphans) == (1, 1, 0)
    assert (found.kernels[0].kind, found.kernels[0].bytes) == (word, 4096.0 if word != "kernel" else None)


def test_a_kernel_without_args_lies_where_its_process_and_thread_say(tmp_path: Path) -> None:
    recording = two_steps()
    kernel = next(event for event in recording.events if event["cat"] == "kernel")
    del kernel["args"]
    kernel.update(pid=3, tid=20)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"orphan": 1, "lost_records": 1}
    assert [(gpu.device, gpu.busy_us) for gpu in found.devices] == [("0", 40.0), ("3", 30.0)]


def test_external_ids_that_repeat_change_nothing(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        if "External id" in event["args"]:
            event["args"]["External id"] = 4
    found, plain = recording.analyse(tmp_path), two_steps().analyse(tmp_path)
    assert found.operators == plain.operators and numbers(found) == WHOLE


def test_of_several_calls_with_one_id_the_launch_counts(tmp_path: Path) -> None:
    recording = two_steps()
    recording.add("cuda_runtime", "cudaStreamIsCapturing", 101.25, 102.25, correlation=1)
    recording.events.insert(0, recording.events.pop())
    delay = recording.analyse(tmp_path).devices[0].launch_delay_us
    assert delay and (delay.least, delay.most) == (30.0, 30.0)
