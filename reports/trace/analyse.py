"""Everything that is computed of one trace, in one frozen record: what the findings, the pages and the JSON are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reports.trace.alike import Group, alike
from reports.trace.kernels import KernelStats, kernels
from reports.trace.operators import ChainNode, OperatorStats, chains, operators
from reports.trace.products import Product, products
from reports.trace.read import Trace, read
from reports.trace.regime import Regime, regime
from reports.trace.steps import Step, first_is_cold, step_rows, steps
from reports.trace.table import Table
from reports.trace.usage import Device, Host, devices, host
from reports.trace.workload import Workload, from_file_name


@dataclass(frozen=True)
class Analysis:
    """One trace and what it tells. `regimes` is aligned with `devices`; `table` is the profiler's own, where one was given."""

    trace: Trace = field(repr=False)
    devices: tuple[Device, ...]
    regimes: tuple[Regime, ...]
    host: Host
    steps: tuple[Step, ...]
    cold_first_step: bool
    kernels: tuple[KernelStats, ...]
    operators: tuple[OperatorStats, ...]
    chains: tuple[ChainNode, ...]
    workload: Workload | None = None
    table: Table | None = None

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """Matrix products whose size is known."""
        return products(self.trace, self.workload)

    @cached_property
    def alike(self) -> tuple[Group, ...]:
        """Calls of the longer kernels that do the same work."""
        return alike(self.trace, self.kernels)

    @property
    def has_gpu(self) -> bool:
        """Whether the recording shows or should show a GPU: work on one, launches, or long waits for one; also one that is not read."""
        unseen = any(note.kind in ("gpu_activity_missing", "device_unread") for note in self.trace.notes)
        return bool(self.devices) or self.host.launches > 0 or unseen

    def operator(self, name: str) -> OperatorStats | None:
        return next((stats for stats in self.operators if stats.name == name), None)


def analyse(path: Path, workload: Workload | None = None, table: Table | None = None) -> Analysis:
    """Read a trace and compute all of it.

    Raises:
        TraceError: when the file cannot be read.
    """
    return analyse_trace(read(path), workload, table)


def analyse_trace(trace: Trace, workload: Workload | None = None, table: Table | None = None) -> Analysis:
    """Compute all of a trace that was read."""
    found_steps, rows = steps(trace), step_rows(trace)
    cold = first_is_cold(found_steps)
    bounds = (int(trace.slices.start[rows[0]]), int(trace.end[rows[0]])) if cold else None
    found_devices, found_kernels, found_operators = devices(trace, bounds), kernels(trace), operators(trace)
    annotations = {stats.name for stats in found_operators if stats.kind == "annotation"}
    return Analysis(
        trace=trace,
        devices=found_devices,
        regimes=tuple(regime(device, found_kernels) for device in found_devices),
        host=host(trace),
        steps=found_steps,
        cold_first_step=cold,
        kernels=found_kernels,
        operators=found_operators,
        chains=chains(trace),
        workload=workload or from_file_name(Path(trace.path), annotations),
        table=table,
    )
