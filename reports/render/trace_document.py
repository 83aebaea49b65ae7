"""Renders a trace's analysis: trace.html, trace.pdf and, beside them, the trace itself for Perfetto."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from markupsafe import Markup

from reports.findings.contract import Finding
from reports.render.paper import TEMPLATES, pdf, templates
from reports.render.trace_view import page
from reports.trace.analyse import Analysis
from suite.bundle.errors import BundleError
from suite.bundle.writer import unwritable, write_bytes

HTML, PDF, TRACE = "trace.html", "trace.pdf", "trace.json.gz"

EPOCH = 315_532_800
"""1 January 1980: a trace does not always say when it was recorded, and the document has to be the same every time."""

GZIP = b"\x1f\x8b"


def style() -> Markup:
    """The style of every page, and that of traces."""
    return Markup((TEMPLATES / "style.css").read_text() + (TEMPLATES / "trace.css").read_text())


def render_html(
    analysis: Analysis, findings: Sequence[Finding], reconciliation: Sequence[str] = (), title: str = ""
) -> str:
    """The analysis as one self-contained HTML document; `reconciliation` are sentences on how the profiler's table and the trace differ."""
    shown = page(analysis, findings, reconciliation, title)
    # The picture is our own SVG; every text in it was escaped where it was made.
    return templates().get_template("trace.html").render(page=shown, picture=Markup(shown.picture.svg), style=style())


def render_trace(
    analysis: Analysis, findings: Sequence[Finding], folder: Path, reconciliation: Sequence[str] = ()
) -> list[Path]:
    """Write trace.html, trace.pdf and trace.json.gz into a folder, which is made when it is not there, and return their paths.

    The trace's content is not changed by a byte: a packed file is copied, a plain one packed.

    Raises:
        BundleError: when the folder cannot be written, or the trace can no longer be read.
    """
    html = render_html(analysis, findings, reconciliation)
    source = Path(analysis.trace.path)
    write_bytes(folder / HTML, html.encode("utf-8", "replace"))
    write_bytes(folder / PDF, pdf(html, source.name, EPOCH))
    copy_packed(source, folder / TRACE)
    return [folder / name for name in (HTML, PDF, TRACE)]


def copy_packed(source: Path, target: Path) -> None:
    """Copy a file, packed unless it is, beside its place and then into it.

    Raises:
        BundleError: when either cannot be read or written.
    """
    if target.exists() and target.samefile(source):
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        file = source.open("rb")
    except OSError as error:
        raise BundleError(f"{source}: cannot be read ({error.strerror or error}); is it still there?") from error
    with file:
        try:
            with beside.open("wb") as output:
                _copy(file, output)
                output.flush()
                os.fsync(output.fileno())
            beside.replace(target)
        except OSError as error:
            raise unwritable(target, error) from error
        finally:
            with suppress(OSError):
                beside.unlink()


def _copy(file: IO[bytes], output: IO[bytes]) -> None:
    packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if packed:
        shutil.copyfileobj(file, output, 1 << 20)
        return
    # Without a name and a time, the same trace gives the same file.
    with gzip.GzipFile("", "wb", 6, output, 0) as stream:
        shutil.copyfileobj(file, stream, 1 << 20)
