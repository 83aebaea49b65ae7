"""The usual method, in one process: eager from first to last, then compiled; the mean of each, and their ratio.

Run as a worker would be: `python -m tests.perf.sequential CASE [SECONDS]` prints the ratio. Without SECONDS it makes the tutorial's
own counts, 10 warm-ups and 50 iterations an arm; with SECONDS it measures each arm for half of them instead.
"""

from __future__ import annotations

import sys
import time
import timeit
from functools import partial

from suite.arms import ARMS, compiling, prepare
from suite.cases import workload
from suite.cases.contract import Context
from suite.plan import SEED

WARM_UPS, ITERATIONS = 10, 50


def main(name: str, seconds: float | None) -> float:
    """Ratio of the mean eager to the mean compiled time of a call."""
    import torch

    found = workload(name.partition("/")[0])
    built = found.build(found.describe(name.partition("/")[2], Context("quick")), SEED)
    means = []
    with torch.no_grad():
        for arm in (ARMS["eager"], ARMS["inductor"]):
            call = partial(prepare(arm, built.call), *built.inputs)
            with compiling(arm):
                call()
            for _ in range(WARM_UPS):
                call()
            means.append(_mean(call, seconds))
    return means[0] / means[1]


def _mean(call: partial[object], seconds: float | None) -> float:
    if seconds is None:
        return timeit.timeit(call, number=ITERATIONS) / ITERATIONS
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds / 2:
        call()
        count += 1
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    print(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else None))
