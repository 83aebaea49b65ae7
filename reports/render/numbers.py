"""Numbers for readers: units that fit, at most four significant digits, fewer when the interval says so."""

from __future__ import annotations

import math

from suite.statistics.ratio import Interval, Ratio

MAXIMUM_DIGITS = 4
PDG_EDGE = 3.545
NO_NUMBER = "–"
TIMES = "×"

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BINARY_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits, never in exponent notation for everyday magnitudes."""
    if not math.isfinite(value):
        return NO_NUMBER
    if value == 0:
        return "0"
    # Of the rounded value: 9.996 with three digits is 10.0.
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if magnitude < -5 or magnitude > 9:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - magnitude)
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"


def decimals(estimate: float, half_width: float) -> int:
    """Decimal places that an estimate deserves next to its half width, at most four digits in all.

    The Particle Data Group's rule (Review of Particle Physics, introduction, section 5.3): two digits of the half width where its first
    three lie between 100 and 354, else one.
    """
    by_digits = MAXIMUM_DIGITS - 1 - math.floor(math.log10(abs(estimate))) if estimate else MAXIMUM_DIGITS
    by_interval = by_digits
    if half_width > 0:
        magnitude = math.floor(math.log10(half_width))
        by_interval = (1 if half_width / 10**magnitude < PDG_EDGE else 0) - magnitude
    return max(0, min(by_digits, by_interval))


def ratio(value: Ratio | None) -> str:
    """A ratio as "1.84×"; with an interval its digits follow the interval, without one there are two decimals at most."""
    if value is None:
        return NO_NUMBER
    places = _places(value)
    return f"{value.estimate:.{places}f}{TIMES}"


def interval(value: Ratio | None) -> str:
    """The interval of a ratio as "1.79 to 1.89", in the digits of its estimate."""
    if value is None or value.interval is None:
        return NO_NUMBER
    places = _places(value)
    low, high = f"{value.interval.low:.{places}f}", f"{value.interval.high:.{places}f}"
    if low == high:
        low, high = f"{value.interval.low:.{places + 1}f}", f"{value.interval.high:.{places + 1}f}"
    return f"{low} to {high}"


def _places(value: Ratio) -> int:
    if value.interval is None:
        return 2 if value.estimate < 10 else 1
    return decimals(value.estimate, half_width(value.interval))


def half_width(value: Interval) -> float:
    """Half the width of an interval."""
    return (value.high - value.low) / 2


def time(nanoseconds: float | None, digits: int = 3) -> str:
    """A duration in the unit that fits: "284 ms"."""
    if nanoseconds is None:
        return NO_NUMBER
    scale, unit = time_unit(nanoseconds)
    return f"{significant(nanoseconds / scale, digits)}\u00a0{unit}"


def time_range(first_ns: float, last_ns: float) -> str:
    """A range in one unit, fine enough that its ends differ in three digits: "2,615.22 to 2,615.79 µs"."""
    scale, unit = time_unit(max(last_ns - first_ns, 1))
    length = (last_ns - first_ns) / scale
    places = min(3, max(0, 2 - math.floor(math.log10(length)))) if length > 0 else 0
    return f"{first_ns / scale:,.{places}f} to {last_ns / scale:,.{places}f}\u00a0{unit}"


def time_unit(nanoseconds: float) -> tuple[float, str]:
    """The largest unit of which there is at least one: its length in ns and its name."""
    # 0.9995: what rounds to a whole unit is given in it, so that 999.9 ns is 1.00 µs.
    return next(((scale, unit) for scale, unit in _TIME_UNITS if abs(nanoseconds) >= 0.9995 * scale), _TIME_UNITS[-1])


def percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction in percent: "1.3 %"."""
    return NO_NUMBER if fraction is None else f"{significant(fraction * 100, digits)}\u00a0%"


def size(count: float | None) -> str:
    """Bytes in binary units: "23.4 GiB"."""
    if count is None:
        return NO_NUMBER
    scale, unit = next(((scale, unit) for scale, unit in _BINARY_UNITS if abs(count) >= scale), (1, "B"))
    return f"{significant(count / scale) if scale > 1 else f'{count:,.0f}'}\u00a0{unit}"


def rate(per_s: float, unit: str) -> str:
    """A rate in decimal units, as makers give them: "708 TFLOP/s", "50.9 GB/s"; `unit` is "FLOP/s" or "B/s"."""
    scale, prefix = next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if per_s >= 0.9995 * s), (1.0, ""))
    return f"{significant(per_s / scale)}\u00a0{prefix}{unit}"


def counted(number: int, noun: str) -> str:
    """A count with its noun: 1 process, 3 processes, 4 cases."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def count(value: float) -> str:
    """A whole number with thousands separators; a fraction keeps one decimal."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
