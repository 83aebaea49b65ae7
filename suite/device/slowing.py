"""What NVML's clock-event reasons tell of a measurement made under them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Slowing = Literal["harmless", "power", "thermal", "hardware", "unknown"]

SLOWING: Mapping[str, Slowing] = MappingProxyType(
    {
        "none": "harmless",
        "GPU idle": "harmless",
        "applications clocks setting": "harmless",
        "sync boost": "harmless",
        "display clock setting": "harmless",
        "software power cap": "power",
        "board limit": "power",
        "hardware power brake slowdown": "power",
        "software thermal slowdown": "thermal",
        "hardware thermal slowdown": "thermal",
        "hardware slowdown": "hardware",
        "reliability": "hardware",
    }
)
"""What each clock-event reason tells (NVML API Reference, nvmlClocksEventReasons). A harmless one says what sets the clock, and no more."""


def slowing(reason: str) -> Slowing:
    """What a reason tells; one that this list does not know is unknown, not harmless."""
    return SLOWING.get(reason, "unknown")
