"""The measured GPU as the leading process watches it: in a thread of its own, so that a driver that hangs hangs no run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec
import psutil

from suite.bundle import schema
from suite.device import choices
from suite.device.changes import changed
from suite.device.conditions import Verdict, assess, working
from suite.device.contract import Watch
from suite.device.nvml import GpuSample, GpuSampler, list_devices
from suite.device.sampling import NoAnswerError, Sampling, ask
from suite.device.under_load import under_load

INTERVAL_S = 1.0
"""Between two samples; one takes some 2 ms of a core, and none of the GPU's time."""

SETTLING_NS = 1_000_000_000
"""After a worker's end, and so after the next one's start, it may still be listed."""

RACE_NS = 100_000_000
"""A sample begun so shortly before a worker's end may have been taken after it."""

STALE_INTERVALS = 5
"""A sample older than so many intervals is not the GPU's state any more."""


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
        self._after: GpuSample | None = None
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
            if not self._sampling.failure:
                self._after = self._sample(settings=True)
                if self._sampler is not None and not self.reason:
                    self._sampler.close()

    def _sample(self, *, settings: bool = False) -> GpuSample | None:
        """The GPU now; None, with the reason kept, where the driver does not answer: it must not hang the run."""
        assert self._sampler is not None
        sampler = self._sampler
        try:
            return ask(lambda: sampler.sample(settings=settings))
        except Exception as error:
            self.reason = self.reason or f"{type(error).__name__}: {error}"
            return None

    def refusals(self) -> list[schema.Finding]:
        """What forbids the run. Whatever computes at this moment is not this run's."""
        if self._sampler is None:
            return []
        self._before = self._sample()
        return list(self._assess(self._before).refusals) if self._before else []

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
        """Fields of a telemetry reading: the latest sample while it is fresh, and once why there is none."""
        samples = self._sampling.samples if self._sampling else ()
        latest = samples[-1] if samples else None
        self.reason = self.reason or (self._sampling.failure if self._sampling else "")
        found: dict[str, Any] = {}
        if latest and self._clock() - latest.at_ns > STALE_INTERVALS * INTERVAL_S * 1e9:
            self.reason = self.reason or "the driver has stopped answering"
        elif latest and latest.values().keys().isdisjoint(TOLD):
            self.reason = (
                self.reason or f"the GPU tells nothing any more ({latest.clock_mhz.note or latest.clock_mhz.status})"
            )
        elif latest:
            found["gpu"] = row(latest)
            if self._settling(latest):
                # Its neighbours cannot be told from the worker before.
                found["gpu"] = msgspec.structs.replace(found["gpu"], others=None)
        if self.reason and not self._told:
            self._told = True
            found["unreadable"] = {"gpu": f"absent: {self.reason}"}
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
        if self._before is not None and self._after is not None:
            for finding in changed(self._before, self._after, self._title):
                found[finding.rule] = finding
        if self.reason and (samples or self._before is not None):
            found["gpu.unwatched"] = schema.Finding(
                rule="gpu.unwatched",
                severity="doubtful",
                claim="The GPU's state was read for a part of the run only.",
                evidence=[f"NVML: {self.reason}, after {len(samples)} samples"],
                advice="look at the kernel's messages (dmesg) for what the driver says of the GPU",
            )
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
        return any(start <= sample.at_ns and (end is None or sample.at_ns < end - RACE_NS) for start, end in spans)

    def _settling(self, sample: GpuSample) -> bool:
        """Whether a worker has just ended, or one has just been started, which may follow one that has."""
        moments = [(start, start + SETTLING_NS) for start, _ in self._followed]
        moments += [(end - RACE_NS, end + SETTLING_NS) for _, end in self._followed if end is not None]
        return any(begin <= sample.at_ns < end for begin, end in moments)

    @property
    def _title(self) -> str:
        return f"{self._device.index}: {self._device.name}"

    def _assess(self, sample: GpuSample) -> Verdict:
        number = self._sampler.index if self._sampler else self._device.index
        which, part = self._device.bus_id or number, bool(self._device.partition)
        return assess(sample, self._title, which, instance=part, instances=self._instances)


def family(pid: int) -> frozenset[int]:
    """A process and its descendants, as far as they can be seen."""
    try:
        return frozenset({pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))})
    except psutil.Error:
        return frozenset({pid})


def open_watch(device: schema.Device, library: Any = None) -> GpuWatch:
    """The watch of a device, found by its place on PCI, else by its number. Never raises, and never waits for a driver that hangs."""
    try:
        sampler = ask(lambda: GpuSampler(device.index, device.bus_id, library, own=(-1,)))
        listed = ask(lambda: list_devices(library))
    except (LookupError, NoAnswerError) as error:
        return GpuWatch(device, None, str(error))
    return GpuWatch(device, sampler, instances=choices.instances(listed, device.bus_id))


TOLD = frozenset({"clock_mhz", "power_w", "temperature_c", "reasons", "busy_percent"})
"""What every GPU tells; one that tells nothing of it is lost."""


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
