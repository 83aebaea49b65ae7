"""Renders the walkthrough's questions: a page of a bundle, and a page (with PDF) of traces that are named as its own."""

from __future__ import annotations

from pathlib import Path

from reports.render.paper import pdf, templates
from reports.render.trace_document import EPOCH, style
from reports.render.walkthrough_view import NOT_COMPARED, Page, page
from reports.walkthrough.answer import ask
from reports.walkthrough.questions import QUESTIONS
from reports.walkthrough.recording import Recordings
from suite.bundle.writer import write_bytes

HTML, PDF = "walkthrough.html", "walkthrough.pdf"
TITLE = "The walkthrough's questions"


def shown(recordings: Recordings) -> Page:
    """Every question asked of these recordings, as the page shows it."""
    return page(ask(QUESTIONS, recordings), recordings)


def render_html(found: Page) -> str:
    """The page as one self-contained HTML document."""
    return (
        templates()
        .get_template("walkthrough.html")
        .render(page=found, style=style(), title=TITLE, not_compared=NOT_COMPARED)
    )


def write(found: Page, folder: Path) -> list[Path]:
    """Write walkthrough.html and walkthrough.pdf into a folder and return their paths.

    Raises:
        BundleError: when it cannot be written.
    """
    html = render_html(found)
    write_bytes(folder / HTML, html.encode("utf-8", "replace"))
    write_bytes(folder / PDF, pdf(html, TITLE, EPOCH))
    return [folder / HTML, folder / PDF]
