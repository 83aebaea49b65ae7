"""Texts that a stranger's bundle may hold, made fit for one line of a page, a picture, a table or a terminal."""

from __future__ import annotations

from reports.render.plain_text import plain

MOST_CHARACTERS = 300


def one_line(text: object, most: int = MOST_CHARACTERS) -> str:
    """Any value as text on one line, of at most `most` characters, without what could steer a terminal or break an SVG's XML."""
    return plain(" ".join(plain(str(text)).split()), most)
