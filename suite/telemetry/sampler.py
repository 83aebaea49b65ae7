"""Takes readings around and during each process, beside the measured cores and at under half a per cent of one core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from suite.bundle.schema import Telemetry
from suite.clocktime import now
from suite.fingerprint.container import cgroup
from suite.fingerprint.files import format_cpulist
from suite.telemetry import place
from suite.telemetry.kernel import KernelFile, Throttling, parse_counts, parse_pressure, parse_stat, parse_throttling
from suite.telemetry.sensors import Clocks, Energy, HeatCounters, Temperatures
from suite.telemetry.worker import Worker, family

Moment = Literal["before", "during", "after"]

INTERVAL_S = 2.0
"""Between readings taken beside the measured cores."""

SHARED_INTERVAL_S = 5.0
"""Between readings taken on a measured core, because there is no other."""

COST_FACTOR = 250
"""A reading waits for 250 times what the dearest of the latest ones cost: 0.4 % of one core."""

RESOURCES = ("cpu", "memory", "io")
DIVISOR_NS = 1_000_000_000


@dataclass(frozen=True)
class Subject:
    """The process that a reading belongs to."""

    case: str
    role: Literal["measure", "profile"]
    process: int
    incarnation: int = 0


class Machine:
    """The machine's own files, opened once. `unreadable` maps what it does not show to the reason."""

    def __init__(self, root: Path, cpus: Collection[int]) -> None:
        self.cpus = sorted(cpus)
        self._stat = KernelFile(root, "/proc/stat")
        self._load = KernelFile(root, "/proc/loadavg")
        self._memory = KernelFile(root, "/proc/meminfo")
        self._vmstat = KernelFile(root, "/proc/vmstat")
        self._pressure = {name: KernelFile(root, f"/proc/pressure/{name}") for name in RESOURCES}
        folders = cgroup.folders(root, "cpu")
        self._quota = [KernelFile(root, f"{folder}/cpu.stat") for _, folder in folders]
        leaf = next((folder for version, folder in folders if version == "2"), None)
        self._group = {name: KernelFile(root, f"{leaf}/{name}.pressure") for name in RESOURCES} if leaf else {}
        self._clocks = Clocks(root, self.cpus)
        self._heat = HeatCounters(root, self.cpus)
        self._temperatures = Temperatures(root)
        self._energy = Energy(root)
        self.unreadable = self._reasons()

    def _reasons(self) -> dict[str, str]:
        found = {
            "clock": self._clocks.reason,
            "heat throttling": self._heat.reason,
            "temperature": self._temperatures.reason,
            "power": self._energy.reason,
        }
        if parse_stat(self._stat.read(), self.cpus).whole is None:
            found["steal"] = f"{self._stat.reason or 'absent'}: /proc/stat counts no stolen time"
        pressure = self._pressure["memory"]
        if parse_pressure(pressure.read()) is None:
            found["pressure"] = f"{pressure.reason}: /proc/pressure (a kernel without PSI, or psi=0)"
        if not any(parse_pressure(file.read()) is not None for file in self._group.values()):
            found["pressure of the control group"] = "absent: only control groups of version 2 tell it"
        if self._throttling() is None:
            found["quota throttling"] = "absent: no cpu.stat governs this process"
        return {name: reason for name, reason in found.items() if reason}

    def _throttling(self) -> Throttling | None:
        found = [throttling for file in self._quota if (throttling := parse_throttling(file.read()))]
        # Every ancestor may have a quota of its own. Their sum grows by what any of them held back; a maximum would hide one behind
        # another's history.
        if not found:
            return None
        return Throttling(
            sum(throttling.throttled_us for throttling in found),
            _sum(throttling.throttled_periods for throttling in found),
            _sum(throttling.periods for throttling in found),
        )

    def read(self, *, constants: bool) -> dict[str, Any]:
        """Fields of a reading; `constants` asks for what does not change too."""
        ticks = parse_stat(self._stat.read(), self.cpus)
        single = [ticks.cpus[cpu] for cpu in self.cpus] if set(self.cpus) <= ticks.cpus.keys() else []
        busy, idle, steal = ticks.whole or (None, None, None)
        clocks = self._clocks.read(constant=constants)
        known = [clock for clock in clocks if clock]
        temperatures = self._temperatures.read()
        core_throttles, package_throttles = self._heat.read()
        throttling = self._throttling()
        page = os.sysconf("SC_PAGE_SIZE")
        memory = parse_counts(self._vmstat.read())
        return {
            "cpus": format_cpulist(self.cpus),
            "clock_source": self._clocks.source if clocks else None,
            "clocks_mhz": clocks,
            "cpu_frequency_mhz": round(sum(known) / len(known), 1) if known else None,
            "cpu_busy_ticks": [busy for busy, _, _ in single],
            "cpu_idle_ticks": [idle for _, idle, _ in single],
            "cpu_steal_ticks": [steal for _, _, steal in single],
            "tick_ns": DIVISOR_NS // os.sysconf("SC_CLK_TCK"),
            "busy_ticks": busy,
            "idle_ticks": idle,
            "steal_ticks": steal,
            "context_switches": ticks.context_switches,
            "load_1min": _load(self._load.read()),
            "memory_available_bytes": _available(self._memory.read()),
            "major_faults": memory.get("pgmajfault"),
            "swap_in_bytes": _times(memory.get("pswpin"), page),
            "swap_out_bytes": _times(memory.get("pswpout"), page),
            "throttled_us": throttling.throttled_us if throttling else None,
            "throttled_periods": throttling.throttled_periods if throttling else None,
            "quota_periods": throttling.periods if throttling else None,
            "core_throttles": core_throttles,
            "package_throttles": package_throttles,
            "temperature_c": max(temperatures.values(), default=None),
            "temperatures_c": temperatures if len(temperatures) > 1 else {},
            "energy_uj": self._energy.read(),
            **{f"pressure_{name}_us": parse_pressure(file.read()) for name, file in self._pressure.items()},
            **{f"group_pressure_{name}_us": parse_pressure(file.read()) for name, file in self._group.items()},
        }


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None when none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _load(text: str) -> float | None:
    try:
        return float(text.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None


def _available(text: str) -> int | None:
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _times(count: int | None, factor: int) -> int | None:
    return None if count is None else count * factor


class Sampler:
    """Readings of one run. `worker_cpus` are the CPUs that workers run on, `allowed` those that this process may use."""

    def __init__(
        self,
        worker_cpus: Collection[int],
        allowed: Collection[int],
        root: Path = Path("/"),
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], int] = time.thread_time_ns,
        mover: Callable[[Collection[int]], str] = place.move,
    ) -> None:
        self._root = root
        self._clock, self._cpu_time, self._move = clock, cpu_time, mover
        self._allowed = frozenset(allowed)
        self._measured: frozenset[int] = frozenset()
        self.aim(worker_cpus)
        self._worker: Worker | None = None
        self._costs: list[int] = []
        self._first = self._last = clock()
        self._spent_ns = 0
        self._told: set[str] = set()

    def aim(self, worker_cpus: Collection[int]) -> None:
        """The workers that follow run on these CPUs; to be called between processes."""
        if frozenset(worker_cpus) == self._measured:
            return
        self._measured = frozenset(worker_cpus)
        self._machine = Machine(self._root, worker_cpus)
        self.place = place.choose(worker_cpus, self._allowed, place.siblings_of(worker_cpus, self._root))
        self._introduced = False

    def follow(self, pid: int | None) -> None:
        """A worker was started: read its threads too, and move this process off the measured cores.

        To be called after the start, since a child inherits the placement of the thread that starts it. None: a worker that is not
        among this process's children, since an engine starts it in a container; its threads are then not told from others'.
        """
        self._worker = None if pid is None else Worker(pid, self._root)
        if not self.place.apart:
            return
        problem = self._move(self.place.cpus)
        if problem:
            self.place = place.Place(self._allowed, apart=False, reason=problem)
            self._introduced = False

    def leave(self) -> None:
        """The worker has ended: this process may run anywhere again, as the next worker is started from it."""
        self._worker = None
        if self.place.apart:
            self._move(self._allowed)

    @property
    def interval_s(self) -> float:
        """Seconds between two readings: longer where readings are dear, or taken on a measured core."""
        least = INTERVAL_S if self.place.apart else SHARED_INTERVAL_S
        return max(least, max(self._costs, default=0) / 1e9 * COST_FACTOR)

    def due(self) -> bool:
        """Whether it is time for another reading."""
        return self._clock() - self._last >= self.interval_s

    def take(self, write: Callable[[Telemetry], None], moment: Moment, subject: Subject) -> None:
        """Take a reading and hand it to `write`, whose cost counts too (but not in this reading's own `cost_ns`)."""
        self._last = self._clock()
        began = self._cpu_time()
        write(self.read(moment, subject))
        cost = self._cpu_time() - began
        self._spent_ns += cost
        self._costs = [*self._costs[-4:], cost]

    def read(self, moment: Moment, subject: Subject) -> Telemetry:
        """A reading. What the machine does not show is None, and named in `unreadable` once."""
        began = self._cpu_time()
        fields = self._machine.read(constants=moment == "before")
        reasons = self._machine.unreadable
        if moment == "during" and self._worker is not None:
            own, missing = worker_fields(self._worker, self._root)
            fields |= own
            reasons = reasons | missing
        introduction: dict[str, Any] = {}
        if not self._introduced:
            self._introduced = True
            introduction = {"sampled_on": format_cpulist(self.place.cpus), "sampled_apart": self.place.apart}
            if self.place.reason:
                reasons = reasons | {"a core apart for telemetry": f"absent: {self.place.reason}"}
        untold = {name: reason for name, reason in reasons.items() if name not in self._told}
        self._told |= untold.keys()
        row = Telemetry(
            at=now(),
            moment=moment,
            case=subject.case,
            role=subject.role,
            process=subject.process,
            incarnation=subject.incarnation,
            monotonic_ns=time.monotonic_ns(),
            unreadable=untold,
            **introduction,
            **fields,
        )
        return msgspec.structs.replace(row, cost_ns=self._cpu_time() - began)

    def cost_share(self) -> float:
        """What telemetry has taken of one core since it began, writing included."""
        elapsed = self._clock() - self._first
        return self._spent_ns / 1e9 / elapsed if elapsed > 0 else 0.0


def worker_fields(worker: Worker, root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of a reading about a worker, and what cannot be read of it."""
    threads, kin = worker.read(), family(worker.pid, root)
    if threads is None or kin is None:
        return {}, {}
    missing = {}
    if threads.migrations is None:
        missing["migrations"] = "absent: a kernel without /proc/PID/sched"
    if threads.waiting_ns is None:
        missing["waiting for a CPU"] = "absent: a kernel without /proc/PID/schedstat"
    if not kin.complete:
        missing["the worker's children"] = "absent: a kernel without /proc/PID/task/TID/children"
    fields = {
        "worker_threads": threads.count,
        "worker_waiting_ns": threads.waiting_ns,
        "worker_voluntary_switches": threads.voluntary_switches,
        "worker_involuntary_switches": threads.involuntary_switches,
        "worker_migrations": threads.migrations,
        # Without the children, memory and CPU time would look like the family's and not be.
        "worker_rss_bytes": kin.rss_bytes if kin.complete else None,
        "worker_processes": kin.processes if kin.complete else None,
        "worker_cpu_ns": kin.cpu_ns if kin.complete else None,
    }
    return fields, missing
