"""Warm-up: run an arm until its time settles or its budget is spent."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from suite.measure.clock import Call, time_iterations

AGREEMENT = 0.02
"""Two halves agree when their medians differ by at most 2 %."""

MINIMUM_SAMPLES = 6


@dataclass(frozen=True)
class Warmup:
    """What the warm-up of one arm showed: its samples (of `warmup_calls` calls each), and what measuring should start from.

    `typical_ns` is the time of one call at the end of the warm-up.
    """

    settled: bool
    iterations_ns: list[int]
    warmup_calls: int
    calls_per_iteration: int
    typical_ns: float
    duration_ns: int


def calls_for(single_ns: float, sample_minimum_ns: int) -> int:
    """Calls that one timed iteration makes so that it lasts at least `sample_minimum_ns`."""
    return max(1, -(-sample_minimum_ns // max(1, round(single_ns))))


def halves_agree(samples: list[int]) -> bool:
    """Whether the last half of the samples has settled: its own two halves have medians within `AGREEMENT` of each other."""
    last = _last_half(samples)
    if len(last) < 4:
        return False
    first, second = statistics.median(last[: len(last) // 2]), statistics.median(last[len(last) // 2 :])
    return abs(first - second) <= AGREEMENT * min(first, second)


def _last_half(samples: list[int]) -> list[int]:
    return samples[len(samples) // 2 :]


def warm_up(
    call: Call,
    *,
    minimum_ns: int,
    budget_ns: int,
    sample_minimum_ns: int,
    iterations: int | None = None,
    timer: Callable[[Call, int, int], list[int]] = time_iterations,
    now: Callable[[], int] = perf_counter_ns,
) -> Warmup:
    """Warm `call` up and learn how long it takes.

    Ends when `halves_agree` after at least `minimum_ns`, or after `budget_ns`; with `iterations` it makes exactly that many
    single calls instead (a published procedure asks for a fixed number).

    `timer(call, iterations, calls)` gives the durations of iterations: the host's clock, or a device's own.

    `calls_per_iteration` of the result is what `sample_minimum_ns` asks of the settled call, which may be more than the cold
    call needed.
    """
    start = now()
    if iterations is not None:
        samples = timer(call, iterations, 1)
        return Warmup(halves_agree(samples), samples, 1, 1, statistics.median(_last_half(samples)), now() - start)
    calls = calls_for(min(timer(call, 3, 1)), sample_minimum_ns)
    samples = []
    while True:
        samples += timer(call, max(1, len(samples) // 4), calls)
        elapsed = now() - start
        enough = len(samples) >= MINIMUM_SAMPLES
        settled = enough and elapsed >= minimum_ns and halves_agree(samples)
        if settled or (enough and elapsed >= budget_ns):
            break
    typical = statistics.median(_last_half(samples)) / calls
    return Warmup(settled, samples, calls, calls_for(typical, sample_minimum_ns), typical, now() - start)
