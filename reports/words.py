"""Numbers as readers expect them in a sentence: at most four significant digits, with a unit."""

from __future__ import annotations

import math


def figures(value: float, digits: int) -> str:
    """A number with so many significant digits, never with an exponent: "227.8", "12,200", "0.00013"."""
    if value and math.isfinite(value):
        text = f"{value:.{digits}g}"
        if "e" not in text:
            return text
        return f"{value:,.0f}" if abs(value) >= 1 else f"{value:.9f}".rstrip("0").rstrip(".")
    return f"{value:g}"


def us(microseconds: float) -> str:
    """A time: "227.8 us", "2.32 ms", "1.066 s"."""
    size = abs(microseconds)
    if size >= 1e6:
        return f"{figures(microseconds / 1e6, 4)} s"
    if size >= 1e3:
        return f"{figures(microseconds / 1e3, 4)} ms"
    return f"{figures(microseconds, 4)} us"


def share(fraction: float) -> str:
    """A share: "99.1 %", "0.998 %", "1,220 %"; what is not all and not nothing is called neither."""
    percent = fraction * 100
    if 0 < percent < 0.001:
        return "less than 0.001 %"
    if 99.95 <= percent < 100 - 1e-9:
        return "more than 99.9 %"
    return f"{figures(percent, 3)} %"


def factor(ratio: float) -> str:
    """How many times as much: "1.9", "114", near 1 with one more digit: "1.028"; "any number of" where nothing bounds it."""
    return figures(ratio, 4 if ratio < 1.1 else 3) if math.isfinite(ratio) else "any number of"


def times(count: int) -> str:
    """How often: "once", "2 times"."""
    return "once" if count == 1 else f"{count:,} times"


def size(amount_bytes: float) -> str:
    """Bytes: "32 MiB"."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if amount_bytes >= factor:
            return f"{amount_bytes / factor:.4g} {unit}"
    return f"{amount_bytes:g} bytes"


def short(name: str, width: int = 90) -> str:
    """A name that fits a sentence; the full one stands in the tables."""
    return name if len(name) <= width else f"{name[: width - 3]}..."
