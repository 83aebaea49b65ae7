"""Every kind of damage to an event's text, wherever the event stands and however the file is laid out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.trace.kineto import FORMATS, WHOLE, Recording, analysed, noted, numbers, two_steps

PLACE = "@here@"
"""Stands in the text where damage goes."""

VALUES = {
    "inf": "non_finite",
    "-inf": "non_finite",
    "Infinity": "non_finite",
    "-Infinity": "non_finite",
    "NaN": "non_finite",
    "nan": "non_finite",
    "-nan": "non_finite",
    "nan(ind)": "non_finite",
    "-nan(0x8000000000000)": "non_finite",
    "1.#INF": "non_finite",
    "-1.#IND": "non_finite",
    "None": "python_words",
    "True": "python_words",
    "False": "python_words",
    "undefined": "python_words",
    "": "missing_value",
    "[1, 2,]": "trailing_comma",
    "[1, inf]": "non_finite",
    '{"a": nan}': "non_finite",
}
"""What stands where a value should, and the kind of damage that it is."""

NAMES = {
    b'{"device": "cpu", "dtype": "float32"}(12): run': "unescaped_quote",
    b'a "quoted" word': "unescaped_quote",
    b'"': "unescaped_quote",
    b"torch\\cuda\\__init__.py(219): _lazy_init": "bad_escape",
    b"C:\\new\\bin\\user.py(3): f": "bad_escape",
    b"C:\\users\\x.py": "bad_escape",
    b"aten::\x01mat\nmul": "control_character",
    b"two\r\nlines": "control_character",
    b"\x00": "control_character",
    b"\xc7\x80\xef\xbf(0): \x838c\xff": "non_utf8",
    b"\xed\xa0\x80 half a pair": "non_utf8",
}
"""What stands in a name, and the kind of damage that it is."""


def marked(recording: Recording, where: int, name: str = "marked", **args: Any) -> Recording:
    """The recording with one more operation, which lies within the others' time, at a place in the file."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": 130.0, "dur": 7.0}
    recording.events.insert(where, event | {"args": args} if args else event)
    return recording


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("where", [0, 5, 11], ids=["first", "middle", "last"])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_is_not_json_is_missing_and_said(value: str, where: int, layout: str, tmp_path: Path) -> None:
    text = FORMATS[layout](marked(two_steps(), where, unit=PLACE, more=1).document())
    found = analysed(tmp_path, text.replace(f'"{PLACE}"', value))
    assert found.trace.status == "degraded"
    assert noted(found) == {VALUES[value]: 1}
    assert numbers(found) == WHOLE
    marked_op = found.operator("marked")
    assert marked_op and (marked_op.count, marked_op.total_us) == (1, 7.0)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("where", [0, 5, 11], ids=["first", "middle", "last"])
@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_is_not_json_keeps_its_event(name: bytes, where: int, layout: str, tmp_path: Path) -> None:
    text = FORMATS[layout](marked(two_steps(), where, PLACE).document())
    found = analysed(tmp_path, text.encode().replace(PLACE.encode(), name))
    assert noted(found) == {NAMES[name]: 1}
    assert numbers(found) == WHOLE
    assert found.trace.slices.start.size == 12
    assert sum(stats.count for stats in found.operators if stats.total_us == 7.0) == 1


def test_a_quoted_name_stands_as_it_was_written(tmp_path: Path) -> None:
    text = json.dumps(marked(two_steps(), 5, PLACE).document())
    for name in ('{"device": "cpu"}(12): run', "C:\\new\\user"):
        assert analysed(tmp_path, text.replace(PLACE, name)).operator(name), name


def test_several_kinds_at_once_are_each_counted(tmp_path: Path) -> None:
    recording = two_steps()
    for number in range(8):
        marked(recording, number, f"{PLACE}{number}", value=f"{PLACE}value{number}")
    text = json.dumps(recording.document()).encode()
    for number, value in enumerate((b"inf", b"NaN", b"None", b"")):
        text = text.replace(f'"{PLACE}value{number}"'.encode(), value)
    for number, name in ((4, b'a "b"'), (5, b"a\x02"), (6, b"\xff"), (7, b"c:\\d")):
        text = text.replace(f"{PLACE}{number}".encode(), name)
    found = analysed(tmp_path, text)
    assert noted(found) == {
        "non_finite": 2,
        "python_words": 1,
        "missing_value": 1,
        "unescaped_quote": 1,
        "control_character": 1,
        "non_utf8": 1,
        "bad_escape": 1,
    }
    assert numbers(found) == WHOLE and found.trace.slices.start.size == 19


def test_two_kinds_in_one_event_are_both_said(tmp_path: Path) -> None:
    text = json.dumps(marked(two_steps(), 5, PLACE, value="@value@").document())
    found = analysed(tmp_path, text.replace(PLACE, "a\x01b").replace('"@value@"', "inf"))
    assert noted(found) == {"non_finite": 1, "control_character": 1}
    assert numbers(found) == WHOLE


@pytest.mark.parametrize(
    ("member", "value", "kind"),
    [
        ("ts", "inf", "no_time"),
        ("ts", "null", "no_time"),
        ("ts", '"soon"', "no_time"),
        ("ts", "[130]", "no_time"),
        ("ts", "1e400", "no_time"),
        ("ts", "9" * 50, "no_time"),
        ("dur", "NaN", "unfinished"),
        ("dur", "null", "unfinished"),
        ("dur", "-7", "unfinished"),
        ("dur", "{}", "unfinished"),
    ],
)
def test_a_host_slice_without_a_usable_time_is_counted_not_summed(
    member: str, value: str, kind: str, tmp_path: Path
) -> None:
    recording = marked(two_steps(), 5)
    recording.events[5][member] = PLACE
    found = analysed(tmp_path, json.dumps(recording.document()).replace(f'"{PLACE}"', value))
    assert noted(found)[kind] == 1
    assert found.operator("marked") is None
    assert numbers(found) == WHOLE


@pytest.mark.parametrize("value", ['"130"', '"130.0"', "130", "1.3e2", "130.0000000000000000001"])
def test_times_written_in_other_ways_are_the_same_times(value: str, tmp_path: Path) -> None:
    recording = marked(two_steps(), 5)
    recording.events[5]["ts"] = PLACE
    found = analysed(tmp_path, json.dumps(recording.document()).replace(f'"{PLACE}"', value))
    slices = found.trace.slices
    assert [
        int(start) for start, name in zip(slices.start, slices.name, strict=True) if slices.names[name] == "marked"
    ] == [130_000]
    assert numbers(found) == WHOLE


@pytest.mark.parametrize(
    "args", ["null", "[]", "3", '"words"', "[[1, [2, {}]], null]", '{"a": [[{"b": [{}]}]]}', "true"]
)
def test_args_of_any_type_lose_nothing_else(args: str, tmp_path: Path) -> None:
    recording = marked(two_steps(), 5, value=1)
    recording.events[5]["args"] = PLACE
    found = analysed(tmp_path, json.dumps(recording.document()).replace(f'"{PLACE}"', args))
    assert set(noted(found)) <= {"odd_types"}
    assert numbers(found) == WHOLE and found.operator("marked")


@pytest.mark.parametrize("member", ["name", "cat", "pid", "tid", "ph", "args"])
@pytest.mark.parametrize(
    "value", [None, 3, 2.5, True, ["x"], {"x": 1}, "\ud800", "x" * 100_000], ids=lambda value: repr(value)[:12]
)
def test_members_of_odd_types_touch_only_their_event(member: str, value: Any, tmp_path: Path) -> None:
    recording = marked(two_steps(), 5)
    recording.events[5][member] = value
    assert numbers(recording.analyse(tmp_path)) == WHOLE
    del recording.events[5][member]
    assert numbers(recording.analyse(tmp_path)) == WHOLE


@pytest.mark.parametrize("event", [None, 3, "words", [], [[{}]], {}, True, {"ph": "X"}, {"traceEvents": []}], ids=repr)
@pytest.mark.parametrize("where", [0, 5, 11], ids=["first", "middle", "last"])
def test_what_is_no_event_loses_no_other(event: Any, where: int, tmp_path: Path) -> None:
    recording = two_steps()
    recording.events.insert(where, event)
    assert numbers(recording.analyse(tmp_path)) == WHOLE


def test_an_event_beyond_mending_is_named_by_line_and_column(tmp_path: Path) -> None:
    text = json.dumps(marked(two_steps(), 5, PLACE).document(), indent=1)
    broken = text.replace(f'"name": "{PLACE}"', '"name" "x" ::')
    found = analysed(tmp_path, broken)
    assert noted(found) == {"unreadable_event": 1}
    assert numbers(found) == WHOLE and found.operator("marked") is None
    brace = broken.rindex("{", 0, broken.index('" ::'))
    line, column = broken.count("\n", 0, brace) + 1, brace - broken.rindex("\n", 0, brace)
    assert f"line {line}, column {column}:" in found.trace.notes[0].effect


def test_nesting_ten_thousand_levels_deep_is_one_unreadable_event(tmp_path: Path) -> None:
    text = json.dumps(marked(two_steps(), 5, value=PLACE).document())
    found = analysed(tmp_path, text.replace(f'"{PLACE}"', "[" * 10_000 + "]" * 10_000))
    assert numbers(found) == WHOLE
    assert set(noted(found)) <= {"unreadable_event", "odd_types"}


def test_an_unreadable_kernel_withholds_what_is_said_of_idle_time(tmp_path: Path) -> None:
    text = json.dumps(two_steps().document())
    found = analysed(tmp_path, text.replace('"name": "sm80_gemm_bf16"', '"name" "x"', 1))
    assert noted(found) == {"unreadable_event": 1} and found.trace.withheld == {"idle"}
    found = analysed(tmp_path, text.replace('"name": "aten::linear"', '"name" "x"', 1))
    assert noted(found) == {"unreadable_event": 1} and found.trace.withheld == set()
