"""The contract: a question, and what a machine's recordings answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from reports.findings.contract import Outcome, Verdict
from reports.walkthrough.recording import Recording, Recordings

Group = Literal["The table", "The trace", "torch.compile"]

EVIDENCE = 3
"""Pieces of evidence of one rule that stand below an answer; its recording's page has them all."""


@dataclass(frozen=True)
class Beside:
    """One number (or name) of the walkthrough beside this machine's."""

    what: str
    published: str
    here: str


@dataclass(frozen=True)
class Proof:
    """What an answer rests on: a rule's own words ("" for a number of the analysis), and the recording with the moment, in us from the
    trace's first event."""

    rule: str
    text: str
    recording: Recording
    start_us: float | None = None
    end_us: float | None = None


@dataclass(frozen=True)
class Answer:
    """An answer. With `not_asked` there is nothing else: what this run lacks. `differs` says what is unlike the A100, and why."""

    says: str = ""
    beside: tuple[Beside, ...] = ()
    proofs: tuple[Proof, ...] = ()
    differs: tuple[str, ...] = ()
    not_asked: str = ""


@dataclass(frozen=True)
class Question:
    """A question of the walkthrough. `rules` are those that the answer leans on: where a recording's health withholds one, nothing is
    answered from it."""

    id: str
    title: str
    group: Group
    rules: tuple[str, ...]
    ask: Callable[[Recordings], Answer]


def lacks(what: str) -> Answer:
    """Not asked, because the run holds no such case or pass."""
    return Answer(not_asked=f"not asked: needs {what}")


def prove(recording: Recording, *rules: str) -> tuple[Proof, ...]:
    """The evidence of rules that fired; of one that did not, the numbers that decided."""
    found: list[Proof] = []
    for rule in rules:
        found += proofs_of(recording, rule, recording.outcome(rule))
    return tuple(found)


def proofs_of(recording: Recording, rule: str, outcome: Outcome) -> list[Proof]:
    """One rule's evidence in this recording."""
    if outcome.verdict is not Verdict.FIRED:
        return [Proof(rule, f"{outcome.verdict.value}: {outcome.why}", recording)]
    return [Proof(rule, seen.text, recording, seen.start_us, seen.end_us) for seen in outcome.evidence[:EVIDENCE]] or [
        Proof(rule, outcome.why, recording)
    ]


def fires(recording: Recording, rule: str) -> bool:
    """Whether a rule's pattern is in the recording."""
    return recording.outcome(rule).verdict is Verdict.FIRED


@dataclass(frozen=True)
class Asked:
    """A question with its answer."""

    question: Question
    answer: Answer


def ask(questions: tuple[Question, ...], recordings: Recordings) -> tuple[Asked, ...]:
    """Ask every question, in order."""
    return tuple(Asked(question, _trusted(question, question.ask(recordings))) for question in questions)


def _trusted(question: Question, answer: Answer) -> Answer:
    for recording in dict.fromkeys(proof.recording.label for proof in answer.proofs):
        one = next(proof.recording for proof in answer.proofs if proof.recording.label == recording)
        for rule in question.rules:
            outcome = one.outcome(rule)
            if outcome.verdict is Verdict.WITHHELD:
                return Answer(not_asked=f"not answered: {recording} cannot tell ({rule}): {outcome.why}")
    return replace(answer, differs=tuple(dict.fromkeys(text for text in answer.differs if text)))
