"""Renders a bundle: report.html and report.pdf from the same templates, the same bytes every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from markupsafe import Markup

from reports.ablation import ablated
from reports.render import ablation, charts, container, facts, numbers, processes, tables, view, waterfall
from reports.render.telemetry_chart import telemetry_chart
from reports.results import results
from reports.state import Regime, regimes
from suite.bundle import coverage, manifest, reader
from suite.bundle.reader import Loaded
from suite.bundle.writer import write_bytes

HTML, PDF = "report.html", "report.pdf"
TEMPLATES = Path(__file__).parent / "templates"


def environment() -> jinja2.Environment:
    """Jinja with escaping on and undefined names refused: a misspelt field must not become an empty cell."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(
        ablation=ablation,
        container=container,
        coverage=coverage,
        facttables=facts,
        numbers=numbers,
        processes=processes,
        tables=tables,
        telemetry_chart=telemetry_chart,
        view=view,
    )
    return env


def context(bundle: Loaded) -> dict[str, Any]:
    """Everything that the templates name."""
    found, changed = results(bundle), regimes(bundle)
    return {
        **_common(bundle, changed),
        "results": found,
        "sentence": view.verdict_sentence(found),
        "rows": tables.result_rows(found),
        "overview": Markup(charts.ratios(found)) if found.comparisons else "",
        # Charts are our own SVG; every text in them was escaped by matplotlib.
        "distributions": {
            case.case.name: Markup(charts.distribution(case, changed)) for case in found.cases if case.baseline.blocks
        },
        "profiles": {
            case.case.name: [
                tables.profile_table(bundle.profiles[case.case.name, arm])
                for arm in dict.fromkeys(arm.name for arm in bundle.run.arms)
                if (case.case.name, arm) in bundle.profiles
            ]
            for case in found.cases
        },
    }


def _common(bundle: Loaded, changed: list[Regime]) -> dict[str, Any]:
    """What every kind of report names."""
    checked, integrity = view.integrity(manifest.check(bundle.path, ignore=(HTML, PDF)))
    return {
        "bundle": bundle,
        "run": bundle.run,
        "machine": view.machine_line(bundle),
        "intact": checked,
        "integrity": integrity,
        "regimes": changed,
        "state_chart": Markup(charts.states(bundle, changed)) if bundle.states else "",
        "style": Markup((TEMPLATES / "style.css").read_text()),
    }


def ablation_context(bundle: Loaded) -> dict[str, Any]:
    """Everything that the templates of an ablation name."""
    found = ablated(bundle)
    return {
        # The levels differ in threads and memory by design, and so do their readings: no change is looked for in them.
        **_common(bundle, []),
        "ablated": found,
        "waterfalls": {
            case.case.name: Markup(waterfall.waterfall(case, found.design))
            for case in found.cases
            if case.levels[0].times_ns
        },
    }


def render_html(bundle: Loaded) -> str:
    """The report as one self-contained HTML document."""
    if bundle.run.ablation:
        return environment().get_template("ablation.html").render(ablation_context(bundle))
    return environment().get_template("report.html").render(context(bundle))


def render_pdf(html: str, bundle: Loaded) -> bytes:
    """The same document as PDF. Nothing is fetched: everything stands in the document itself."""
    import weasyprint

    with reproducible_dates(bundle):
        document = weasyprint.HTML(string=html, url_fetcher=_refuse, base_url=None)
        content: bytes = document.write_pdf(pdf_identifier=bundle.run.run_id.encode(), uncompressed_pdf=False)
    return content


def _refuse(url: str, *_arguments: Any, **_options: Any) -> NoReturn:
    raise ValueError(f"a report fetches nothing, not even {url}")


@contextmanager
def reproducible_dates(bundle: Loaded) -> Iterator[None]:
    """Date embedded fonts by the run, not by the clock (https://reproducible-builds.org/specs/source-date-epoch/)."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    started = datetime.fromisoformat(bundle.run.stretches[0].started_at)
    os.environ["SOURCE_DATE_EPOCH"] = str(int(started.timestamp()))
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before


def render(path: Path) -> list[Path]:
    """Render a bundle's report.html and report.pdf, renew their checksums, and return their paths.

    Raises:
        BundleError: not a bundle, damaged, of a newer major schema, or not writable.
    """
    bundle = reader.load(path)
    html = render_html(bundle)
    write_bytes(path / HTML, html.encode())
    write_bytes(path / PDF, render_pdf(html, bundle))
    if manifest.read(path):
        manifest.renew(path, [HTML, PDF])
    return [path / HTML, path / PDF]
