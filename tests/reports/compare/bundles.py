"""Bundles of machines that do not exist, for tests of comparisons."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.compare.load import Gathered, gather
from suite.bundle import manifest, schema
from suite.bundle.writer import EVENTS, FINGERPRINT, STATE, append, write_document
from tests import samples

POINTWISE = "pointwise_chain/64x64-fp32"
MATMUL = "matmul_add/64-fp32"


def around(time_ns: float, processes: int = 6, spread: float = 0.004, seed: int = 0) -> list[float]:
    """Times of processes that scatter by `spread` (a standard deviation, of the log), the same every time."""
    generator = random.Random(f"{seed} {time_ns}")
    return [time_ns * (1 + generator.gauss(0, spread)) for _ in range(processes)]


def arms(eager_ns: float, compiled_ns: float, processes: int = 6, seed: int = 0) -> dict[str, list[float]]:
    """Times of the three arms of `samples.ARMS`; eager again is eager, scattering by a little."""
    eager = around(eager_ns, processes, seed=seed)
    return {
        "eager": eager,
        "eager#2": [time * (1.001 if place % 2 else 0.999) for place, time in enumerate(eager)],
        "inductor": around(compiled_ns, processes, seed=seed + 1),
    }


def fact(value: Any, status: schema.FactStatus = "ok") -> schema.Fact:
    return schema.Fact(value=value, source="test", status=status)


def bundle(
    directory: Path,
    times: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    cpu: Any = "Test CPU",
    unit: str | None = "unit 1",
    facts: Mapping[str, Mapping[str, schema.Fact]] | None = None,
    torch: Mapping[str, str] | None = None,
    threads: int | None = 2,
    rates: tuple[float, float] | None = (50.0, 200.0),
    version: str = "0.1.0",
    case_changes: Mapping[str, object] | None = None,
    **changes: object,
) -> Path:
    """A bundle; `rates` are its triad in GB/s and its small product in GFLOP/s, `torch` its modes in force beside the usual."""
    named = {
        "run_id": f"20260301-100000-quick-{directory.name}",
        "source": schema.Source(version=version, revision="0" * 40, dirty=False),
        **changes,
    }
    samples.write(directory, times, changes=named, case_changes=case_changes)
    read: dict[str, dict[str, schema.Fact]] = {
        "cpu": {"model": fact(cpu), "sockets": fact(1), "physical_cores": fact(2)},
        "identity": {"machine_id": fact(unit) if unit else fact(None, "masked")},
    }
    for subject, found in (facts or {}).items():
        read.setdefault(subject, {}).update(found)
    document = schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts=read)
    write_document(directory / FINGERPRINT, document)
    for case in times:
        append(directory / EVENTS, effective(case, torch or {}, threads))
        if rates:
            append(directory / STATE, state(case, *rates))
    manifest.write(directory)
    return directory


def effective(case: str, torch: Mapping[str, str], threads: int | None) -> schema.Effective:
    modes = {"version": "2.13.0+cpu", "float32_matmul_precision": "highest", **torch}
    return schema.Effective(
        at=samples.AT, case=case, process=0, mapped_libraries={"allocator_called": ["libjemalloc.so.2"]}, affinity=[0, 1],
        memory_nodes="0", threads={"torch_intra_op": threads} if threads else {}, environment={}, torch=modes, runtime={},
        timer_resolution_ns=30, timer_overhead_ns=50, peak_rss_bytes=1,
    )  # fmt: skip


def state(case: str, gigabytes: float, gigaflops: float) -> schema.State:
    return schema.State(
        case=case, process=0, incarnation=0, before_block=0, at_ns=samples.START_NS, triad_ns=10**6,
        triad_bytes=round(gigabytes * 10**6), gemm_ns=10**6, gemm_operations=round(gigaflops * 10**6),
    )  # fmt: skip


def gathered(*paths: Path) -> Gathered:
    return gather([str(path) for path in paths], paths[0].parent)
