"""Renders a trace's analysis: trace.html, trace.pdf and, beside them, the trace itself for Perfetto."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from markupsafe import Markup

from reports.findings.contract import Finding
from reports.render import page_folder
from reports.render.paper import TEMPLATES, pdf, templates
from reports.render.plain_text import plain
from reports.render.publish import Content, publish
from reports.render.trace_against import Against
from reports.render.trace_view import page
from reports.trace.analyse import Analysis
from suite.bundle.errors import BundleError

HTML, PDF, TRACE = page_folder.HTML, "trace.pdf", "trace.json.gz"

EPOCH = 315_532_800
"""1 January 1980: a trace does not always say when it was recorded, and the document has to be the same every time."""

GZIP = b"\x1f\x8b"


def style() -> Markup:
    """The style of every page, and that of traces."""
    return Markup((TEMPLATES / "style.css").read_text() + (TEMPLATES / "trace.css").read_text())


def render_html(
    analysis: Analysis,
    findings: Sequence[Finding],
    reconciliation: Sequence[str] = (),
    title: str = "",
    against: Against | None = None,
    place: str = "",
    doubts: Sequence[str] = (),
) -> str:
    """The analysis as one self-contained HTML document; `reconciliation` are sentences on how the profiler's table and the trace differ,
    `place` a mark of where the trace lies (see `page_folder`), `doubts` what its bundle says against the recording."""
    shown = page(analysis, findings, reconciliation, title, against)
    # The picture is our own SVG; every text in it was escaped where it was made.
    return (
        templates()
        .get_template("trace.html")
        .render(page=shown, picture=Markup(shown.picture.svg), style=style(), place=place, doubts=doubts)
    )


def render_trace(
    analysis: Analysis,
    findings: Sequence[Finding],
    folder: Path,
    reconciliation: Sequence[str] = (),
    against: Against | None = None,
) -> list[Path]:
    """Write trace.html, trace.pdf and trace.json.gz into a folder, which is made when it is not there, and return their paths.

    The trace's content is not changed by a byte: a packed file is copied, a plain one packed. The files take their places together.

    Raises:
        BundleError: when the folder cannot be written, or the trace can no longer be read.
    """
    source = Path(analysis.trace.path)
    html = render_html(analysis, findings, reconciliation, against=against, place=page_folder.place(source))
    files: dict[str, Content] = {
        HTML: html.encode("utf-8", "replace"),
        PDF: pdf(html, plain(source.name), EPOCH),
    }
    with packed_copy(source, folder / TRACE) as copied:
        publish(folder, files | copied)
    return [folder / name for name in (HTML, PDF, TRACE)]


@contextmanager
def packed_copy(source: Path, target: Path) -> Iterator[dict[str, Content]]:
    """The file that is to be written for the trace to lie at `target`, packed; none where it lies there already.

    Raises:
        BundleError: when the trace cannot be read.
    """
    if target.exists() and target.samefile(source):
        yield {}
        return
    try:
        file = source.open("rb")
    except OSError as error:
        raise BundleError(f"{source}: cannot be read ({error.strerror or error}); is it still there?") from error
    with file:
        yield {target.name: lambda output: _copy(file, output)}


def _copy(file: IO[bytes], output: IO[bytes]) -> None:
    packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if packed:
        shutil.copyfileobj(file, output, 1 << 20)
        return
    # Without a name and a time, the same trace gives the same file.
    with gzip.GzipFile("", "wb", 6, output, 0) as stream:
        shutil.copyfileobj(file, stream, 1 << 20)
