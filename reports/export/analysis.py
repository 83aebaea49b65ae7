"""`analyze --json`: what a trace tells, for programs. The contract: fields are added, never renamed or removed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from reports.findings.contract import Finding
from reports.trace.analyse import Analysis
from reports.trace.columns import Resources
from reports.trace.gaps import HOST_CAUSES
from reports.trace.kernels import KernelStats
from reports.trace.reconcile import Reconciliation
from reports.trace.regime import QUIET, Regime
from reports.trace.steps import Step
from reports.trace.usage import Device

MOST_KERNELS = 100

WINDOW = ("window_us",)
IDLE = (
    "idle_of_window",
    "idle_of_span",
    "regime",
    "free_launches",
    "twice_as_fast_kernels",
    "counted_us",
    "counted_busy",
    "idle",
)
DELAY = (
    "launch_delay_median_us",
    "launch_delay_p95_us",
    "slice_delay_median_us",
    "first_launch_to_first_kernel_us",
    "queue_depth_max",
    "queue_depth_mean",
)
CAUSE = ("idle", "free_launches")
WITHHELD: dict[str, tuple[str, ...]] = {"window": (*WINDOW, *IDLE), "idle": IDLE, "delay": DELAY, "cause": CAUSE}
"""Fields of a device that are null when the trace's health takes away what they rest on."""


def document(
    analysis: Analysis,
    findings: Sequence[Finding],
    reconciliation: Reconciliation | None = None,
    against: str | None = None,
) -> dict[str, Any]:
    """One trace as a JSON document; times in us, shares as fractions, null where something is not known.

    `withheld` names what the trace's health forbids to claim; the fields that rest on it are null. `table` is null without a table,
    `against` (the file that it was compared with) without one.
    """
    withheld = analysis.trace.withheld
    return {
        "file": analysis.trace.path,
        "against": against,
        "status": analysis.trace.status,
        "notes": [{"kind": note.kind, "count": note.count, "effect": note.effect} for note in analysis.trace.notes],
        "withheld": sorted(withheld),
        "devices": [
            _device(device, regime, withheld) for device, regime in zip(analysis.devices, analysis.regimes, strict=True)
        ],
        "host": {
            "self_cpu_total_us": analysis.host.self_cpu_total_us,
            "synchronize_us": analysis.host.synchronize_us,
            "threads": analysis.host.threads,
            "operations": analysis.host.operations,
            "launches": analysis.host.launches,
            "queries": analysis.host.queries,
        },
        "steps": [_step(step, withheld) for step in analysis.steps],
        "kernels": [_kernel(stats) for stats in analysis.kernels[:MOST_KERNELS]],
        "rules": [_rule(finding) for finding in findings],
        "table": None if reconciliation is None else _table(reconciliation),
    }


def refusal(file: str, reason: str) -> dict[str, Any]:
    """The document of a trace that cannot be read."""
    return {
        "file": file,
        "against": None,
        "status": "refused",
        "notes": [{"kind": "refused", "count": 1, "effect": reason}],
        "withheld": ["cause", "delay", "idle", "window"],
        "devices": [],
        "host": {"self_cpu_total_us": None},
        "steps": [],
        "kernels": [],
        "rules": [],
        "table": None,
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


def _device(device: Device, regime: Regime, withheld: frozenset[str]) -> dict[str, Any]:
    delay = device.launch_delay_us
    found = {
        "device": device.device,
        "model": device.model,
        "busy_us": device.busy_us,
        "span_us": device.span_us,
        "window_us": device.window_us,
        "idle_of_window": device.idle_of_window,
        "idle_of_span": device.idle_of_span,
        "regime": None if "cause" in withheld and regime.counted_busy < QUIET else regime.bound,
        "free_launches": regime.free_launches,
        "twice_as_fast_kernels": regime.twice_as_fast_kernels,
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
        "counted_us": regime.counted_us,
        "counted_busy": regime.counted_busy,
        "communication_us": device.communication_us,
        "exposed_communication_us": device.exposed_us,
        # The sum over what the host did keeps the name that it had before it was told apart.
        "idle": {"host_bound": device.idle_of(*HOST_CAUSES), **device.idle_us},
    }
    gone = {name for what in withheld for name in WITHHELD.get(what, ())}
    return {name: None if name in gone else value for name, value in found.items()}


def _step(step: Step, withheld: frozenset[str]) -> dict[str, Any]:
    return {
        "number": step.number,
        "start_us": step.start_us,
        "host_us": step.host_us,
        "gap_annotation_to_first_op_us": step.gap_us,
        "gpu_busy_us": step.gpu_busy_us,
        "idle": None if "idle" in withheld else step.idle,
        "kernels": step.kernels,
        "launches": step.launches,
        "queries": step.queries,
    }


def _kernel(stats: KernelStats) -> dict[str, Any]:
    return {
        "device": stats.device,
        "name": stats.name,
        "kind": stats.kind,
        "class": stats.kernel_class,
        "count": stats.count,
        "total_us": stats.total_us,
        "share": stats.share,
        "mean_us": stats.mean_us,
        "mean_of_first_5_us": stats.first_mean_us,
        "median_us": stats.median_us,
        "p95_us": stats.p95_us,
        "min_us": stats.least_us,
        "max_us": stats.most_us,
        "spread": stats.spread,
        "first_ratio": stats.first_ratio,
        "groups": None if stats.groups is None else [{"median_us": at, "count": count} for at, count in stats.groups],
        "bytes": stats.bytes,
        "resources": [_resources(found) for found in stats.resources],
    }


def _resources(found: Resources) -> dict[str, Any]:
    return {
        "grid": found.grid,
        "block": found.block,
        "registers": found.registers,
        "shared_memory_bytes": found.shared_memory_bytes,
        "occupancy_percent": found.occupancy_percent,
    }


def _rule(finding: Finding) -> dict[str, Any]:
    rule, outcome = finding.rule, finding.outcome
    return {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.severity,
        "verdict": outcome.verdict.value,
        "claim": outcome.claim,
        "evidence": [
            {"text": evidence.text, "start_us": evidence.start_us, "end_us": evidence.end_us}
            for evidence in outcome.evidence
        ],
        "why": outcome.why,
        "advice": outcome.advice,
        "at_stake_us": outcome.at_stake_us,
    }


def _table(found: Reconciliation) -> dict[str, Any]:
    return {
        "rows": len(found.rows),
        "matched": found.count("matched"),
        "explained": found.count("explained"),
        "unexplained": found.count("unexplained"),
        "unexplained_us": found.unexplained_us,
        "differences": [
            {
                "row": check.row.name,
                "column": difference.column,
                "table": difference.table,
                "trace": difference.trace,
                "cause": difference.cause.value,
            }
            for check in found.rows
            for difference in check.differences
        ],
        "totals": [
            {"name": total.name, "table_us": total.table_us, "trace_us": total.trace_us, "status": total.status}
            for total in found.totals
        ],
        "sentences": list(found.sentences()),
    }
