"""SVG by hand: elements as text, every text in them escaped, for browsers and for WeasyPrint alike."""

from __future__ import annotations

from collections.abc import Iterable

from reports.render.plain_text import plain

CHARACTER = 0.61
"""Mean width of a character of the page's font, in ems; enough to tell whether a text fits."""


def escape(text: str) -> str:
    """Text as it may stand in an element or a quoted attribute."""
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(sign, entity)
    return text


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def rect(x: float, y: float, width: float, height: float, title: str = "", fill: str = "") -> str:
    """A rectangle; `title` is shown when the pointer rests on it."""
    shape = f'<rect x="{number(x)}" y="{number(y)}" width="{max(width, 0.1):.1f}" height="{number(height)}"'
    shape += f' fill="{escape(fill)}"' if fill else ""
    return f"{shape}><title>{escape(plain(title, 240))}</title></rect>" if title else f"{shape}/>"


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, dashes: str = "") -> str:
    """A thin line."""
    dashed = f' stroke-dasharray="{escape(dashes)}"' if dashes else ""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} stroke="{escape(stroke)}" stroke-width="0.8"{dashed}/>'


def text(
    x: float, y: float, content: str, *, size: float = 11, fill: str = "", anchor: str = "", bold: bool = False
) -> str:
    """A line of text with its baseline at `y`."""
    attributes = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}"'
    attributes += f' fill="{escape(fill)}"' if fill else ""
    attributes += f' text-anchor="{escape(anchor)}"' if anchor else ""
    attributes += ' font-weight="bold"' if bold else ""
    return f"<text {attributes}>{escape(plain(content))}</text>"


def fitting(content: str, width: float, size: float) -> str:
    """As much of a text as fits into `width`; nothing where not even three letters would."""
    room = int(width / (CHARACTER * size))
    content = plain(content)
    if len(content) <= room:
        return content
    return f"{content[: room - 1]}…" if room >= 4 else ""


def group(children: Iterable[str], **attributes: str) -> str:
    """A group; underscores in the attributes' names stand for hyphens. Nothing when it has no children."""
    inner = "".join(children)
    named = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return f"<g{named}>{inner}</g>" if inner else ""


def document(width: float, height: float, title: str, children: Iterable[str]) -> str:
    """The picture; it has no fixed size and takes the width it is given."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" role="img"'
        f' font-family="DejaVu Sans, sans-serif"><title>{escape(plain(title, 240))}</title>{"".join(children)}</svg>'
    )
