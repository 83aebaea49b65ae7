"""What bounds the workload, and what the two ways of making it faster could give at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.trace.classes import KernelClass
from reports.trace.kernels import KernelStats
from reports.trace.usage import Device

Bound = Literal["overhead-bound", "compute-bound", "memory-bound", "communication-bound", "mixed", "unknown"]

BUSY = 0.75
QUIET = 0.5
"""A GPU busy for three quarters of the window bounds the time; one busy for less than half of it does not."""

DOMINATES = 0.6
"""A kind of work bounds a busy GPU when it takes this share of its time."""

ARITHMETIC: frozenset[KernelClass] = frozenset({"gemm", "convolution", "attention"})
TRAFFIC: frozenset[KernelClass] = frozenset(
    {"elementwise", "copy", "fill", "reduction", "normalization", "index", "triton"}
)


@dataclass(frozen=True)
class Regime:
    """`free_launches` is how much faster the window would be at most if the GPU never waited (window over busy time);
    `twice_as_fast_kernels` if every kernel took half as long and nothing waited for them (window over window less half of busy).

    `shares` gives the GPU's time by class. Both counterfactuals follow Amdahl's law: what is not touched stays.
    """

    bound: Bound
    why: str
    busy_share: float
    free_launches: float
    twice_as_fast_kernels: float
    shares: dict[str, float]


def regime(device: Device, kernels: Sequence[KernelStats]) -> Regime:
    """The regime of one device; `kernels` are those of all devices."""
    own = [stats for stats in kernels if stats.device == device.device]
    total = sum(stats.total_us for stats in own)
    shares: dict[str, float] = {}
    for stats in own:
        shares[stats.kernel_class] = shares.get(stats.kernel_class, 0.0) + stats.total_us / total if total else 0.0
    busy = device.busy_us / device.window_us if device.window_us else 0.0
    bound, why = _bound(busy, shares)
    return Regime(
        bound=bound,
        why=why,
        busy_share=busy,
        free_launches=device.window_us / device.busy_us if device.busy_us else float("inf"),
        twice_as_fast_kernels=device.window_us / (device.window_us - device.busy_us / 2) if device.window_us else 1.0,
        shares=dict(sorted(shares.items(), key=lambda item: -item[1])),
    )


def _bound(busy: float, shares: dict[str, float]) -> tuple[Bound, str]:
    if busy < QUIET:
        return "overhead-bound", f"the GPU works for {busy:.1%} of the window: what keeps it waiting decides the time"
    arithmetic = sum(share for kernel_class, share in shares.items() if kernel_class in ARITHMETIC)
    traffic = sum(share for kernel_class, share in shares.items() if kernel_class in TRAFFIC)
    if busy < BUSY:
        return "mixed", f"the GPU works for {busy:.1%} of the window: neither host nor GPU alone decides the time"
    if arithmetic >= DOMINATES:
        return (
            "compute-bound",
            f"the GPU works for {busy:.1%} of the window, {arithmetic:.1%} of that in matrix products, convolutions and attention",
        )
    if traffic >= DOMINATES:
        return (
            "memory-bound",
            f"the GPU works for {busy:.1%} of the window, {traffic:.1%} of that in kernels that only move data",
        )
    if (talking := shares.get("collective", 0.0)) >= DOMINATES:
        return (
            "communication-bound",
            f"the GPU works for {busy:.1%} of the window, {talking:.1%} of that in collectives, which wait for other devices",
        )
    if arithmetic + traffic < DOMINATES:
        return (
            "unknown",
            f"the GPU works for {busy:.1%} of the window, most of it in kernels whose names do not tell what they do",
        )
    return (
        "mixed",
        f"the GPU works for {busy:.1%} of the window, {arithmetic:.1%} of that in arithmetic and {traffic:.1%} in moving data",
    )


def flips_at(sweep: Sequence[tuple[float, Bound]]) -> float | None:
    """The smallest size from which on a sweep over sizes is no longer overhead-bound; None where it never flips, or flips back."""
    bounds = [bound for _, bound in sorted(sweep)]
    overhead = bounds.count("overhead-bound")
    if not 0 < overhead < len(bounds) or set(bounds[:overhead]) != {"overhead-bound"}:
        return None
    return sorted(sweep)[overhead][0]
