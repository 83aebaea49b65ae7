"""Small traces written by hand, and real ones of the CPU, for the rules to judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reports.findings.contract import Outcome, Rule, Verdict, judge
from reports.trace.analyse import Analysis, analyse

DATA = Path(__file__).parent / "data"
HASH = "fq4p3bvtmdlu2ncmzh5c7sxe6ykrgjoa9w8i1nbqfhxl5t0uvd2z"
GEMM = "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85051572224, "numSms": 108}


class Recording:
    """Events of a trace, times in us."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._correlation = 0

    def slice(self, category: str, name: str, start: float, length: float, thread: int = 1, **args: Any) -> Recording:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length}
        self.events.append({**event, "args": args})
        return self

    def op(self, name: str, start: float, length: float, thread: int = 1) -> Recording:
        return self.slice("cpu_op", name, start, length, thread)

    def note(self, name: str, start: float, length: float) -> Recording:
        return self.slice("user_annotation", name, start, length)

    def step(self, number: int, start: float, length: float) -> Recording:
        return self.note(f"ProfilerStep#{number}", start, length)

    def call(self, name: str, start: float, length: float) -> Recording:
        return self.slice("cuda_runtime", name, start, length)

    def launch(
        self,
        start: float,
        kernel: str,
        at: float,
        length: float,
        call: str = "cudaLaunchKernel",
        category: str = "kernel",
        recorded: bool = True,
        **args: Any,
    ) -> Recording:
        """A launch of 5 us and what it launches; with `recorded` false the launch itself is missing."""
        self._correlation += 1
        if recorded:
            self.slice("cuda_runtime", call, start, 5.0, correlation=self._correlation)
        return self.slice(category, kernel, at, length, 7, device=0, stream=7, correlation=self._correlation, **args)

    def analysis(self) -> Analysis:
        gpu = any(event["cat"] in ("kernel", "gpu_memcpy") for event in self.events)
        document = {"schemaVersion": 1, "deviceProperties": [A100] if gpu else [], "traceEvents": self.events}
        with TemporaryDirectory() as directory:
            path = Path(directory) / "recording.json"
            path.write_text(json.dumps(document))
            return analyse(path)


def real(name: str) -> Analysis:
    """A trace of the CPU that torch 2.13 wrote: 3 steps after 1 of warm-up."""
    return analyse(DATA / f"{name}.json.gz")


def ask(rules: Sequence[Rule], identity: str, analysis: Analysis) -> Outcome:
    """What one rule says."""
    (finding,) = judge(tuple(rule for rule in rules if rule.id == identity), analysis)
    return finding.outcome


def eager(steps: int = 3, product: str = "aten::mm", kernel_us: float = 580.0) -> Recording:
    """Annotated matmul and add on a GPU, 70 us of host time a step."""
    trace, busy = Recording(), 200.0
    for number in range(steps):
        # Not whole: a trace in whole microseconds is taken for one of an old writer.
        start = 100.25 * number
        trace.step(number + 2, start, 70).note("matmul_add", start + 2, 66)
        trace.op("aten::matmul", start + 5, 35).op(product, start + 6, 33)
        trace.call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", start + 7, 1)
        trace.launch(start + 10, GEMM, busy, kernel_us)
        trace.op("aten::add", start + 42, 20).launch(start + 45, ADD, busy + kernel_us + 1, 67.7)
        busy += kernel_us + 70
    return trace


def compiled(steps: int = 3, version: int = 0, keys: Sequence[str] = (HASH,), lookup: float = 22.0) -> Recording:
    """The same compiled: one addmm with a copy of the bias, 140 us of host time a step."""
    trace, busy = Recording(), 300.0
    for number in range(steps):
        start = 200.0 * number
        trace.step(number + 2, start, 140).note("matmul_add", start + 2, 136)
        trace.op("TorchDynamo Cache Lookup", start + 4, lookup)
        trace.op(f"Torch-Compiled Region: 0/{version}", start + 28, 106)
        trace.op("AOTDispatcher Runtime Wrapper Prologue", start + 39, 6)
        trace.note(f"## Call CompiledFxGraph {keys[number % len(keys)]} ##", start + 47, 84)
        trace.op("aten::addmm", start + 60, 68)
        copy = "Memcpy DtoD (Device -> Device)"
        trace.launch(start + 66, copy, busy, 33.0, "cudaMemcpyAsync", "gpu_memcpy", bytes=33554432)
        trace.launch(start + 88, GEMM, busy + 34, 588.0)
        busy += 630
    return trace


__all__ = ["ADD", "DATA", "GEMM", "HASH", "Recording", "Verdict", "ask", "compiled", "eager", "real"]
