"""Calls of a kernel that do the same work, so that their times may be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.trace.kernels import FIRST_MEAN, KernelStats
from reports.trace.read import Trace
from reports.trace.steps import step_rows

SIZED_BY_GRID = frozenset({"elementwise", "reduction", "copy", "fill", "index", "triton"})

LEAST_SHARE = 0.05
LEAST_CALLS = 3


@dataclass(frozen=True)
class Group:
    """Calls of one kernel with one launch configuration and one set of shapes, in the order of start; times in us.

    `excess_us` is what the calls above the median take beyond it.
    """

    device: str
    name: str
    rows: NDArray[np.intp]
    times_us: NDArray[np.float64]

    @property
    def n(self) -> int:
        return int(self.times_us.size)

    @property
    def median_us(self) -> float:
        return float(np.median(self.times_us))

    @property
    def mean_us(self) -> float:
        return float(self.times_us.mean())

    @property
    def first_mean_us(self) -> float:
        """Mean of the first calls, as a short recording would have given it."""
        return float(self.times_us[:FIRST_MEAN].mean())

    @property
    def least_us(self) -> float:
        return float(self.times_us.min())

    @property
    def most_us(self) -> float:
        return float(self.times_us.max())

    @property
    def slowest_row(self) -> int:
        return int(self.rows[int(np.argmax(self.times_us))])

    @property
    def excess_us(self) -> float:
        return float(np.maximum(self.times_us - self.median_us, 0).sum())


def alike(trace: Trace, kernels: Sequence[KernelStats]) -> tuple[Group, ...]:
    """Kernels with a share worth looking at, split by launch configuration, the operator's shapes, or the place in each step; at least
    three calls each.

    Collectives are left out: they wait for other devices, so that their times are not their own.
    """
    slices, shape_of = trace.slices, np.full(trace.slices.start.size, -1, np.int64)
    called = trace.gpu_caller >= 0
    shape_of[trace.gpu_rows[called]] = slices.shape[trace.gpu_caller[called]]
    configured = np.fromiter(
        (found.grid is not None for found in slices.resource_list), bool, len(slices.resource_list)
    )
    bounds = np.array([[trace.slices.start[row], trace.end[row]] for row in step_rows(trace)], np.int64).reshape(-1, 2)
    found: list[Group] = []
    for stats in kernels:
        wanted = stats.kind == "kernel" and stats.share >= LEAST_SHARE and stats.count >= LEAST_CALLS
        if not wanted or stats.kernel_class == "collective":
            continue
        resources, shapes = slices.resources[stats.rows].astype(np.int64), shape_of[stats.rows]
        # A name alone says nothing of the work. For what goes over its data once the configuration does; a matrix product's grid does not
        # tell how deep it is, so that shapes are needed, or one place in every step.
        if stats.kernel_class in SIZED_BY_GRID and configured.size:
            known = (shapes >= 0) | (configured[resources] & (resources >= 0))
        else:
            known = shapes >= 0
        places = np.zeros(stats.count, np.int64)
        if not known.all() and (found_places := _places(trace, stats.rows, bounds)) is not None:
            known, places = np.ones(stats.count, bool), found_places
        keys = (resources * (len(slices.shapes) + 2) + shapes + 1) * (int(places.max(initial=0)) + 1) + places
        for key in np.unique(keys[known]).tolist():
            rows = stats.rows[known & (keys == key)]
            if rows.size >= LEAST_CALLS:
                found.append(Group(stats.device, stats.name, rows, slices.duration[rows] / 1000))
    return tuple(found)


def _places(trace: Trace, rows: NDArray[np.intp], bounds: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Each call's place among the calls of its step, where every step launches the same number of them; else None."""
    if len(bounds) < LEAST_CALLS:
        return None
    launch = trace.launch_of(rows)
    if (launch < 0).any():
        return None
    begun = trace.slices.start[launch]
    step = np.searchsorted(bounds[:, 0], begun, side="right") - 1
    if (step < 0).any() or (begun >= bounds[step, 1]).any():
        return None
    counts = np.bincount(step, minlength=len(bounds))
    if counts.min() != counts.max():
        return None
    order = np.lexsort((begun, step))
    places = np.empty(rows.size, np.int64)
    places[order] = np.arange(rows.size) % int(counts[0])
    return places
