"""The picture of a trace."""

import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports.render.timeline import RIGHT, timeline
from reports.render.timeline_lanes import CAUSES, SYNCHRONIZE, closer_look, lanes
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from tests.reports.render.findings_made import EVIL
from tests.reports.trace import corpus
from tests.reports.trace.kineto import Recording, two_steps

NAME = "void at::native::kernel<" + "std::array<char*, 3ul>, " * 85 + ">"


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def speck() -> Recording:
    """Two kernels of 5 us after 2 ms of waiting."""
    recording = Recording()
    recording.note("ProfilerStep#3", 10, 200)
    recording.op("aten::mm", 20, 60)
    recording.launch("gemm", 30, 2000, 2005)
    recording.launch("gemm", 40, 2006, 2011)
    recording.call("cudaDeviceSynchronize", 300, 2012)
    return recording


def many(kernels: int = 3000) -> Recording:
    """Kernels of 3 us, each launched when the one before has ended."""
    recording = Recording()
    for number in range(kernels):
        at = 20.0 * number
        recording.op("aten::add", at, at + 9)
        recording.launch("vectorized_elementwise_kernel", at + 2, at + 10, at + 13)
    return recording


def test_lanes_are_threads_then_gpus_with_their_idle_time(tmp_path: Path) -> None:
    found, notes = lanes(two_steps().analyse(tmp_path))
    assert [lane.title for lane in found] == ["host thread 31007", "GPU 0"]
    assert [row.label for row in found[0].rows] == ["annotations", "operators", "… called by them", "run-time calls"]
    assert [row.label for row in found[1].rows] == ["stream 7", "idle, by cause"]
    assert notes == ()


def test_idle_time_in_the_picture_is_that_of_the_numbers(tmp_path: Path) -> None:
    analysis = two_steps().analyse(tmp_path)
    shown = {series.colour: int((series.end - series.start).sum()) for series in lanes(analysis)[0][1].rows[1].series}
    told = {CAUSES[cause]: round(analysis.devices[0].idle_us[cause.value] * 1000) for cause in Cause}
    assert shown == {colour: time for colour, time in told.items() if time}


def test_waiting_calls_are_told_from_launches(tmp_path: Path) -> None:
    row = lanes(speck().analyse(tmp_path))[0][0].rows[-1]
    waits = next(series for series in row.series if series.colour == SYNCHRONIZE)
    assert (waits.end - waits.start).tolist() == [1_712_000]


def test_a_profiler_that_worked_has_a_lane(tmp_path: Path) -> None:
    recording = two_steps()
    recording.add("overhead", "Activity Buffer Request", 150.25, 190.25)
    assert [lane.title for lane in lanes(recording.analyse(tmp_path))[0]][-1] == "profiler"


def test_threads_beyond_the_busiest_are_said_to_be_left_out(tmp_path: Path) -> None:
    recording = two_steps()
    for thread in range(5):
        recording.op("aten::add", 100.25, 101.25 + thread, tid=900 + thread)
    found, notes = lanes(recording.analyse(tmp_path))
    assert [lane.title for lane in found if "thread" in lane.title] == [
        "host thread 31007",
        "host thread 904",
        "host thread 903",
    ]
    assert notes == ("3 more host threads with less work left out.",)


def test_every_gpu_and_stream_has_its_place_and_those_beyond_are_said(tmp_path: Path) -> None:
    recording = two_steps()
    for number in range(1, 6):
        recording.launch("gemm", 300 + number, 320, 330 + number, device=number)
    for stream in range(20, 26):
        recording.launch("gemm", 310, 320, 330 + stream, stream=stream)
    analysis = recording.analyse(tmp_path)
    found, notes = lanes(analysis)
    assert [lane.title for lane in found[1:]] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert notes == ("GPU 0: 3 more streams with less work left out.", "2 more GPUs left out.")
    assert any("Idle time of 6 GPUs" in text for text in texts(timeline(analysis).svg))


def test_work_that_is_a_speck_is_enlarged_and_its_range_named(tmp_path: Path) -> None:
    analysis = speck().analyse(tmp_path)
    look = closer_look(analysis, 800)
    assert look is not None and look[:2] == (1_999_084, 2_011_916)
    assert "The GPU's work, enlarged: 1,989.1 to 2,001.9\u00a0µs" in texts(timeline(analysis).svg)


def test_what_can_be_seen_is_not_enlarged(tmp_path: Path) -> None:
    assert closer_look(two_steps().analyse(tmp_path), 800) is None


def test_many_short_kernels_are_gathered_and_a_typical_piece_enlarged(tmp_path: Path) -> None:
    few, more = (timeline(many(kernels).analyse(tmp_path)).svg for kernels in (3000, 6000))
    assert len(more) < 1.1 * len(few) < 100_000
    assert any(text.startswith("A typical short piece of idle time") for text in texts(few))


def test_steps_are_bounded_and_named(tmp_path: Path) -> None:
    shown = texts(timeline(two_steps().analyse(tmp_path)).svg)
    assert "step 0" in shown and "step 1" in shown


def test_the_legend_gives_the_time_of_each_cause(tmp_path: Path) -> None:
    analysis = two_steps().analyse(tmp_path)
    shown = [text.replace("\u00a0", " ") for text in texts(timeline(analysis).svg)]
    assert "Idle time of the GPU, 170 µs in all (white: it works):" in shown
    assert any(text.startswith("host dispatches 7") and "%" in text for text in shown)


def test_without_a_gpu_the_time_in_no_operator_is_shown(tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.note("step", 0, 100)
    recording.op("aten::add", 10, 30)
    recording.op("aten::mul", 60, 90)
    analysis = recording.analyse(tmp_path)
    outside = lanes(analysis)[0][0].rows[-1]
    assert outside.label == "in no operator"
    assert int((outside.series[0].end - outside.series[0].start).sum()) == 50_000
    assert "Idle time" not in timeline(analysis).svg


def test_nothing_recorded_is_no_picture(tmp_path: Path) -> None:
    assert timeline(Recording().analyse(tmp_path)).svg == ""


@pytest.mark.parametrize("name", [EVIL, NAME, "a\x00b\ud800", "]]>", "x" * 2000])
def test_any_name_gives_a_well_formed_picture_within_its_bounds(tmp_path: Path, name: str) -> None:
    recording = two_steps()
    recording.op(name, 400.25, 900.25)
    recording.launch(name, 500.25, 600.25, 900.25)
    picture = timeline(recording.analyse(tmp_path)).svg
    root = ElementTree.fromstring(picture)
    assert "<script" not in picture and len(picture) < 20_000
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg",
        "title",
        "text",
        "rect",
        "line",
        "path",
        "g",
    }
    rects = [element for element in root.iter() if element.tag.endswith("}rect")]
    assert max(float(r.attrib["x"]) + float(r.attrib["width"]) for r in rects) <= RIGHT + 0.2


@corpus.needed
@pytest.mark.parametrize(
    "name", ["real/mi300x_xdit_flux.json.gz", "real/v100_ns_resolution.json.gz", "real/b200_eager.json.gz"]
)
def test_the_picture_of_a_long_trace_is_small_and_quickly_made(name: str) -> None:
    analysis: Analysis = corpus.analysed(name)
    began = time.perf_counter()
    picture = timeline(analysis).svg
    assert time.perf_counter() - began < 0.3
    assert len(picture.encode()) < 300_000
    ElementTree.fromstring(picture)


def test_causes_of_idle_time_are_not_drawn_where_the_clocks_disagree(tmp_path: Path) -> None:
    recording = two_steps()
    assert "idle, by cause" in timeline(recording.analyse(tmp_path)).svg
    recording.launch("early", 300.25, 200.25, 205.25)
    shown = timeline(recording.analyse(tmp_path)).svg
    assert "idle, by cause" not in shown and "Idle time of" not in shown
