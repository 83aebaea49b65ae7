"""Which arm is measured when: blocks in mirrored, rotated order, so that drift and position cancel.

Two arms give AB BA, BA AB, ...; k arms give balanced rotations: pair j runs the arms rotated by j, then the same order
mirrored. Within every pair each arm has the same mean position, so a linear drift adds the same to all of them; over k
pairs each arm has stood in each place equally often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """One block to be measured: its number in the process, the pair it belongs to, its position in the pair, and its arm."""

    block: int
    pair: int
    position: int
    arm: str


def slots(arms: Sequence[str], pairs: int, first_rotation: int) -> list[Slot]:
    """The schedule of a process: `pairs` pairs over `arms`. Processes differ in `first_rotation`.

    Raises:
        ValueError: without arms or pairs, or with a label that stands twice.
    """
    if not arms or pairs < 1:
        raise ValueError("a schedule needs at least one arm and one pair")
    if len(set(arms)) != len(arms):
        raise ValueError(f"labels must be unique: {', '.join(arms)}")
    schedule: list[Slot] = []
    for pair in range(pairs):
        turn = (pair + first_rotation) % len(arms)
        rotated = [*arms[turn:], *arms[:turn]]
        for position, arm in enumerate([*rotated, *reversed(rotated)]):
            schedule.append(Slot(len(schedule), pair, position, arm))
    return schedule


def iterations_per_block(typical_ns: float, calls_per_iteration: int, block_duration_ns: int, minimum: int) -> int:
    """Iterations of a block: as many as fill `block_duration_ns`, at least `minimum`."""
    return max(minimum, -(-block_duration_ns // max(1, round(typical_ns * calls_per_iteration))))


def pairs_within(budget_ns: int, block_ns: Mapping[str, float], minimum: int, maximum: int) -> int:
    """Pairs that fit into a process's measuring budget, between `minimum` and `maximum`; `block_ns` is one block's time by arm."""
    pair_ns = 2 * sum(block_ns.values())
    return max(minimum, min(maximum, int(budget_ns // max(1.0, pair_ns))))
