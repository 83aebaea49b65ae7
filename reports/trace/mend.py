"""Mends the text of one event that is not JSON, in the ways in which profilers are known to write it; says what was wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from reports.trace.event import DECODING, ExactEvent, exact_one, lenient

NON_FINITE = re.compile(
    r"(?<=[:\[,\s])[+-]?(?:inf(?:inity)?|nan(?:\([^)]*\))?|1\.#(?:INF|IND|QNAN|NAN))(?=\s*[,\]}])", re.IGNORECASE
)
PYTHON_WORDS = re.compile(r"(?<=[:\[,\s])(None|True|False|undefined)(?=\s*[,\]}])")
NO_VALUE = re.compile(r":(\s*)(?=[,}])")
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
CONTROL = re.compile(r"[\x00-\x1f]")
ESCAPE = re.compile(r"\\(?![\"\\/bfnrtu])|\\u(?![0-9a-fA-F]{4})")
BACKSLASH = re.compile(r"\\(?!\")")
MEMBER = (
    r"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s|External id|Ev Idx|Record function id|correlation|cbid|stream|device)"
)
NAME = re.compile(rf'("name"\s*:\s*")(.*?)("\s*(?:,\s*"{MEMBER}"\s*:|\}}\s*$))', re.DOTALL)
Repairs = tuple[tuple[str, Callable[[str], str]], ...]
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(frozen=True)
class Mended:
    """An event that could be read after all, and the kinds of damage that were mended."""

    event: ExactEvent
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Unreadable:
    """Why an event's text could not be read, in the decoder's words."""

    reason: str


def mend(text: bytes) -> Mended | Unreadable | None:
    """The event in `text`; None when it is valid JSON but no object."""
    found = _mend(text, REPAIRS)
    if not isinstance(found, Unreadable):
        return found
    # A stray quotation mark turns strings inside out, and what was mended before it was looked for in the wrong places.
    again = _mend(text, REPAIRS[:1] + REPAIRS[-1:] + REPAIRS[1:-1])
    return found if isinstance(again, Unreadable) else again


def _mend(text: bytes, repairs: Repairs) -> Mended | Unreadable | None:
    kinds: list[str] = []
    try:
        words = text.decode("utf-8")
    except UnicodeDecodeError:
        words = text.decode("utf-8", "replace")
        kinds.append("non_utf8")
    reason = ""
    for kind, repair in repairs:
        repaired = repair(words)
        if repaired == words and kind:
            continue
        words = repaired
        if kind:
            kinds.append(kind)
        try:
            return Mended(exact_one.decode(words), tuple(kinds))
        except DECODING as error:
            reason = reason or str(error)
        try:
            event = lenient(words)
        except ValueError:
            continue
        if event is None:
            return None
        return Mended(event, (*kinds, "odd_types")) if not kinds else Mended(event, tuple(kinds))
    return Unreadable(reason)


def _outside_strings(pattern: re.Pattern[str], replacement: str) -> Callable[[str], str]:
    def repair(words: str) -> str:
        parts: list[str] = []
        end = 0
        for string in STRING.finditer(words):
            parts += (pattern.sub(replacement, words[end : string.start()] + " "), string.group())
            end = string.end()
        parts.append(pattern.sub(replacement, words[end:]))
        changed = "".join(parts)
        # The blank before each string gives the patterns something to look back at; without a change it must not count as one.
        return changed if changed.replace(" ", "") != words.replace(" ", "") else words

    return repair


def _control(words: str) -> str:
    return STRING.sub(lambda string: CONTROL.sub(lambda c: f"\\u{ord(c.group()):04x}", string.group()), words)


def _backslashes(words: str) -> str:
    # One escape that does not exist means that the writer escaped nothing: then `\b` of `C:\bin` is no backspace either.
    return BACKSLASH.sub(r"\\\\", words) if ESCAPE.search(words) else words


def _quotes(words: str) -> str:
    def escape(match: re.Match[str]) -> str:
        inner = re.sub(r'(?<!\\)"', r"\"", match[2])
        return match[1] + inner + match[3]

    return NAME.sub(escape, words)


REPAIRS: Repairs = (
    ("", lambda words: words),
    ("non_finite", _outside_strings(NON_FINITE, "null")),
    ("python_words", _outside_strings(PYTHON_WORDS, "null")),
    ("control_character", _control),
    ("bad_escape", _backslashes),
    ("missing_value", _outside_strings(NO_VALUE, r":null\1")),
    ("trailing_comma", _outside_strings(TRAILING_COMMA, r"\1")),
    ("unescaped_quote", _quotes),
)
"""What is tried, in this order, each on top of what the ones before it changed."""

EFFECTS = {
    "non_utf8": "bytes that are not UTF-8 stand as replacement characters in names; no number changes",
    "non_finite": "values that are not numbers (inf, NaN) count as missing; they reach no mean and no output",
    "python_words": "words that are not JSON (None, True) count as missing values",
    "control_character": "control characters in names are kept as escapes; no number changes",
    "bad_escape": "backslashes that the writer left unescaped are taken as they stand; no number changes",
    "missing_value": "members without a value count as missing",
    "trailing_comma": "commas before a closing bracket are left out; no number changes",
    "unescaped_quote": "names with unescaped quotation marks are taken as they stand; no number changes",
    "odd_types": "members of an unexpected type count as missing",
}
"""What each kind of mended damage does to the findings."""
