"""Numbers as this page writes them: the walkthrough's own way, so that both columns can be read side by side."""

from __future__ import annotations

from reports.words import share, size, us

NONE = "none"


def raw(microseconds: float) -> str:
    """A single reading as the trace holds it, to the nanosecond: "227.757 us"."""
    return f"{microseconds:,.6g} us" if microseconds < 10_000 else us(microseconds)


def whole(microseconds: float) -> str:
    """A kernel's time in us, four digits at most: "1084 us", "167.5 us"."""
    return f"{microseconds:.4g} us" if microseconds < 9999.5 else us(microseconds)


def tflops(rate: float) -> str:
    """A rate in TFLOP/s, three digits: a kernel's times differ by more."""
    return f"{rate:.3g} TFLOP/s"


def listed(values: tuple[float, ...], most: int = 5) -> str:
    """Ratios in a row: "2.00, 1.43, 1.43"."""
    return ", ".join(f"{value:.2f}" for value in values[:most]) + (", ..." if len(values) > most else "")


def between(found: list[str], last: str = "and") -> str:
    """Names in a sentence: "a, b and c"."""
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} {last} {found[-1]}" if found else NONE


__all__ = ["NONE", "between", "listed", "raw", "share", "size", "tflops", "us", "whole"]
