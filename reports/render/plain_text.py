"""Text of a trace as it may be shown: names come from anywhere, and may hold what no document can."""

from __future__ import annotations

import unicodedata

_KEPT = {"Cc": " ", "Cs": "�", "Co": "�", "Cn": "�", "Cf": ""}


def plain(text: str, most: int | None = None) -> str:
    """`text` on one line without control characters, halves of characters, or signs that turn its direction; at most `most` characters.

    What is too long is cut in the middle: a template's end tells as much as its beginning.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(_KEPT.get(unicodedata.category(sign), sign) for sign in text)
    if most is None or len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"
