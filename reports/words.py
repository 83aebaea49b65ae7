"""Numbers as readers expect them in a sentence: at most four significant digits, with a unit."""

from __future__ import annotations


def us(microseconds: float) -> str:
    """A time: "227.8 us", "2.32 ms", "1.066 s"."""
    size = abs(microseconds)
    if size >= 1e6:
        return f"{microseconds / 1e6:.4g} s"
    if size >= 1e3:
        return f"{microseconds / 1e3:.4g} ms"
    return f"{microseconds:.4g} us"


def share(fraction: float) -> str:
    """A share: "99.1 %", "0.998 %"."""
    return f"{fraction * 100:.3g} %"


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
