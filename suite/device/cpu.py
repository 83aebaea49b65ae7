"""The processor that the worker itself runs on: the host's clock around calls that return when they are done."""

from __future__ import annotations

from typing import TypeVar

from suite.bundle import schema
from suite.device.contract import Cache, Call, Reference, Timed
from suite.measure.clock import overhead_ns, resolution_ns, time_iterations

T = TypeVar("T")

REFERENCE = Reference(triad_elements=8 * 1024 * 1024, gemm_size=256, gemm_dtype="float32")
"""Three float32 arrays of 32 MiB each, 96 MiB together: beyond the share of a last-level cache that one gets."""


class CpuDevice:
    """See `suite.device.contract.Device`."""

    beside_host = False
    profiler_activities = ("CPU",)
    sort_key = "self_cpu_time_total"
    reference = REFERENCE

    def __init__(self, description: schema.Device) -> None:
        self.description = description

    def prepare(self, case: schema.Case) -> None:
        import torch

        # Never inherited: the same on every machine and in every arm, and printed in the report.
        torch.set_float32_matmul_precision(case.matmul_precision)

    def ready_toolchain(self) -> None:
        from suite.profiling.compilation import ready_toolchain

        ready_toolchain()

    def place(self, movable: T) -> T:
        return movable

    def synchronise(self) -> None:
        """Calls return when they are done."""

    def flush_cache(self) -> None:
        raise NotImplementedError("a CPU's caches are not flushed: a case is measured as it leaves them")

    def time(self, call: Call, iterations: int, calls: int, cache: Cache = "") -> list[int]:
        return time_iterations(call, iterations, calls)

    def time_block(self, call: Call, iterations: int, calls: int, cache: Cache) -> Timed:
        return Timed(time_iterations(call, iterations, calls))

    def load(self, call: Call, iterations: int, calls: int, cache: Cache) -> int | None:
        raise NotImplementedError("a CPU is not brought to its clock: warm-up does that")

    def resolution_ns(self) -> float:
        return resolution_ns()

    def overhead_ns(self) -> float:
        return overhead_ns()

    def in_force(self) -> dict[str, str]:
        return {}

    def ceilings(self) -> dict[str, schema.Fact]:
        return {}

    def usage(self) -> dict[str, str]:
        return {}


def open_device(description: schema.Device) -> CpuDevice:
    """The processor; its facts stand in the fingerprint."""
    return CpuDevice(description)
