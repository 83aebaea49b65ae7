"""What the rules for recordings of the CPU alone have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reports.findings.contract import Outcome, Rule, Severity, not_applicable
from reports.findings.seen import Rows, self_us
from reports.trace.analyse import Analysis
from reports.trace.read import Trace

WITH_GPU = "the recording holds GPU work: the rules for GPUs apply"
NO_OPERATORS = "the trace holds no operators: the profiler did not record the CPU's activity"


def cpu_only(check: Callable[[Analysis], Outcome]) -> Callable[[Analysis], Outcome]:
    """The check, with n/a for recordings with a GPU and for those without operators."""

    def asked(analysis: Analysis) -> Outcome:
        if analysis.has_gpu:
            return not_applicable(WITH_GPU)
        if analysis.host.operations == 0:
            return not_applicable(NO_OPERATORS)
        return check(analysis)

    return asked


def whole_us(analysis: Analysis) -> float:
    """The host's time, which shares are taken of, in us."""
    return analysis.host.self_cpu_total_us


def share_of(part: float, whole: float) -> float:
    """A fraction; 0 of nothing."""
    return part / whole if whole else 0.0


def by_name(trace: Trace, rows: Rows) -> list[tuple[str, Rows]]:
    """Rows by name, the largest self time first."""
    codes = trace.slices.name[rows]
    found = [(trace.slices.names[code], rows[codes == code]) for code in np.unique(codes).tolist()]
    return sorted(found, key=lambda entry: (-self_us(trace, entry[1]), entry[0]))


def cpu_rule(
    identity: str,
    title: str,
    severity: Severity,
    check: Callable[[Analysis], Outcome],
    formula: str,
    threshold: str,
    refuted_by: str,
    explanation: str,
    needs: frozenset[str] = frozenset(),
) -> Rule:
    """A rule of the family "cpu", asked only of recordings of the CPU alone."""
    return Rule(identity, title, "cpu", severity, formula, threshold, refuted_by, explanation, cpu_only(check), needs)
