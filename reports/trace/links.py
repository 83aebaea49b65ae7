"""Which run-time call launched which GPU slice: by correlation id, one call to many slices where a graph was launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import ENQUEUES, Kind
from reports.trace.columns import Columns, Ints


@dataclass(frozen=True)
class Links:
    """Aligned with the trace's GPU rows (by start). `launch` is the call's row, -1 for an orphan.

    `delay` is the slice's start less the START of its launch, in ns, 0 for an orphan; `first` marks the first slice of each launch, the
    only one whose delay is the launch's: the others of a graph wait for each other.
    """

    launch: NDArray[np.int64]
    delay: Ints
    first: NDArray[np.bool_]

    @property
    def orphans(self) -> int:
        """GPU slices without a launch."""
        return int((self.launch < 0).sum())


def link(slices: Columns, gpu_rows: NDArray[np.intp], call: NDArray[np.int8]) -> Links:
    """Link GPU rows (sorted by start) to run-time rows through their correlation ids."""
    runtime = np.flatnonzero((slices.kind == Kind.RUNTIME) & (slices.correlation >= 0))
    ids = int(slices.correlation.max(initial=-1)) + 1
    by_id = np.full(ids + 1, -1, np.int64)
    # Later assignments win, so the order is backwards: of several calls with one id an enqueueing one, then the first, is meant.
    enqueues = np.isin(call[runtime], ENQUEUES)
    order = np.lexsort((np.arange(runtime.size), ~enqueues))[::-1]
    by_id[slices.correlation[runtime[order]]] = runtime[order]
    correlation = slices.correlation[gpu_rows]
    launch = np.where(correlation >= 0, by_id[correlation], -1)
    linked = launch >= 0
    delay = np.where(linked, slices.start[gpu_rows] - slices.start[launch], 0)
    first = np.zeros(gpu_rows.size, bool)
    positions = np.flatnonzero(linked)
    if positions.size:
        _, where = np.unique(launch[positions], return_index=True)
        first[positions[where]] = True
    return Links(launch, delay, first)
