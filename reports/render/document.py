"""Renders a bundle: report.html and report.pdf from the same templates, the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports import evidence, seal
from reports.ablation import ablated
from reports.render import (
    ablation,
    charts,
    container,
    facts,
    numbers,
    paper,
    processes,
    profile_words,
    state_words,
    tables,
    trace_document,
    view,
    walkthrough_document,
    walkthrough_view,
    waterfall,
)
from reports.render.telemetry_chart import telemetry_chart
from reports.render.trace_summary import CaseTrace, by_case, case_traces, passes_by_case, write_pages
from reports.render.walkthrough_bundle import page_of
from reports.results import results
from reports.state import Regime, regimes
from suite.bundle import coverage, manifest, reader
from suite.bundle.errors import BundleError
from suite.bundle.manifest import Check
from suite.bundle.reader import Loaded
from suite.bundle.writer import write_bytes

HTML, PDF = "report.html", "report.pdf"
TEMPLATES = paper.TEMPLATES
SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
"""Bundles that the repository keeps: they stay as they are, down to their checksums."""


def environment() -> jinja2.Environment:
    """Jinja, and what every template of a bundle may name."""
    env = paper.templates()
    env.globals.update(
        ablation=ablation,
        charts=charts,
        container=container,
        coverage=coverage,
        evidence=evidence,
        facttables=facts,
        numbers=numbers,
        processes=processes,
        state_words=state_words,
        tables=tables,
        telemetry_chart=telemetry_chart,
        view=view,
        walkthrough_page=walkthrough_document.HTML,
        walkthrough_view=walkthrough_view,
    )
    return env


def context(bundle: Loaded, traces: Sequence[CaseTrace]) -> dict[str, Any]:
    """Everything that the templates name."""
    check = seal.checked(bundle)
    found, changed = results(bundle, seal.barred(bundle.run, check)), regimes(bundle)
    return {
        **_common(bundle, changed, check),
        "results": found,
        "traces": by_case(traces),
        "passes": passes_by_case(bundle.run, traces),
        "walkthrough": page_of(bundle, traces, found),
        "sentence": view.verdict_sentence(found),
        "rows": tables.result_rows(found),
        "overview": Markup(charts.ratios(found)) if found.comparisons else "",
        # Charts are our own SVG; every text in them was escaped by matplotlib.
        "distributions": {
            case.case.name: Markup(charts.distribution(case, changed)) for case in found.cases if case.baseline.blocks
        },
        "doubts": {case.case.name: profile_words.doubts(bundle, case) for case in found.cases},
        "profiles": {
            case.case.name: [
                tables.profile_table(bundle.profiles[case.case.name, arm])
                for arm in dict.fromkeys(arm.name for arm in bundle.run.arms)
                if (case.case.name, arm) in bundle.profiles
            ]
            for case in found.cases
        },
    }


def _common(bundle: Loaded, changed: list[Regime], check: Check) -> dict[str, Any]:
    """What every kind of report names."""
    checked, integrity = view.integrity(check)
    return {
        "bundle": bundle,
        "run": bundle.run,
        "machine": view.machine_line(bundle),
        "intact": checked,
        "integrity": integrity,
        "reasons": seal.reasons(bundle.run, check),
        "regimes": changed,
        "state_chart": Markup(charts.states(bundle, changed)) if bundle.states else "",
        "style": trace_document.style(),
    }


def ablation_context(bundle: Loaded) -> dict[str, Any]:
    """Everything that the templates of an ablation name."""
    check = seal.checked(bundle)
    found = ablated(bundle, seal.barred(bundle.run, check))
    return {
        # The levels differ in threads and memory by design, and so do their readings: no change is looked for in them.
        **_common(bundle, [], check),
        "ablated": found,
        "waterfalls": {
            case.case.name: Markup(waterfall.waterfall(case, found.design))
            for case in found.cases
            if case.levels[0].times_ns
        },
    }


def render_html(bundle: Loaded, traces: Sequence[CaseTrace] | None = None) -> str:
    """The report as one self-contained HTML document; the bundle's traces are read unless they are given."""
    if bundle.run.ablation:
        return environment().get_template("ablation.html").render(ablation_context(bundle))
    traces = case_traces(bundle) if traces is None else traces
    return environment().get_template("report.html").render(context(bundle, traces))


def render_pdf(html: str, bundle: Loaded) -> bytes:
    """The same document as PDF, dated by the run."""
    started = datetime.fromisoformat(bundle.run.stretches[0].started_at)
    return paper.pdf(html, bundle.run.run_id, int(started.timestamp()))


def render(path: Path) -> list[Path]:
    """Render a bundle's report.html and report.pdf, renew their checksums, and return their paths.

    Beside every trace that can be read its own page is written, trace.html; with traces of matmul_add also walkthrough.html.

    Raises:
        BundleError: not a bundle, damaged, of a newer major schema, not writable, or one of the repository's own samples.
    """
    if path.resolve().is_relative_to(SAMPLES.resolve()):
        raise BundleError(
            f"{path}: a sample that the repository keeps, and a report is written into its bundle; "
            f"copy it first (cp -r {path} results/) and render the copy."
        )
    bundle = reader.load(path)
    pages = []
    if bundle.run.ablation:
        html = render_html(bundle)
    else:
        traces = case_traces(bundle)
        named = context(bundle, traces)
        html = environment().get_template("report.html").render(named)
        pages = write_pages(path, traces, named["doubts"])
        if isinstance(asked := named["walkthrough"], walkthrough_view.Page):
            write_bytes(
                path / walkthrough_document.HTML, walkthrough_document.render_html(asked).encode("utf-8", "replace")
            )
            pages.append(walkthrough_document.HTML)
    write_bytes(path / HTML, html.encode())
    write_bytes(path / PDF, render_pdf(html, bundle))
    if manifest.read(path):
        manifest.renew(path, [HTML, PDF, *pages])
    return [path / HTML, path / PDF]
