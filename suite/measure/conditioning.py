"""Bringing a device that works beside its host to the clock that it keeps under these arms' load, before a block is timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FLAT_CYCLES = 3
FLAT = 0.01
"""The clock is flat when the means of the last three cycles lie within 1 % of each other; a GPU's clock moves in steps of 15 MHz."""

LEAST_BLOCKS, MOST_BLOCKS = 10, 30
"""Conditioning before the first block lasts as long as 10 blocks at least, and 30 at most: 1 and 3 s, but for smoke."""

Load = Callable[[], int | None]
"""Some work of one arm; returns the clock in MHz that the device had meanwhile, None where it was not told."""


@dataclass(frozen=True)
class Conditioned:
    """`clocks_mhz` is the mean clock of each cycle over the arms; `flat` whether it had stopped moving."""

    clocks_mhz: list[int]
    flat: bool
    duration_ns: int


def is_flat(clocks_mhz: Sequence[float]) -> bool:
    """Whether the last cycles agree."""
    last = clocks_mhz[-FLAT_CYCLES:]
    return len(last) == FLAT_CYCLES and max(last) - min(last) <= FLAT * min(last)


def condition(
    loads: Sequence[Load], least_ns: int, most_ns: int, now: Callable[[], int] = time.monotonic_ns
) -> Conditioned:
    """Run the arms in turn until the clock is flat after at least `least_ns`, or until `most_ns` are over.

    In turn, and not each until it is flat: arms draw different power, and none of them may find the device as it left it. Ends after
    the first cycle where no clock is told: then nothing can be waited for.
    """
    start = now()
    clocks: list[int] = []
    while True:
        told = [clock for clock in (load() for load in loads) if clock is not None]
        elapsed = now() - start
        if not told:
            return Conditioned(clocks, False, elapsed)
        clocks.append(round(statistics.mean(told)))
        flat = is_flat(clocks)
        if (flat and elapsed >= least_ns) or elapsed >= most_ns:
            return Conditioned(clocks, flat, elapsed)
