"""Kernels by name: how long, how even, what they are, and what they were launched with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import Kind
from reports.trace.classes import KernelClass, class_of
from reports.trace.columns import Resources
from reports.trace.read import Trace

GROUPS_APART = 1.3
GROUP_LEAST = 0.1
"""Two groups: a jump of 30 % between neighbours in order of length, with at least a tenth (and two) of the calls on either side,
and each side's own spread smaller than the jump."""


@dataclass(frozen=True)
class KernelStats:
    """One kernel (or copy, or fill) of one GPU by its name. Times in us; `times` in the order of start.

    `spread` is max/median - 1. `first_ratio` is the first call over the median of the others (None below 3 calls). `groups` holds the
    medians of a fast and a slow group and their sizes when the times fall into two. `resources` are the distinct launch configurations.
    """

    device: str
    name: str
    kind: Literal["kernel", "memcpy", "memset"]
    kernel_class: KernelClass
    count: int
    total_us: float
    share: float
    mean_us: float
    median_us: float
    p95_us: float
    least_us: float
    most_us: float
    first_ratio: float | None
    first_mean_us: float
    groups: tuple[tuple[float, int], tuple[float, int]] | None
    bytes: float | None
    resources: tuple[Resources, ...]
    rows: NDArray[np.intp]
    times_us: NDArray[np.float64]

    @property
    def spread(self) -> float:
        return self.most_us / self.median_us - 1 if self.median_us else 0.0


FIRST_MEAN = 5
"""`first_mean_us` is the mean of the first five calls: what a short recording would have said."""


def kernels(trace: Trace) -> tuple[KernelStats, ...]:
    """All GPU work by device and name, the longest total first."""
    rows = trace.gpu_rows
    if rows.size == 0:
        return ()
    slices = trace.slices
    key = slices.device[rows].astype(np.int64) * (len(slices.names) + 1) + slices.name[rows]
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    totals = {
        code: slices.duration[rows[slices.device[rows] == code]].sum()
        for code in np.unique(slices.device[rows]).tolist()
    }
    found = [_stats(trace, rows[group], totals) for group in np.split(order, edges)]
    return tuple(sorted(found, key=lambda stats: (-stats.total_us, stats.name)))


def _stats(trace: Trace, rows: NDArray[np.intp], totals: dict[int, int]) -> KernelStats:
    slices = trace.slices
    times = slices.duration[rows] / 1000
    kind = Kind(int(slices.kind[rows[0]]))
    name = trace.name(rows[0])
    total = float(times.sum())
    moved = slices.moved_bytes[rows]
    median, p95 = np.quantile(times, (0.5, 0.95)).tolist()
    rest = float(np.median(times[1:])) if times.size >= 3 else 0.0
    codes = np.unique(slices.resources[rows])
    word: Literal["kernel", "memcpy", "memset"] = (
        "kernel" if kind == Kind.KERNEL else "memcpy" if kind == Kind.MEMCPY else "memset"
    )
    return KernelStats(
        device=slices.devices[int(slices.device[rows[0]])],
        name=name,
        kind=word,
        kernel_class=class_of(name) if kind == Kind.KERNEL else "copy" if kind == Kind.MEMCPY else "fill",
        count=int(rows.size),
        total_us=total,
        share=total * 1000 / max(int(totals[int(slices.device[rows[0]])]), 1),
        mean_us=float(times.mean()),
        median_us=median,
        p95_us=p95,
        least_us=float(times.min()),
        most_us=float(times.max()),
        first_ratio=float(times[0]) / rest if rest > 0 else None,
        first_mean_us=float(times[:FIRST_MEAN].mean()),
        groups=two_groups(times),
        bytes=float(np.nansum(moved)) if np.isfinite(moved).any() else None,
        resources=tuple(slices.resource_list[code] for code in codes.tolist() if code >= 0),
        rows=rows,
        times_us=times,
    )


def two_groups(times: NDArray[np.float64]) -> tuple[tuple[float, int], tuple[float, int]] | None:
    """Medians and sizes of a fast and a slow group, when there is a clear jump between them; None when the times are one group."""
    ordered = np.sort(times[times > 0])
    n = ordered.size
    least = max(2, int(np.ceil(GROUP_LEAST * n)))
    if n < 2 * least:
        return None
    jumps = ordered[1:] / ordered[:-1]
    at = int(np.argmax(jumps[least - 1 : n - least])) + least
    fast, slow = ordered[:at], ordered[at:]
    jump = float(jumps[at - 1])
    # A long tail has a largest jump too; in two groups each is narrower than the distance between them.
    widest = max(float(fast[-1] / np.median(fast)), float(np.median(slow) / slow[0]))
    if jump < GROUPS_APART or widest >= jump:
        return None
    return (float(np.median(fast)), int(fast.size)), (float(np.median(slow)), int(slow.size))
