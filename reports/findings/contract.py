"""The rule contract: what a rule is, and what it says of a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from reports.trace.analyse import Analysis
from reports.words import us


class Verdict(StrEnum):
    """fired: the pattern is there; quiet: looked for and absent; n/a: the trace does not hold what the rule needs; withheld: the
    trace's health forbids the claim."""

    FIRED = "fired"
    QUIET = "quiet"
    NOT_APPLICABLE = "n/a"
    WITHHELD = "withheld"


Severity = Literal["problem", "hint", "explanation"]
"""problem: time is lost here, and something can be done; hint: read the numbers with it in mind; explanation: what you see is normal."""

Family = Literal["trust", "overview", "host", "gpu", "dispatch", "compile", "cpu"]


@dataclass(frozen=True)
class Evidence:
    """One thing that was seen, as a sentence with its numbers; `start_us` and `end_us` (from the trace's first event) give the moment."""

    text: str
    start_us: float | None = None
    end_us: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a rule says of one trace. `why` gives the numbers that decided, for every verdict; `at_stake_us` is the time that could be
    had back at most, which orders the findings (0: none, or not known)."""

    verdict: Verdict
    claim: str = ""
    evidence: tuple[Evidence, ...] = ()
    why: str = ""
    advice: str = ""
    at_stake_us: float = 0.0


@dataclass(frozen=True)
class Rule:
    """One rule. `needs` names what damage may take away ("window", "idle", "delay", "peak", "sub-microsecond"): then it is withheld.

    `formula` and `threshold` are in words and symbols; `refuted_by` says what observation would show the claim to be wrong; `explanation`
    is for a reader who sees a trace for the first time.
    """

    id: str
    title: str
    family: Family
    severity: Severity
    formula: str
    threshold: str
    refuted_by: str
    explanation: str
    check: Callable[[Analysis], Outcome]
    needs: frozenset[str] = frozenset()


def explaining(
    family: Family,
    identity: str,
    title: str,
    check: Callable[[Analysis], Outcome],
    formula: str,
    threshold: str,
    refuted_by: str,
    explanation: str,
) -> Rule:
    """A rule that says that what is seen is normal; it needs nothing that damage takes away."""
    return Rule(identity, title, family, "explanation", formula, threshold, refuted_by, explanation, check)


@dataclass(frozen=True)
class Finding:
    """A rule and what it said."""

    rule: Rule
    outcome: Outcome


def fired(claim: str, *evidence: Evidence, why: str, advice: str = "", at_stake_us: float = 0.0) -> Outcome:
    """The pattern is there."""
    if not evidence:
        raise ValueError("a claim needs evidence")
    return Outcome(Verdict.FIRED, claim, evidence, why, advice, at_stake_us)


def quiet(why: str) -> Outcome:
    """The pattern was looked for, and is not there."""
    return Outcome(Verdict.QUIET, why=why)


def not_applicable(why: str) -> Outcome:
    """The trace does not hold what the rule needs."""
    return Outcome(Verdict.NOT_APPLICABLE, why=why)


WORTH = 0.01
"""Share of the recording that must be at stake for a finding to be a problem; what says whether to believe the trace is one anyway."""

IMMATERIAL = 0.001
"""Share of the recording below which nothing that was found is worth a reader's time."""

FAILED = "this rule failed on this trace"


def judge(rules: tuple[Rule, ...], analysis: Analysis) -> tuple[Finding, ...]:
    """Ask every rule, in order."""
    return tuple(weighed(Finding(rule, _ask(rule, analysis)), analysis) for rule in rules)


def failed(error: Exception) -> Outcome:
    """A rule that raised: a fault of the rule, said as such."""
    return not_applicable(f"{FAILED} ({type(error).__name__}: {error}); please report it")


def recorded_us(analysis: Analysis) -> float:
    """What shares of a recording are taken of: the longest window of a GPU, without one the host's time; in us."""
    return max((device.window_us for device in analysis.devices), default=analysis.host.self_cpu_total_us)


def weighed(finding: Finding, analysis: Analysis) -> Finding:
    """The finding; a problem with next to nothing at stake is a hint, and what is below a thousandth of the recording is none."""
    rule, outcome = finding.rule, finding.outcome
    if outcome.verdict is not Verdict.FIRED or rule.severity == "explanation" or rule.family == "trust":
        return finding
    if 0 < outcome.at_stake_us < IMMATERIAL * recorded_us(analysis):
        return Finding(
            rule, quiet(f"{outcome.why}; {us(outcome.at_stake_us)} of the whole recording are at stake: not material")
        )
    if rule.severity != "problem":
        return finding
    if outcome.at_stake_us >= WORTH * recorded_us(analysis):
        return finding
    return Finding(replace(rule, severity="hint"), outcome)


def _ask(rule: Rule, analysis: Analysis) -> Outcome:
    try:
        outcome = rule.check(analysis)
    except Exception as error:  # one rule's fault must not take the others' answers with it
        return failed(error)
    taken = rule.needs & analysis.trace.withheld
    if not taken or outcome.verdict is Verdict.NOT_APPLICABLE:
        return outcome
    reasons = "; ".join(note.effect for note in analysis.trace.notes if note.withholds & taken)
    return Outcome(Verdict.WITHHELD, why=f"the trace's health forbids this claim: {reasons}")
