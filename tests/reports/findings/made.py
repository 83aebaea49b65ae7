"""Traces of a GPU, written by hand for one rule each, and what a rule says of them."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reports.findings.contract import Finding, judge
from reports.findings.registry import RULES
from reports.trace.analyse import Analysis
from tests.reports.trace.kineto import Recording, analysed

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85051572224, "numSms": 108}
GEMM = "ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_nn"
SGEMM = "ampere_sgemm_128x128_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
DTOD, ROCM_DTOD = "Memcpy DtoD (Device -> Device)", "CopyDeviceToDevice"


class Made(Recording):
    """A recording with an A100, whose pieces know grids, shapes and copies."""

    def __init__(self, *gpus: dict[str, Any]) -> None:
        super().__init__(devices=list(gpus) or [dict(A100)])

    def kernel(self, name: str, called: float, start: float, length: float, device: int = 0, **args: Any) -> Made:
        """A launch and its kernel, with one grid unless told otherwise."""
        self.launch(name, called, start, start + length, device=device)
        self.events[-1]["args"].update({"grid": [8, 1, 1], "block": [128, 1, 1], **args})
        return self

    def copy(self, name: str, called: float, start: float, length: float, size: int = 1 << 20) -> Made:
        self.call("cudaMemcpyAsync", called, called + 3)
        event = self.work(name, start, start + length)
        event["cat"] = "gpu_memcpy"
        event["args"]["bytes"] = size
        return self

    def product(self, operator: str, called: float, length: float, *sizes: list[int], dtype: str = "float") -> Made:
        event = self.op(operator, called, called + length)
        event["args"] |= {"Input Dims": list(sizes), "Input type": [dtype] * len(sizes)}
        return self

    def analysis(self) -> Analysis:
        with TemporaryDirectory() as folder:
            return analysed(Path(folder), json.dumps(self.document()))


def said(recording: Made, identity: str) -> Finding:
    """What one rule of all says."""
    (finding,) = judge(tuple(rule for rule in RULES if rule.id == identity), recording.analysis())
    return finding


def verdict(recording: Made, identity: str) -> str:
    return said(recording, identity).outcome.verdict.value


def texts(finding: Finding) -> str:
    """Every piece of evidence."""
    return "\n".join(evidence.text for evidence in finding.outcome.evidence)
