"""Telemetry of a process as plain numbers: one reading every two seconds of two measured CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suite.bundle.schema import Planned, ProcessStarted, Telemetry

STEP_S = 2


def at(seconds: float) -> str:
    """A time of day as the bundle writes it."""
    return f"2026-03-01T{10 + int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{seconds % 60:06.3f}Z"


def row(
    seconds: float, moment: str = "during", case: str = "matmul_add/64-fp32", process: int = 0, **fields: Any
) -> Telemetry:
    """A reading `seconds` into the run."""
    known = {"role": "measure", "cpus": "0-1", **fields}
    return Telemetry(
        at=at(seconds), moment=moment, case=case, process=process, monotonic_ns=round(seconds * 1e9), **known
    )  # type: ignore[arg-type]


def process(
    number: int = 0, case: str = "matmul_add/64-fp32", readings: int = 6, start_s: float = 0.0, **series: Sequence[Any]
) -> list[Telemetry]:
    """Readings before, during and after a process that keeps both CPUs busy; `series` replaces a field reading by reading."""
    rows = []
    for index in range(readings):
        ticks = STEP_S * 100 * index
        moment = "before" if index == 0 else "after" if index == readings - 1 else "during"
        fields: dict[str, Any] = {
            "cpu_busy_ticks": [ticks, ticks],
            "cpu_idle_ticks": [0, 0],
            "cpu_steal_ticks": [0, 0],
            "steal_ticks": 0,
            "busy_ticks": 2 * ticks,
            "idle_ticks": 0,
        }
        if moment == "during":
            fields |= {"worker_cpu_ns": 2 * ticks * 10_000_000, "worker_threads": 2}
        fields |= {name: values[index] for name, values in series.items()}
        rows.append(row(start_s + STEP_S * index, moment, case, number, **fields))
    return rows


def clocked(
    mhz: Sequence[float],
    number: int = 0,
    case: str = "matmul_add/64-fp32",
    start_s: float = 0.0,
    **series: Sequence[Any],
) -> list[Telemetry]:
    """A process whose two CPUs show these clocks while it runs."""
    count = len(mhz) + 2
    clocks = [[3000.0, 3000.0], *([one, one] for one in mhz), [3000.0, 3000.0]]
    return process(number, case, count, start_s, clocks_mhz=clocks, clock_source=["cpufreq"] * count, **series)


def planned(seconds: float, number: int = 0, case: str = "matmul_add/64-fp32") -> Planned:
    """The moment at which a process began to measure."""
    return Planned(
        at=at(seconds),
        case=case,
        process=number,
        pairs=1,
        order=["eager"],
        iterations={"eager": 1},
        calls_per_iteration={"eager": 1},
    )


def started(command: Sequence[str], number: int = 0, case: str = "matmul_add/64-fp32") -> ProcessStarted:
    """The start of a worker."""
    return ProcessStarted(
        at=at(0),
        case=case,
        role="measure",
        process=number,
        incarnation=0,
        pid=10,
        command=list(command),
        environment={},
    )
