"""Every rule, in the order of the page: trust first."""

from __future__ import annotations

from reports.findings.contract import Finding, Rule, judge
from reports.findings.gpu import GPU_RULES
from reports.findings.host import HOST_RULES
from reports.findings.overview import OVERVIEW_RULES
from reports.findings.trust import TRUST_RULES
from reports.findings.variance import VARIANCE_RULES
from reports.trace.analyse import Analysis

RULES: tuple[Rule, ...] = (*TRUST_RULES, *OVERVIEW_RULES, *HOST_RULES, *GPU_RULES, *VARIANCE_RULES)
"""All rules."""


def findings(analysis: Analysis, eager: Analysis | None = None) -> tuple[Finding, ...]:
    """What every rule says of a trace; with the eager arm's trace also what only a pair of traces can tell."""
    return judge(RULES, analysis)
