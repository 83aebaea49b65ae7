"""Renders a comparison: comparison.html, comparison.pdf and comparison.csv, the same bytes every time for the same bundles."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reports.compare.matrix import Comparison
from reports.export.comparison import table_csv
from reports.plain import one_line
from reports.render import comparison, comparison_cards, comparison_chart, comparison_ledger, comparison_table
from reports.render.document import TEMPLATES, environment, render_pdf
from suite.bundle.errors import BundleError
from suite.bundle.writer import write_bytes

HTML, PDF, CSV = "comparison.html", "comparison.pdf", "comparison.csv"


def context(found: Comparison) -> dict[str, Any]:
    """Everything that the template names."""
    script = (TEMPLATES / "comparison.js").read_text()
    style = (TEMPLATES / "style.css").read_text() + (TEMPLATES / "comparison.css").read_text()
    return {
        "found": found,
        "view": comparison,
        "cards": comparison_cards.cards,
        "ledger": comparison_ledger,
        "devices": comparison.clocks(found),
        "letters": [one.letter for one in found.members],
        "mark": comparison.mark(found),
        "rows": comparison_table.table(found),
        "left_out": found.gathered.left_out,
        "unpublishable": [one.letter for one in found.members if not one.publishable],
        "cases": [_case(found, case) for case in dict.fromkeys(row.case for row in found.rows)],
        # Script and style are files of ours; no text of a bundle is in either. The page's policy lets this script alone run.
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": Markup(style),
    }


def _case(found: Comparison, case: str) -> tuple[str, str, Markup, list[str]]:
    rows = [row for row in found.rows if row.case == case]
    # The chart is our own SVG; every text in it was escaped by matplotlib.
    chart = Markup(comparison_chart.times(rows))
    return (
        one_line(case, 120),
        one_line(rows[0].title),
        chart,
        [told for row in rows if (told := comparison_table.floors(row))],
    )


def render_html(found: Comparison) -> str:
    """The comparison as one self-contained HTML document."""
    return environment().get_template("comparison.html").render(context(found))


def folder_name(found: Comparison) -> str:
    """A name that the same comparison always has: of what its bundles hold, its baseline and what was allowed."""
    parts = [*(one.content for one in found.members), found.baseline.letter, *sorted(found.allow)]
    return f"comparison-{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'replace')).hexdigest()[:8]}"


def write(found: Comparison, output: Path) -> list[Path]:
    """Write the three files into a folder of the comparison's own below `output`, and return their paths.

    Raises:
        BundleError: when the folder would lie within a bundle, or cannot be written.
    """
    folder = output / folder_name(found)
    for one in found.members:
        if folder.resolve().is_relative_to(one.bundle.path.resolve()):
            raise BundleError(
                f"{output}: a bundle's files are sealed by its checksums; name a folder outside of {one.bundle.path}."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(f"{folder}: cannot be made ({error.strerror or error}); name another --output.") from error
    html = render_html(found)
    contents = ((HTML, html.encode()), (PDF, render_pdf(html, found.baseline.bundle)), (CSV, table_csv(found).encode()))
    for name, content in contents:
        write_bytes(folder / name, content)
    return [folder / name for name, _ in contents]
