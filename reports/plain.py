"""Texts that a stranger's bundle may hold, made fit for one line of a page, a picture, a table or a terminal."""

from __future__ import annotations

MOST_CHARACTERS = 300


def plain(text: object, most: int = MOST_CHARACTERS) -> str:
    """`text` on one line, at most `most` characters, with everything that does not print written as an escape.

    Control characters could move a terminal's cursor or break an SVG's XML, and marks of writing direction could show a text that is not
    there: "\\x1b[2J" becomes the characters that stand in this line.
    """
    raw = str(text)
    shown = " ".join(raw[: 2 * most].split())
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if len(shown) <= most and len(raw) <= 2 * most else f"{shown[: most - 1]}…"
