"""The measured GPU as the leading process watches it: in a thread of its own, so that a driver that hangs hangs no run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import psutil

from suite.bundle import schema
from suite.device import choices
from suite.device.conditions import Verdict, assess, working
from suite.device.contract import Watch
from suite.device.nvml import GpuSample, GpuSampler, list_devices
from suite.device.sampling import Sampling
from suite.device.under_load import under_load

INTERVAL_S = 1.0
"""Between two samples; one takes some 2 ms of a core, and none of the GPU's time."""

SETTLING_NS = 1_000_000_000
"""After a worker's start, the one before it may still be listed."""


class GpuWatch(Watch):
    """Samples the GPU while it is entered. Without a sampler it sees nothing, for the `reason`."""

    def __init__(
        self,
        device: schema.Device,
        sampler: GpuSampler | None,
        reason: str = "",
        clock: Callable[[], int] = time.monotonic_ns,
        instances: Sequence[str] = (),
    ) -> None:
        self._instances = instances
        self.reason = reason
        self._device = device
        self._sampler = sampler
        self._sampling = Sampling(sampler, INTERVAL_S) if sampler else None
        self._before: GpuSample | None = None
        self._told = False
        self._clock = clock
        self._followed: list[tuple[int, int | None]] = []

    def __enter__(self) -> GpuWatch:
        if self._sampling is not None:
            self._sampling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sampling is not None:
            self._sampling.__exit__(kind, error, trace)
            self.reason = self.reason or self._sampling.failure

    def refusals(self) -> list[schema.Finding]:
        """What forbids the run. Whatever computes at this moment is not this run's."""
        if self._sampler is None:
            return []
        self._before = self._sampler.sample()
        return list(self._assess(self._before).refusals)

    def follow(self, pid: int) -> None:
        """A worker was started: it and its descendants are this run's own."""
        if self._sampler is not None:
            self._sampler.own = family(pid)
            self._sampler.uses_it = True
            self._followed.append((self._clock(), None))

    def leave(self) -> None:
        """The worker has ended: whoever computes now is a stranger."""
        if self._sampler is not None:
            self._sampler.own = frozenset({-1})
            self._sampler.uses_it = False
            if self._followed:
                self._followed[-1] = (self._followed[-1][0], self._clock())

    def fields(self) -> dict[str, Any]:
        """Fields of a telemetry reading: the latest sample, and once why there is none."""
        samples = self._sampling.samples if self._sampling else ()
        found: dict[str, Any] = {"gpu": row(samples[-1])} if samples else {}
        failure = self.reason or (self._sampling.failure if self._sampling else "")
        if failure and not self._told:
            self._told = True
            found["unreadable"] = {"gpu": f"absent: {failure}"}
        return found

    def findings(self) -> list[schema.Finding]:
        """What the samples tell of the conditions of the run: those before it, and the latest of a GPU at work."""
        found: dict[str, schema.Finding] = {}
        samples = self._sampling.samples if self._sampling else ()
        at_work = [sample for sample in samples if working(sample) and self._of_a_worker(sample)]
        for sample in (self._before, *at_work[-1:]):
            if sample is not None:
                for finding in self._assess(sample).findings:
                    found.setdefault(finding.rule, finding)
        if not samples and self._before is None:
            found["gpu.unwatched"] = schema.Finding(
                rule="gpu.unwatched",
                severity="doubtful",
                claim="Nothing was read of the GPU's state: neither its clock nor its heat nor its neighbours are known.",
                evidence=[f"NVML: {self.reason or 'no sample was taken'}"],
                advice="see `make doctor`; NVML comes with the driver (libnvidia-ml.so.1)",
            )
        return list(found.values())

    def facts(self) -> dict[str, schema.Fact]:
        """What the working GPU showed: links train down and clocks drop at rest."""
        samples = self._sampling.samples if self._sampling else ()
        # The fingerprint's facts go by NVML's numbers; torch counts only what CUDA_VISIBLE_DEVICES shows it.
        index = self._sampler.index if self._sampler else self._device.index
        return under_load([sample for sample in samples if self._of_a_worker(sample)], index)

    def _of_a_worker(self, sample: GpuSample) -> bool:
        """Whether a worker was running; a driver lists a process for a while after it has ended, which would look like a stranger."""
        spans = ((start + SETTLING_NS, end) for start, end in self._followed)
        return any(start <= sample.at_ns and (end is None or sample.at_ns < end) for start, end in spans)

    def _assess(self, sample: GpuSample) -> Verdict:
        title = f"{self._device.index}: {self._device.name}"
        number = self._sampler.index if self._sampler else self._device.index
        which, part = self._device.bus_id or number, bool(self._device.partition)
        return assess(sample, title, which, instance=part, instances=self._instances)


def family(pid: int) -> frozenset[int]:
    """A process and its descendants, as far as they can be seen."""
    try:
        return frozenset({pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))})
    except psutil.Error:
        return frozenset({pid})


def open_watch(device: schema.Device, library: Any = None) -> GpuWatch:
    """The watch of a device, found by its place on PCI, else by its number. Never raises."""
    try:
        sampler = GpuSampler(device.index, device.bus_id, library, own=(-1,))
    except LookupError as error:
        return GpuWatch(device, None, str(error))
    return GpuWatch(device, sampler, instances=choices.instances(list_devices(library), device.bus_id))


def row(sample: GpuSample) -> schema.Gpu:
    """A sample as telemetry keeps it."""
    told = sample.values()
    return schema.Gpu(
        clock_mhz=told.get("clock_mhz"),
        memory_clock_mhz=told.get("memory_clock_mhz"),
        power_w=told.get("power_w"),
        power_limit_w=told.get("power_limit_w"),
        temperature_c=told.get("temperature_c"),
        reasons=list(told.get("reasons", ())),
        busy_percent=told.get("busy_percent"),
        memory_used_bytes=told.get("memory_used_bytes"),
        others=told.get("other_processes"),
        pcie_generation=told.get("pcie_generation"),
        pcie_width=told.get("pcie_width"),
        ecc_uncorrected=told.get("ecc_uncorrected"),
    )
