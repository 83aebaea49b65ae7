"""Every rule, in the order of the page: trust first."""

from __future__ import annotations

from reports.findings import pair
from reports.findings.achieved import RATE_RULES
from reports.findings.compiled import COMPILE_RULES
from reports.findings.contract import Finding, Rule, failed, judge
from reports.findings.copies import COPY_RULES
from reports.findings.cpu import CPU_RULES
from reports.findings.cpu_code import CPU_CODE_RULES
from reports.findings.dispatch import DISPATCH_RULES
from reports.findings.gpu import GPU_RULES
from reports.findings.groups import GROUP_RULES
from reports.findings.host import HOST_RULES
from reports.findings.idle_time import IDLE_RULES
from reports.findings.launches import LAUNCH_RULES
from reports.findings.overview import OVERVIEW_RULES
from reports.findings.trust import TRUST_RULES
from reports.findings.variance import VARIANCE_RULES
from reports.trace.analyse import Analysis

RULES: tuple[Rule, ...] = (
    *TRUST_RULES,
    *OVERVIEW_RULES,
    *IDLE_RULES,
    *HOST_RULES,
    *LAUNCH_RULES,
    *COPY_RULES,
    *GPU_RULES,
    *VARIANCE_RULES,
    *GROUP_RULES,
    *RATE_RULES,
    *DISPATCH_RULES,
    *COMPILE_RULES,
    pair.FUSION_RULE,
    *CPU_CODE_RULES,
    *CPU_RULES,
)
"""All rules. Two of them (R25, fusion) compare two traces, and do not apply to one."""


def findings(analysis: Analysis, eager: Analysis | None = None) -> tuple[Finding, ...]:
    """What every rule says of a trace; with the eager arm's trace also what only a pair of traces can tell."""
    found = judge(RULES, analysis)
    if eager is None:
        return found
    try:
        told = pair.findings(pair.compare(eager, analysis))
    except Exception as error:  # what one trace alone tells must not be lost with it
        told = tuple(Finding(rule, failed(error)) for rule in pair.PAIR_RULES)
    of_both = {finding.rule.id: finding for finding in told}
    return tuple(of_both.get(finding.rule.id, finding) for finding in found)
