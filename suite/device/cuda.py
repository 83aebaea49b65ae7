"""NVIDIA's GPUs through torch.cuda: CUDA events around each iteration, a synchronise at a block's ends, the cache flushed when asked.

The host's clock is never read around calls that return before their work is done, but to take the time of handing them over, and to hold
the events' times against it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import Any, TypeVar

import msgspec

from suite.bundle import schema
from suite.device import choices
from suite.device.ceilings import measure
from suite.device.contract import Cache, Call, DeviceUnavailableError, Reference, RefusedMeasurementError, Timed
from suite.device.monitor import NO_MONITOR, Monitor, clock_of, open_monitor
from suite.device.nvml import list_devices
from suite.device.plausible import against_host
from suite.device.refusal import why_not
from suite.fingerprint.facts import absent, ok

T = TypeVar("T")

REFERENCE = Reference(triad_elements=64 * 1024 * 1024, gemm_size=4096, gemm_dtype="bfloat16")
"""Three float32 arrays of 256 MiB each, beyond any last-level cache of a GPU; a product large enough to fill one."""

FLUSH_FACTOR = 2
"""A cold iteration is preceded by a write of twice the last-level cache."""

L2_UNKNOWN_BYTES = 256 * 1024 * 1024
"""Taken for the last-level cache where torch does not tell its size: more than any GPU has by now."""

BURST = 10
"""Calls by which the time of handing one over is taken: few, since a full queue would make the host wait for the device."""

GRACE_NS = 100_000
"""How long a device that was fed too slowly gets for its last call, before NVML is asked beside its work."""

EVENT_RESOLUTION_NS = 500.0
"""What the CUDA run-time documents for cudaEventElapsedTime; most GPUs do better, which is measured."""

READINGS = 200


class CudaDevice:
    """See `suite.device.contract.Device`. `backend` is torch.cuda, and `where` torch's name of the device."""

    beside_host = True
    profiler_activities = ("CPU", "CUDA")
    sort_key = "device_time_total"
    reference = REFERENCE

    def __init__(
        self,
        description: schema.Device,
        backend: Any,
        where: str,
        monitor: Monitor = NO_MONITOR,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        import torch

        self.description = description
        self.monitor = monitor
        self._cuda = backend
        self._where = where
        self._clock = clock
        self._pairs: list[tuple[Any, Any]] = []
        size = FLUSH_FACTOR * (description.l2_bytes or L2_UNKNOWN_BYTES)
        self._flushed = torch.zeros(size, dtype=torch.uint8, device=where)

    def prepare(self, case: schema.Case) -> None:
        import torch

        torch.set_float32_matmul_precision(case.matmul_precision)
        torch.backends.cudnn.allow_tf32 = case.matmul_precision != "highest"
        torch.backends.cudnn.benchmark = False
        # torch's own default, set so that nobody's other setting is inherited.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True

    def ready_toolchain(self) -> None:
        """The probe has compiled a kernel; nothing is asked of the processor."""

    def place(self, movable: T) -> T:
        moved: T = movable.to(self._where)  # type: ignore[attr-defined]
        return moved

    def synchronise(self) -> None:
        self._cuda.synchronize()

    def flush_cache(self) -> None:
        self._flushed.zero_()

    def time(self, call: Call, iterations: int, calls: int, cache: Cache = "") -> list[int]:
        pairs = self._enqueue(call, iterations, calls, flush=cache == "cold")
        self.synchronise()
        return _elapsed(pairs)

    def time_block(self, call: Call, iterations: int, calls: int, cache: Cache) -> Timed:
        enqueue_ns = self._handing_over(call)
        self.synchronise()
        began = self._clock()
        pairs = self._enqueue(call, iterations, calls, flush=cache == "cold")
        done_ns = self._done_soon(pairs[-1][1])
        # Asked while the device still works on what was handed over; afterwards it would rest already.
        sample = self.monitor.read()
        self.synchronise()
        # A reading takes milliseconds: where the device was done before, they are not the block's.
        host_ns = (self._clock() if done_ns is None else done_ns) - began
        durations = _elapsed(pairs)
        if reason := against_host(durations, host_ns):
            raise RefusedMeasurementError(reason)
        judged = self.monitor.judge(sample)
        return Timed(durations, enqueue_ns, host_ns, clock_of(sample), judged.conditions, judged.retake)

    def load(self, call: Call, iterations: int, calls: int, cache: Cache) -> int | None:
        self._enqueue(call, iterations, calls, flush=cache == "cold")
        sample = self.monitor.read()
        self.synchronise()
        return clock_of(sample)

    def _enqueue(self, call: Call, iterations: int, calls: int, *, flush: bool) -> list[tuple[Any, Any]]:
        """Hand the iterations over, an event before and one after each; the flush lies outside of them."""
        while len(self._pairs) < iterations:
            self._pairs.append((self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)))
        pairs = self._pairs[:iterations]
        for start, end in pairs:
            if flush:
                self.flush_cache()
            start.record()
            for _ in repeat(None, calls):
                call()
            end.record()
        return pairs

    def _done_soon(self, last: Any) -> int | None:
        """The host's clock when the event was found to have happened, within `GRACE_NS`; None when the device works on."""
        until = self._clock() + GRACE_NS
        while True:
            done, now = last.query(), self._clock()
            if done:
                return now
            if now >= until:
                return None

    def _handing_over(self, call: Call) -> int:
        """The host's time to hand over one call, in ns: the median of a burst into an empty queue.

        Nothing is asked of the driver meanwhile, so that no reading of milliseconds hides that the burst was not waited for.

        Raises:
            RefusedMeasurementError: the burst was not waited for.
        """
        self.synchronise()
        durations = []
        first, last = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        began = self._clock()
        first.record()
        for _ in range(BURST):
            start = self._clock()
            call()
            durations.append(self._clock() - start)
        last.record()
        self.synchronise()
        host_ns = self._clock() - began
        if reason := against_host(_elapsed([(first, last)]), host_ns):
            raise RefusedMeasurementError(reason)
        return round(statistics.median(durations))

    def resolution_ns(self) -> float:
        readings = sorted(set(self.time(lambda: None, READINGS, 1)))
        steps = [after - before for before, after in pairwise(readings)]
        return min([EVENT_RESOLUTION_NS, *map(float, steps)])

    def overhead_ns(self) -> float:
        return float(statistics.median(self.time(lambda: None, READINGS, 1)))

    def in_force(self) -> dict[str, str]:
        import torch

        matmul = torch.backends.cuda.matmul
        return {
            "device": f"{self.description.kind} {self.description.index}: {self.description.name}",
            "cuda_matmul_allow_bf16_reduced_precision_reduction": str(matmul.allow_bf16_reduced_precision_reduction),
        }

    def ceilings(self) -> dict[str, schema.Fact]:
        import torch

        try:
            found = measure(torch, self._where)
        except Exception as error:  # a ceiling is worth knowing, and no reason to fail
            return {"error": absent("suite.device.ceilings", f"{type(error).__name__}: {error!s:.200}")}
        facts = {
            f"{name} {each.unit}": ok(each.per_s, "measured before the run, events of the device", each.work)
            for name, each in found.measured.items()
        }
        return facts | {name: absent("suite.device.ceilings", reason) for name, reason in found.missing.items()}

    def usage(self) -> dict[str, str]:
        return {"cuda.peak_allocated_bytes": str(self._cuda.max_memory_allocated())}


def _elapsed(pairs: list[tuple[Any, Any]]) -> list[int]:
    """Durations in ns; an event's resolution is coarse, so that a short iteration may show none at all (then 1)."""
    try:
        return [max(1, round(start.elapsed_time(end) * 1e6)) for start, end in pairs]
    except RuntimeError as error:
        # The run-time refuses to tell the time of an event that has not happened yet.
        raise RefusedMeasurementError(f"an iteration was not waited for ({str(error).splitlines()[0]})") from error


def describe(description: schema.Device, backend: Any, listed: choices.Listed = ()) -> schema.Device:
    """The description with what torch tells of the device. Properties that a version of torch lacks stay unknown.

    Of the instances of divided GPUs torch sees one; the others are known from what NVML has `listed`.
    """
    properties = backend.get_device_properties(description.index)
    place = [getattr(properties, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    domain, bus, device = place
    count = backend.device_count()
    return msgspec.structs.replace(
        description,
        name=str(properties.name),
        partition=str(properties.name).partition(" MIG ")[2],
        visible=[
            *(f"{index}: {backend.get_device_name(index)}" for index in range(count)),
            *(f"instance {title}" for title in choices.instances(listed)),
        ],
        capability=f"{properties.major}.{properties.minor}",
        memory_bytes=int(properties.total_memory),
        l2_bytes=getattr(properties, "L2_cache_size", None) or None,
        multiprocessors=int(properties.multi_processor_count),
        bus_id=f"{domain:08x}:{bus:02x}:{device:02x}.0" if None not in place else "",
    )


def open_device(description: schema.Device, backend: Any = None, where: str = "") -> CudaDevice:
    """The GPU in this worker, with the buffer that flushes its cache already made.

    Raises:
        DeviceUnavailableError: torch cannot use it, or its memory is taken.
    """
    import torch

    cuda = backend or torch.cuda
    if backend is None and torch.version.cuda is None:
        raise DeviceUnavailableError(
            f"torch {torch.__version__} is built without CUDA; install a build with it (the image speedproof:cuda has one)"
        )
    listed = list_devices(needs_cuda=torch.version.cuda)
    try:
        cuda.init()
        count = cuda.device_count()
        if description.index >= count:
            names = ", ".join(f"{index} ({cuda.get_device_name(index)})" for index in range(count)) or "none"
            raise DeviceUnavailableError(
                f"there is no GPU {description.index}; visible to torch: {names}{choices.beyond_torch(listed, count)}"
            )
        cuda.set_device(description.index)
        described = describe(description, cuda, listed)
        monitor = open_monitor(described)
        return CudaDevice(monitor.complete(described), cuda, where or f"cuda:{description.index}", monitor)
    except (RuntimeError, AssertionError) as error:
        reason = why_not(error)
        # Only where torch says so too: a package of forward compatibility lets an older driver do.
        raise DeviceUnavailableError((choices.too_old(listed) if "too old" in reason else "") or reason) from error
