"""Files of other programs, devices of other kinds, lost records, several documents and several processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.trace.analyse import analyse
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import Recording, analysed, noted, two_steps


def written(folder: Path, content: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def slices(pid: int, names: list[str], **members: Any) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "pid": pid, "tid": 1, "ts": 10.0 * at, "dur": 5.0, "name": name, **members}
        for at, name in enumerate(names)
    ]


def process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([process(1, "/device:TPU:0"), *slices(1, ["fusion.1", "copy.2"])], "XProf"),
        ([process(1, "Ascend Hardware"), *slices(1, ["MatMul", "Add"])], "Ascend"),
        ([process(1, "Browser"), *slices(1, ["RunTask"], cat="toplevel,devtools.timeline")], "a web browser"),
        (slices(1, ["main (a.py:3)"], cat="FEE"), "VizTracer"),
        (slices(1, ["work"], cat="my_category"), "another program"),
    ],
)
def test_a_file_of_another_program_is_refused_by_name(events: list[dict[str, Any]], named: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"torch\.profiler") as caught:
        analyse(written(tmp_path, {"traceEvents": events}))
    assert named in str(caught.value)


@pytest.mark.parametrize("content", [[[-1, 1, 512, 7]] * 20, [1, 2, 3], ["a", "b"], [{"name": "x", "value": 3}] * 4])
def test_a_list_that_is_no_trace_is_refused(content: list[Any], tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none is an event"):
        analyse(written(tmp_path, content))


def test_a_list_of_events_is_a_trace(tmp_path: Path) -> None:
    found = analyse(written(tmp_path, two_steps().document()["traceEvents"]))
    assert found.devices[0].busy_us == 70.0


@pytest.mark.parametrize("category", ["mtia_ccp_events", "hpu_op", "async_npu", "xpu_kernel"])
def test_activity_of_another_device_is_said_and_nothing_claimed_of_it(category: str, tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.op("aten::mm", 0.5, 100.5)
    recording.add(category, "work", 10.5, 90.5)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"device_unread": 1} and found.has_gpu and "idle" in found.trace.withheld


def test_a_second_document_is_said_and_not_read(tmp_path: Path) -> None:
    text = json.dumps(two_steps().document())
    for following in (text, "[1]", "\n\n" + text):
        found = analysed(tmp_path, text + following)
        assert noted(found) == {"second_document": 1} and found.devices[0].kernels == 2


def test_a_second_list_of_events_is_said_too(tmp_path: Path) -> None:
    events = json.dumps(two_steps().document()["traceEvents"])
    found = analysed(tmp_path, events + "\n" + events)
    assert noted(found).get("second_document") == 1 and found.devices[0].kernels == 2
    assert "second_document" not in noted(analysed(tmp_path, events + "\n"))


@pytest.mark.parametrize("call", ["cudaDeviceSynchronize", "hipStreamSynchronize"])
def test_a_long_wait_without_any_gpu_work_is_missing_activity(call: str, tmp_path: Path) -> None:
    for length, missing in ((185_000, True), (20, False)):
        recording = Recording()
        recording.op("aten::mm", 0.5, 50.5)
        recording.call(call, 100.5, 100.5 + length)
        assert ("gpu_activity_missing" in noted(recording.analyse(tmp_path))) is missing


def test_launches_without_slices_leave_the_time_after_them_open(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(40):
        at = 0.5 + 100 * number
        recording.call("cudaLaunchKernel", at, at + 5)
        if number >= 10:
            recording.work("gemm", at + 10, at + 90)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"lost_records": 10} and {"idle", "cause"} <= found.trace.withheld
    assert found.devices[0].idle_us["lost_records"] == pytest.approx(1010)


def test_one_lost_record_that_changes_nothing_withholds_nothing(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(200):
        at = 0.5 + 100 * number
        recording.call("cudaLaunchKernel", at, at + 5)
        if number != 100:
            recording.work("gemm", at + 10, at + 90)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"lost_records": 1} and not found.trace.withheld


def test_a_slice_cannot_hold_several_later_ones_of_its_stream(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(100):
        at = 0.5 + 2000 * number
        recording.launch("gemm", at, at + 15, at + 1015)
    long = next(event for event in recording.events if event["name"] == "gemm" and event["ts"] > 50_000)
    long["dur"] = 80_000.0
    found = recording.analyse(tmp_path)
    assert noted(found) == {"covers_others": 1}
    assert found.devices[0].busy_us == pytest.approx(101_000) and found.kernels[0].most_us == 2000


def test_a_slice_ends_before_a_wait_for_the_whole_device_returns(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(50):
        recording.launch("gemm", 0.5 + 100 * number, 10.5 + 100 * number, 60.5 + 100 * number)
    recording.events[-1]["dur"] = 300_000.0
    recording.call("cudaDeviceSynchronize", 4920.5, 4970.5)
    recording.op("aten::mm", 4980.5, 4990.5)
    found = recording.analyse(tmp_path)
    assert noted(found) == {"outlasts_wait": 1} and found.devices[0].busy_us == pytest.approx(49 * 50 + 60)


def test_an_absurd_slice_cannot_hold_even_one_later_slice(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(20):
        recording.launch("gemm", 0.5 + 100 * number, 10.5 + 100 * number, 60.5 + 100 * number)
    recording.launch("copy", 2000.5, 2010.5, 2020.5)
    [event for event in recording.events if event["name"] == "gemm"][-1]["dur"] = 900_000.0
    recording.op("aten::mm", 900_000.5, 1_000_000.5)
    assert noted(recording.analyse(tmp_path)) == {"covers_others": 1}


def test_devices_of_several_processes_are_told_apart(tmp_path: Path) -> None:
    for first, second, names in (
        ("[TP00] 0", "[TP01] 0", ["[TP00] 0", "[TP01] 0"]),
        (0, 100_000, ["0", "0 (process 100000)"]),
    ):
        recording = Recording()
        for number in range(4):
            at = 0.5 + 1000 * number
            recording.launch("gemm", at, at + 10, at + 510)["pid"] = first
            recording.launch("gemm", at + 6, at + 516, at + 986)["pid"] = second
        found = recording.analyse(tmp_path)
        assert sorted(device.device for device in found.devices) == names
        assert sorted(device.busy_us for device in found.devices) == [1880.0, 2000.0]
        assert all(found.trace.gpu(device.device).name for device in found.devices)


def test_ids_that_two_processes_share_lose_no_record(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(50):
        at = 0.5 + 100 * number
        for pid, device in ((1, 0), (2, 1)):
            recording.add("cuda_runtime", "cudaLaunchKernel", at, at + 5, tid=pid, pid=pid, correlation=number + 1)
            recording.work("gemm", at + 10, at + 90, correlation=number + 1, device=device)
    assert "lost_records" not in noted(recording.analyse(tmp_path))


def test_slices_without_any_length_say_nothing_of_how_long_a_gpu_worked(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        if event["cat"] == "kernel":
            event["dur"] = 0
    found = recording.analyse(tmp_path)
    assert noted(found) == {"no_length": 2} and "idle" in found.trace.withheld


def test_lost_work_lies_between_what_was_launched_before_and_after_it(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(100):
        recording.call("cudaLaunchKernel", 0.5 + 6 * number, 5.5 + 6 * number)
        if not 40 <= number < 50:
            recording.work("gemm", 1000.5 + 100 * number, 1099.5 + 100 * number)
    (device,) = recording.analyse(tmp_path).devices
    assert device.idle_us["lost_records"] == pytest.approx(1001)


def test_a_skew_far_below_the_gaps_takes_no_cause_away(tmp_path: Path) -> None:
    for early, withheld in ((0.3, {"delay"}), (80.0, {"delay"}), (900.0, {"delay", "cause", "idle", "window"})):
        recording = Recording()
        for number in range(10):
            at = 0.5 + 1000 * number
            recording.launch("gemm", at, at + 6 if number else at - early, at + 56)
        assert recording.analyse(tmp_path).trace.withheld == withheld


def test_steps_that_overlap_share_no_launch(tmp_path: Path) -> None:
    recording = Recording()
    recording.note("ProfilerStep#1", 0.5, 1000.5)
    recording.note("ProfilerStep#2", 900.5, 2000.5)
    for at in (20.5, 925.5, 1100.5):
        recording.launch("gemm", at, at + 10, at + 40)
    steps = recording.analyse(tmp_path).steps
    assert [(step.host_us, step.kernels) for step in steps] == [(1000.0, 1), (1100.0, 2)]
