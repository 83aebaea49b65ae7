"""Sentences on the machine during the run, and on rates that are held against its own. No HTML here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from datetime import UTC, datetime

from reports.render import numbers
from reports.results import CaseResult
from reports.state import MINIMUM_READINGS, REFERENCES, Regime, Spread, series, spreads
from suite.bundle.reader import Loaded


def reference(bundle: Loaded) -> str:
    """The machine-state reference in words: the size of its two workloads."""
    state = bundle.states[0]
    size = round((state.gemm_operations / 2) ** (1 / 3))
    dtype = "" if state.gemm_dtype == "float32" else f" in {state.gemm_dtype}"
    return f"a triad over {state.triad_bytes / 2**20:.0f} MiB, and a {size} x {size} matrix product{dtype}"


def steadiness(bundle: Loaded) -> list[str]:
    """How far the references spread within the processes and between them, a sentence each, and what order adds to it."""
    told = [_spread_sentence(spread, between=not bundle.run.ablation) for spread in spreads(bundle.states)]
    if bundle.run.ablation:
        return [
            *told,
            "The levels differ in threads and memory, and so in these too: processes are not compared, and no change is looked for.",
        ]
    if len(bundle.states) < MINIMUM_READINGS:
        return [*told, "That is too few readings to tell whether the machine changed during the run."]
    return told


def _spread_sentence(spread: Spread, *, between: bool) -> str:
    name = f"{spread.reference[0].upper()}{spread.reference[1:]}"
    span = f"{name}: {_rate(spread.low, spread.reference)} to {_rate(spread.high, spread.reference)}"
    span += f" in {numbers.counted(spread.readings, 'reading')}"
    within = (
        f"{spread.away} of them lie{'s' if spread.away == 1 else ''} 10 % or more from the median of their own process"
        if spread.within
        else "within each process all lie less than 10 % from its median"
    )
    if not between or spread.processes < 2:
        return f"{span}; {within}."
    low, high = (_rate(value, spread.reference) for value in spread.medians)
    apart = numbers.percent(spread.medians[1] / spread.medians[0] - 1)
    steady = {
        (False, False): "steady to within 10 %",
        (True, False): "unsteady within processes",
        (False, True): "different from process to process",
        (True, True): "unsteady within processes and different from process to process",
    }[spread.within, spread.between]
    return f"{span}, {steady}: {within}, and the processes' medians go from {low} to {high} ({apart} apart)."


def no_regime(bundle: Loaded) -> str:
    """What it means that no other regime was found; nothing where none was looked for."""
    if bundle.run.ablation or len(bundle.states) < MINIMUM_READINGS:
        return ""
    return (
        "No lasting stretch at another level: none differs from the usual mean by 10 % or more."
        " Swings from one reading to the next make no stretch."
    )


def regime_sentences(found: Iterable[Regime]) -> list[str]:
    """When and how the machine changed under the run, one sentence a stretch."""
    return [_regime_sentence(regime) for regime in found]


def _regime_sentence(regime: Regime) -> str:
    where = f"from process {regime.first_process} of {regime.first_case} on"
    level, usual = _rate(regime.level, regime.reference), _rate(regime.usual, regime.reference)
    side = "below" if regime.change < 0 else "above"
    blocks = f"{regime.blocks} measured block{'s lie' if regime.blocks != 1 else ' lies'} in this stretch"
    return (
        f"From {_clock(regime.start_ns)} to {_clock(regime.end_ns)} UTC, {where}, the {regime.reference} averaged {level}, "
        f"{100 * abs(regime.change):.0f} % {side} the usual {usual}; {blocks}, shaded and kept."
    )


def _clock(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _rate(value: float, reference: str) -> str:
    return _per_second(value / 1e9, "B/s" if reference == "memory bandwidth" else "FLOP/s")


def rates(bundle: Loaded, case: CaseResult) -> str:
    """What a call has to compute and to move at the least, and the rates that follow for every arm; nothing where it is unknown."""
    operations, moved = case.case.floating_point_operations, case.case.minimum_bytes
    if operations is None or moved is None:
        return ""
    timed = [arm for arm in (case.baseline, *case.candidates) if arm.typical_ns]
    arms = [
        f"{arm.arm.label} {_per_second(operations / (arm.typical_ns or 1), 'FLOP/s')} and"
        f" {_per_second(moved / (arm.typical_ns or 1), 'B/s')}"
        for arm in timed
    ]
    count, word = (operations / 1e6, "million") if operations < 1e9 else (operations / 1e9, "billion")
    least = f"{numbers.significant(count)} {word} floating-point operations and {numbers.size(moved)} read and written"
    text = f"A call takes at least {least} (each byte once, as if fused). Over the time of a call: {'; '.join(arms)}."
    own = [state for state in bundle.states if state.case == case.case.name]
    if not own:
        return text
    reached = statistics.median(series(own, REFERENCES[0]))
    above = [
        f"{arm.arm.label} {100 * moved / (arm.typical_ns or 1) * 1e9 / reached:.0f} %"
        for arm in timed
        if moved / (arm.typical_ns or 1) * 1e9 > reached
    ]
    if above:
        text += (
            f" That is more than the {_rate(reached, REFERENCES[0])} at which the triad ran beside it (median; {', '.join(above)} of it):"
            " some of the bytes came from caches, or the triad does not show all that the memory can do. It is no share of a bandwidth."
        )
    return text


def _per_second(giga: float, unit: str) -> str:
    """A rate that is given in 10^9 a second, in a unit that fits."""
    return f"{numbers.significant(giga / 1000)} T{unit}" if giga >= 1000 else f"{numbers.significant(giga)} G{unit}"
