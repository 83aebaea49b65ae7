"""What a compiled recording changed against an eager one, in the words of the terminal and of the page's first minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reports.findings.copies import device_to_device
from reports.findings.pair import Pair, short
from reports.render.page_folder import shown
from reports.render.trace_units import times, us


@dataclass(frozen=True)
class Against:
    """The other recording's name as it is shown, and what the comparison says."""

    name: str
    told: str


def told_against(pair: Pair | None, path: Path) -> Against:
    """The comparison with the recording at `path`; without a pair the rules on the page say why there is none."""
    if pair is None:
        return Against(shown(path), "the two recordings could not be compared")
    if pair.apart:
        return Against(shown(path), f"not compared: {pair.apart}")
    return Against(shown(path), "; ".join(part for part in (_kernels(pair), _gpu(pair), _host(pair)) if part))


def _kernels(pair: Pair) -> str:
    parts = []
    if pair.same_products or pair.new_products:
        parts.append(
            "same GEMM" if not pair.new_products else "other GEMMs" if not pair.same_products else "some other GEMMs"
        )
    gone = list(dict.fromkeys(short(change.name) for change in pair.elementwise_gone))
    if gone:
        parts.append(f"{', '.join(gone[:3])}{' and others' if len(gone) > 3 else ''} gone")
    if pair.copies_added:
        parts.append("copy added" if all(device_to_device(copy.name) for copy in pair.copies_added) else "copies added")
    if pair.fused:
        parts.append(f"{len(pair.fused)} fused kernel{'s' if len(pair.fused) > 1 else ''}")
    return ", ".join(parts) or "no kernel gone, none added"


def _gpu(pair: Pair) -> str:
    if pair.gpu_time_ratio is None:
        return ""
    return f"GPU {us(pair.eager_gpu_us)} → {us(pair.compiled_gpu_us)} a step ({times(pair.gpu_time_ratio)} as fast)"


def _host(pair: Pair) -> str:
    if pair.cpu_step_ratio is None:
        return f"host steps not compared: {pair.why_no_cpu}"
    how = f"{times(pair.cpu_step_ratio)} as long{', but the steps overlap' if pair.steps_overlap else ''}"
    return f"host step {us(pair.eager_cpu_us)} → {us(pair.compiled_cpu_us)} ({how})"
