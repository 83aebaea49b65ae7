"""What answers look up in one recording's analysis: its product and its sum, launches by operator, what a first step pays for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from reports.findings.seen import exactly, rows_named, self_us, under
from reports.trace.analyse import Analysis
from reports.trace.categories import Call, Kind
from reports.trace.kernels import KernelStats
from reports.trace.steps import STEP, step_rows
from reports.trace.usage import Device

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")


def device(analysis: Analysis) -> Device | None:
    """The GPU with the most work."""
    return max(analysis.devices, key=lambda found: found.busy_us, default=None)


def bound(analysis: Analysis) -> str:
    """What bounds the recording, of its busiest GPU; "" without one."""
    found = device(analysis)
    return "" if found is None else analysis.regimes[analysis.devices.index(found)].bound


def kernel(analysis: Analysis, *classes: str) -> KernelStats | None:
    """The kernel of these classes that takes most."""
    return next((one for one in analysis.kernels if one.kind == "kernel" and one.kernel_class in classes), None)


def product(analysis: Analysis) -> KernelStats | None:
    """The matrix product's kernel."""
    return kernel(analysis, "gemm")


def memsets(analysis: Analysis) -> tuple[float, float]:
    """Fills of device memory per step, and the bytes of one (0 where the trace does not say)."""
    found = [one for one in analysis.kernels if one.kind == "memset"]
    count = sum(one.count for one in found)
    moved = sum(one.bytes or 0.0 for one in found)
    return count / max(len(analysis.steps), 1), moved / count if count else 0.0


@dataclass(frozen=True)
class Launches:
    """How an operator's kernels are launched: names of the launching calls and of the queries among its run-time calls, with counts."""

    launches: Counter[str]
    queries: Counter[str]

    @property
    def total(self) -> int:
        return sum(self.launches.values())


def launches(analysis: Analysis, *operators: str) -> Launches:
    """Run-time calls under these operators."""
    trace = analysis.trace
    runtime = trace.rows(Kind.RUNTIME)
    inside = runtime[under(trace, runtime, rows_named(trace, exactly(*operators), Kind.OP)) >= 0]
    calls = trace.call[inside]
    launching = inside[np.isin(calls, (Call.LAUNCH, Call.GRAPH_LAUNCH))]
    return Launches(
        Counter(trace.name(row) for row in launching.tolist()),
        Counter(trace.name(row) for row in inside[calls == Call.QUERY].tolist()),
    )


@dataclass(frozen=True)
class Extra:
    """What the first step spent beyond the median of the others, by the name of what spent it: self time, us."""

    name: str
    us: float


def first_step_extras(analysis: Analysis) -> tuple[Extra, ...]:
    """Where a first step's additional time went, the largest first; a step's own name stands for what lies in nothing else."""
    trace, steps = analysis.trace, np.array(step_rows(analysis.trace), np.intp)
    if steps.size < 2:
        return ()
    rows = trace.host_rows
    owner = under(trace, rows, steps)
    spent: list[dict[str, float]] = []
    for step in steps.tolist():
        inside = np.append(rows[owner == step], step)
        names: dict[str, float] = {}
        for code in np.unique(trace.slices.name[inside]).tolist():
            name = trace.slices.names[code]
            own = self_us(trace, inside[trace.slices.name[inside] == code])
            names["the step itself" if STEP.fullmatch(name) else name] = own
        spent.append(names)
    extras = [
        Extra(name, own - float(np.median([step.get(name, 0.0) for step in spent[1:]])))
        for name, own in spent[0].items()
    ]
    return tuple(sorted((one for one in extras if one.us > 0), key=lambda one: (-one.us, one.name)))


def inside(analysis: Analysis, operator: str, above: str) -> tuple[float, float]:
    """Calls per step of an operator within another one, and their time in us per step."""
    trace = analysis.trace
    rows = rows_named(trace, exactly(operator), Kind.OP)
    rows = rows[under(trace, rows, rows_named(trace, exactly(above), Kind.OP)) >= 0]
    units = max(len(analysis.steps), 1)
    return rows.size / units, float(trace.slices.duration[rows].sum()) / 1000 / units
