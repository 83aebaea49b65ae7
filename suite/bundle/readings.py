"""What telemetry says of each process: counters as differences, clocks of the CPUs that were at work. Pure; bundles of any age.

A process is judged by the stretch in which it measured, since loading torch and compiling are no part of its result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from suite.bundle.events import AnyEvent, Planned, Telemetry

LIVE_CLOCKS = ("cpufreq", "cpuinfo")
"""Sources of a clock that changes; the hypervisor's and the nominal one are constants."""

BUSY_CPU = 0.5
"""A CPU's clock counts where it was busy for half of the time since the reading before: idle CPUs slow down, or tell an old value."""

AT_WORK = 0.6
"""A reading's clock counts where the measured CPUs were at least 60 % as busy as at the process's busiest: while one core compiles and
the others rest, it runs faster than it will with all at work."""

LEAST_S = 1.0
LEAST_TICKS = 100
"""Below a second, or a hundred ticks, shares of time say nothing: CPU time is counted in ticks."""

NEIGHBOUR_SHARE = 0.05
STEAL_SHARE = 0.01
"""Of the measured CPUs' time to other programs, and of the wanted CPU time to other guests: above these a process was disturbed."""

Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Span:
    """A process while it measured (the whole process where that is not known). None: not readable, or too short to tell.

    Shares are fractions: `stolen` of the time in which the measured CPUs had work (of all CPUs in old bundles), `busy` of all their time,
    `neighbours` of all their time that was spent on others than the worker and its children, `waiting` of the time in which the worker's
    threads could have run, `throttled` of the quota's periods (of time where these are not told), `pressure` of time, by resource.
    `clocks` are (time, MHz) of the readings at work.
    """

    case: str
    role: str
    process: int
    incarnation: int
    start: str
    end: str
    seconds: float
    measured_only: bool
    clocks: tuple[tuple[str, float], ...] = ()
    stolen: float | None = None
    stolen_s: float | None = None
    busy: float | None = None
    neighbours: float | None = None
    neighbours_s: float | None = None
    waiting: float | None = None
    throttled: float | None = None
    throttled_s: float | None = None
    core_throttles: int | None = None
    package_throttles: int | None = None
    pressure: dict[str, float] | None = None
    swap_bytes: int | None = None
    switches_per_s: float | None = None
    worker_switches_per_s: float | None = None
    involuntary_per_s: float | None = None
    migrations: int | None = None
    migrations_per_s: float | None = None
    temperature_c: float | None = None
    watts: float | None = None

    @property
    def clock_mhz(self) -> float | None:
        """The median clock at work."""
        return statistics.median(clock for _, clock in self.clocks) if self.clocks else None

    @property
    def least_clock(self) -> tuple[str, float] | None:
        """The slowest reading at work, (time, MHz)."""
        return min(self.clocks, key=lambda reading: reading[1], default=None)

    @property
    def key(self) -> Key:
        return self.case, self.role, self.process, self.incarnation


def spans(telemetry: Iterable[Telemetry], events: Iterable[AnyEvent]) -> list[Span]:
    """One for each process that was read at least twice, in the order of their first readings."""
    planned = {(event.case, event.process): event.at for event in events if isinstance(event, Planned)}
    groups: dict[Key, list[Telemetry]] = {}
    for row in telemetry:
        groups.setdefault((row.case, row.role, row.process, row.incarnation), []).append(row)
    found = []
    for key, unsorted in groups.items():
        rows = sorted(unsorted, key=lambda row: row.monotonic_ns)
        begins = planned.get((key[0], key[2])) if key[1] == "measure" else None
        kept = since(rows, begins)
        if len(kept) >= 2:
            found.append(_span(kept, measured_only=begins is not None))
    return found


def since(rows: Sequence[Telemetry], moment: str | None) -> Sequence[Telemetry]:
    """The readings from the last one before `moment` on: the counters at its beginning. All where that would leave less than two."""
    if moment is None:
        return rows
    first = max((number for number, row in enumerate(rows) if row.at <= moment), default=0)
    return rows[first:] if len(rows) - first >= 2 else rows


def _span(rows: Sequence[Telemetry], *, measured_only: bool) -> Span:
    first, last = rows[0], rows[-1]
    seconds = (last.monotonic_ns - first.monotonic_ns) / 1e9
    stolen, stolen_s, busy = _cpu_shares(first, last)
    neighbours, neighbours_s = _neighbours(rows)
    throttled, throttled_s = _throttled(first, last, seconds)
    worker = _worker_rates(rows)
    return Span(
        case=first.case,
        role=first.role,
        process=first.process,
        incarnation=first.incarnation,
        start=first.at,
        end=last.at,
        seconds=seconds,
        measured_only=measured_only,
        clocks=_clocks(rows),
        stolen=stolen,
        stolen_s=stolen_s,
        busy=busy,
        neighbours=neighbours,
        neighbours_s=neighbours_s,
        throttled=throttled,
        throttled_s=throttled_s,
        core_throttles=_step(first.core_throttles, last.core_throttles),
        package_throttles=_step(first.package_throttles, last.package_throttles),
        pressure=_pressure(first, last, seconds),
        swap_bytes=_sum(
            _step(first.swap_in_bytes, last.swap_in_bytes), _step(first.swap_out_bytes, last.swap_out_bytes)
        ),
        switches_per_s=_rate(_step(first.context_switches, last.context_switches), seconds),
        temperature_c=max((row.temperature_c for row in rows if row.temperature_c is not None), default=None),
        watts=_watts(first, last, seconds),
        **worker,
    )


def _step(first: int | None, last: int | None) -> int | None:
    """A counter's step; some (time waiting for I/O) may run backwards a little."""
    return None if first is None or last is None else max(0, last - first)


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rate(step: int | None, seconds: float) -> float | None:
    return None if step is None or seconds < LEAST_S else step / seconds


def measured_ticks(row: Telemetry) -> tuple[int, int, int] | None:
    """Busy, idle and stolen ticks of the measured CPUs, or of all CPUs where single ones were not read."""
    if row.cpu_busy_ticks:
        return sum(row.cpu_busy_ticks), sum(row.cpu_idle_ticks), sum(row.cpu_steal_ticks)
    if row.busy_ticks is None or row.idle_ticks is None or row.steal_ticks is None:
        return None
    return row.busy_ticks, row.idle_ticks, row.steal_ticks


def _ticks_between(first: Telemetry, last: Telemetry) -> tuple[int, int, int] | None:
    before, after = measured_ticks(first), measured_ticks(last)
    if before is None or after is None or bool(first.cpu_busy_ticks) != bool(last.cpu_busy_ticks):
        return None
    busy, idle, stolen = (max(0, late - early) for early, late in zip(before, after, strict=True))
    return busy, idle, stolen


def _cpu_shares(first: Telemetry, last: Telemetry) -> tuple[float | None, float | None, float | None]:
    ticks = _ticks_between(first, last)
    if ticks is None or sum(ticks) < LEAST_TICKS:
        return None, None, None
    busy, idle, stolen = ticks
    # A guest that has nothing to do cannot be robbed: idle time must not thin the share.
    wanted = busy + stolen
    share = stolen / wanted if wanted >= LEAST_TICKS / 2 else None
    return share, stolen * last.tick_ns / 1e9, busy / (busy + idle + stolen)


def _neighbours(rows: Sequence[Telemetry]) -> tuple[float | None, float | None]:
    """Share of the measured CPUs' time, and seconds, that others than the worker spent on them, up to the last reading of the worker."""
    first = rows[0]
    last = next((row for row in reversed(rows) if row.worker_cpu_ns is not None), None)
    # Before its start a worker has used nothing.
    used = 0 if first.moment == "before" else first.worker_cpu_ns
    if last is None or last is first or used is None or last.worker_cpu_ns is None or not first.cpu_busy_ticks:
        return None, None
    ticks = _ticks_between(first, last)
    if ticks is None or sum(ticks) < LEAST_TICKS:
        return None, None
    others = max(0.0, ticks[0] * last.tick_ns - (last.worker_cpu_ns - used)) / 1e9
    return others / (sum(ticks) * last.tick_ns / 1e9), others


def _throttled(first: Telemetry, last: Telemetry, seconds: float) -> tuple[float | None, float | None]:
    held = _step(first.throttled_us, last.throttled_us)
    if held is None:
        return None, None
    periods, throttled = (
        _step(first.quota_periods, last.quota_periods),
        _step(first.throttled_periods, last.throttled_periods),
    )
    if periods is None or throttled is None:
        return (held / 1e6 / seconds if seconds >= LEAST_S else None), held / 1e6
    return (throttled / periods if periods else 0.0), held / 1e6


def _pressure(first: Telemetry, last: Telemetry, seconds: float) -> dict[str, float] | None:
    """Share of time, by resource: the larger of the machine's and the own control group's."""
    if seconds < LEAST_S:
        return None
    found: dict[str, float] = {}
    for resource in ("cpu", "memory", "io"):
        for name in (f"pressure_{resource}_us", f"group_pressure_{resource}_us"):
            step = _step(getattr(first, name), getattr(last, name))
            if step is not None:
                found[resource] = max(found.get(resource, 0.0), step / 1e6 / seconds)
    return found or None


def _watts(first: Telemetry, last: Telemetry, seconds: float) -> float | None:
    """Mean power of the packages, with their memory where that is a domain of its own."""
    wanted = [
        name for name in first.energy_uj if name.startswith("package-") and ("/" not in name or name.endswith("/dram"))
    ]
    steps = [_step(first.energy_uj[name], last.energy_uj.get(name)) for name in wanted]
    total = _sum(*steps)
    return total / 1e6 / seconds if total is not None and seconds >= LEAST_S else None


def _worker_rates(rows: Sequence[Telemetry]) -> dict[str, Any]:
    first = rows[0]
    last = next((row for row in reversed(rows) if row.worker_threads is not None), None)
    if last is None or last is first or (first.moment != "before" and first.worker_threads is None):
        return {}
    seconds = (last.monotonic_ns - first.monotonic_ns) / 1e9

    def step(read: Callable[[Telemetry], int | None]) -> int | None:
        return _step(0 if first.moment == "before" else read(first), read(last))

    voluntary, involuntary = (
        step(lambda row: row.worker_voluntary_switches),
        step(lambda row: row.worker_involuntary_switches),
    )
    waiting, used, migrations = (
        step(lambda row: row.worker_waiting_ns),
        step(lambda row: row.worker_cpu_ns),
        step(lambda row: row.worker_migrations),
    )
    return {
        "worker_switches_per_s": _rate(_sum(voluntary, involuntary), seconds),
        "involuntary_per_s": _rate(involuntary, seconds),
        "waiting": waiting / (waiting + used) if waiting is not None and used else None,
        "migrations": migrations,
        "migrations_per_s": _rate(migrations, seconds),
    }


def _clocks(rows: Sequence[Telemetry]) -> tuple[tuple[str, float], ...]:
    """The clock at every reading at work: the mean over the CPUs that were busy, while as many were as usual."""
    found: list[tuple[str, float, float]] = []
    for before, row in pairwise(rows):
        if row.moment != "during" or row.clock_source not in LIVE_CLOCKS:
            continue
        shares = _busy_shares(before, row)
        pairs = (
            zip(row.clocks_mhz, shares, strict=True)
            if len(shares) == len(row.clocks_mhz)
            else ((c, 1.0) for c in row.clocks_mhz)
        )
        working = [clock for clock, share in pairs if clock and share >= BUSY_CPU]
        if working:
            found.append((row.at, statistics.fmean(working), sum(shares)))
    busiest = max((busy for _, _, busy in found), default=0.0)
    return tuple((at, clock) for at, clock, busy in found if busy >= AT_WORK * busiest)


def _busy_shares(before: Telemetry, row: Telemetry) -> list[float]:
    """Share of the time since the reading before in which each measured CPU was busy; empty where that is not known."""
    if not row.cpu_busy_ticks or len(row.cpu_busy_ticks) != len(before.cpu_busy_ticks):
        return []
    elapsed = (row.monotonic_ns - before.monotonic_ns) / row.tick_ns
    if elapsed <= 0:
        return []
    return [(late - early) / elapsed for early, late in zip(before.cpu_busy_ticks, row.cpu_busy_ticks, strict=True)]


def unreadable(telemetry: Iterable[Telemetry]) -> dict[str, str]:
    """What the machine did not show in this run, with the reasons; the first reason stands."""
    found: dict[str, str] = {}
    for row in telemetry:
        for name, reason in row.unreadable.items():
            found.setdefault(name, reason)
    return found


def cost_share(telemetry: Sequence[Telemetry]) -> float | None:
    """What the readings took of one core while processes ran; None for bundles without their cost."""
    groups: dict[Key, list[Telemetry]] = {}
    for row in telemetry:
        groups.setdefault((row.case, row.role, row.process, row.incarnation), []).append(row)
    spent = sum(row.cost_ns for rows in groups.values() for row in rows[1:] if row.cost_ns is not None)
    elapsed = sum(rows[-1].monotonic_ns - rows[0].monotonic_ns for rows in groups.values())
    return spent / elapsed if spent and elapsed > 0 else None
