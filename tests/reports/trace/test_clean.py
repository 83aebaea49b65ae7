"""Times that cannot be true are left out or cut, each counted and said; a recording that is merely odd is left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.trace.analyse import Analysis
from tests.reports.trace.kineto import WHOLE, Json, Recording, noted, numbers, two_steps


def kernels(recording: Recording) -> list[Json]:
    return [event for event in recording.events if event["cat"] == "kernel"]


def ops(recording: Recording) -> list[Json]:
    return [event for event in recording.events if event["cat"] == "cpu_op"]


def told(found: Analysis) -> dict[str, int]:
    """The notes on times; that `null` is no number is said besides."""
    return {kind: count for kind, count in noted(found).items() if kind != "odd_types"}


def test_a_healthy_recording_has_no_notes(tmp_path: Path) -> None:
    found = two_steps().analyse(tmp_path)
    assert found.trace.status == "ok" and found.trace.notes == () and numbers(found) == WHOLE


@pytest.mark.parametrize("shift", [0, -100.25, -50_000.5, 3e9 + 0.25])
def test_only_the_differences_of_times_count(shift: float, tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        event["ts"] += shift
    found = recording.analyse(tmp_path)
    assert numbers(found) == WHOLE and found.devices[0].start_us == 50.0
    assert found.devices[0].idle_us == two_steps().analyse(tmp_path).devices[0].idle_us
    assert found.steps == two_steps().analyse(tmp_path).steps


Change = Callable[[Json], object]
DAMAGES: dict[str, tuple[Change, str]] = {
    "never filled in": (lambda event: event.update(ts=0.0, dur=0.0), "zero_timestamps"),
    "no duration": (lambda event: event.pop("dur"), "slice_without_duration"),
    "null duration": (lambda event: event.update(dur=None), "slice_without_duration"),
    "negative duration": (lambda event: event.update(dur=-3.0), "negative_duration"),
    "no time": (lambda event: event.pop("ts"), "no_time"),
    "null time": (lambda event: event.update(ts=None), "no_time"),
    "a clock of another epoch": (lambda event: event.update(ts=1.7e15), "other_epoch"),
    "a clock before this epoch": (lambda event: event.update(ts=-1.7e15), "other_epoch"),
    "a time beyond 64 bits": (lambda event: event.update(ts=1e300), "no_time"),
    "an endless one": (lambda event: event.update(dur=9e9), "duration_overflow_last"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_left_out_and_counted(damage: str, tmp_path: Path) -> None:
    change, kind = DAMAGES[damage]
    recording = two_steps()
    change(kernels(recording)[1])
    found = recording.analyse(tmp_path)
    assert told(found) == {kind: 1}
    assert numbers(found) == [("0", 30.0, 30.0, 240.0, 1, 0)]
    assert "idle" in found.trace.withheld, "busy time is too short by the kernel, so idle time may not be claimed"


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_kernels_damaged_leaves_launches_whose_work_is_missing(damage: str, tmp_path: Path) -> None:
    change, kind = DAMAGES[damage]
    recording = two_steps()
    for kernel in kernels(recording):
        change(kernel)
    found = recording.analyse(tmp_path)
    if kind == "duration_overflow_last":
        # The first is cut where the second begins: an upper bound that is no longer than the recording.
        assert noted(found) == {"duration_overflow": 1, "duration_overflow_last": 1}
        assert numbers(found) == [("0", 120.0, 120.0, 240.0, 1, 0)]
        return
    assert noted(found)[kind] == 2
    assert noted(found)["gpu_activity_missing"] == 2 and found.devices == ()


@pytest.mark.parametrize("damage", ["no duration", "null duration", "negative duration"])
def test_an_unfinished_operation_is_counted_not_summed(damage: str, tmp_path: Path) -> None:
    recording = two_steps()
    DAMAGES[damage][0](ops(recording)[1])
    found = recording.analyse(tmp_path)
    assert told(found) == {"unfinished": 1} and numbers(found) == WHOLE
    addmm = found.operator("aten::addmm")
    assert addmm and (addmm.count, addmm.total_us) == (1, 35.0)


def test_a_kernel_that_swallows_the_next_of_its_stream_is_cut_there(tmp_path: Path) -> None:
    recording = two_steps()
    kernels(recording)[0]["dur"] = 1.6e6
    found = recording.analyse(tmp_path)
    assert noted(found) == {"duration_overflow": 1}
    assert numbers(found) == [("0", 160.0, 160.0, 240.0, 2, 0)]


def test_overlap_on_another_stream_is_no_damage(tmp_path: Path) -> None:
    recording = two_steps()
    recording.launch("other", 172.25, 180.25, 330.25, stream=8)
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok"
    assert numbers(found) == [("0", 180.0, 180.0, 240.0, 3, 0)]


def test_a_long_last_kernel_is_no_damage(tmp_path: Path) -> None:
    recording = two_steps()
    kernels(recording)[1]["dur"] = 90_000.0
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and found.devices[0].busy_us == 90_030.0


def test_a_recording_that_begins_at_zero_is_no_damage(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        event["ts"] -= 100.25
    assert recording.events[0]["ts"] == 0
    found = recording.analyse(tmp_path)
    assert set(noted(found)) == {"whole_microseconds"} and numbers(found) == WHOLE


def test_a_pause_of_hours_between_steps_is_no_other_clock(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events[5:]:
        event["ts"] += 3600e6
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and found.devices[0].window_us == 240 + 3600e6


def test_whole_microseconds_are_read_and_gaps_below_one_are_unknown(tmp_path: Path) -> None:
    recording = two_steps()
    for event in recording.events:
        event.update(ts=int(event["ts"]) + 1_775_078_550_000_000, dur=int(event["dur"]))
    found = recording.analyse(tmp_path)
    assert noted(found) == {"whole_microseconds": 11}
    assert numbers(found) == WHOLE and "sub-microsecond" in found.trace.withheld


def test_a_kernel_before_its_launch_shows_the_clocks_apart(tmp_path: Path) -> None:
    recording = two_steps()
    kernels(recording)[0]["ts"] = 120.25 - 8.9
    found = recording.analyse(tmp_path)
    assert noted(found) == {"clock_skew": 1}
    assert "8.9 us" in found.trace.notes[0].effect and "delay" in found.trace.withheld
    delay = found.devices[0].launch_delay_us
    assert delay and delay.least == -8.9, "kept as it stands, never clipped to 0"


def test_a_child_that_outlives_its_parent_makes_no_negative_time(tmp_path: Path) -> None:
    recording = two_steps()
    ops(recording)[1]["dur"] += 60
    found = recording.analyse(tmp_path)
    assert noted(found) == {"child_outlives_parent": 1} and numbers(found) == WHOLE
    assert all(stats.self_us >= 0 for stats in found.operators)


def test_launches_without_any_work_are_missing_activity_never_an_idle_gpu(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events = [event for event in recording.events if event["cat"] != "kernel"]
    found = recording.analyse(tmp_path)
    assert noted(found) == {"gpu_activity_missing": 2}
    assert found.devices == () and found.has_gpu
    assert found.trace.withheld == {"idle", "delay", "cause"}


def test_a_recording_of_the_host_alone_is_healthy(tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.op("aten::mm", 5.5, 25.5)
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and not found.has_gpu
    assert found.host.self_cpu_total_us == 20.0


def test_a_file_that_does_not_describe_its_gpu_withholds_its_peak(tmp_path: Path) -> None:
    for devices in (
        [],
        [{"id": 0, "name": ""}],
        [{"id": 0}],
        ["nonsense"],
        {"id": 0},
        None,
        [{"id": 1}, {"id": 2, "name": "x"}],
    ):
        recording = two_steps()
        recording.devices = devices  # type: ignore[assignment]
        found = recording.analyse(tmp_path)
        assert noted(found) == {"device_unknown": 1}, devices
        assert found.trace.withheld == {"peak"} and numbers(found) == WHOLE


def test_the_order_of_events_is_of_no_account(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events.reverse()
    backwards = recording.analyse(tmp_path)
    recording.events = recording.events[::2] + recording.events[1::2]
    mixed = recording.analyse(tmp_path)
    for found in (backwards, mixed):
        assert found.trace.status == "ok" and numbers(found) == WHOLE
        assert found.operators == two_steps().analyse(tmp_path).operators


def test_overflows_one_after_the_other_are_all_cut(tmp_path: Path) -> None:
    recording = Recording()
    for number in range(6):
        recording.launch("a", 10.5 + 6 * number, 50.5 + 10 * number, 55.5 + 10 * number)
        recording.events[-1]["dur"] = [5.0, 4.3e9, 4.3e9, 5.0, 4.3e9, 5.0][number]
    found = recording.analyse(tmp_path)
    assert noted(found) == {"duration_overflow": 3}
    assert numbers(found) == [("0", 45.0, 55.0, 95.0, 6, 0)]


def test_kernels_that_overlap_on_a_stream_after_the_host_is_done_are_no_damage(tmp_path: Path) -> None:
    # Programmatic dependent launch: the next kernel begins while the last one drains.
    recording = Recording()
    for number in range(6):
        recording.launch("a", 10.5 + 6 * number, 50.5 + 10 * number, 65.5 + 10 * number)
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == [("0", 65.0, 65.0, 105.0, 6, 0)]


def test_branches_of_a_graph_on_one_stream_after_the_host_is_done_are_no_damage(tmp_path: Path) -> None:
    recording = Recording()
    recording.call("cudaGraphLaunch", 10.5, 20.5)
    for number in range(4):
        recording.work("branch", 50.5 + number, 9_050.5 + 2 * number)
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and [stats.least_us for stats in found.kernels] == [9_000.0]
