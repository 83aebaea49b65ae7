"""What the rules look up in a trace: rows by name, what lies under what, a moment as evidence."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reports.trace.analyse import Analysis
from reports.trace.categories import HOST, Kind
from reports.trace.read import Trace
from reports.trace.regime import BUSY

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

REGION = re.compile(r"Torch-Compiled Region(?:: *(?P<frame>!?\d+(?:/\d+)?)/(?P<version>\d+)(?:_\d+)?)?")
"""A compiled frame's slice; versions before 2.4 give no ids, compiled autograd puts its own id first."""

LOOKUP = "TorchDynamo Cache Lookup"
PROLOGUE = "AOTDispatcher Runtime Wrapper Prologue"
GRAPH = re.compile(r"## Call CompiledFxGraph (\S+)(?: ##)?")
FRAMES = re.compile(
    rf"{REGION.pattern}|{GRAPH.pattern}|{LOOKUP}|{PROLOGUE}|Pregraph bytecode|CompiledFunction(?:Backward)?"
)
"""Slices that torch.compile adds around the work itself."""

FUSED_CPP = re.compile(r"(?:graph_\d+_)?cpp_fused_\w+")
"""A kernel that Inductor wrote in C++; it is a slice only where `config.cpp.enable_kernel_profile` was set before the first call."""

UNCOMPILED = "the trace holds no compiled region: nothing in it was run by torch.compile"

DEEPEST = 1000
"""No chain of calls is followed further: a deeper one is damage."""

SHOWN = 8
"""Pieces of evidence of one kind that are listed; the rest is counted."""


def rows_named(trace: Trace, wanted: Callable[[str], object], *kinds: Kind) -> Rows:
    """Rows of these kinds (the host's, where none is given) whose name satisfies `wanted`, by start."""
    names = trace.slices.names
    codes = np.fromiter((bool(wanted(name)) for name in names), bool, len(names))
    if not codes.any():
        return np.zeros(0, np.intp)
    rows = trace.rows(*(kinds or HOST))
    found = rows[codes[trace.slices.name[rows]]]
    return found[np.argsort(trace.slices.start[found], kind="stable")]


def exactly(*names: str) -> Callable[[str], object]:
    """Names that are one of these."""
    return frozenset(names).__contains__


def under(trace: Trace, rows: Rows, above: Rows) -> NDArray[np.int64]:
    """For each row the nearest of its ancestors that is one of `above`, -1 where none is."""
    found = np.full(rows.size, -1, np.int64)
    if not rows.size or not above.size:
        return found
    wanted = np.zeros(trace.slices.start.size, bool)
    wanted[above] = True
    parent = trace.nesting.parent
    here = parent[rows]
    for _ in range(DEEPEST):
        open_ = (here >= 0) & (found < 0)
        if not open_.any():
            break
        hit = open_ & wanted[np.where(here >= 0, here, 0)]
        found[hit] = here[hit]
        here = np.where(open_ & ~hit, parent[np.where(here >= 0, here, 0)], -1)
    return found


def regions(trace: Trace) -> Rows:
    """Slices of compiled frames, by start."""
    return rows_named(trace, REGION.fullmatch)


def compiled_rows(trace: Trace) -> Rows:
    """Slices of compiled frames and of the graphs that they call: what lies in them is compiled code."""
    return rows_named(trace, lambda name: REGION.fullmatch(name) or GRAPH.fullmatch(name) or name == "CompiledFunction")


def is_compiled(analysis: Analysis) -> bool:
    """Whether the trace holds compiled code."""
    return compiled_rows(analysis.trace).size > 0


def mostly_compiled(analysis: Analysis) -> bool:
    """Whether half of the GPU slices (without a GPU: of the operators' time) come of code that Inductor compiled: launched in a compiled
    graph, or named by it."""
    trace = analysis.trace
    graphs = rows_named(trace, GRAPH.fullmatch)
    rows = trace.gpu_rows
    if not rows.size:
        return is_compiled(analysis)
    named = np.fromiter(
        (INDUCTOR.match(name) is not None for name in trace.slices.names), bool, len(trace.slices.names)
    )
    ours = named[trace.slices.name[rows]]
    above = graphs if graphs.size else regions(trace)
    launch = trace.links.launch
    within = np.zeros(rows.size, bool)
    within[launch >= 0] = under(trace, launch[launch >= 0].astype(np.intp), above) >= 0
    return bool(ours.any() or graphs.size or above.size) and float((ours | within).mean()) >= MOSTLY_COMPILED


MOSTLY_COMPILED = 0.5
INDUCTOR = re.compile(r"triton_(?:poi|red|per|tem|for)_")


def unless_compiled(analysis: Analysis, advice: str) -> str:
    """What torch.compile would do is advised to what it did not compile yet."""
    return "" if mostly_compiled(analysis) else advice


def total_us(trace: Trace, rows: Rows) -> float:
    """Summed length of slices that do not lie in each other, in us."""
    return float(trace.slices.duration[rows].sum()) / 1000


def self_us(trace: Trace, rows: Rows) -> float:
    """Summed self time, in us."""
    return float(trace.nesting.self_time[rows].sum()) / 1000


def host_self_us(analysis: Analysis) -> float:
    """Self time of everything on the host but waits for the GPU, in us."""
    return max(analysis.host.self_cpu_total_us - analysis.host.synchronize_us, 0.0)


def host_bound(analysis: Analysis) -> bool:
    """Whether time saved on the host shortens the run: without a GPU, or where one mostly waits."""
    return not analysis.devices or any(found.counted_busy < BUSY for found in analysis.regimes)
