"""Which run-time call launched which GPU slice: by correlation id, one call to many slices where a graph was launched."""

from __future__ import annotations

from bisect import bisect_right
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


def _latest_before(slices: Columns, calls: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """For each GPU row the last call with its correlation id that began before it; the first such call where none did."""
    order = np.lexsort((slices.start[calls], slices.correlation[calls]))
    calls = calls[order]
    ids, starts = slices.correlation[calls].tolist(), slices.start[calls].tolist()
    keys = list(zip(ids, starts, strict=True))
    found = np.empty(rows.size, np.int64)
    for number, row in enumerate(rows.tolist()):
        identity = int(slices.correlation[row])
        at = bisect_right(keys, (identity, int(slices.start[row]))) - 1
        if at < 0 or ids[at] != identity:
            at += 1
        found[number] = calls[at]
    return found


def link(slices: Columns, gpu_rows: NDArray[np.intp], call: NDArray[np.int8]) -> Links:
    """Link GPU rows (sorted by start) to run-time rows through their correlation ids.

    Ids are unique within a process only: where several enqueueing calls have one, the last that began before a slice is its launch.
    """
    runtime = np.flatnonzero((slices.kind == Kind.RUNTIME) & (slices.correlation >= 0))
    ids = int(slices.correlation.max(initial=-1)) + 1
    by_id = np.full(ids + 1, -1, np.int64)
    # Later assignments win, so the order is backwards: of several calls with one id an enqueueing one, then the first, is meant.
    enqueues = np.isin(call[runtime], ENQUEUES)
    order = np.lexsort((np.arange(runtime.size), ~enqueues))[::-1]
    by_id[slices.correlation[runtime[order]]] = runtime[order]
    correlation = slices.correlation[gpu_rows]
    launch = np.where(correlation >= 0, by_id[correlation], -1)
    calls = runtime[enqueues]
    repeated = np.bincount(slices.correlation[calls], minlength=ids + 1) > 1 if calls.size else np.zeros(ids + 1, bool)
    shared = (correlation >= 0) & repeated[correlation]
    if shared.any():
        launch[shared] = _latest_before(slices, calls, gpu_rows[shared])
    linked = launch >= 0
    delay = np.where(linked, slices.start[gpu_rows] - slices.start[launch], 0)
    first = np.zeros(gpu_rows.size, bool)
    positions = np.flatnonzero(linked)
    if positions.size:
        _, where = np.unique(launch[positions], return_index=True)
        first[positions[where]] = True
    return Links(launch, delay, first)
