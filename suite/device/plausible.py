"""Times that cannot be true. Pure functions: what a device says of its own work is held against the host's clock and against physics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from suite import peaks
from suite.bundle import schema

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


def against_peak(
    iterations_ns: Sequence[int],
    calls: int,
    *,
    operations: int | None,
    operations_per_s: float | None,
    bytes_moved: int | None = None,
    bytes_per_s: float | None = None,
) -> str:
    """Why a time is shorter than any that the device could need, or an empty text; what is not known is not judged.

    The typical (median) time of a call is held against `operations` at the published peak, and `bytes_moved` at the peak bandwidth of the
    memory (to be given only where a cache cannot serve them).
    """
    typical_ns = statistics.median(iterations_ns) / calls
    for amount, peak, unit in ((operations, operations_per_s, "operations"), (bytes_moved, bytes_per_s, "bytes")):
        if not amount or not peak:
            continue
        least_ns = amount / peak * 1e9
        if typical_ns * (1 + AGREEMENT) < least_ns:
            return (
                f"a call took {typical_ns / 1e3:.2f} us, and its {amount:.4g} {unit} need at least {least_ns / 1e3:.2f} us at the "
                f"published peak of {peak:.4g} a second: the device was not waited for, or the work was left out"
            )
    return ""


def impossible(
    case: schema.Case, device: schema.Device, iterations_ns: Sequence[int], calls: int, cache: str = "hot"
) -> str:
    """`against_peak` for a case on a device whose model has published peaks; empty where nothing is published.

    Float32 products at a lower matmul precision are held against TF32's peak. Of the traffic with memory only what a flushed cache cannot
    keep is counted: its size may still lie in it at the end.
    """
    found = peaks.find(device.name, device.memory_bytes, device.multiprocessors)
    if isinstance(found, peaks.NotKnown):
        return ""
    lowered = case.dtype == "float32" and case.matmul_precision != "highest"
    rate, memory = found.flop_per_s("tf32" if lowered else case.dtype), found.memory_bytes_per_s
    kept = device.l2_bytes or found.cache_bytes
    moved = max(0, (case.minimum_bytes or 0) - kept) if cache == "cold" and kept is not None else None
    return against_peak(
        iterations_ns,
        calls,
        operations=case.floating_point_operations,
        operations_per_s=rate.value if isinstance(rate, peaks.Figure) else None,
        bytes_moved=moved,
        bytes_per_s=memory.value if isinstance(memory, peaks.Figure) else None,
    )
