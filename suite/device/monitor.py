"""A GPU's state beside a measurement, through NVML: what a worker asks while a block runs, and what telemetry keeps.

Without NVML there is nothing to ask: readings are None, with the reason once, and no block can be judged.
"""

from __future__ import annotations

from typing import Any

import msgspec

from suite.bundle import schema
from suite.device.conditions import IDLE, Judged, judge
from suite.device.nvml import GpuSample, GpuSampler


class Monitor:
    """One GPU's readings; without a sampler there are none, for the `reason`."""

    def __init__(self, sampler: GpuSampler | None = None, reason: str = "") -> None:
        self.reason = reason
        self._sampler = sampler

    def read(self) -> GpuSample | None:
        """The GPU now, or None."""
        if self._sampler is None:
            return None
        # Asked by the process that computes on it: in a container one of the strangers is this process.
        self._sampler.uses_it = True
        return self._sampler.sample()

    def judge(self, sample: GpuSample | None) -> Judged:
        """What is to be held against a block that ran during the sample."""
        return judge(sample)

    def complete(self, device: schema.Device) -> schema.Device:
        """The description with what only NVML tells: the default clock, and whether it is a part of a GPU."""
        if self._sampler is None:
            return device
        clock = self._sampler.sample().default_clock_mhz.value
        return msgspec.structs.replace(device, clock_mhz=clock)


NO_MONITOR = Monitor(reason="no GPU is measured")


def open_monitor(device: schema.Device, library: Any = None) -> Monitor:
    """The monitor of a device, found by its place on PCI, else by its number. Never raises."""
    try:
        return Monitor(GpuSampler(device.index, device.bus_id, library))
    except LookupError as error:
        return Monitor(reason=str(error))


def clock_of(sample: GpuSample | None) -> int | None:
    """The clock of the multiprocessors in MHz, where it was told of a GPU at work."""
    return sample.clock_mhz.value if sample is not None and IDLE not in (sample.reasons.value or ()) else None
