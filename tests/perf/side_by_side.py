"""Times several things in mirrored order and gives ratios to the first, with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

Thing = Callable[[], object]
Result = TypeVar("Result")


def alternate(things: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """What every thing gave in every round; rounds run forwards and backwards in turn, so that drift cancels."""
    results: dict[str, list[Result]] = {name: [] for name in things}
    for number in range(rounds):
        for name in list(things)[:: 1 if number % 2 == 0 else -1]:
            results[name].append(things[name]())
    return results


def measure(things: Mapping[str, Thing], rounds: int) -> dict[str, list[float]]:
    """Seconds of every thing in every round."""
    return alternate({name: partial(_seconds, thing) for name, thing in things.items()}, rounds)


def _seconds(thing: Thing) -> float:
    start = time.perf_counter()
    thing()
    return time.perf_counter() - start


def show(title: str, seconds: Mapping[str, list[float]]) -> None:
    """Print the median of each thing and the median and range of its ratio to the first, round by round."""
    print(f"\n{title}")
    base = next(iter(seconds.values()))
    for name, values in seconds.items():
        ratios = sorted(value / other for value, other in zip(values, base, strict=True))
        spread = f"{statistics.median(ratios):7.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"  {name:46} {statistics.median(values) * 1e3:9.1f} ms   ratio {spread}")
