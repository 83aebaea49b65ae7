"""Small traces of matmul_add under the walkthrough's own file names, with its numbers planted; and the same of other machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from reports.walkthrough.recording import Recording as Taken
from reports.walkthrough.recording import Recordings, from_file
from tests.reports.findings.recordings import A100, ADD, GEMM, HASH, Recording

H200 = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "numSms": 132}
COPY = "Memcpy DtoD (Device -> Device)"
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
NVJET_ADDING = "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT"
QUERY = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
TIMES = (1890.0, 1750.0, 620.0, *(580.0,) * 17)
"""Mean of the first five 1084, median 580."""

RESOURCES = {"registers per thread": 32, "shared memory": 0, "grid": [4096, 1, 1], "block": [128, 1, 1]}
TILES = {"registers per thread": 168, "shared memory": 213188, "grid": [2, 66, 1], "block": [384, 1, 1]}


def eager(
    times: Sequence[float] = (580.0,) * 3,
    gaps: Sequence[float] = (5.0,),
    late: float = 54.0,
    product: str = "aten::mm",
    gemm: str = GEMM,
    call: str = "cudaLaunchKernel",
    query: str = QUERY,
    memset: bool = False,
    add: float = 67.7,
    wait: float | None = None,
) -> Recording:
    """Steps of matmul and add; `late` us pass from the first launch to the first kernel, `wait` us in a last synchronising call."""
    trace, start, busy = Recording(), 0.25, 0.0
    for number, time in enumerate(times):
        gap = gaps[min(number, len(gaps) - 1)]
        trace.step(number + 2, start, gap + 66).note("matmul_add", start + 1, gap + 64)
        begin = start + 1 + gap
        trace.op("aten::matmul", begin, 35).op(product, begin + 1, 33)
        if query:
            trace.call(query, begin + 2, 1)
        launch = begin + 12
        busy = max(busy, launch + (late if number == 0 else 9))
        if memset:
            trace.launch(begin + 4, "Memset (Device)", busy, 0.8, "cudaMemsetAsync", "gpu_memset", bytes=4)
            busy += 1.3
        trace.launch(launch, gemm, busy, time, call, **TILES)
        # No kernel begins before its launch.
        after = max(busy + time + 0.5, begin + 49)
        trace.op("aten::add", begin + 42, 20).launch(begin + 45, ADD, after, add, **RESOURCES)
        busy = after + add + 0.75
        start += gap + 70.05
    if wait is not None:
        trace.call("cudaDeviceSynchronize", start, wait)
    return trace


def compiled(gemm: str = GEMM, copy: float = 33.0, memset: bool = False, host: float = 2.0) -> Recording:
    """Three steps of one addmm with a copy of the bias; the host works `host` times as long as in an eager step with a gap of 4 us."""
    trace, busy = Recording(), 300.0
    for number in range(3):
        start = 0.25 + 200.0 * number
        trace.step(number + 2, start, 70 * host).note("matmul_add", start + 1, 70 * host - 2)
        trace.op("TorchDynamo Cache Lookup", start + 2, 15)
        trace.op("Torch-Compiled Region: 0/0", start + 18, 70 * host - 22)
        trace.op("AOTDispatcher Runtime Wrapper Prologue", start + 20, 5)
        trace.note(f"## Call CompiledFxGraph {HASH} ##", start + 26, 70 * host - 34)
        trace.op("aten::addmm", start + 30, 70 * host - 42)
        trace.launch(start + 32, COPY, busy, copy, "cudaMemcpyAsync", "gpu_memcpy", bytes=33554432)
        if memset:
            trace.launch(start + 40, "Memset (Device)", busy + copy + 1, 0.8, "cudaMemsetAsync", "gpu_memset", bytes=4)
        trace.launch(start + 48, gemm, busy + copy + 2, 588.0)
        busy += 700
    return trace


def requesting() -> Recording:
    """The small product recorded from the first step on: the profiler asks for a buffer of 2.316 ms."""
    trace = eager((5.152,) * 3, (227.757, 5.521, 4.488), 2320.0, add=2.528)
    return trace.slice("overhead", "Activity Buffer Request", 245.0, 2316.0, 7)


def save(folder: Path, name: str, trace: Recording, device: dict[str, object] | None = None) -> Path:
    """A trace under a name; `device` (an A100 by default) is what it ran on."""
    gpu = any(event["cat"] == "kernel" for event in trace.events)
    document = {
        "schemaVersion": 1,
        "deviceProperties": [device or A100] if gpu else [],
        "traceEvents": trace.events,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def a100(folder: Path) -> Recordings:
    """What the walkthrough recorded, with its numbers."""
    small = eager((5.152,) * 3, (227.757, 5.521, 4.488), 2320.0, add=2.528, wait=1780.0)
    return taken(
        save(folder, "a100_64_bf16_cold_eager", small),
        save(folder, "a100_64_bf16_nowait_eager", requesting()),
        save(folder, "4096_bf16_cold_eager", eager((2100.0, 1500.0, 691.9), wait=4000.0)),
        save(folder, "4096_bf16_warm_eager", eager(gaps=(4.0,))),
        save(folder, "4096_bf16_warm20_eager", eager(TIMES)),
        save(folder, "8x4096_bf16_warm_eager", eager((4640.0,) * 3, product="aten::bmm")),
        save(folder, "4096_bf16_warm_compile", compiled()),
    )


def h200(folder: Path) -> Recordings:
    """The same of a Hopper GPU: other kernels, another launch, no query, a memset, no late first kernel."""
    small = eager(
        (1.92,) * 3, (24.824, 7.264), 35.6, gemm=NVJET, call="cuLaunchKernelEx", query="", add=0.928, wait=22.0
    )
    large = eager((167.5,) * 3, gemm=NVJET, call="cuLaunchKernelEx", query="", memset=True, add=22.3)
    return taken(
        save(folder, "64_bf16_cold_eager", small, H200),
        save(folder, "4096_bf16_warm_eager", large, H200),
        save(folder, "4096_bf16_warm_compile", compiled(NVJET_ADDING, 15.68, memset=True, host=1.0), H200),
    )


def taken(*paths: Path) -> Recordings:
    """Recordings of saved traces."""
    found: list[Taken] = [from_file(path) for path in paths]
    return Recordings(tuple(found))
