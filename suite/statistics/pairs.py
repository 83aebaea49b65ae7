"""Log ratios of single pairs: the level between a block and a process."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from suite.statistics.ratio import block_time


class Block(Protocol):
    """A measured block, as `suite.bundle.schema.Block` is one: its samples, and where it stands in the schedule."""

    @property
    def process(self) -> int: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def pair(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def arm(self) -> str: ...
    @property
    def calls_per_iteration(self) -> int: ...
    @property
    def iterations_ns(self) -> list[int]: ...


@dataclass(frozen=True)
class PairRatio:
    """One pair of mirrored blocks: its mean log time of the baseline minus that of the arm; `first_block` opened the pair."""

    process: int
    incarnation: int
    first_block: int
    log_ratio: float


class Paired(NamedTuple):
    """Block times of two arms in ns, by process, from whole pairs alone."""

    baseline: dict[int, list[float]]
    arm: dict[int, list[float]]


def whole_pairs(blocks: Iterable[Block], baseline: str, arm: str, minimum: int = 1) -> Paired:
    """Block times for a ratio: only from pairs in which either arm has both of its mirrored blocks.

    Of a process that died in the middle of a pair the rest still counts, because only whole pairs cancel a drift; a process with fewer than
    `minimum` whole pairs is no replicate.
    """
    paired = Paired({}, {})
    for process, pairs in _by_process_and_pair(blocks, baseline, arm).items():
        whole = [members for members in pairs.values() if len(members[baseline]) == len(members[arm]) == 2]
        if len(whole) >= minimum:
            paired.baseline[process] = [_time(block) for members in whole for block in members[baseline]]
            paired.arm[process] = [_time(block) for members in whole for block in members[arm]]
    return paired


def pair_ratios(blocks: Iterable[Block], baseline: str, arm: str) -> list[PairRatio]:
    """Log ratios of whole pairs that one incarnation served, in order of process and pair."""
    all_blocks = list(blocks)
    first: dict[tuple[int, int], int] = {}
    for block in all_blocks:
        first[block.process, block.pair] = min(block.block, first.get((block.process, block.pair), block.block))
    found = []
    for process, pairs in sorted(_by_process_and_pair(all_blocks, baseline, arm).items()):
        for pair, members in sorted(pairs.items()):
            incarnations = {block.incarnation for arm_blocks in members.values() for block in arm_blocks}
            if len(members[baseline]) == len(members[arm]) == 2 and len(incarnations) == 1:
                ours, theirs = ([math.log(_time(block)) for block in members[label]] for label in (arm, baseline))
                ratio = (sum(theirs) - sum(ours)) / 2
                found.append(PairRatio(process, incarnations.pop(), first[process, pair], ratio))
    return found


def _by_process_and_pair(
    blocks: Iterable[Block], baseline: str, arm: str
) -> dict[int, dict[int, dict[str, list[Block]]]]:
    grouped: dict[int, dict[int, dict[str, list[Block]]]] = {}
    for block in blocks:
        if block.arm in (baseline, arm):
            members = grouped.setdefault(block.process, {}).setdefault(block.pair, {baseline: [], arm: []})
            members[block.arm].append(block)
    return grouped


def _time(block: Block) -> float:
    return block_time(block.iterations_ns, block.calls_per_iteration)


def by_process(ratios: Iterable[PairRatio]) -> dict[int, list[float]]:
    """The log ratios of pairs, by process."""
    rows: dict[int, list[float]] = defaultdict(list)
    for ratio in ratios:
        rows[ratio.process].append(ratio.log_ratio)
    return dict(rows)
