"""`python -m tests.perf.telemetry_cost`: what a reading costs beside a bare clock and beside psutil's view of the same worker."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import psutil

from suite.bundle.schema import Telemetry
from suite.telemetry import Sampler, Subject
from suite.telemetry.worker import resident_bytes
from tests.perf.side_by_side import Thing, measure, show

THREADS = 16
CALLS = 20
WORKER = f"""
import threading, time
for _ in range({THREADS}):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
"""


def with_psutil(pid: int) -> object:
    """The obvious way to read the same: psutil's calls for CPU times, switches, memory and the threads of a process."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    (
        psutil.cpu_times(percpu=True),
        psutil.cpu_stats(),
        psutil.virtual_memory(),
        psutil.getloadavg(),
        psutil.swap_memory(),
    )
    return [(one.cpu_times(), one.memory_info(), one.num_ctx_switches(), one.threads()) for one in family]


def times(call: Thing) -> Thing:
    """The call, several times over."""
    return lambda: [call() for _ in range(CALLS)]


def main() -> int:
    """Print the ratios, then the share of one core at the interval that the sampler chooses, warm and after a pause."""
    allowed = os.sched_getaffinity(0)
    measured = {min(allowed)}
    worker = subprocess.Popen([sys.executable, "-c", WORKER])
    try:
        time.sleep(1)
        sampler, subject = Sampler(measured, allowed), Subject("a case", "measure", 0)
        rows: list[Telemetry] = []
        sampler.follow(worker.pid)
        show(
            f"{CALLS} readings of a machine of {len(allowed)} CPUs and a worker of {THREADS + 1} threads",
            measure(
                {
                    "Sampler.read": times(lambda: sampler.read("during", subject)),
                    "psutil, the same facts as far as it has them": times(lambda: with_psutil(worker.pid)),
                    "telemetry's resident_bytes": times(lambda: resident_bytes(worker.pid)),
                },
                rounds=10,
            ),
        )
        fresh = Sampler(measured, allowed)
        fresh.follow(worker.pid)
        for _ in range(5):
            time.sleep(fresh.interval_s)
            fresh.take(rows.append, "during", subject)
        costs = [row.cost_ns / 1e6 for row in rows if row.cost_ns is not None]
        print(
            f"\n  after a pause of {fresh.interval_s:.1f} s: {statistics.median(costs):.2f} ms a reading, at most {max(costs):.2f} ms; "
            f"{100 * fresh.cost_share():.3f} % of one core (limit 0.5 %)"
        )
        fresh.leave()
        return 0 if fresh.cost_share() < 0.005 else 1
    finally:
        worker.kill()
        worker.wait()


if __name__ == "__main__":
    raise SystemExit(main())
