"""What bounds the workload, and what the two ways of making it faster could give at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.trace.classes import KernelClass
from reports.trace.gaps import LAUNCHING, Cause
from reports.trace.kernels import KernelStats
from reports.trace.usage import Device

Bound = Literal[
    "overhead-bound",
    "input-bound",
    "synchronisation-bound",
    "host-bound",
    "compute-bound",
    "memory-bound",
    "communication-bound",
    "mixed",
    "unknown",
]

BUSY = 0.75
QUIET = 0.5
"""A GPU busy for three quarters of the time that counts bounds it; one busy for less than half of it does not."""

DOMINATES = 0.6
"""A kind of work bounds a busy GPU when it takes this share of its time; collectives do with half of it that no computing covers."""

ARITHMETIC: frozenset[KernelClass] = frozenset({"gemm", "convolution", "attention"})
TRAFFIC: frozenset[KernelClass] = frozenset(
    {"elementwise", "copy", "fill", "reduction", "normalization", "index", "triton"}
)

WAITS: tuple[tuple[Bound, frozenset[Cause], str], ...] = (
    ("overhead-bound", LAUNCHING, "dispatching and launching operators"),
    ("input-bound", frozenset({Cause.DATA}), "loading and preparing data"),
    ("synchronisation-bound", frozenset({Cause.SYNC}), "waiting for the GPU, which lets its queue run dry"),
    ("communication-bound", frozenset({Cause.COMMUNICATION}), "the host's part of collectives"),
    ("host-bound", frozenset({Cause.COMPUTE}), "operators that compute on the CPU"),
    ("host-bound", frozenset({Cause.PYTHON}), "Python code outside of operators"),
    ("host-bound", frozenset({Cause.ANNOTATED}), "host code in annotations, outside of operators"),
    ("host-bound", frozenset({Cause.WAITING}), "the host's own waiting for something else"),
    ("host-bound", frozenset({Cause.REPEATED}), "compiling, capturing or loading again in most steps"),
    ("host-bound", frozenset({Cause.ALLOCATION}), "allocating and freeing memory"),
    ("host-bound", frozenset({Cause.HOST}), "something on the host that is not recorded"),
    ("mixed", frozenset({Cause.QUEUED}), "passing from one queued kernel to the next"),
    ("mixed", frozenset({Cause.WAIT}), "waiting of one stream for another"),
    ("mixed", frozenset({Cause.OTHER}), "waiting for another GPU's work"),
)
"""What a GPU with little work waits for: the regime, the causes of idle time, and how they are called."""


@dataclass(frozen=True)
class Regime:
    """What bounds the time that counts: the window less start-up, captures, the profiler's own and what was not recorded (`counted_us`, of
    which the GPU works `counted_busy`). `busy_share` is of the whole window.

    `free_launches` is how much faster the time that counts would be at most if dispatching and launching cost nothing (it over it less
    that idle time); `twice_as_fast_kernels` if every kernel took half as long and nothing waited for them (it over it less half of busy).
    Both follow Amdahl's law: what is not touched stays. `shares` gives the GPU's time by class; `waits_for` says what the largest part of
    the idle time that counts goes to, `waits_us` how much that is.
    """

    bound: Bound
    why: str
    busy_share: float
    counted_us: float
    counted_busy: float
    waits_for: str
    waits_us: float
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
    window, busy = device.window_us, device.busy_us
    counted = window - device.idle_of(*device.not_counted)
    part = busy / counted if counted > 0 else 0.0
    waits_us, waits_bound, waits_for = max(
        ((device.idle_of(*(causes - device.not_counted)), bound, words) for bound, causes, words in WAITS),
        key=lambda wait: wait[0],
    )
    bound, why = _bound(part, shares, device.exposed_us / busy if busy else 0.0, waits_bound)
    if part < QUIET and waits_us:
        why += f"; the largest part of the rest, {waits_us / (counted - busy):.1%} of it, goes to {waits_for}"
    launching = device.idle_of(*(LAUNCHING - device.not_counted))
    return Regime(
        bound=bound,
        why=why,
        busy_share=busy / window if window else 0.0,
        counted_us=counted,
        counted_busy=part,
        waits_for=waits_for if waits_us else "",
        waits_us=waits_us,
        free_launches=counted / (counted - launching) if counted > launching else float("inf"),
        twice_as_fast_kernels=counted / (counted - busy / 2) if counted > busy / 2 else 1.0,
        shares=dict(sorted(shares.items(), key=lambda item: -item[1])),
    )


def _bound(busy: float, shares: dict[str, float], exposed: float, waits: Bound) -> tuple[Bound, str]:
    works = f"the GPU works for {busy:.1%} of the time that counts"
    if busy < QUIET:
        return waits, works
    if busy < BUSY:
        return "mixed", f"{works}: neither host nor GPU alone decides the time"
    arithmetic = sum(share for kernel_class, share in shares.items() if kernel_class in ARITHMETIC)
    traffic = sum(share for kernel_class, share in shares.items() if kernel_class in TRAFFIC)
    if exposed >= QUIET:
        return "communication-bound", f"{works}, {exposed:.1%} of that in collectives that no computing covers"
    if arithmetic >= DOMINATES:
        return (
            "compute-bound",
            f"{works}, {arithmetic:.1%} of that in matrix products, convolutions and attention",
        )
    if traffic >= DOMINATES:
        return (
            "memory-bound",
            f"{works}, {traffic:.1%} of that in kernels that mostly move data",
        )
    if shares.get("unknown", 0.0) >= 1 - DOMINATES:
        return (
            "unknown",
            f"{works}, {shares['unknown']:.1%} of that in kernels whose names do not tell what they do",
        )
    talking = f", {shares['collective']:.1%} in collectives" if shares.get("collective") else ""
    return "mixed", f"{works}, {arithmetic:.1%} of that in arithmetic, {traffic:.1%} in moving data{talking}"


def flips_at(sweep: Sequence[tuple[float, Bound]]) -> float | None:
    """The smallest size from which on a sweep over sizes is no longer overhead-bound; None where it never flips, or flips back."""
    bounds = [bound for _, bound in sorted(sweep)]
    overhead = bounds.count("overhead-bound")
    if not 0 < overhead < len(bounds) or set(bounds[:overhead]) != {"overhead-bound"}:
        return None
    return sorted(sweep)[overhead][0]
