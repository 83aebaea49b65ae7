"""What a trace's page shows, ready to be printed: trust, the minute, cards of findings, tables. No HTML here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.findings.contract import Evidence, Finding, Severity, Verdict
from reports.render import numbers
from reports.render.page_folder import shown
from reports.render.plain_text import plain
from reports.render.timeline import Picture, timeline
from reports.render.trace_against import Against
from reports.render.trace_tables import Branch, Table, branches, tables
from reports.render.trace_units import quoted, sentence, us
from reports.render.trace_words import Trust, device_line, headline, minute, ordered, trust
from reports.trace.analyse import Analysis

RECONCILED = 30
"""Sentences on how the profiler's table and the trace differ, at most."""


@dataclass(frozen=True)
class Seen:
    """One piece of evidence; `range` is its time from the trace's first event, `perfetto` the same in the numbers that Perfetto takes."""

    text: str
    range: str = ""
    perfetto: str = ""


@dataclass(frozen=True)
class Card:
    """A finding that fired."""

    id: str
    title: str
    family: str
    severity: Severity
    claim: str
    evidence: tuple[Seen, ...]
    why: str
    formula: str
    threshold: str
    refuted_by: str
    advice: str
    explanation: str
    at_stake: str


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    has_gpu: bool
    device: str
    headline: str
    trust: Trust
    minute: list[tuple[str, str]]
    picture: Picture
    cards: list[Card]
    withheld: list[tuple[str, str, str]]
    others: list[tuple[str, str, str, str]]
    tables: list[Table]
    branches: list[Branch]
    reconciliation: tuple[str, ...]
    starts_at: str
    asked: int
    against: str = ""


def page(
    analysis: Analysis,
    findings: Sequence[Finding],
    reconciliation: Sequence[str] = (),
    title: str = "",
    against: Against | None = None,
) -> Page:
    """The page of a trace; its title is the end of the file's path where none is given."""
    fired = ordered(findings)
    return Page(
        title=plain(title, 120) or shown(Path(analysis.trace.path)),
        has_gpu=analysis.has_gpu,
        device=device_line(analysis),
        headline=headline(analysis),
        trust=trust(analysis),
        minute=minute(analysis, findings, "" if against is None else against.told),
        picture=timeline(analysis),
        cards=[card(analysis, finding) for finding in fired],
        withheld=[
            (plain(finding.rule.id), quoted(finding.rule.title), sentence(finding.outcome.why))
            for finding in findings
            if finding.outcome.verdict is Verdict.WITHHELD
        ],
        others=[
            (
                plain(finding.rule.id),
                quoted(finding.rule.title),
                finding.outcome.verdict.value,
                quoted(finding.outcome.why),
            )
            for finding in findings
            if finding.outcome.verdict in (Verdict.QUIET, Verdict.NOT_APPLICABLE)
        ],
        tables=tables(analysis),
        branches=branches(analysis.chains),
        reconciliation=_reconciled(reconciliation),
        starts_at=str(analysis.trace.origin),
        asked=len(findings),
        against="" if against is None else against.name,
    )


def _reconciled(told: Sequence[str]) -> tuple[str, ...]:
    left = len(told) - RECONCILED
    more = (f"And {numbers.counted(left, 'more difference')}, left out.",) if left > 0 else ()
    return (*(sentence(text) for text in told[:RECONCILED]), *more)


def card(analysis: Analysis, finding: Finding) -> Card:
    """A finding as a card."""
    rule, outcome = finding.rule, finding.outcome
    return Card(
        id=plain(rule.id),
        title=quoted(rule.title),
        family=rule.family,
        severity=rule.severity,
        claim=sentence(outcome.claim),
        evidence=tuple(seen(analysis, evidence) for evidence in outcome.evidence),
        why=sentence(outcome.why),
        formula=plain(rule.formula),
        threshold=plain(rule.threshold),
        refuted_by=plain(rule.refuted_by),
        advice=sentence(outcome.advice),
        explanation=plain(rule.explanation),
        at_stake=us(outcome.at_stake_us) if outcome.at_stake_us > 0 else "",
    )


def seen(analysis: Analysis, evidence: Evidence) -> Seen:
    """A piece of evidence with its moment."""
    text = quoted(evidence.text)
    if evidence.start_us is None:
        return Seen(text)
    first = evidence.start_us
    last = evidence.end_us if evidence.end_us is not None else first
    origin = analysis.trace.origin
    raw = f"{origin + round(first * 1000)} to {origin + round(last * 1000)}"
    return Seen(text, numbers.time_range(first * 1000, last * 1000), raw)
