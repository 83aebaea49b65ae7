"""Which arm is measured when, and how much of it: slots, block lengths and how many pairs a budget buys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.statistics.order import mirrored


@dataclass(frozen=True)
class Slot:
    """One block to be measured: its number in the process, the pair it belongs to, its position in the pair, and its arm."""

    block: int
    pair: int
    position: int
    arm: str


def slots(arms: Sequence[str], pairs: int, first_rotation: int) -> list[Slot]:
    """The schedule of a process: `pairs` pairs over `arms` (see `mirrored`). Processes differ in `first_rotation`.

    Raises:
        ValueError: without arms or pairs, or with a label that stands twice.
    """
    order, length = mirrored(arms, pairs, first_rotation), 2 * len(arms)
    return [Slot(number, number // length, number % length, arm) for number, arm in enumerate(order)]


def iterations_per_block(typical_ns: float, calls_per_iteration: int, block_duration_ns: int, minimum: int) -> int:
    """Iterations of a block: as many as fill `block_duration_ns`, at least `minimum`."""
    return max(minimum, -(-block_duration_ns // max(1, round(typical_ns * calls_per_iteration))))


def least_pairs(block_ns: Mapping[str, float], arm_minimum_ns: int, minimum: int) -> int:
    """Pairs that measure every arm for at least `arm_minimum_ns`, and at least `minimum`; a pair holds two blocks of each."""
    return max(minimum, *(math.ceil(arm_minimum_ns / (2 * duration)) for duration in block_ns.values()))


def pairs_within(budget_ns: int, block_ns: Mapping[str, float], minimum: int, maximum: int) -> int:
    """Pairs that fit into a process's measuring budget, between `minimum` and `maximum`; `block_ns` is one block's time by arm."""
    pair_ns = 2 * sum(block_ns.values())
    return max(minimum, min(maximum, int(budget_ns // max(1.0, pair_ns))))
