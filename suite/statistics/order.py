"""The order of blocks: mirrored pairs of rotations, so that drift and position cancel.

Two arms give AB BA, BA AB, ...; k arms give balanced rotations: pair j runs the arms rotated by j, then the same order
mirrored. Within every pair each arm has the same mean position, so a linear drift adds the same to all of them; over k
pairs each arm has stood in each place equally often.
"""

from __future__ import annotations

from collections.abc import Sequence


def mirrored(arms: Sequence[str], pairs: int, first_rotation: int) -> list[str]:
    """The arms in the order in which a process measures them: `pairs` pairs of a rotation and its mirror image.

    Raises:
        ValueError: without arms or pairs, or with a label that stands twice.
    """
    if not arms or pairs < 1:
        raise ValueError("a schedule needs at least one arm and one pair")
    if len(set(arms)) != len(arms):
        raise ValueError(f"labels must be unique: {', '.join(arms)}")
    order: list[str] = []
    for pair in range(pairs):
        turn = (pair + first_rotation) % len(arms)
        rotated = [*arms[turn:], *arms[:turn]]
        order += [*rotated, *reversed(rotated)]
    return order
