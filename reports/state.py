"""The machine during the run, from its reference readings: when it changed, which blocks that touches, and whether a ratio follows it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtr

from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.changes import Segment, segments
from suite.statistics.pairs import pair_ratios

Reference = Literal["memory bandwidth", "arithmetic rate"]

REFERENCES: tuple[Reference, ...] = ("memory bandwidth", "arithmetic rate")

NOTABLE_CHANGE = 0.10
"""A stretch whose level differs by less than 10 % from the run's usual one is not called another regime."""

MINIMUM_READINGS = 10
"""Two segments of five readings: fewer cannot show a change."""

STATE_PENALTY = 4.0
"""In ln n; the Bayesian information criterion's price of a mean, a variance and a position is 3. The readings are few, a change of 10 % is
asked for besides, and nothing is withheld for it: so this is more willing than the classification of warm-ups."""

USUAL_SHARE = 0.25
"""The usual level is the highest that held for at least a quarter of the readings: what disturbs a machine takes away, it does not add."""

DEPENDENCE_P = 0.01
MINIMUM_DEGREES = 6


@dataclass(frozen=True)
class Regime:
    """A stretch of the run in which a reference stood at another level than usual; times in ns since the epoch.

    `change` is its level over the usual one minus 1; `blocks` counts the measured blocks within it.
    """

    reference: Reference
    start_ns: int
    end_ns: int
    level: float
    usual: float
    first_case: str
    first_process: int
    blocks: int

    @property
    def change(self) -> float:
        return self.level / self.usual - 1


@dataclass(frozen=True)
class Dependence:
    """How a log ratio follows the log of the memory bandwidth: `slope` (percent for a percent), its p, and the number of pairs."""

    slope: float
    p: float
    pairs: int

    @property
    def depends(self) -> bool:
        """Whether the ratio is called dependent on the machine's state."""
        return self.p < DEPENDENCE_P


@dataclass(frozen=True)
class Spread:
    """How a reference's readings spread, without regard to order: bytes or operations a second.

    `away` counts readings that lie `NOTABLE_CHANGE` or more from the median of their own process, `medians` holds the least and the
    largest of the processes' medians. Slow and fast stretches that alternate make no regime, and are seen here.
    """

    reference: Reference
    low: float
    high: float
    readings: int
    away: int
    medians: tuple[float, float]
    processes: int

    @property
    def within(self) -> bool:
        """Whether readings of one process differ notably."""
        return self.away > 0

    @property
    def between(self) -> bool:
        """Whether the processes' medians differ notably."""
        return self.medians[1] / self.medians[0] - 1 >= NOTABLE_CHANGE


def spreads(states: Sequence[schema.State]) -> list[Spread]:
    """How each reference spreads within processes and between them; nothing without readings."""
    return [_spread(states, reference) for reference in REFERENCES] if states else []


def _spread(states: Sequence[schema.State], reference: Reference) -> Spread:
    by_process: dict[tuple[str, int, int], list[float]] = {}
    values = series(states, reference)
    for state, value in zip(states, values, strict=True):
        by_process.setdefault((state.case, state.process, state.incarnation), []).append(value)
    medians = {key: statistics.median(own) for key, own in by_process.items()}
    away = sum(abs(value / medians[key] - 1) >= NOTABLE_CHANGE for key, own in by_process.items() for value in own)
    edges = min(medians.values()), max(medians.values())
    return Spread(reference, min(values), max(values), len(values), away, edges, len(medians))


def series(states: Sequence[schema.State], reference: Reference) -> list[float]:
    """A reference's readings in order: bytes a second, or floating-point operations a second."""
    if reference == "memory bandwidth":
        return [state.triad_bytes / state.triad_ns * 1e9 for state in states]
    return [state.gemm_operations / state.gemm_ns * 1e9 for state in states]


def regimes(bundle: Loaded) -> list[Regime]:
    """Stretches in which the machine differed from its usual self, by reference and time (see `USUAL_SHARE`).

    Empty, too, when there are fewer than `MINIMUM_READINGS`, of which nobody can tell.
    """
    states = sorted(bundle.states, key=lambda state: state.at_ns)
    if len(states) < MINIMUM_READINGS or not bundle.blocks:
        return []
    found = []
    for reference in REFERENCES:
        values = series(states, reference)
        if not values:
            continue
        parts = segments([math.log(value) for value in values], STATE_PENALTY)
        lasting = [part for part in parts if part.end - part.start >= USUAL_SHARE * len(values)]
        usual = math.exp(max(lasting, key=lambda part: part.mean).mean if lasting else max(parts, key=_length).mean)
        for part in parts:
            level = math.exp(part.mean)
            if abs(level / usual - 1) >= NOTABLE_CHANGE:
                found.append(_regime(bundle, states, reference, part, level, usual))
    return sorted(found, key=lambda regime: regime.start_ns)


def _length(part: Segment) -> int:
    return part.end - part.start


def _regime(
    bundle: Loaded, states: Sequence[schema.State], reference: Reference, part: Segment, level: float, usual: float
) -> Regime:
    start = states[part.start].at_ns
    # Up to the reading that shows another level: the pair after the last one of this level was still measured in it.
    end = states[part.end].at_ns if part.end < len(states) else max(b.started_at_ns for b in bundle.blocks)
    blocks = sum(block.phase == "measure" and start <= block.started_at_ns <= end for block in bundle.blocks)
    first = states[part.start]
    return Regime(reference, start, end, level, usual, first.case, first.process, blocks)


def dependence(bundle: Loaded, case: str, baseline: str, arm: str) -> Dependence | str:
    """Regress the log ratios of a case's pairs on the log bandwidth read before each, or the reason why not.

    Both are taken as differences from their means in the process (the within estimator for panel data; Wooldridge, Econometric Analysis of
    Cross Section and Panel Data, section 10.5): processes differ in both for reasons of their own. Student's t for the slope has
    pairs - processes - 1 degrees of freedom.
    """
    states = {(s.process, s.incarnation, s.before_block): s for s in bundle.states if s.case == case}
    if not states:
        return "the machine-state reference was not read"
    blocks = [block for block in bundle.blocks if block.case == case and block.phase == "measure"]
    points = []
    for pair in pair_ratios(blocks, baseline, arm):
        state = states.get((pair.process, pair.incarnation, pair.first_block))
        if state is not None:
            points.append((pair.process, math.log(state.triad_bytes / state.triad_ns), pair.log_ratio))
    processes = {process for process, _, _ in points}
    degrees = len(points) - len(processes) - 1
    if degrees < MINIMUM_DEGREES:
        return f"{len(points)} pairs are too few to tell whether the ratio follows the machine's state"
    centred = [np.array([point[1:] for point in points if point[0] == process]) for process in sorted(processes)]
    x, y = np.concatenate([values - values.mean(axis=0) for values in centred]).T
    if not x.any():
        return "the machine's state did not vary"
    slope = float(x @ y / (x @ x))
    residual = y - slope * x
    error = math.sqrt(float(residual @ residual) / degrees / float(x @ x))
    p = float(2 * stdtr(degrees, -abs(slope) / error)) if error > 0 else 0.0
    return Dependence(slope, p, len(points))
