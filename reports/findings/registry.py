"""Every rule, in the order of the page: trust first."""

from __future__ import annotations

from reports.findings.contract import Finding, Rule, judge
from reports.trace.analyse import Analysis

RULES: tuple[Rule, ...] = ()
"""All rules."""


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """What every rule says of a trace."""
    return judge(RULES, analysis)
