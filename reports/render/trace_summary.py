"""The traces of a bundle: what each profiled case and arm says, in short for the report, and whole on a page of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from reports.walkthrough.workload import work_of
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
    """One profiled case and arm: its summary, and its analysis where it could be read. `profile_pass` names a further profile of the case,
    and is empty for the case's own."""

    case: str
    summary: Summary
    analysis: Analysis | None = None
    findings: tuple[Finding, ...] = ()
    reconciliation: tuple[str, ...] = ()
    profile_pass: str = ""

    @property
    def arm(self) -> str:
        """The registered arm's name."""
        return self.summary.arm


def _folder(case: str, arm: str, profile_pass: str = "") -> str:
    return f"cases/{case}/{arm}{f'/passes/{profile_pass}' if profile_pass else ''}"


def page_names(run: schema.Run) -> tuple[str, ...]:
    """Where pages of traces may stand, relative to the bundle."""
    arms = dict.fromkeys(arm.name for arm in run.arms)
    return tuple(
        f"{_folder(case.name, arm, one)}/{trace_document.HTML}"
        for case in run.cases
        for arm in arms
        for one in ("", *(each.name for each in case.passes))
    )


def case_traces(bundle: Loaded) -> list[CaseTrace]:
    """Read the trace of every profiled case and arm, and of its further profiles, in the order of the plan.

    A trace that cannot be read is said, never raised.
    """
    found = []
    baselines = {arm.name for arm in bundle.run.arms if arm.role == "baseline"}
    for case in bundle.run.cases:
        for one in ("", *(each.name for each in case.passes)):
            eager: Analysis | None = None
            for arm in dict.fromkeys(arm.name for arm in bundle.run.arms):
                path = bundle.path / _folder(case.name, arm, one) / trace_document.TRACE
                if path.is_file():
                    found.append(_read(path, bundle, case, arm, one, eager))
                    # Plans name the baseline first; what a compiled arm changed is told against it.
                    eager = found[-1].analysis if arm in baselines else eager
    return found


def _read(path: Path, bundle: Loaded, case: schema.Case, arm: str, one: str, eager: Analysis | None) -> CaseTrace:
    folder = _folder(case.name, arm, one)
    profile = bundle.passes.get((case.name, arm, one)) if one else bundle.profiles.get((case.name, arm))
    where = f"{folder}/{path.name}"
    try:
        analysis = analyse(path, work_of(case))
        told = findings(analysis, eager)
        table = reconcile(analysis, profile.cycles[-1].rows).sentences() if profile else ()
        shown = summary(analysis, told, arm, f"{folder}/{trace_document.HTML}")
        return CaseTrace(case.name, shown, analysis, told, table, one)
    except TraceError as error:
        # The bundle may have moved since, and its report has to be the same wherever it lies.
        problem = plain(str(error).replace(str(path), where))
    except Exception as error:  # a report about hours of measuring comes out, whatever one trace does to its analysis
        problem = plain(f"{where}: could not be analysed ({type(error).__name__}: {error}). Please report this.", 400)
    return CaseTrace(case.name, Summary(arm, "", problem), profile_pass=one)


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
    """Summaries of the cases' own profiles by the case's name."""
    found: dict[str, list[Summary]] = {}
    for trace in traces:
        if not trace.profile_pass:
            found.setdefault(trace.case, []).append(trace.summary)
    return found


@dataclass(frozen=True)
class PassRow:
    """A further profile of a case in a line: how it was made, and what its trace says; `page` is empty where it has none."""

    name: str
    arm: str
    made: str
    told: str
    page: str = ""


def passes_by_case(run: schema.Run, traces: Sequence[CaseTrace]) -> dict[str, list[PassRow]]:
    """Every further profile that was planned, by the case's name; one that is not there is said to be missing."""
    summaries = {(trace.case, trace.arm, trace.profile_pass): trace.summary for trace in traces}
    planned = {arm.name for arm in run.arms}
    found: dict[str, list[PassRow]] = {}
    for case in run.cases:
        for one in case.passes:
            for arm in (name for name in one.arms if name in planned and name not in case.not_applicable):
                told = summaries.get((case.name, arm, one.name))
                text = "not made, or not finished" if told is None else told.problem or told.bound
                page = told.page if told else ""
                found.setdefault(case.name, []).append(PassRow(one.name, arm, _made(one), text, page))
    return found


def _made(one: schema.Pass) -> str:
    plan = one.schedule
    before = f"{one.calls_before} calls before" if one.calls_before else "no call before"
    return f"{before}; wait {plan.wait}, warm-up {plan.warmup}, {plan.active} steps"


def write_pages(bundle: Path, traces: Sequence[CaseTrace], doubts: Mapping[str, Sequence[str]]) -> list[str]:
    """Write the whole page of every trace that could be read, and return their names, relative to the bundle.

    `doubts` are, by the case's name, sentences against its profiles, which its own traces are recordings of.

    Raises:
        BundleError: when one cannot be written.
    """
    written = []
    for trace in traces:
        if trace.analysis is not None:
            title = f"{trace.case}, {trace.arm}{f', pass {trace.profile_pass}' if trace.profile_pass else ''}"
            against = () if trace.profile_pass else doubts.get(trace.case, ())
            html = trace_document.render_html(
                trace.analysis, trace.findings, trace.reconciliation, title, doubts=against
            )
            write_bytes(bundle / trace.summary.page, html.encode("utf-8", "replace"))
            written.append(trace.summary.page)
    return written
