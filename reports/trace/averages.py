"""The profiler's table recomputed from a trace: the rows that torch's `key_averages()` would give.

Follows torch.autograd.profiler_util (EventList, FunctionEvent): a row per name and kind, `ProfilerStep#N` merged to `ProfilerStep*`; a
call that is the only child of a call of its own name is one with it; GPU time belongs to the operator around the launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import Kind
from reports.trace.columns import Ints
from reports.trace.operators import device_time
from reports.trace.read import Trace

Origin = Literal[
    "operator", "annotation", "runtime call", "kernel", "copy", "fill", "GPU annotation", "overhead", "GPU wait"
]

HOST_ORIGINS: dict[Kind, Origin] = {
    Kind.OP: "operator",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "runtime call",
    Kind.OVERHEAD: "overhead",
}
DEVICE_ORIGINS: dict[Kind, Origin] = {
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "fill",
    Kind.GPU_ANNOTATION: "GPU annotation",
    Kind.GPU_SYNC: "GPU wait",
}

LEFT_OUT = frozenset(
    (
        "[memory]",
        "[OutOfMemory]",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    )
)
"""Names that torch leaves out of its table; their time stays with their caller."""

STEP, STEPS = "ProfilerStep#", "ProfilerStep*"


@dataclass(frozen=True)
class Line:
    """One row as torch would compute it from this trace; times in us. `slices` is the number of slices behind its times (calls and what
    they call directly), which bounds what rounding can do."""

    name: str
    origin: Origin
    calls: int
    self_cpu_us: float
    cpu_us: float
    self_device_us: float
    device_us: float
    slices: int

    @property
    def on_device(self) -> bool:
        return self.origin in DEVICE_ORIGINS.values()


def averages(trace: Trace) -> tuple[Line, ...]:
    """Every row, by self CPU time, then self device time."""
    found = [*_host(trace), *_device(trace)]
    return tuple(sorted(found, key=lambda line: (-line.self_cpu_us, -line.self_device_us, line.name)))


def shown_name(name: str) -> str:
    """The name under which the table has it."""
    return STEPS if name.startswith(STEP) else name


def _host(trace: Trace) -> list[Line]:
    slices, nesting = trace.slices, trace.nesting
    left_out = np.fromiter((name in LEFT_OUT for name in slices.names), bool, len(slices.names))
    every = trace.rows(Kind.OP, Kind.ANNOTATION, Kind.RUNTIME)
    hidden = left_out[slices.name[every]]
    rows = every[~hidden]
    own = nesting.self_time.copy()
    for row in every[hidden].tolist():
        if nesting.parent[row] >= 0:
            own[nesting.parent[row]] += slices.duration[row]
    children = np.bincount(nesting.parent[rows][nesting.parent[rows] >= 0], minlength=slices.start.size)
    repeated = _repeated(trace, rows, children)
    self_device, device = _device_times(trace, rows)
    found = _lines(
        trace, rows, ~repeated, own, slices.duration, self_device, device, 1 + children.astype(np.int64), HOST_ORIGINS
    )
    overhead = trace.rows(Kind.OVERHEAD)
    nothing = np.zeros(slices.start.size, np.int64)
    whole = np.ones(overhead.size, bool)
    ones = np.ones(slices.start.size, np.int64)
    return found + _lines(
        trace, overhead, whole, slices.duration, slices.duration, nothing, nothing, ones, HOST_ORIGINS
    )


def _repeated(trace: Trace, rows: NDArray[np.intp], children: NDArray[np.intp]) -> NDArray[np.bool_]:
    parent, name = trace.nesting.parent[rows], trace.slices.name
    above = np.where(parent >= 0, parent, 0)
    return (parent >= 0) & (name[above] == name[rows]) & (children[above] == 1)


def _device_times(trace: Trace, rows: NDArray[np.intp]) -> tuple[Ints, Ints]:
    """GPU time of what each slice launched itself, and with what it called. A launch hands its own to its caller."""
    launched, parent = device_time(trace), trace.nesting.parent
    own = np.zeros_like(launched)
    runtime = rows[(trace.slices.kind[rows] == Kind.RUNTIME) & (parent[rows] >= 0)]
    np.add.at(own, parent[runtime], launched[runtime])
    total, depth = own.copy(), trace.nesting.depth[rows]
    for level in range(int(depth.max(initial=0)), 0, -1):
        inside = rows[(depth == level) & (parent[rows] >= 0)]
        np.add.at(total, parent[inside], total[inside])
    return own, total


def _device(trace: Trace) -> list[Line]:
    rows = trace.rows(*DEVICE_ORIGINS)
    size = trace.slices.start.size
    nothing, ones = np.zeros(size, np.int64), np.ones(size, np.int64)
    duration = trace.slices.duration
    return _lines(trace, rows, np.ones(rows.size, bool), nothing, nothing, duration, duration, ones, DEVICE_ORIGINS)


def _lines(
    trace: Trace,
    rows: NDArray[np.intp],
    counted: NDArray[np.bool_],
    self_cpu: Ints,
    cpu: Ints,
    self_device: Ints,
    device: Ints,
    slices: Ints,
    origins: dict[Kind, Origin],
) -> list[Line]:
    """Sums by name and kind; calls and totals of `counted` rows only."""
    if rows.size == 0:
        return []
    names = trace.slices.names
    codes, position = np.unique(trace.slices.name[rows], return_inverse=True)
    shown = {code: shown_name(names[code]) for code in codes.tolist()}
    merged = {name: number for number, name in enumerate(dict.fromkeys(shown.values()))}
    of_code = np.array([merged[shown[code]] for code in codes.tolist()])
    key = of_code[position] * len(Kind) + trace.slices.kind[rows]
    keys, group = np.unique(key, return_inverse=True)

    def total(values: Ints, weight: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        taken = values[rows] if weight is None else np.where(weight, values[rows], 0)
        return np.bincount(group, taken.astype(float), keys.size) / 1000

    calls = np.bincount(group, counted, keys.size)
    columns = [total(self_cpu), total(cpu, counted), total(self_device), total(device, counted)]
    behind = np.bincount(group, slices[rows], keys.size)
    in_order = list(merged)
    return [
        Line(
            name=in_order[int(key) // len(Kind)],
            origin=origins[Kind(int(key) % len(Kind))],
            calls=int(calls[number]),
            self_cpu_us=float(columns[0][number]),
            cpu_us=float(columns[1][number]),
            self_device_us=float(columns[2][number]),
            device_us=float(columns[3][number]),
            slices=int(behind[number]),
        )
        for number, key in enumerate(keys.tolist())
    ]
