"""Log ratios of single pairs: the level between a block and a process."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

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


def pair_ratios(blocks: Iterable[Block], baseline: str, arm: str) -> list[PairRatio]:
    """Log ratios of whole pairs (two blocks of either arm, served by one incarnation), in order of process and pair."""
    pairs: dict[tuple[int, int, int], list[Block]] = defaultdict(list)
    for block in blocks:
        pairs[block.process, block.pair, block.incarnation].append(block)
    found = []
    for (process, _, incarnation), members in sorted(pairs.items()):
        ours, theirs = (
            [math.log(block_time(b.iterations_ns, b.calls_per_iteration)) for b in members if b.arm == label]
            for label in (arm, baseline)
        )
        if len(ours) == len(theirs) == 2:
            first = min(block.block for block in members)
            found.append(PairRatio(process, incarnation, first, (sum(theirs) - sum(ours)) / 2))
    return found


def by_process(ratios: Iterable[PairRatio]) -> dict[int, list[float]]:
    """The log ratios of pairs, by process."""
    rows: dict[int, list[float]] = defaultdict(list)
    for ratio in ratios:
        rows[ratio.process].append(ratio.log_ratio)
    return dict(rows)
