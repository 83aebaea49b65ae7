"""The machine-state reference: two small fixed workloads, timed between the blocks, that show when the machine changed.

The triad (McCalpin's STREAM) tells the memory bandwidth, the small product the arithmetic rate. They run in the worker, with its
threads and its allocator, and take about 20 ms together. Runs in a worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from suite.bundle.schema import State

TRIAD_ELEMENTS = 8 * 1024 * 1024
"""Elements of each of three float32 arrays: 32 MiB each, 96 MiB together, beyond the share of a last-level cache that one gets."""

GEMM_SIZE = 256
REPEATS = 3


class StateReference:
    """Holds the arrays of both workloads and times them."""

    def __init__(self) -> None:
        import torch

        generator = torch.Generator().manual_seed(0)
        self._a = torch.zeros(TRIAD_ELEMENTS)
        self._b = torch.randn(TRIAD_ELEMENTS, generator=generator)
        self._c = torch.randn(TRIAD_ELEMENTS, generator=generator)
        self._x = torch.randn(GEMM_SIZE, GEMM_SIZE, generator=generator)
        self._y = torch.randn(GEMM_SIZE, GEMM_SIZE, generator=generator)
        self._z = torch.empty(GEMM_SIZE, GEMM_SIZE)
        self.read("", 0, 0, 0)

    def read(self, case: str, process: int, incarnation: int, before_block: int) -> State:
        """One reading: the fastest of a few runs of each, so that a single preemption is not taken for a change."""
        import torch

        return State(
            case=case,
            process=process,
            incarnation=incarnation,
            before_block=before_block,
            at_ns=time.time_ns(),
            triad_ns=_fastest(lambda: torch.add(self._b, self._c, alpha=3.0, out=self._a)),
            triad_bytes=3 * TRIAD_ELEMENTS * 4,
            gemm_ns=_fastest(lambda: torch.mm(self._x, self._y, out=self._z)),
            gemm_operations=2 * GEMM_SIZE**3,
        )


def _fastest(call: Callable[[], Any]) -> int:
    durations = []
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        call()
        durations.append(time.perf_counter_ns() - start)
    return min(durations)
