"""What each machine could do at best, as measured in its own run, and how near to it a case comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.plain import one_line
from reports.state import series
from suite.bundle import schema
from suite.bundle.reader import Loaded

Bound = Literal["memory", "arithmetic"]

ROUNDED = "float32, rounded"
"""The dtype, beside torch's own, of products of float32 whose inputs may be rounded (TF32): another rate than exact ones have."""

BEFORE_THE_RUN: dict[str, tuple[Bound, str | None, str]] = {
    "bf16 FLOP/s": ("arithmetic", "bfloat16", "bfloat16 product"),
    "tf32 FLOP/s": ("arithmetic", ROUNDED, "TF32 product"),
    "fp32 FLOP/s": ("arithmetic", "float32", "float32 product"),
    "copy bytes/s": ("memory", None, "copy"),
}
"""What a device's own ceilings in the fingerprint (subject "ceilings") bear on: bound, dtype, and what was done."""

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
    """The run's best rates, one a bound and dtype. Empty where nothing measured any.

    They come from the readings between the blocks and, on a device, from the ceilings that were measured before the run. Either may be the
    higher one: a short reading finds a GPU cool, a long product reaches its power limit, but is larger. What disturbs a machine takes
    away from its rates, it does not add: so the higher one stands.
    """
    found: dict[tuple[Bound, str | None], Ceiling] = {}
    for each in (*_read_between(bundle.states), *_measured_before(bundle)):
        kept = found.get((each.bound, each.dtype))
        if kept is None or each.rate > kept.rate:
            found[each.bound, each.dtype] = each
    return tuple(found.values())


def _read_between(states: Sequence[schema.State]) -> list[Ceiling]:
    if not states:
        return []
    found = [Ceiling("memory", max(series(states, "memory bandwidth")), None, f"triad, best of {_readings(states)}")]
    by_dtype: dict[str, list[schema.State]] = {}
    for state in states:
        by_dtype.setdefault(state.gemm_dtype, []).append(state)
    for dtype, own in by_dtype.items():
        size = round((own[0].gemm_operations / 2) ** (1 / 3))
        source = f"{dtype} product of {size} x {size}, best of {_readings(own)}"
        found.append(Ceiling("arithmetic", max(series(own, "arithmetic rate")), dtype, source))
    return found


def _measured_before(bundle: Loaded) -> list[Ceiling]:
    """The ceilings of the fingerprint. What is no positive number, or larger than any rate, is left out: a bundle may be a stranger's."""
    facts = bundle.fingerprint.facts.get("ceilings", {}) if bundle.fingerprint else {}
    found = []
    for name, (bound, dtype, work) in BEFORE_THE_RUN.items():
        fact = facts.get(name)
        rate = fact.value if fact and fact.status == "ok" else None
        if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < MOST and math.isfinite(rate):
            of = f" of {one_line(fact.note, 40)}" if fact and fact.note else ""
            found.append(Ceiling(bound, float(rate), dtype, f"{work}{of}, before the run"))
    return found


def _readings(states: Sequence[schema.State]) -> str:
    return f"{len(states)} reading{'s' if len(states) != 1 else ''}"


def least_times(case: schema.Case, found: tuple[Ceiling, ...]) -> list[tuple[Ceiling, float]]:
    """(ceiling, ns that it allows a call to take at the least), of those ceilings that bear on the case."""
    dtype = ROUNDED if case.dtype == "float32" and case.matmul_precision != "highest" else case.dtype
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
