"""What the GPU's published peaks allow."""

from __future__ import annotations

from reports.trace.analyse import Analysis
from suite.peaks import Figure, NotKnown, Peaks, find

TF32 = "tf32"


def peaks_of(analysis: Analysis, device: str) -> Peaks | NotKnown:
    """The published peaks of a trace's device."""
    gpu = analysis.trace.gpu(device)
    return find(gpu.name, gpu.memory_bytes, gpu.multiprocessors)


def peak_flops(peaks: Peaks | NotKnown, dtype: str) -> Figure | NotKnown:
    """The dense rate for a dtype; float32 products may have been rounded to TF32, whose peak is then the limit."""
    if isinstance(peaks, NotKnown):
        return peaks
    if dtype == "fp32" and isinstance(tf32 := peaks.flop_per_s(TF32), Figure):
        return tf32
    return peaks.flop_per_s(dtype)
