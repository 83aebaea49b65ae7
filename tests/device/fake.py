"""Doubles of what a GPU is made of here: torch.cuda on a simulated clock, torch.cuda on the processor, and NVML with planted states."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from suite.bundle import schema
from suite.device.cuda import CudaDevice
from suite.device.cuda import open_device as open_cuda
from suite.device.monitor import Monitor
from suite.device.nvml import GpuSampler

US = 1_000
RECORD_NS = 7 * US


class Timeline:
    """Host and GPU of a simulated machine, in ns: the host hands work over and goes on; the GPU does it in order."""

    def __init__(self) -> None:
        self.host = 1_000_000
        self.free = 0

    def work(self, enqueue_ns: int, device_ns: int) -> Callable[[], None]:
        """A call that takes the host `enqueue_ns` to hand over and the GPU `device_ns` to do."""

        def call() -> None:
            self.host += enqueue_ns
            self.free = max(self.free, self.host) + device_ns

        return call

    def clock(self) -> int:
        return self.host


class FakeCuda:
    """torch.cuda as far as the suite calls it, on a timeline. `waits` False: its synchronise returns at once.

    `record_ns` is what recording an event costs the host, as on an H200: work that is bound by the host pays it within an iteration.
    """

    def __init__(self, timeline: Timeline, names: tuple[str, ...] = ("NVIDIA H200",), *, waits: bool = True) -> None:
        self.record_ns = RECORD_NS
        self.timeline, self.names, self.waits = timeline, names, waits
        self.chosen: int | None = None
        self.refuses_early = True
        self.broken: Exception | None = None
        outer = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = max(outer.timeline.free, outer.timeline.host)
                outer.timeline.host += outer.record_ns

            def query(self) -> bool:
                outer.timeline.host += US
                return bool(self.at <= outer.timeline.host)

            def elapsed_time(self, end: Event) -> float:
                if end.at > outer.timeline.host and outer.refuses_early:
                    raise RuntimeError("CUDA error: device not ready\nCUDA kernel errors might be ...")
                return (end.at - self.at) / 1e6

        self.Event = Event

    def init(self) -> None:
        if self.broken:
            raise self.broken

    def device_count(self) -> int:
        return len(self.names)

    def get_device_name(self, index: int) -> str:
        return self.names[index]

    def set_device(self, index: int) -> None:
        self.chosen = index

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(
            name=self.names[index],
            major=9,
            minor=0,
            total_memory=141 << 30,
            multi_processor_count=132,
            L2_cache_size=1 << 20,
            pci_domain_id=0,
            pci_bus_id=0x19,
            pci_device_id=0,
        )

    def synchronize(self) -> None:
        if self.waits:
            self.timeline.host = max(self.timeline.host, self.timeline.free)

    def max_memory_allocated(self) -> int:
        return 3 << 20


class Clockwork:
    """The processor's own clock in the place of a timeline, for real work that returns when it is done."""

    free = 0

    @property
    def host(self) -> int:
        return time.perf_counter_ns()

    @host.setter
    def host(self, value: int) -> None:
        """Work that returns when it is done need not be waited for."""


class NvmlRefused(Exception):
    """NVML's error; `value` is its return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class FakeNvml:
    """NVML as far as a sampler asks it. `states` are (clock in MHz, mask of reasons) one after the other; the last one stays.

    While it is `held`, no state follows the one that was told last.
    """

    NVMLError = NvmlRefused
    NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
    nvmlMemory_v2 = 2

    def __init__(
        self,
        states: Sequence[Sequence[int]] = ((1980, 0),),
        strangers: Sequence[int] = (),
        refuses: int = 0,
        mig: int | None = None,
        mode: int = 0,
        number: int = 0,
        errors: int = 0,
        watts: int = 700,
        persistence: int = 1,
    ) -> None:
        self.states = list(states)
        self.mig, self.mode, self.number, self.persistence = mig, mode, number, persistence
        self.strangers = strangers
        self.errors, self.watts = errors, watts
        self.lost = self.hangs = False
        self.refuses = refuses
        self.now = self.states[0]
        self.held = False

    def nvmlInit(self) -> None:
        if self.refuses:
            raise NvmlRefused(self.refuses)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> int:
        return 0

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        while self.hangs:
            time.sleep(0.01)
        if self.lost:
            raise NvmlRefused(15)
        if kind == self.NVML_CLOCK_MEM:
            return 3201
        if not self.held:
            self.now = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return self.now[0]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 1980

    def nvmlDeviceGetDefaultApplicationsClock(self, handle: int, kind: int) -> int:
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        if self.lost:
            raise NvmlRefused(15)
        return self.now[1]

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if self.lost:
            raise NvmlRefused(15)
        return 412_000

    def nvmlDeviceGetTemperature(self, handle: int, kind: int) -> int:
        if self.lost:
            raise NvmlRefused(15)
        return 51

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, since: int) -> int:
        return self.errors

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return self.watts * 1000

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        return self.number

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:
        return self.persistence

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        if self.mig is None:
            raise NvmlRefused(3)
        return [self.mig, self.mig]

    def nvmlDeviceGetComputeMode(self, handle: int) -> int:
        return self.mode

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in self.strangers]


THERMAL = 1 << 6
"""The bit of "hardware thermal slowdown"."""


def monitor(nvml: FakeNvml) -> Monitor:
    return Monitor(GpuSampler(0, "", nvml))


def device(
    timeline: Timeline, nvml: FakeNvml | None = None, *, waits: bool = True, **changes: Any
) -> tuple[CudaDevice, FakeCuda]:
    """The CUDA device on a simulated machine."""
    cuda = FakeCuda(timeline, waits=waits)
    description = schema.Device(kind="cuda", name="NVIDIA H200", l2_bytes=1 << 20, **changes)
    watching = monitor(nvml) if nvml else Monitor(reason="not asked")
    return CudaDevice(description, cuda, "cpu", watching, timeline.clock), cuda


BROKEN = ""
"""What torch.cuda raises when it is initialised, in a whole run; empty: nothing."""


def open_device(description: schema.Device) -> CudaDevice:
    """What workers of a whole run get in the GPU's place (see `site`): the CUDA code on the processor, which is timed for real."""
    cuda = FakeCuda(Clockwork(), ("NVIDIA Test GPU", "NVIDIA Other GPU"))  # type: ignore[arg-type]
    cuda.broken = RuntimeError(BROKEN) if BROKEN else None
    opened = open_cuda(description, cuda, "cpu")
    opened.profiler_activities = ("CPU",)  # type: ignore[assignment]
    nvml, usual = getattr(opened.monitor._sampler, "_nvml", SimpleNamespace()), opened.load

    def load(*arguments: Any) -> int | None:
        nvml.held = True
        try:
            return usual(*arguments)
        finally:
            nvml.held = False

    opened.load = load  # type: ignore[method-assign]
    return opened
