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
    """What the warm-up of one arm showed; `iterations_ns` are all its samples, `typical_ns` the time of one call at its end."""

    settled: bool
    iterations_ns: list[int]
    calls_per_iteration: int
    typical_ns: float
    duration_ns: int


def calls_for(single_ns: float, sample_minimum_ns: int) -> int:
    """Calls that one timed iteration makes so that it lasts at least `sample_minimum_ns`."""
    return max(1, -(-sample_minimum_ns // max(1, round(single_ns))))


def halves_agree(samples: list[int]) -> bool:
    """Whether the last half of the samples has settled: its own two halves have medians within `AGREEMENT` of each other."""
    last = samples[len(samples) // 2 :]
    if len(last) < 4:
        return False
    first, second = statistics.median(last[: len(last) // 2]), statistics.median(last[len(last) // 2 :])
    return abs(first - second) <= AGREEMENT * min(first, second)


def warm_up(
    call: Call,
    *,
    budget_ns: int,
    sample_minimum_ns: int,
    iterations: int | None = None,
    now: Callable[[], int] = perf_counter_ns,
) -> Warmup:
    """Warm `call` up and learn how long it takes.

    Ends when `halves_agree`, or after `budget_ns`; with `iterations` it makes exactly that many single calls instead (a published
    procedure asks for a fixed number).
    """
    start = now()
    if iterations is not None:
        samples = time_iterations(call, iterations, 1)
        typical = statistics.median(samples[len(samples) // 2 :])
        return Warmup(halves_agree(samples), samples, 1, typical, now() - start)
    probe = time_iterations(call, 3, 1)
    calls = calls_for(min(probe), sample_minimum_ns)
    samples = probe if calls == 1 else []
    while True:
        samples += time_iterations(call, max(1, len(samples) // 4), calls)
        settled = len(samples) >= MINIMUM_SAMPLES and halves_agree(samples)
        if settled or (now() - start >= budget_ns and len(samples) >= MINIMUM_SAMPLES):
            break
    typical = statistics.median(samples[len(samples) // 2 :]) / calls
    return Warmup(settled, samples, calls, typical, now() - start)
