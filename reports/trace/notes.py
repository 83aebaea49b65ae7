"""What a trace's health is: notes on damage, each with its count and its effect, and the refusal of what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "degraded", "refused"]


class TraceError(Exception):
    """A trace that cannot be read: one sentence that says what, where and what to do."""


@dataclass(frozen=True)
class Note:
    """One kind of damage that was met. `count` is the number of events it touches; `effect` says what it does to the findings.

    `withholds` names what may not be claimed because of it: "window" (anything about the whole recording), "delay" (launch delays),
    "idle" (idle time of a GPU), "cause" (why it was idle), "peak" (what needs the device's peak), "sub-microsecond" (gaps shorter than
    1 us).
    """

    kind: str
    count: int
    effect: str
    withholds: frozenset[str] = frozenset()


@dataclass
class Notes:
    """Collects notes while a trace is read; notes of one kind are added up, the first one's words stay."""

    _notes: dict[str, Note] = field(default_factory=dict)

    def add(self, kind: str, effect: str, count: int = 1, withholds: frozenset[str] | set[str] = frozenset()) -> None:
        """Count `count` more events of a kind; nothing is noted for a count of 0."""
        if count <= 0:
            return
        before = self._notes.get(kind)
        if before is None:
            self._notes[kind] = Note(kind, count, effect, frozenset(withholds))
        else:
            self._notes[kind] = Note(kind, before.count + count, before.effect, before.withholds | withholds)

    def __contains__(self, kind: str) -> bool:
        return kind in self._notes

    def frozen(self) -> tuple[Note, ...]:
        """The notes in the order in which they were met."""
        return tuple(self._notes.values())
