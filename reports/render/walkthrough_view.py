"""What the walkthrough's page shows, ready to be printed. No HTML here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.render import numbers
from reports.render.plain_text import plain
from reports.render.trace_units import quoted, sentence
from reports.walkthrough import published
from reports.walkthrough.answer import Asked, Proof
from reports.walkthrough.recording import Recordings

NAME = 200
"""Characters of a kernel's or recording's name."""

RULE_FREE = "numbers"
"""Stands where a rule's id would, for evidence that is a number of the analysis."""


@dataclass(frozen=True)
class Row:
    """A number beside a number."""

    what: str
    published: str
    here: str


@dataclass(frozen=True)
class Seen:
    """A piece of evidence: the rule, its words, and where it was seen (`perfetto`: the same in the numbers that Perfetto takes)."""

    rule: str
    text: str
    label: str
    page: str
    range: str = ""
    perfetto: str = ""


@dataclass(frozen=True)
class Item:
    """A question with its answer."""

    id: str
    title: str
    group: str
    says: str
    rows: tuple[Row, ...]
    differs: tuple[str, ...]
    seen: tuple[Seen, ...]
    not_asked: str


@dataclass(frozen=True)
class Page:
    """The whole page."""

    headline: str
    machine: str
    source: str
    short: str
    items: tuple[Item, ...]
    recordings: tuple[tuple[str, str, str], ...]

    @property
    def groups(self) -> list[tuple[str, list[Item]]]:
        """Questions by group, in order."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.group, []).append(item)
        return list(found.items())


def page(asked: Sequence[Asked], recordings: Recordings) -> Page:
    """The page of a machine's answers."""
    answered = sum(not one.answer.not_asked for one in asked)
    machine = recordings.machine.name or _devices(recordings)
    differing = sum(bool(one.answer.differs) for one in asked if not one.answer.not_asked)
    headline = (
        f"The walkthrough's questions, asked of {machine or 'this machine'}: {answered} of {len(asked)} answered,"
        f" {differing} unlike the A100."
    )
    return Page(
        headline=plain(headline),
        machine=", ".join(part for part in (plain(machine), numbers.counted(len(recordings.all), "recording")) if part),
        source=published.SOURCE,
        short=published.SHORT,
        items=tuple(item(one) for one in asked),
        recordings=tuple(
            (plain(one.label, NAME), plain(one.page), _what(one.analysis.steps)) for one in recordings.all
        ),
    )


def _devices(recordings: Recordings) -> str:
    models = dict.fromkeys(gpu.model for one in recordings.all for gpu in one.analysis.devices if gpu.model)
    return plain(", ".join(models), NAME) if models else "a GPU" if recordings.has_gpu else "a CPU"


def _what(steps: Sequence[object]) -> str:
    return numbers.counted(len(steps), "step")


def item(one: Asked) -> Item:
    """A question and its answer in words."""
    answer = one.answer
    return Item(
        id=one.question.id,
        title=quoted(one.question.title),
        group=one.question.group,
        says=sentence(plain(answer.says)) if len(answer.says) < 500 else _long(answer.says),
        rows=tuple(
            Row(plain(b.what, NAME), quoted(plain(b.published, NAME)), quoted(plain(b.here, NAME)))
            for b in answer.beside
        ),
        differs=tuple(sentence(text) for text in answer.differs),
        seen=tuple(_seen(proof) for proof in answer.proofs),
        not_asked=sentence(answer.not_asked),
    )


def _long(text: str) -> str:
    """A long answer sentence by sentence, so that none of them is cut."""
    parts = text.split(". ")
    return " ".join(sentence(part) for part in parts if part)


def _seen(proof: Proof) -> Seen:
    recording, text = proof.recording, quoted(proof.text)
    rule, label = plain(proof.rule) or RULE_FREE, plain(recording.label, NAME)
    if proof.start_us is None:
        return Seen(rule, text, label, plain(recording.page))
    last = proof.start_us if proof.end_us is None else proof.end_us
    origin = recording.analysis.trace.origin
    return Seen(
        rule,
        text,
        label,
        plain(recording.page),
        numbers.time_range(proof.start_us * 1000, last * 1000),
        f"{origin + round(proof.start_us * 1000)} to {origin + round(last * 1000)}",
    )


NOT_COMPARED = (
    "Numbers of two platforms beside each other are not compared: hardware and PyTorch differ, and neither was measured to be held"
    " against the other. They tell what kind of trace each one is."
)
"""Stands wherever the walkthrough's numbers stand beside a machine's."""


def brief(shown: Item) -> tuple[str, str, str]:
    """The telling number of an answer: what it is, the walkthrough's and here; of an answer without one, its first sentence."""
    if shown.not_asked:
        return "", "", shown.not_asked
    if shown.rows:
        return shown.rows[0].what, shown.rows[0].published, shown.rows[0].here
    return "", "", shown.says.partition(". ")[0].rstrip(".") + "."
