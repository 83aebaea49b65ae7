"""What the GPU's published peaks allow."""

from __future__ import annotations

import re

from reports.trace.analyse import Analysis
from reports.words import share
from suite.peaks import Figure, NotKnown, Peaks, find

FP32, TF32 = "fp32", "tf32"

ROUNDED = re.compile(r"tf32|xf32|s1688gemm|_S_MX_", re.IGNORECASE)
"""Names of kernels that round float32 to TF32 (AMD: XF32) and multiply on tensor cores ..."""
WHOLE = re.compile(r"sgemm|ffma|simt|gemmSN|gemmk1|gemv|f32f32_f32f32|Cijk_\w+?_S_?B_", re.IGNORECASE)
"""... and of those that multiply float32 as it is."""


def peaks_of(analysis: Analysis, device: str) -> Peaks | NotKnown:
    """The published peaks of a trace's device."""
    gpu = analysis.trace.gpu(device)
    return find(gpu.name, gpu.memory_bytes, gpu.multiprocessors)


def ceiling(peaks: Peaks | NotKnown, dtype: str) -> Figure | NotKnown:
    """The dense rate that a product of this dtype cannot exceed: for float32 that of TF32, which it may have been rounded to."""
    if isinstance(peaks, NotKnown):
        return peaks
    if dtype == FP32 and isinstance(tf32 := peaks.flop_per_s(TF32), Figure):
        return tf32
    return peaks.flop_per_s(dtype)


def limits(peaks: Peaks | NotKnown, dtype: str, kernel: str) -> tuple[tuple[str, Figure], ...]:
    """The dense rates, each with its dtype, that a kernel may be held against; none where none is known.

    float32 products run with float32's own rate, or with TF32's where that was allowed (it is off by default): the kernel's name tells.
    Where it does not, it may be either.
    """
    if isinstance(peaks, NotKnown):
        return ()
    wanted: tuple[str, ...] = (dtype,)
    if dtype == FP32:
        wanted = (TF32,) if ROUNDED.search(kernel) else (FP32,) if WHOLE.search(kernel) else (FP32, TF32)
    return tuple((name, figure) for name in wanted if isinstance(figure := peaks.flop_per_s(name), Figure))


def peak_flops(peaks: Peaks | NotKnown, dtype: str, kernel: str = "") -> Figure | NotKnown:
    """The one dense rate that a kernel is held against."""
    if isinstance(peaks, NotKnown):
        return peaks
    found = limits(peaks, dtype, kernel)
    if len(found) == 1:
        return found[0][1]
    return (
        NotKnown(f"the kernel's name does not tell whether it rounds {dtype} to TF32")
        if found
        else peaks.flop_per_s(dtype)
    )


def of_peak(flop_per_s: float, peaks: Peaks | NotKnown, dtype: str, kernel: str) -> str:
    """A rate as a share of what it is held against: ", 97.9 % of the dense fp32 peak of 19.5 TFLOP/s"; "" where nothing is known."""
    parts = [
        f"{share(flop_per_s / figure.value)} of the dense {name.replace('tf', 'TF')} peak of {figure.value / 1e12:.4g} TFLOP/s"
        for name, figure in limits(peaks, dtype, kernel)
    ]
    if not parts:
        return ""
    return f", {' or '.join(parts)}" + (" (its name does not tell which of them it uses)" if len(parts) > 1 else "")
