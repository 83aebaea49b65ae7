"""The machine-state reference: two small fixed workloads, timed between the blocks, that show when the machine changed.

The triad (McCalpin's STREAM) tells the memory bandwidth, the product the arithmetic rate. They run in the worker, on its device, with
its threads and its allocator, and take about 20 ms together. Runs in a worker.
"""

from __future__ import annotations

import time

from suite.bundle.schema import State
from suite.device.contract import Device

REPEATS = 3


class StateReference:
    """Holds the arrays of both workloads and times them."""

    def __init__(self, device: Device) -> None:
        import torch

        self._device = device
        sizes = device.reference
        dtype = getattr(torch, sizes.gemm_dtype)
        generator = torch.Generator().manual_seed(0)
        elements, size = sizes.triad_elements, sizes.gemm_size
        self._a = device.place(torch.zeros(elements))
        self._b = device.place(torch.randn(elements, generator=generator))
        self._c = device.place(torch.randn(elements, generator=generator))
        self._x = device.place(torch.randn(size, size, generator=generator).to(dtype))
        self._y = device.place(torch.randn(size, size, generator=generator).to(dtype))
        self._z = device.place(torch.empty(size, size, dtype=dtype))
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
            triad_ns=min(self._device.time(lambda: torch.add(self._b, self._c, alpha=3.0, out=self._a), REPEATS, 1)),
            triad_bytes=3 * self._device.reference.triad_elements * 4,
            gemm_ns=min(self._device.time(lambda: torch.mm(self._x, self._y, out=self._z), REPEATS, 1)),
            gemm_operations=2 * self._device.reference.gemm_size**3,
            gemm_dtype=self._device.reference.gemm_dtype,
        )
