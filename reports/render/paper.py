"""Pages on screen and on paper: the templates' environment, and HTML as a PDF that is the same every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import jinja2

TEMPLATES = Path(__file__).parent / "templates"


def templates() -> jinja2.Environment:
    """Jinja with escaping on and undefined names refused: a misspelt field must not become an empty cell."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def pdf(html: str, identifier: str, epoch: int) -> bytes:
    """A document as PDF. Nothing is fetched: everything stands in the document itself. `epoch` dates its fonts, in s since 1970."""
    import weasyprint

    with dated(epoch):
        document = weasyprint.HTML(string=html, url_fetcher=_refuse, base_url=None)
        content: bytes = document.write_pdf(
            pdf_identifier=identifier.encode("utf-8", "replace"), uncompressed_pdf=False
        )
    return content


def _refuse(url: str, *_arguments: Any, **_options: Any) -> NoReturn:
    raise ValueError(f"a report fetches nothing, not even {url}")


@contextmanager
def dated(epoch: int) -> Iterator[None]:
    """Date embedded fonts by what is given, not by the clock (https://reproducible-builds.org/specs/source-date-epoch/)."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before
