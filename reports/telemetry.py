"""Telemetry over the run, reading by reading: what the chart of the machine draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from suite.bundle.readings import Key, measured_ticks, spans
from suite.bundle.schema import AnyEvent, Telemetry

LEAST_READINGS = 6
"""Fewer make no picture."""


@dataclass(frozen=True)
class Course:
    """One quantity over the run: for each process its (ns of the monotonic clock, value) points."""

    name: str
    unit: str
    processes: dict[Key, list[tuple[int, float]]]

    @property
    def values(self) -> list[float]:
        return [value for points in self.processes.values() for _, value in points]


def courses(telemetry: Sequence[Telemetry], events: Sequence[AnyEvent]) -> list[Course]:
    """The quantities that this machine shows and that were not zero throughout, in order of importance."""
    groups: dict[Key, list[Telemetry]] = {}
    for row in sorted(telemetry, key=lambda row: row.monotonic_ns):
        groups.setdefault((row.case, row.role, row.process, row.incarnation), []).append(row)
    at = {row.at: row.monotonic_ns for row in telemetry}
    clocks = {span.key: [(at[moment], mhz / 1e3) for moment, mhz in span.clocks] for span in spans(telemetry, events)}
    found = [
        Course("clock at work", "GHz", clocks),
        Course("stolen", "% of CPU time", _steps(groups, _stolen)),
        Course("other programs", "% of measured CPUs", _steps(groups, _others)),
        Course("temperature", "°C", {key: _temperatures(rows) for key, rows in groups.items()}),
    ]
    return [course for course in found if len(course.values) >= LEAST_READINGS and any(course.values)]


def _temperatures(rows: Sequence[Telemetry]) -> list[tuple[int, float]]:
    return [(row.monotonic_ns, row.temperature_c) for row in rows if row.temperature_c is not None]


def _steps(
    groups: dict[Key, list[Telemetry]], value: Callable[[Telemetry, Telemetry], float | None]
) -> dict[Key, list[tuple[int, float]]]:
    """A share between each reading and the next, at the middle of the two."""
    found = {}
    for key, rows in groups.items():
        points = [
            ((before.monotonic_ns + after.monotonic_ns) // 2, 100 * share)
            for before, after in pairwise(rows)
            if (share := value(before, after)) is not None
        ]
        found[key] = points
    return found


def _between(before: Telemetry, after: Telemetry) -> tuple[int, int, int] | None:
    early, late = measured_ticks(before), measured_ticks(after)
    if early is None or late is None or bool(before.cpu_busy_ticks) != bool(after.cpu_busy_ticks):
        return None
    busy, idle, stolen = (max(0, b - a) for a, b in zip(early, late, strict=True))
    # Under a quarter of a second on one CPU a single tick is several per cent.
    return (busy, idle, stolen) if busy + idle + stolen >= 25 else None


def _stolen(before: Telemetry, after: Telemetry) -> float | None:
    ticks = _between(before, after)
    return ticks[2] / (ticks[0] + ticks[2]) if ticks and ticks[0] + ticks[2] >= 25 else None


def _others(before: Telemetry, after: Telemetry) -> float | None:
    ticks = _between(before, after)
    used = 0 if before.moment == "before" else before.worker_cpu_ns
    if not ticks or used is None or after.worker_cpu_ns is None or not after.cpu_busy_ticks:
        return None
    # Two counters read a moment apart may disagree by a tick: a negative share is that, not a credit.
    return max(
        0.0,
        1 - ticks[1] / sum(ticks) - ticks[2] / sum(ticks) - (after.worker_cpu_ns - used) / after.tick_ns / sum(ticks),
    )
