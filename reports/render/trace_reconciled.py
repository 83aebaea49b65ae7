"""What a profiler's table and its trace have in common, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from reports.render import numbers
from reports.render.trace_words import us
from reports.trace.analyse import Analysis
from reports.trace.reconcile import Reconciliation, reconcile
from reports.trace.table import Table
from suite.bundle.schema import ProfileRow

ROWS = 12
"""Rows that differ, named at most."""


def reconciled(analysis: Analysis, table: Table | Sequence[ProfileRow] | None) -> list[str]:
    """How the table that belongs to a trace agrees with it; nothing without a table."""
    return sentences(reconcile(analysis, table)) if table else []


def sentences(found: Reconciliation) -> list[str]:
    """A reconciliation: in all, its totals, how to read the table, and the rows that differ, the unexplained ones first."""
    explained = found.count("explained")
    known = f", {explained} differ for a known reason" if explained else ""
    unexplained = found.count("unexplained")
    left = (
        f", {unexplained} differ for none that is known ({us(found.unexplained_us)} of self time)"
        if unexplained
        else ""
    )
    told = [
        f"Of {numbers.counted(len(found.rows), 'row')} of the table {found.count('matched')} agree with the trace{known}{left}"
    ]
    told += [total.sentence for total in found.totals]
    told += found.remarks
    differ = [check for status in ("unexplained", "explained") for check in found.rows if check.status == status]
    told += [check.sentence for check in differ[:ROWS]]
    if len(differ) > ROWS:
        told.append(f"And {numbers.counted(len(differ) - ROWS, 'more row')} that differ")
    return told
