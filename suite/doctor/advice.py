"""What a check says: a finding of the doctor, in the bundle's words for findings, and also what is proven."""

from __future__ import annotations

from typing import Literal

import msgspec

from suite.bundle.schema import Finding

Severity = Literal["wrong", "doubtful", "note", "proven"]
Family = Literal["run", "publish", "noise", "proof", "gpu", "proven"]

SEVERITIES: tuple[Severity, ...] = ("wrong", "doubtful", "note", "proven")
"""From what matters most to what is in order."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the doctor says.

    `rule` is its stable name ("doctor.no-compiler"), `severity` is the bundle's, or "proven" for what is seen to be in order;
    `evidence` is what was seen and where, and `advice` what to do. With `stops_run` no run is possible until it is mended; with
    `unpublishable` a run is possible and may not be published.
    """

    rule: str
    severity: Severity
    claim: str
    evidence: list[str]
    advice: str = ""
    family: Family = "run"
    stops_run: bool = False
    unpublishable: bool = False


def advise(
    rule: str,
    severity: Severity,
    claim: str,
    *evidence: str,
    advice: str = "",
    stops: bool = False,
    unpublishable: bool = False,
) -> Advice:
    """An advice of the doctor's own; empty evidence is left out. What is wrong is never publishable."""
    return Advice(
        rule=f"doctor.{rule}",
        severity=severity,
        claim=claim,
        evidence=[text for text in evidence if text],
        advice=advice,
        stops_run=stops,
        unpublishable=unpublishable or severity == "wrong",
    )


def from_finding(finding: Finding) -> Advice:
    """A finding of the launch, as it would stand in the report."""
    return Advice(
        rule=finding.rule,
        severity=finding.severity,
        claim=finding.claim,
        evidence=list(finding.evidence),
        advice=finding.advice,
        unpublishable=finding.severity == "wrong",
    )
