"""The traces of a bundle: what each profiled case and arm says, in short for the report, and whole on a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.findings.contract import Finding, Severity
from reports.findings.registry import findings
from reports.render import trace_document
from reports.render.plain_text import plain
from reports.render.trace_units import sentence
from reports.render.trace_words import Trust, bound_sentence, ordered, trust
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from reports.trace.reconcile import reconcile
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.bundle.writer import write_bytes

SHOWN = 3
"""Findings in a summary."""


@dataclass(frozen=True)
class Told:
    """A finding in a line."""

    id: str
    severity: Severity
    claim: str
    advice: str


@dataclass(frozen=True)
class Summary:
    """What the report says of one trace. With a `problem` there is nothing else: why it could not be read."""

    arm: str
    page: str
    problem: str = ""
    trust: Trust | None = None
    bound: str = ""
    findings: tuple[Told, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class CaseTrace:
    """One profiled case and arm: its summary, and its analysis where it could be read."""

    case: str
    summary: Summary
    analysis: Analysis | None = None
    findings: tuple[Finding, ...] = ()
    reconciliation: tuple[str, ...] = ()


def page_names(run: schema.Run) -> tuple[str, ...]:
    """Where pages of traces may stand, relative to the bundle."""
    arms = dict.fromkeys(arm.name for arm in run.arms)
    return tuple(f"cases/{case.name}/{arm}/{trace_document.HTML}" for case in run.cases for arm in arms)


def case_traces(bundle: Loaded) -> list[CaseTrace]:
    """Read the trace of every profiled case and arm, in the order of the plan. A trace that cannot be read is said, never raised."""
    found = []
    baselines = {arm.name for arm in bundle.run.arms if arm.role == "baseline"}
    for case in bundle.run.cases:
        eager: Analysis | None = None
        for arm in dict.fromkeys(arm.name for arm in bundle.run.arms):
            path = bundle.path / "cases" / case.name / arm / trace_document.TRACE
            if path.is_file():
                profile = bundle.profiles.get((case.name, arm))
                found.append(_read(path, case.name, arm, profile, eager))
                # Plans name the baseline first; what a compiled arm changed is told against it.
                eager = found[-1].analysis if arm in baselines else eager
    return found


def _read(path: Path, case: str, arm: str, profile: schema.Profile | None, eager: Analysis | None) -> CaseTrace:
    page = f"cases/{case}/{arm}/{trace_document.HTML}"
    where = f"cases/{case}/{arm}/{path.name}"
    try:
        analysis = analyse(path)
        told = findings(analysis, eager)
        table = reconcile(analysis, profile.cycles[-1].rows).sentences() if profile else ()
        return CaseTrace(case, summary(analysis, told, arm, page), analysis, told, table)
    except TraceError as error:
        # The bundle may have moved since, and its report has to be the same wherever it lies.
        return CaseTrace(case, Summary(arm, "", plain(str(error).replace(str(path), where))))
    except Exception as error:  # a report about hours of measuring comes out, whatever one trace does to its analysis
        problem = f"{where}: could not be analysed ({type(error).__name__}: {error}). Please report this."
        return CaseTrace(case, Summary(arm, "", plain(problem, 400)))


def summary(analysis: Analysis, told: Sequence[Finding], arm: str, page: str) -> Summary:
    """A trace in short: whether to believe it, what bounds it, its first findings."""
    fired = ordered(told)
    # What is normal need not be said here, unless there is nothing else to say.
    shown = [finding for finding in fired if finding.rule.severity != "explanation"][:SHOWN] or fired[:1]
    return Summary(
        arm=arm,
        page=page,
        trust=trust(analysis),
        bound=bound_sentence(analysis),
        findings=tuple(
            Told(
                f.rule.id,
                f.rule.severity,
                sentence(plain(f.outcome.claim, 300)),
                sentence(plain(f.outcome.advice, 300)),
            )
            for f in shown
        ),
        more=len(fired) - len(shown),
    )


def by_case(traces: Sequence[CaseTrace]) -> dict[str, list[Summary]]:
    """Summaries by the case's name."""
    found: dict[str, list[Summary]] = {}
    for trace in traces:
        found.setdefault(trace.case, []).append(trace.summary)
    return found


def write_pages(bundle: Path, traces: Sequence[CaseTrace]) -> list[str]:
    """Write the whole page of every trace that could be read, and return their names, relative to the bundle.

    Raises:
        BundleError: when one cannot be written.
    """
    written = []
    for trace in traces:
        if trace.analysis is not None:
            title = f"{trace.case}, {trace.summary.arm}"
            html = trace_document.render_html(trace.analysis, trace.findings, trace.reconciliation, title)
            write_bytes(bundle / trace.summary.page, html.encode("utf-8", "replace"))
            written.append(trace.summary.page)
    return written
