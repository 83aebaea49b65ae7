"""Numbers and rules' sentences as a trace's pages show them."""

from __future__ import annotations

import re

from reports.render import numbers
from reports.render.plain_text import plain

LINE = 600
"""Characters of a rule's sentence that are shown: it may quote a name of thousands."""

MICROSECONDS = re.compile(r"(?<=\d) us\b")


def share(fraction: float) -> str:
    """A share with three digits, of less than a thousandth with two: "99.1 %", "0.876 %", "0.058 %"; what is not all is not called it."""
    if 0.9995 <= fraction < 1 - 1e-11:
        return "more than 99.9\u00a0%"
    return numbers.percent(fraction, 3 if fraction >= 0.001 else 2)


def us(microseconds: float | None) -> str:
    """A time that is given in us."""
    if microseconds == 0:
        return "0"
    return numbers.time(None if microseconds is None else microseconds * 1000)


def times(factor: float) -> str:
    """A factor: "114×", and near 1 with enough digits to be told from it."""
    digits = 4 if factor < 1.1 else 3
    return f"{numbers.significant(factor, digits)}{numbers.TIMES}"


CLAUSE = re.compile(r"[.;:,](?= )")


def cut(text: str, most: int) -> str:
    """Text of a rule, of at most `most` characters: cut where a clause ends outside of a name's brackets, or else at a word."""
    text = plain(text)
    if len(text) <= most:
        return text
    ends = [found.start() for found in CLAUSE.finditer(text, most // 3, most - 2)]
    whole = [end for end in ends if all(text[:end].count(a) <= text[:end].count(b) for a, b in ("<>", "()", "[]"))]
    end = whole[-1] if whole else text.rfind(" ", most // 3, most - 2)
    return f"{text[:end]} …" if end > 0 else plain(text, most)


def quoted(text: str) -> str:
    """What a rule says, as it is shown: cut to a bearable length, its units as everywhere on the page."""
    return MICROSECONDS.sub("\u00a0µs", cut(text, LINE))


def sentence(text: str) -> str:
    """A claim or an advice as a sentence: it begins with a capital and ends with a full stop."""
    text = quoted(text).strip()
    if not text:
        return ""
    # The name of an operator or a kernel stays as it is, also before the colon that says something of it.
    first = text.split()[0]
    named = first == "void" or first.endswith(":") or not first.rstrip(",.;?!").isalpha()
    return f"{text[0] if named else text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?', ':')) else '.'}"
