"""Facts of a GPU that only a working one shows: PCIe links train down at rest, and clocks drop. They join the fingerprint's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from suite.device.conditions import working
from suite.device.nvml import GpuSample
from suite.fingerprint.facts import Facts, absent, ok

Pick = Callable[[Sequence[Any]], Any]


def _every(lists: Sequence[Sequence[str]]) -> list[str]:
    """Reasons of any reading; "none" only where no reading has another."""
    found = sorted({reason for each in lists for reason in each} - {"none"})
    return found or ["none"]


NAMES: dict[str, tuple[str, Pick]] = {
    "pcie_generation_under_load": ("pcie_generation", max),
    "pcie_width_under_load": ("pcie_width", max),
    "clock_sm_under_load_mhz": ("clock_mhz", statistics.median),
    "clock_memory_under_load_mhz": ("memory_clock_mhz", statistics.median),
    "power_draw_under_load_w": ("power_w", max),
    "temperature_under_load_c": ("temperature_c", max),
    "clock_event_reasons_under_load": ("reasons", _every),
    "other_compute_processes_under_load": ("other_processes", max),
}
"""The fact's name -> the sample's field, and how several readings become one."""


def under_load(samples: Sequence[GpuSample], index: int = 0) -> Facts:
    """Facts "gpu 0 pcie_width_under_load" and so on, of the samples in which the GPU worked; absent, with the reason, where none was."""
    worked = [each for each in samples if working(each)]
    facts: Facts = {}
    for name, (field, pick) in NAMES.items():
        read = [getattr(each, field) for each in worked]
        told = [fact for fact in read if fact.value is not None]
        if told:
            count = f"of {len(told)} reading{'s' if len(told) != 1 else ''} under load"
            facts[f"gpu {index} {name}"] = ok(pick([fact.value for fact in told]), told[0].source, count)
        elif read:
            facts[f"gpu {index} {name}"] = read[-1]
        else:
            facts[f"gpu {index} {name}"] = absent("NVML", "the GPU was never read while it worked")
    return facts
