"""Findings made for tests of pages: what they say does not matter, only where and how it is shown."""

from __future__ import annotations

from reports.findings.contract import Evidence, Finding, Outcome, Rule, Severity, Verdict, fired, not_applicable, quiet

EVIL = "<script>alert(1)</script> &lt;b&gt; [bold red]x[/] \"'"


def rule(identity: str, severity: Severity = "problem") -> Rule:
    return Rule(
        id=identity,
        title=f"title of {identity}",
        family="overview",
        severity=severity,
        formula=f"formula of {identity}",
        threshold=f"threshold of {identity}",
        refuted_by=f"refutation of {identity}",
        explanation=f"explanation of {identity}",
        check=lambda _: quiet("never asked"),
    )


def finding(identity: str, severity: Severity = "problem", at_stake_us: float = 0.0, advice: str = "") -> Finding:
    outcome = fired(
        f"claim of {identity}",
        Evidence(f"evidence of {identity}", 20.0, 45.5),
        why=f"reason of {identity}",
        advice=advice,
        at_stake_us=at_stake_us,
    )
    return Finding(rule(identity, severity), outcome)


def some() -> tuple[Finding, ...]:
    """Out of order: an explanation, two problems, a hint, and one of each verdict that is no claim."""
    return (
        finding("E1", "explanation", 9000.0, "nothing to do"),
        finding("P-small", "problem", 5.0, "save a little"),
        finding("H1", "hint", 700.0, "keep in mind"),
        finding("P-large", "problem", 800.0, "save a lot"),
        Finding(rule("W1"), Outcome(Verdict.WITHHELD, why="the file is cut short")),
        Finding(rule("Q1"), quiet("there is none of it")),
        Finding(rule("N1"), not_applicable("there is no GPU")),
    )
