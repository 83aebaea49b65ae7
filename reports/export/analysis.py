"""`analyze --json`: what a trace tells, for programs. The contract: fields are added, never renamed or removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from reports.findings.contract import Finding
from reports.trace.analyse import Analysis
from reports.trace.steps import Step
from reports.trace.usage import Device

MOST_KERNELS = 100


def document(analysis: Analysis, findings: Sequence[Finding]) -> dict[str, Any]:
    """One trace as a JSON document; times in us, shares as fractions, null where something is not known."""
    return {
        "file": analysis.trace.path,
        "status": analysis.trace.status,
        "notes": [{"kind": note.kind, "count": note.count, "effect": note.effect} for note in analysis.trace.notes],
        "devices": [
            _device(device, regime.bound) for device, regime in zip(analysis.devices, analysis.regimes, strict=True)
        ],
        "host": {
            "self_cpu_total_us": analysis.host.self_cpu_total_us,
            "synchronize_us": analysis.host.synchronize_us,
            "threads": analysis.host.threads,
            "operations": analysis.host.operations,
            "launches": analysis.host.launches,
            "queries": analysis.host.queries,
        },
        "steps": [_step(step) for step in analysis.steps],
        "kernels": [
            {
                "device": stats.device,
                "name": stats.name,
                "kind": stats.kind,
                "class": stats.kernel_class,
                "count": stats.count,
                "total_us": stats.total_us,
                "mean_us": stats.mean_us,
                "mean_of_first_5_us": stats.first_mean_us,
                "median_us": stats.median_us,
                "p95_us": stats.p95_us,
                "min_us": stats.least_us,
                "max_us": stats.most_us,
                "bytes": stats.bytes,
            }
            for stats in analysis.kernels[:MOST_KERNELS]
        ],
        "rules": [
            {
                "id": finding.rule.id,
                "verdict": finding.outcome.verdict.value,
                "claim": finding.outcome.claim,
                "evidence": [
                    {"text": evidence.text, "start_us": evidence.start_us, "end_us": evidence.end_us}
                    for evidence in finding.outcome.evidence
                ],
                "why": finding.outcome.why,
                "advice": finding.outcome.advice,
            }
            for finding in findings
        ],
    }


def refusal(file: str, reason: str) -> dict[str, Any]:
    """The document of a trace that cannot be read."""
    return {
        "file": file,
        "status": "refused",
        "notes": [{"kind": "refused", "count": 1, "effect": reason}],
        "devices": [],
        "host": {"self_cpu_total_us": None},
        "steps": [],
        "kernels": [],
        "rules": [],
    }


def encode(documents: Sequence[dict[str, Any]]) -> bytes:
    """One document as it is, several as a list; never NaN or infinity, which are not JSON."""
    content: Any = documents[0] if len(documents) == 1 else list(documents)
    return msgspec.json.format(msgspec.json.encode(_finite(content)), indent=2) + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, str):
        # A name may hold half of a surrogate pair, which cannot be written.
        return value.encode("utf-8", "replace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _device(device: Device, regime: str) -> dict[str, Any]:
    delay = device.launch_delay_us
    return {
        "device": device.device,
        "model": device.model,
        "busy_us": device.busy_us,
        "span_us": device.span_us,
        "window_us": device.window_us,
        "idle_of_window": device.idle_of_window,
        "idle_of_span": device.idle_of_span,
        "regime": regime,
        "slices": device.slices,
        "kernels": device.kernels,
        "launches": device.launches,
        "graph_launches": device.graph_launches,
        "orphans": device.orphans,
        "launch_delay_median_us": None if delay is None else delay.median,
        "launch_delay_p95_us": None if delay is None else delay.p95,
        "slice_delay_median_us": device.slice_delay_median_us,
        "first_launch_to_first_kernel_us": device.first_launch_to_first_kernel_us,
        "queue_depth_max": device.queue_depth_most,
        "queue_depth_mean": device.queue_depth_mean,
        "idle": device.idle_us,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "number": step.number,
        "start_us": step.start_us,
        "host_us": step.host_us,
        "gap_annotation_to_first_op_us": step.gap_us,
        "gpu_busy_us": step.gpu_busy_us,
        "idle": step.idle,
        "kernels": step.kernels,
        "launches": step.launches,
        "queries": step.queries,
    }
