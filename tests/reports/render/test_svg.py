"""SVG by hand: text stays text, and a picture is well formed."""

from xml.etree import ElementTree

import pytest

from reports.render import svg
from reports.render.plain_text import plain
from tests.reports.render.findings_made import EVIL


def test_text_and_titles_stay_text() -> None:
    picture = svg.document(10, 10, EVIL, [svg.rect(0, 0, 1, 1, EVIL), svg.text(0, 0, EVIL)])
    root = ElementTree.fromstring(picture)
    assert [element.text for element in root.iter() if element.text] == [EVIL] * 3
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "title", "rect", "text"}


def test_an_attribute_cannot_be_left() -> None:
    picture = svg.document(1, 1, "", [svg.group(["<g/>"], fill='red" onload="x')])
    assert ElementTree.fromstring(picture)[1].attrib == {"fill": 'red" onload="x'}


def test_a_group_of_nothing_is_nothing() -> None:
    assert svg.group([], fill="red") == ""


@pytest.mark.parametrize(
    ("text", "width", "shown"), [("abc", 100, "abc"), ("abcdefghij", 43, "abcdef…"), ("abcdefghij", 12, "")]
)
def test_a_label_is_as_long_as_its_place(text: str, width: float, shown: str) -> None:
    assert svg.fitting(text, width, 10) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\x00d", "a b c d"),
        ("half \ud800 of a sign", "half � of a sign"),
        ("turned \u202egnuf\u2066", "turned gnuf"),
        ("größer 核 ✓", "größer 核 ✓"),
    ],
)
def test_what_no_document_can_hold_is_replaced(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(text).encode()


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    shown = plain("begin" + "x" * 2000 + "end", 30)
    assert len(shown) == 30 and shown.startswith("begin") and shown.endswith("end") and "…" in shown
    assert plain("short", 30) == "short"
