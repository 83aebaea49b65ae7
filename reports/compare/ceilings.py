"""What each machine could do at best, as measured in its own run, and how near to it a case comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.compare.parity import asked_precision
from reports.state import series
from suite.bundle import schema
from suite.bundle.reader import Loaded

Bound = Literal["memory", "arithmetic"]

REFERENCE_DTYPE = "float32"
"""The dtype of the reference product where a reading does not name another: it says nothing about the rate in any but its own."""

MOST = 2**80
"""No call computes or moves more: a stranger's number above it is no amount."""


@dataclass(frozen=True)
class Ceiling:
    """One measured rate, bytes or floating-point operations a second; `dtype` None when it holds for any."""

    bound: Bound
    rate: float
    dtype: str | None
    source: str


@dataclass(frozen=True)
class Share:
    """How much of a ceiling a call reaches: `least_ns` is the time that the ceiling allows, `fraction` that over the measured time."""

    ceiling: Ceiling
    least_ns: float
    fraction: float


def ceilings(bundle: Loaded) -> tuple[Ceiling, ...]:
    """The best readings of the run: what disturbs a machine takes away from its rates, it does not add. Empty without readings."""
    if not bundle.states:
        return ()
    found = [
        Ceiling(
            "memory", max(series(bundle.states, "memory bandwidth")), None, f"triad, best of {_readings(bundle.states)}"
        )
    ]
    by_dtype: dict[str, list[schema.State]] = {}
    for state in bundle.states:
        # Bundles of schema 1.1 do not name it.
        by_dtype.setdefault(getattr(state, "gemm_dtype", REFERENCE_DTYPE), []).append(state)
    for dtype, states in by_dtype.items():
        size = round((states[0].gemm_operations / 2) ** (1 / 3))
        source = f"{dtype} product of {size} x {size}, best of {_readings(states)}"
        found.append(Ceiling("arithmetic", max(series(states, "arithmetic rate")), dtype, source))
    return tuple(found)


def _readings(states: Sequence[schema.State]) -> str:
    return f"{len(states)} reading{'s' if len(states) != 1 else ''}"


def least_times(case: schema.Case, found: tuple[Ceiling, ...]) -> list[tuple[Ceiling, float]]:
    """(ceiling, ns that it allows a call to take at the least), of those ceilings that bear on the case."""
    # A product of float32 that may be rounded goes by another rate than one that may not.
    dtype = case.dtype if asked_precision(case) == "highest" or case.dtype != "float32" else "float32, rounded"
    amounts = {"memory": case.minimum_bytes, "arithmetic": case.floating_point_operations}
    return [
        (ceiling, amount / ceiling.rate * 1e9)
        for ceiling in found
        if (amount := amounts[ceiling.bound]) and 0 < amount < MOST and ceiling.dtype in (None, dtype)
    ]


def share(case: schema.Case, found: tuple[Ceiling, ...], typical_ns: float | None) -> Share | str:
    """The share of the ceiling that binds (the one that allows the least speed), or the reason why there is none."""
    if not found:
        return "the run measured no ceiling"
    times = least_times(case, found)
    if not times:
        return (
            "the case does not say what a call has to compute or move"
            if not case.minimum_bytes
            else f"no ceiling in {case.dtype}"
        )
    if typical_ns is None:
        return "not measured"
    ceiling, least = max(times, key=lambda each: each[1])
    return Share(ceiling, least, least / typical_ns)
