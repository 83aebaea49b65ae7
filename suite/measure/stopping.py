"""When a case has enough processes, and how much the next one should measure. Pure functions on the bundle's blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.bundle.schema import Arm, Block, Procedure
from suite.statistics.hierarchy import balanced, components, repetitions
from suite.statistics.pairs import by_process, pair_ratios, whole_pairs
from suite.statistics.ratio import Interval, Ratio, ratio


def half_width(interval: Interval) -> float:
    """Half the width of a ratio's interval on the log scale, as a fraction: what the ratio is known to within."""
    return math.expm1((math.log(interval.high) - math.log(interval.low)) / 2)


def widest(blocks: Sequence[Block], arms: Sequence[Arm], procedure: Procedure) -> float | None:
    """The widest half width among a case's candidates; None while one of them has no interval.

    `blocks` are the case's own, `arms` those that apply to it. A case without candidates that ran has nothing to wait for: 0.
    """
    measured = [block for block in blocks if block.phase == "measure"]
    seen = {block.arm for block in measured}
    baseline = next(arm.label for arm in arms if arm.role == "baseline")
    widths = [0.0]
    for arm in arms:
        if arm.role != "candidate" or arm.label not in seen:
            continue
        paired = whole_pairs(measured, baseline, arm.label, procedure.pairs_minimum)
        found = ratio(*paired, pilot=procedure.processes)
        if not isinstance(found, Ratio) or found.interval is None:
            return None
        widths.append(half_width(found.interval))
    return max(widths)


@dataclass(frozen=True)
class Costs:
    """Seconds that one pair of blocks over all arms takes, and that a process takes before its first block."""

    pair_s: float
    process_s: float


def pairs_wanted(blocks: Sequence[Block], arms: Sequence[Arm], costs: Costs, most: int) -> int | None:
    """Pairs that the next process should measure so that the remaining budget buys the narrowest interval; None without a pilot.

    The pilot is what has been measured: the log ratios of pairs within processes (Kalibera and Jones, section 6.3). The candidate that
    wants the most pairs decides.
    """
    baseline = next(arm.label for arm in arms if arm.role == "baseline")
    measured = [block for block in blocks if block.phase == "measure"]
    wanted = []
    for arm in arms:
        if arm.role != "candidate":
            continue
        rows = balanced_rows(by_process(pair_ratios(measured, baseline, arm.label)))
        if rows is None:
            continue
        own = components(rows).own
        wanted.append(repetitions(own, (costs.pair_s, costs.process_s), most)[0])
    return max(wanted, default=None)


def balanced_rows(ratios: Mapping[int, Sequence[float]]) -> list[list[float]] | None:
    """Rows for `components`, or None when there are fewer than two processes with two pairs."""
    rows = [row for row in ratios.values() if len(row) >= 2]
    return balanced(rows) if len(rows) >= 2 else None
