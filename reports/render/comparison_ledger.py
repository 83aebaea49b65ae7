"""The comparability ledger as a reader wants it: what differs, in the order of its effect, and only that part of it that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.compare.fields import EFFECTS, NOT_THERE, Effect, Field, Known, Several
from reports.plain import one_line
from reports.render import facts
from reports.render.comparison_cards import short as digests

MOST_ENTRIES = 6
MOST = 180


@dataclass(frozen=True)
class Line:
    """One field as text: its name, its status, and a text for each run, in their order; `odd` marks those unlike the first known.

    Where it differs, a run that is like an earlier one says so ("as A") and does not repeat it.
    """

    name: str
    status: str
    texts: tuple[str, ...]
    odd: tuple[bool, ...]


@dataclass(frozen=True)
class Part:
    """The fields of one effect."""

    title: str
    lines: list[Line]

    @property
    def size(self) -> int:
        """How many fields it has."""
        return len(self.lines)


def parts(ledger: Sequence[Field], letters: Sequence[str], status: str, *, moment: bool = False) -> list[Part]:
    """The fields of a status by effect, the largest first; those of the moment alone, or all the others."""
    found = []
    for effect in Effect:
        lines = [line(each, letters) for each in ledger if each.effect == effect and each.status == status]
        if lines and (effect == Effect.MOMENT) == moment:
            found.append(Part(EFFECTS[effect], lines))
    return found


def count(ledger: Sequence[Field], status: str) -> int:
    """How many fields have this status."""
    return sum(each.status == status for each in ledger)


def doubtful(ledger: Sequence[Field]) -> list[str]:
    """Names of the fields that could move the result by tens of percent or more, and that are not known on every side."""
    unknown = [each for each in ledger if each.status == "unknown" and each.effect <= Effect.LARGE]
    return [name(f.name) for f in unknown if any(not v.known and v.note != NOT_THERE for v in f.values.values())]


def line(field: Field, letters: Sequence[str]) -> Line:
    """A field as a row of the table."""
    values = [field.values.get(letter) for letter in letters]
    known = [each for each in values if each and each.known]
    odd = tuple(bool(each and each.known and each.value != known[0].value) for each in values)
    short = field.name.rpartition(".")[2].rpartition(" ")[2]
    if field.status != "differ":
        return Line(name(field.name), field.status, tuple(_text(short, each, known, False) for each in values), odd)
    texts = []
    for place, each in enumerate(values):
        like = next((k for k, other in enumerate(values[:place]) if _equal(each, other)), None)
        texts.append(_text(short, each, known, True) if like is None else f"as {letters[like]}")
    return Line(name(field.name), field.status, tuple(texts), odd)


def _equal(one: Known | None, other: Known | None) -> bool:
    return bool(one and other and one.known and other.known and one.value == other.value)


def name(key: str) -> str:
    """A field's key in words: "cpu.model" is "CPU: model"."""
    head, dot, tail = key.partition(".")
    if not dot or "/" in head or head == "setting" or "'" in head:
        return one_line(f"setting {tail}" if head == "setting" else key, 120)
    if head == "in force":
        kind, _, rest = tail.partition(".")
        return one_line(f"in force: {facts.field_name(f'{kind} {rest}'.strip())}", 120)
    return one_line(f"{facts.title(head)}: {facts.field_name(tail)}", 120)


def _text(short: str, value: Known | None, known: Sequence[Known], shared: bool) -> str:
    if value is None:
        return "does not have it"
    if not value.known:
        return one_line(f"({value.note})", MOST)
    if value.value is None:
        return "absent"
    if isinstance(value.value, Several):
        told = ["; ".join(facts.lines(short, each)) or "none" for each in value.value]
        return one_line(digests(" or ".join(told)), MOST)
    rest = _without_shared(value.value, [each.value for each in known]) if shared else value.value
    entries = facts.lines(short, rest) or ["none"]
    more = len(entries) - MOST_ENTRIES
    text = "; ".join(entries[:MOST_ENTRIES]) + (f"; and {more} more" if more > 0 else "")
    return one_line(digests(text), MOST)


def _without_shared(value: Any, all_values: Sequence[Any]) -> Any:
    """Of a mapping or a list only what is not the same everywhere."""
    if isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in all_values):
        return {
            key: _without_shared(item, [each[key] for each in all_values])
            if all(key in each for each in all_values)
            else item
            for key, item in value.items()
            if any(key not in each or each[key] != item for each in all_values)
        } or "nothing of its own"
    if isinstance(value, str) and "\n" in value and all(isinstance(each, str) for each in all_values):
        return _without_shared(value.splitlines(), [each.splitlines() for each in all_values])
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return value  # CPUs, as a rule: 2-15 of 0-15 would say something else
    if isinstance(value, list) and all(isinstance(each, list) for each in all_values):
        return [item for item in value if any(item not in each for each in all_values)] or "nothing of its own"
    return value
