"""Operators by name with self and total time, what each costs on the GPU, and the chain in which they call each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import Kind
from reports.trace.read import Trace

METADATA_ONLY = frozenset(
    {
        "aten::view",
        "aten::t",
        "aten::transpose",
        "aten::permute",
        "aten::as_strided",
        "aten::reshape",
        "aten::expand",
        "aten::squeeze",
        "aten::unsqueeze",
        "aten::select",
        "aten::slice",
        "aten::detach",
        "aten::alias",
        "aten::unbind",
        "aten::split",
        "aten::narrow",
        "aten::chunk",
        "aten::_unsafe_view",
        "aten::_reshape_alias",
        "aten::resolve_conj",
        "aten::resolve_neg",
        "aten::view_as",
        "aten::expand_as",
        "aten::flatten",
        "aten::unflatten",
        "aten::movedim",
        "aten::swapaxes",
        "aten::T",
        "aten::mT",
        "aten::lift_fresh",
        "aten::split_with_sizes",
        "aten::diagonal",
        "aten::real",
        "aten::detach_",
        "aten::empty",
        "aten::empty_strided",
        "aten::empty_like",
        "aten::result_type",
    }
)
"""Operators that move no data on the device: views, and allocations."""


@dataclass(frozen=True)
class OperatorStats:
    """One operator, annotation or run-time call by its name, over all threads. Times in us.

    `self_us` leaves out what it called; `total_us` counts an operator that calls itself once. `device_us` is the time of the GPU slices
    launched by it and what it called, `self_device_us` of those it launched itself (through a run-time call).
    """

    name: str
    kind: str
    count: int
    self_us: float
    total_us: float
    device_us: float
    self_device_us: float


@dataclass
class ChainNode:
    """One place in a dispatch chain: the operators of this name at this place, their number and total time (us), and what they call."""

    name: str
    kind: str
    count: int = 0
    total_us: float = 0.0
    children: dict[str, ChainNode] = field(default_factory=dict)


WORDS = {Kind.OP: "operator", Kind.ANNOTATION: "annotation", Kind.RUNTIME: "runtime"}


def device_time(trace: Trace) -> NDArray[np.int64]:
    """For each row of the trace, the GPU time (ns) of the slices that it launched, 0 for what launches nothing."""
    time = np.zeros(trace.slices.start.size, np.int64)
    linked = trace.links.launch >= 0
    np.add.at(time, trace.links.launch[linked], trace.slices.duration[trace.gpu_rows[linked]])
    return time


def operators(trace: Trace) -> tuple[OperatorStats, ...]:
    """Every name on the host, by self time."""
    rows, slices, nesting = trace.host_rows, trace.slices, trace.nesting
    if rows.size == 0:
        return ()
    launched = device_time(trace)
    own = launched.copy()
    runtime = rows[slices.kind[rows] == Kind.RUNTIME]
    caller = nesting.parent[runtime]
    called = caller >= 0
    np.add.at(own, caller[called], launched[runtime[called]])
    inside = own.copy()
    # Children before parents: the deepest hand their device time up first. A run-time call's own was handed up above.
    handed = launched.copy()
    for row in rows[np.argsort(-nesting.depth[rows], kind="stable")].tolist():
        parent = int(nesting.parent[row])
        if parent >= 0 and handed[row]:
            handed[parent] += handed[row]
    inside = handed
    outermost = _outermost(trace, rows)
    names, position = np.unique(slices.name[rows], return_inverse=True)
    count = np.bincount(position)
    self_ns = np.bincount(position, nesting.self_time[rows].astype(float))
    total = np.bincount(position, np.where(outermost, slices.duration[rows], 0).astype(float))
    device = np.bincount(position, np.where(outermost, inside[rows], 0).astype(float))
    self_device = np.bincount(position, own[rows].astype(float))
    kind_of_name = dict(zip(slices.name[rows].tolist(), slices.kind[rows].tolist(), strict=True))
    found = [
        OperatorStats(
            name=slices.names[code],
            kind=WORDS[Kind(kind_of_name[code])],
            count=int(count[number]),
            self_us=float(self_ns[number]) / 1000,
            total_us=float(total[number]) / 1000,
            device_us=float(device[number]) / 1000,
            self_device_us=float(self_device[number]) / 1000,
        )
        for number, code in enumerate(names.tolist())
    ]
    return tuple(sorted(found, key=lambda stats: (-stats.self_us, stats.name)))


def _outermost(trace: Trace, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether no ancestor of a row has the row's own name: one walk through the calls in their order, with the open ones on a stack."""
    slices = trace.slices
    order = np.lexsort((-trace.end[rows], slices.start[rows], slices.lane[rows]))
    parents, names = trace.nesting.parent[rows[order]].tolist(), slices.name[rows[order]].tolist()
    found = []
    open_rows: list[tuple[int, int]] = []
    open_names: Counter[int] = Counter()
    for row, parent, name in zip(rows[order].tolist(), parents, names, strict=True):
        while open_rows and open_rows[-1][0] != parent:
            open_names[open_rows.pop()[1]] -= 1
        found.append(not open_names[name])
        open_rows.append((row, name))
        open_names[name] += 1
    result = np.empty(rows.size, bool)
    result[order] = found
    return result


def chains(trace: Trace, depth: int = 12) -> tuple[ChainNode, ...]:
    """The dispatch chain of every annotation (and of each step's): same names at the same place are one node."""
    roots: dict[str, ChainNode] = {}
    nodes: dict[int, ChainNode] = {}
    rows, slices, nesting = trace.host_rows, trace.slices, trace.nesting
    if not (slices.kind[rows] == Kind.ANNOTATION).any():
        return ()
    order = rows[np.lexsort((slices.start[rows], nesting.depth[rows]))]
    for row in order.tolist():
        parent = int(nesting.parent[row])
        above = nodes.get(parent)
        if above is None and (slices.kind[row] != Kind.ANNOTATION or parent in nodes):
            continue
        if nesting.depth[row] > depth:
            continue
        name = _generic(trace.name(row))
        level = roots if above is None else above.children
        node = level.get(name)
        if node is None:
            node = level[name] = ChainNode(name, WORDS[Kind(int(slices.kind[row]))])
        node.count += 1
        node.total_us += int(slices.duration[row]) / 1000
        nodes[row] = node
    return tuple(roots.values())


def _generic(name: str) -> str:
    return "ProfilerStep" if name.startswith("ProfilerStep#") else name
