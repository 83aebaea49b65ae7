"""Times that cannot be true. Pure functions: what a device says of its own work is held against the host's clock and against physics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from suite import peaks
from suite.bundle import schema
from suite.device.conditions import impossible

AGREEMENT = 0.05
SLACK_NS = 50_000
"""The device's clock may run 5 % off the host's, and a block's ends cost some 50 us; an unsynchronised block is off by far more."""


def against_host(iterations_ns: Sequence[int], host_ns: int) -> str:
    """Why a block was not waited for, or an empty text: the device cannot work longer than the host waited for it.

    `iterations_ns` lie one after the other within `host_ns`, which spans from before the first to after the device was done.
    """
    worked = sum(iterations_ns)
    if worked <= host_ns * (1 + AGREEMENT) + SLACK_NS:
        return ""
    return (
        f"the device says that it worked for {worked / 1e6:.3f} ms, and the host's clock showed only {host_ns / 1e6:.3f} ms until it was "
        "said to be done: it was not waited for"
    )


def against_peak(case: schema.Case, device: schema.Device, iterations_ns: Sequence[int], calls: int) -> str:
    """Why a block's typical (median) call is shorter than any that the device could make, or an empty text.

    A device without published peaks is not judged. Float32 products at a lower matmul precision are held against TF32's peak.
    """
    published = peaks.find(device.name, device.memory_bytes, device.multiprocessors)
    rounded = case.dtype == "float32" and case.matmul_precision != "highest"
    reason = impossible(
        case.floating_point_operations,
        case.minimum_bytes,
        statistics.median(iterations_ns) / calls,
        published,
        "tf32" if rounded else case.dtype,
        flushed=case.cache == "cold",
    )
    return reason or ""
