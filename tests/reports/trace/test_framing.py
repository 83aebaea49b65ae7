"""Events are found whatever the file's layout, wherever a piece of it ends, and whatever stands around the list."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reports.trace import framing, source
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import (
    FORMATS,
    PID,
    WHOLE,
    Recording,
    analysed,
    noted,
    numbers,
    packed,
    save,
    two_steps,
)

PIECES = (64, 100, 333, 1000, 5000)
"""Piece sizes in bytes: below one event, a few events, the whole file."""


@pytest.fixture(params=PIECES, ids="pieces of {} bytes".format)
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Reads in pieces so small that every event crosses some boundary."""
    monkeypatch.setattr(framing, "PIECE_BYTES", request.param)
    monkeypatch.setattr(source, "PIECE_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_pieces_may_end_anywhere(layout: str, tmp_path: Path) -> None:
    document = two_steps().document(zz={"after": [{"ph": "X"}]})
    found = analysed(tmp_path, FORMATS[layout](document))
    assert found.trace.status == "ok"
    assert numbers(found) == WHOLE
    assert found.devices[0].model == "NVIDIA L4"


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_damage_in_pieces_is_mended_as_in_the_whole(layout: str, tmp_path: Path) -> None:
    recording = two_steps()
    recording.op('} , {"ph": "X"', 130.5, 131.5, tid=9)
    recording.events[3]["args"]["value"] = "@inf@"
    recording.events[8]["name"] = "@name@"
    text = FORMATS[layout](recording.document()).replace('"@inf@"', "inf").replace("@name@", 'a "b" c\\d')
    found = analysed(tmp_path, text)
    assert noted(found) == {"non_finite": 1, "bad_escape": 1, "unescaped_quote": 1}
    assert numbers(found) == WHOLE


@pytest.mark.parametrize("layout", FORMATS)
def test_a_trace_larger_than_a_piece_loses_no_event(layout: str, tmp_path: Path) -> None:
    recording = two_steps()
    for number in range(4_000):
        recording.op(f"aten::op_{number % 7}" + 2_000 * "é", 130.5 + number, 131.25 + number, tid=number % 3)
    text = FORMATS[layout](recording.document())
    assert len(text) > 2 * source.PIECE_BYTES
    found = analysed(tmp_path, packed(text), "large.json.gz")
    assert found.trace.status == "ok"
    assert found.trace.slices.start.size == 4_011
    assert found.host.operations == 4_004


def test_an_event_larger_than_a_piece_is_read(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events[4]["args"]["Call stack"] = '}, {"ph": "X", ' * (source.PIECE_BYTES // 12)
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


def test_members_after_the_list_may_be_larger_than_a_piece(tmp_path: Path) -> None:
    document = two_steps().document()
    gpus = document.pop("deviceProperties")
    # Members that look like events stand in a member of their own, behind the list, and are none.
    document["more"] = [{"ph": "X", "cat": "kernel", "ts": 1.5, "dur": 1e6}] * (source.PIECE_BYTES // 40)
    document["deviceProperties"] = gpus
    for layout in ("compact", "indent 1"):
        found = analysed(tmp_path, FORMATS[layout](document))
        assert found.trace.status == "ok"
        assert numbers(found) == WHOLE
        assert found.devices[0].model == "NVIDIA L4", "what follows the list is read too"


def test_members_after_the_list_are_no_events_where_an_event_is_damaged(tmp_path: Path) -> None:
    document = two_steps().document(zz=[{"ph": "X", "cat": "kernel", "ts": 1.5, "dur": 1e6}] * 3)
    document["events_like"] = document.pop("zz")
    document["traceEvents"][-1]["args"]["value"] = "@inf@"
    found = analysed(tmp_path, json.dumps(document).replace('"@inf@"', "inf"))
    assert noted(found) == {"non_finite": 1} and numbers(found) == WHOLE


@pytest.mark.parametrize(
    "name",
    [
        '}, {"ph": "X"',
        '}, {"name": "',
        '}], "traceEvents": [',
        '"traceEvents": [',
        "}]",
        "[{",
        "}}}}",
        "{{{{",
        '"}',
        "\\",
        "\\\\",
        '\\"',
    ],
)
@pytest.mark.parametrize("where", [0, 5, 11], ids=["first", "middle", "last"])
def test_a_name_that_looks_like_json_is_a_name(name: str, where: int, tmp_path: Path) -> None:
    recording = two_steps()
    recording.op(name, 130.5, 131.5, tid=9)
    recording.events.insert(where, recording.events.pop())
    for layout in FORMATS.values():
        found = analysed(tmp_path, layout(recording.document()))
        assert found.trace.status == "ok" and numbers(found) == WHOLE
        assert found.operator(name)


def test_the_key_of_the_list_inside_an_earlier_string_is_no_list(tmp_path: Path) -> None:
    found = two_steps().analyse(tmp_path, note='"traceEvents": [', traceName="a")
    assert found.trace.status == "ok" and numbers(found) == WHOLE


@pytest.mark.parametrize("layout", FORMATS)
def test_a_list_of_events_is_a_trace_too(layout: str, tmp_path: Path) -> None:
    found = analysed(tmp_path, FORMATS[layout](two_steps().events))  # type: ignore[arg-type]
    assert numbers(found) == WHOLE
    assert noted(found) == {"device_unknown": 1}, "a list has no room for the devices' properties"


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n", "  "])
def test_a_list_may_lack_its_closing_bracket(end: str, tmp_path: Path) -> None:
    # The trace-event format allows it: a writer that is killed has written a whole trace so far.
    text = json.dumps(two_steps().events, indent=1).rstrip().removesuffix("]").rstrip() + end
    found = analysed(tmp_path, text)
    assert numbers(found) == WHOLE
    assert set(noted(found)) <= {"device_unknown", "truncated"}


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("commas", [",", ",,", " ,\n"])
def test_a_comma_before_the_closing_bracket_loses_nothing(layout: str, commas: str, tmp_path: Path) -> None:
    text = FORMATS[layout](two_steps().document())
    found = analysed(tmp_path, re.sub(r"\}(\s*)\](\s*)\}$", rf"}}\1{commas}]\2}}", text))
    assert numbers(found) == WHOLE and noted(found) == {"trailing_comma": 1}


@pytest.mark.parametrize("layout", FORMATS)
def test_wherever_a_file_is_cut_the_whole_events_before_are_read(layout: str, tmp_path: Path) -> None:
    text = FORMATS[layout](two_steps().document())
    begin = text.index("[", text.index('"traceEvents"')) + 1
    sizes = []
    for cut in range(begin, len(text.rstrip()) - 2, 37):
        found = analysed(tmp_path, text[:cut])
        assert noted(found).get("truncated") == 1
        assert "window" in found.trace.withheld
        sizes.append(found.trace.slices.start.size)
    assert sizes == sorted(sizes) and sizes[0] == 0 and sizes[-1] >= 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (" \n\t ", "holds nothing but blanks"),
        ("hello", "is not JSON"),
        ("null", "is not JSON"),
        ('"traceEvents"', "is not JSON"),
        ("{}", "has no list traceEvents"),
        ('{"traceEvents": null}', "has no list traceEvents"),
        ('{"traceEvents": {}}', "has no list traceEvents"),
        ('{"\\n": 1, "\\u001b[2J": 2}', r"members: '\\n', '\\x1b\[2J'"),
        ('{"nodes": [], "schema": 1}', "execution trace"),
        ('{"traceEv', "not whole JSON"),
        ("{" * 100_000, "not whole JSON"),
        ("-----  -----\nName  # of Calls\n-----  -----\n", "is a profiler table"),
    ],
    ids=lambda value: value[:16],
)
def test_what_is_no_trace_is_refused_in_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = save(tmp_path, text)
    with pytest.raises(TraceError, match=words) as refused:
        analysed(tmp_path, text)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": []}',
        "[]",
        '{"traceEvents":[ ] , "x": 1}',
        '{"traceEvents": [{"ph": "M", "name": "process_name"}]}',
    ],
)
def test_a_trace_without_a_slice_says_that_nothing_was_recorded(text: str, tmp_path: Path) -> None:
    found = analysed(tmp_path, text)
    assert noted(found) == {"nothing_recorded": 1} and found.devices == ()


def test_pairs_of_begin_and_end_are_slices(tmp_path: Path) -> None:
    recording = two_steps()
    pairs = []
    for event in recording.events:
        begin = {**event, "ph": "B"}
        length = begin.pop("dur")
        pairs += [begin, {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + length}]
    # Ends come in the order of time: inner ones first.
    recording.events = sorted(pairs, key=lambda event: (event["ts"], event["ph"] != "E"))
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


def test_a_beginning_without_end_is_unfinished_and_an_end_without_beginning_is_said(tmp_path: Path) -> None:
    recording = two_steps()
    recording.events += [
        {"ph": "B", "cat": "cpu_op", "name": "aten::endless", "pid": PID, "tid": 9, "ts": 300.5},
        {"ph": "E", "pid": PID, "tid": 10, "ts": 300.5},
    ]
    found = recording.analyse(tmp_path)
    assert noted(found) == {"unfinished": 1, "unpaired": 1} and numbers(found) == WHOLE


def test_other_phases_are_no_slices(tmp_path: Path) -> None:
    recording = Recording()
    for phase in ("M", "i", "I", "C", "s", "t", "f", "b", "e", "n", "N", "O", "D", "P", "", "?"):
        recording.events.append(
            {"ph": phase, "cat": "kernel", "name": phase, "pid": 0, "tid": 7, "ts": 5.5, "dur": 1e6}
        )
    recording.events += two_steps().events
    found = recording.analyse(tmp_path)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


def test_an_endless_event_is_refused_before_it_fills_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LONGEST_EVENT", 2000)
    monkeypatch.setattr(framing, "PIECE_BYTES", 500)
    monkeypatch.setattr(source, "PIECE_BYTES", 500)
    with pytest.raises(TraceError, match="no event ends within"):
        analysed(tmp_path, '{"traceEvents": [{"name": "' + "x" * 5000)
