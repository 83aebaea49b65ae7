"""Finds the events in a trace's text, piece by piece, so that a trace of any length is read in little memory.

A piece is cut where an event ends and decoded as one list; only where that fails is it taken apart event by event, and what
is damaged is mended or counted. Trust is put in the text's shape (`}, {"ph"`), not in its brackets, which damage upsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from reports.trace.event import DECODING, AnyEvent, elements_of, exact, exact_one, fast
from reports.trace.mend import EFFECTS, Mended, Unreadable, mend
from reports.trace.notes import Notes, TraceError
from reports.trace.source import PIECE_BYTES

START = re.compile(rb'"traceEvents"\s*:\s*\[')
KEYS = rb"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s)"
BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"' + KEYS + rb'"\s*:)')
END = re.compile(rb"\}[\s,]*\]")
SPACE = b" \t\r\n"
GPU_WORK_TEXT = re.compile(rb'"(?:concurrent_)?kernel"|"(?:gpu_)?mem(?:cpy|set)"', re.IGNORECASE)
WHITE = frozenset(" \t\r\n,")
LONGEST_HEAD = 256 << 20
LONGEST_EVENT = 64 << 20
JOINED = 64
"""Pieces of one event that are joined again when its own text holds what looks like a boundary."""

FIRST = 100
DECIMALS = re.compile(rb'"ts"\s*:\s*"?-?\d+\.\d')
EXACT_ABOVE = 2.0**43
"""Microseconds above which a double cannot hold a nanosecond."""

HINTS = {
    "nodes": "an execution trace of PyTorch (ExecutionTraceObserver), without times of a GPU",
    "schema_version": "one of a benchmark's own documents",
    "cells": "a notebook",
    "events": "a trace of another tool",
}


scan = json.JSONDecoder()


class Frames:
    """The events of a trace in pieces. After the last one, `metadata` holds the document's other members."""

    def __init__(self, path: Path, texts: Iterator[bytes], notes: Notes) -> None:
        self.path = path
        self.texts = texts
        self.notes = notes
        self.metadata: dict[str, Any] = {}
        self.exact = False
        self._absolute = False
        self.events = 0
        self._lines = 1
        self._first_unreadable = ""
        self._list_root = False

    def __iter__(self) -> Iterator[list[AnyEvent]]:
        """Lists of events, in the file's order.

        Raises:
            TraceError: when the file holds no events' list.
        """
        head, following = self._head()
        # A list's text, decoded where it lies: each copy of a piece costs as much as a tenth of its decoding.
        buffer = bytearray(b"[" + following)
        ended = False
        for text in self.texts:
            buffer += text
            if len(buffer) <= PIECE_BYTES:
                continue
            cut = self._last_boundary(buffer)
            if cut is None:
                if len(buffer) > LONGEST_EVENT:
                    raise TraceError(
                        f"{self.path}: no event ends within {LONGEST_EVENT >> 20} MiB after line {self._lines};"
                        " this is no trace of torch.profiler."
                    )
                continue
            following = bytes(buffer[cut + 1 :]).lstrip(SPACE + b",")
            newlines = buffer.count(b"\n", 0, len(buffer) - len(following))
            events, rest = self._decode(buffer, cut + 1)
            self._lines += newlines
            if events:
                yield events
            # A new one: events may still refer to the old one's text.
            buffer = bytearray(b"[" + following)
            if rest is not None:
                following, ended = rest + b"," + following, True
                break
        if ended:
            tail = following + b"".join(self.texts)
        else:
            events, tail = self._last(bytes(buffer[1:]))
            if events:
                yield events
        self._metadata(head, tail)

    def _head(self) -> tuple[bytes, bytes]:
        head = b""
        for text in self.texts:
            head += text
            stripped = head.lstrip(SPACE)
            if stripped.startswith(b"["):
                self._list_root = True
                return b"", stripped[1:]
            if stripped and not stripped.startswith(b"{"):
                break
            if match := START.search(head):
                self._lines += head.count(b"\n", 0, match.end())
                return head[: match.start()], head[match.end() :]
            if len(head) > LONGEST_HEAD:
                break
        self._refuse_head(head)
        raise AssertionError

    def _refuse_head(self, head: bytes) -> None:
        stripped = head.strip(SPACE)
        if not stripped:
            raise TraceError(
                f"{self.path}: holds nothing but blanks: the profiler never stopped; record the trace again."
            )
        if stripped.startswith(b"-----") and b"# of Calls" in stripped[:4000]:
            raise TraceError(
                f"{self.path}: is a profiler table, not a trace; give the .json beside it, and this file as TABLE."
            )
        if not stripped.startswith(b"{"):
            raise TraceError(
                f"{self.path}: is not JSON (it begins with {_shown(stripped)}); give the trace that export_chrome_trace wrote."
            )
        try:
            found = msgspec.json.decode(stripped)
        except DECODING as error:
            raise TraceError(
                f"{self.path}: holds no list traceEvents, and is not whole JSON ({error});"
                " it was cut short or is no trace; record it again."
            ) from None
        hint = next((f": it looks like {text}" for key, text in HINTS.items() if key in found), "")
        keys = ", ".join(key[:40] if key.isprintable() else ascii(key[:40]) for key in sorted(found)[:6]) or "none"
        raise TraceError(
            f"{self.path}: has no list traceEvents{hint} (members: {keys}); give the trace that export_chrome_trace wrote."
        )

    @staticmethod
    def _last_boundary(buffer: bytearray) -> int | None:
        """Position of the closing brace of the last event that ends in the buffer, with another event after it."""
        reach = 1 << 16
        while True:
            start = max(0, len(buffer) - reach)
            match = None
            for match in BETWEEN.finditer(buffer, start):  # noqa: B007 - the last one is wanted
                pass
            if match:
                return match.start()
            if start == 0:
                return None
            reach *= 8

    def _decode(self, buffer: bytearray, end: int) -> tuple[list[AnyEvent], bytes | None]:
        """The events of a buffer that holds `[` and whole events up to `end`; the rest after the list's end, where it lies before that."""
        between, buffer[end] = buffer[end], ord("]")
        try:
            return self._typed(memoryview(buffer)[: end + 1]), None
        except DECODING:
            buffer[end] = between
        text = bytes(buffer[1:end])
        # The end of the list may lie within: other members of the document can follow it for megabytes.
        for match in islice(END.finditer(text), JOINED):
            try:
                return self._typed(b"[" + text[: match.start() + 1] + b"]"), text[match.end() :]
            except DECODING:
                continue
        return self._one_by_one(text)

    def _typed(self, text: bytes | memoryview) -> list[AnyEvent]:
        events: list[Any]
        if not self.exact:
            events = fast.decode(text)
            self._absolute = self._absolute or any(event.ts > EXACT_ABOVE for event in events[:FIRST])
            # Old writers give absolute times; with decimals they need more digits than a double has. A double does not show them: .1 is .0.
            self.exact = self._absolute and DECIMALS.search(text) is not None
        if self.exact:
            events = exact.decode(text)
        self.events += len(events)
        return events

    def _last(self, buffer: bytes) -> tuple[list[AnyEvent], bytes]:
        """The events up to the list's end, and the text after it."""
        text = buffer.lstrip(SPACE)
        self._lines += buffer.count(b"\n", 0, len(buffer) - len(text))
        text = text.rstrip(SPACE)
        if text.startswith(b"]"):
            return [], text[1:]
        for match in islice(END.finditer(text), JOINED):
            try:
                events = self._typed(b"[" + text[: match.start() + 1] + b"]")
            except DECODING:
                continue
            if b"," in match.group():
                self.notes.add("trailing_comma", EFFECTS["trailing_comma"])
            return events, text[match.end() :]
        events, rest = self._one_by_one(text)
        if rest is None:
            self._truncated("the list of events does not end")
            return events, b""
        return events, rest

    def _truncated(self, what: str) -> None:
        if "truncated" in self.notes:  # a packed file that was cut short says so itself
            return
        self.notes.add(
            "truncated",
            f"{what}: the file was cut short (a killed process, a full disk, a copy); what comes after is lost, and what is said"
            " of the whole recording is withheld",
            withholds={"window"},
        )

    def _one_by_one(self, text: bytes) -> tuple[list[AnyEvent], bytes | None]:
        """The events of a text in which something is damaged; what follows the list's end, None where it does not end here."""
        events: list[AnyEvent] = []
        bounds = [0, *(match.start() + 1 for match in BETWEEN.finditer(text)), len(text)]
        at = 0
        while at + 1 < len(bounds):
            piece = text[bounds[at] : bounds[at + 1]].strip(SPACE + b",")
            last = at + 2 == len(bounds)
            event, used = _whole(text, bounds, at)
            if event is not None:
                events.append(event)
                at += used
                continue
            if values := _values(piece):
                self._keep_all(values, bounds[at], text, events)
                at += 1
                continue
            closing = _whole_to_the_end(piece) or _closing(piece)
            if closing is not None:
                self._keep_all(_values(closing[0]) or [closing[0]], bounds[at], text, events)
                if closing[2]:
                    self.notes.add("trailing_comma", EFFECTS["trailing_comma"])
                self.events += len(events)
                return events, closing[1] + text[bounds[at + 1] :]
            if last and not _balanced(piece):
                break
            if piece:
                self._keep(piece, bounds[at], text, events)
            at += 1
        self.events += len(events)
        return events, None

    def _keep_all(self, values: list[bytes], start: int, text: bytes, events: list[AnyEvent]) -> None:
        for value in values:
            self._keep(value, start, text, events)

    def _keep(self, piece: bytes, start: int, text: bytes, events: list[AnyEvent]) -> None:
        found = mend(piece)
        if isinstance(found, Mended):
            for kind in found.kinds:
                self.notes.add(kind, EFFECTS[kind])
            events.append(found.event)
            return
        if not self._first_unreadable:
            reason = found.reason if isinstance(found, Unreadable) else "it is no object"
            start += text[start:].index(piece[:1])
            line = self._lines + text.count(b"\n", 0, start)
            column = start - text.rfind(b"\n", 0, start)
            self._first_unreadable = f"line {line}, column {column}: {reason}"
        self.notes.add(
            "unreadable_event",
            f"events that cannot be read are left out, the first at {self._first_unreadable}",
            withholds={"idle"} if GPU_WORK_TEXT.search(piece) else frozenset(),
        )

    def _second_document(self) -> None:
        self.notes.add(
            "second_document",
            "more follows where the first document of the file ends (a writer that was started again?); it is not read: name each trace's"
            " own file",
        )

    def _metadata(self, head: bytes, tail: bytes) -> None:
        if self._list_root:
            if tail.strip(SPACE):
                self._second_document()
            return
        whole = head + b'"traceEvents":[]' + tail
        try:
            found = msgspec.json.decode(whole)
        except DECODING:
            if (first := _first_document(whole)) is not None:
                self._second_document()
                self.metadata = first
                return
            found = _members(head)
            if tail.strip(SPACE):
                found |= _members(b"{" + tail.lstrip(SPACE + b",").rstrip(SPACE))
        if isinstance(found, dict):
            found.pop("traceEvents", None)
            self.metadata = found


def _first_document(text: bytes) -> dict[str, Any] | None:
    """The first of several documents in a text, without its events; None where the text is something else."""
    words = text.decode("utf-8", "replace")
    try:
        found, end = scan.raw_decode(words.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or words[len(words) - len(words.lstrip(" \t\r\n")) + end :].strip(" \t\r\n")[
        :1
    ] not in {"{", "["}:
        return None
    found.pop("traceEvents", None)
    return found


def _whole(text: bytes, bounds: list[int], at: int) -> tuple[AnyEvent | None, int]:
    """The event that begins at a bound, and how many pieces it spans: its own text may hold what looks like a boundary."""
    for last in range(at + 1, min(at + 1 + JOINED, len(bounds))):
        try:
            return exact_one.decode(text[bounds[at] : bounds[last]].strip(SPACE + b",")), last - at
        except DECODING:
            continue
    return None, 1


def _values(piece: bytes) -> list[bytes]:
    """The values of a piece that is JSON, and not one event: something that is no event stands in the list. Empty: it is not JSON."""
    try:
        return [bytes(value) for value in elements_of.decode(b"[" + piece + b"]")]
    except DECODING:
        return []


def _whole_to_the_end(piece: bytes) -> tuple[bytes, bytes, bool] | None:
    """As `_closing`, for whole JSON values before the end of the list, events or not."""
    words = piece.decode("utf-8", "surrogateescape")
    at = 0
    try:
        while not words.startswith("]", at):
            _, at = scan.raw_decode(words, at)
            while words[at : at + 1] in WHITE:
                at += 1
    except (ValueError, RecursionError):
        return None
    values, rest = words[:at].rstrip(" \t\r\n"), words[at + 1 :].encode("utf-8", "surrogateescape")
    return values.rstrip(" \t\r\n,").encode("utf-8", "surrogateescape"), rest, values.endswith(",")


def _balanced(piece: bytes) -> bool:
    return piece.count(b"{") <= piece.count(b"}")


def _closing(piece: bytes) -> tuple[bytes, bytes, bool] | None:
    """Where the list ends in a piece: the last event's text, what follows the list, and whether a comma stood before its end.

    The event may itself be damaged: then the first brace that closes as many as were opened, with `]` after it, is taken.
    """
    for match in islice(END.finditer(piece), JOINED):
        event = piece[: match.start() + 1]
        if _balanced(event):
            return event, piece[match.end() :], b"," in match.group()
    return None


def _members(text: bytes) -> dict[str, Any]:
    """The whole members of a document that was cut off after them."""
    words = text.rstrip(SPACE + b",")
    for closing in (b"}", b"]}", b"}]}"):
        try:
            found = msgspec.json.decode(words + closing)
        except DECODING:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _shown(text: bytes) -> str:
    return repr(text[:24].decode("utf-8", "replace"))
