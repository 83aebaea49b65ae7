"""The clock, what it can resolve and what reading it costs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from time import perf_counter_ns
from typing import Any

Call = Callable[[], Any]


def resolution_ns(readings: int = 10_000) -> float:
    """Smallest step seen between two different consecutive readings of the clock, in ns."""
    smallest = float("inf")
    for _ in range(readings):
        start = perf_counter_ns()
        end = perf_counter_ns()
        if end > start:
            smallest = min(smallest, end - start)
    return smallest


def overhead_ns(iterations: int = 10_000) -> float:
    """Time that one timed iteration of an empty call takes, in ns: the least of five means, so that preemption does not count."""
    empty: Call = lambda: None  # noqa: E731 - the cheapest call there is
    means = []
    for _ in range(5):
        durations = time_iterations(empty, iterations // 5, 1)
        means.append(sum(durations) / len(durations))
    return min(means)


def time_iterations(call: Call, iterations: int, calls_per_iteration: int) -> list[int]:
    """Durations of `iterations` iterations in ns, each of `calls_per_iteration` calls back to back.

    One clock pair an iteration; the result of a call is dropped at once, as a caller in a loop would, so that its memory
    can be used again by the next call.
    """
    durations = [0] * iterations
    if calls_per_iteration == 1:
        for index in range(iterations):
            start = perf_counter_ns()
            call()
            durations[index] = perf_counter_ns() - start
        return durations
    for index in range(iterations):
        loop = repeat(None, calls_per_iteration)
        start = perf_counter_ns()
        for _ in loop:
            call()
        durations[index] = perf_counter_ns() - start
    return durations


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect now, then keep the collector off: a collection inside timed code would be charged to whichever arm it hits."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
