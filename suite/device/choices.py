"""Which GPUs and MIG instances there are to choose from, in words, from what NVML lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from suite.bundle import schema
from suite.device.nvml import GpuDevice, NoGpu

HOW = "CUDA_VISIBLE_DEVICES=MIG-... chooses an instance, and nvidia-smi -L shows their identifiers"
"""Identifiers are nobody's business but the user's, and so are never printed."""

Listed = Sequence[GpuDevice] | NoGpu


def instances(listed: Listed, bus_id: str = "") -> list[str]:
    """The titles of the MIG instances, of one GPU where its place on PCI is given."""
    found = [] if isinstance(listed, NoGpu) else [each for each in listed if each.instance is not None]
    return [each.title for each in found if not bus_id or each.bus_id.lower() == bus_id.lower()]


def beyond_torch(listed: Listed, count: int) -> str:
    """A clause on what NVML lists beyond the `count` devices that torch sees; empty where there is nothing."""
    if parts := instances(listed):
        return f"; instances: {', '.join(parts)} ({HOW})"
    whole = [] if isinstance(listed, NoGpu) else [each.title for each in listed]
    return f"; the driver has {', '.join(whole)} (see CUDA_VISIBLE_DEVICES)" if len(whole) > count else ""


def too_old(listed: Listed) -> str:
    """Why the driver cannot run this torch, with the least that can; empty where it can, or is not asked."""
    return listed.clause if isinstance(listed, NoGpu) and listed.why == "driver too old" else ""


def device_line(device: schema.Device) -> str:
    """Which device is measured, and which others there are."""
    part = f" ({device.partition})" if device.partition else ""
    others = f"; visible: {', '.join(device.visible)}" if len(device.visible) > 1 else ""
    how = f" ({HOW})" if any(each.startswith("instance ") for each in device.visible) else ""
    return f"measured on {device.kind} device {device.index}, {device.name}{part}{others}{how}"
