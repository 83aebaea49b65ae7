"""Matrix products whose size is known: what they compute, and how long each call took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import Kind
from reports.trace.classes import class_of
from reports.trace.read import Trace
from reports.trace.workload import Workload

DTYPES = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "signed char": "int8",
}
PRODUCTS = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1, "aten::_int_mm": 0}
"""Operators of which one matrix product is all the arithmetic, and where their left matrix stands among the inputs."""


@dataclass(frozen=True)
class Product:
    """All calls of an operator that compute one shape of matrix product with one kernel: `flops` a call (2 m n k), `times_us` each call's
    time, in the order of the calls; `kernel` and `rows` are the longest kernel of a call, where it needs several.
    """

    device: str
    kernel: str
    flops: float
    dtype: str
    source: str
    rows: NDArray[np.intp]
    times_us: NDArray[np.float64]

    def tflops(self, time_us: float) -> float:
        """TFLOP/s of a call of this length."""
        return self.flops / time_us / 1e6 if time_us else float("inf")


def products(trace: Trace, workload: Workload | None) -> tuple[Product, ...]:
    """Calls of one kernel and one shape together, the longest total first.

    The size comes from the operator's recorded shapes (record_shapes=True), else from the workload that the whole recording is known to be.
    """
    slices, rows, callers = trace.slices, trace.gpu_rows, trace.gpu_caller
    operators = np.fromiter((name in PRODUCTS for name in slices.names), bool, len(slices.names))
    wanted = (callers >= 0) & (slices.kind[rows] == Kind.KERNEL)
    wanted[wanted] = operators[slices.name[callers[wanted]]]
    # An operator may launch more than its product: a copy of the bias, a reduction of split-K parts.
    launched = slices.name[rows[wanted]]
    wanted[wanted] = np.isin(
        launched, [code for code in set(launched.tolist()) if class_of(slices.names[code]) == "gemm"]
    )
    # A product that is split over several kernels took the time of all of them.
    members, calls = rows[wanted], callers[wanted]
    operators_called, call = np.unique(calls, return_inverse=True)
    times = np.bincount(call, slices.duration[members] / 1000, minlength=operators_called.size)
    order = np.lexsort((-slices.duration[members], call))
    longest = members[order[np.unique(call[order], return_index=True)[1]]]
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for number, (row, caller) in enumerate(zip(longest.tolist(), operators_called.tolist(), strict=True)):
        key = (int(slices.device[row]), int(slices.name[row]), int(slices.name[caller]), int(slices.shape[caller]))
        groups.setdefault(key, []).append(number)
    found = [
        Product(slices.devices[device], slices.names[name], *known, longest[numbers], times[numbers].astype(np.float64))
        for (device, name, operator, shape), numbers in groups.items()
        if (known := _work(trace, slices.names[operator], shape, workload)) is not None
    ]
    return tuple(sorted(found, key=lambda product: -float(product.times_us.sum())))


def _work(trace: Trace, operator: str, shape: int, workload: Workload | None) -> tuple[float, str, str] | None:
    if shape < 0:
        return None if workload is None else (workload.flops, workload.dtype, workload.source)
    dims, types = (_decoded(text) for text in trace.slices.shapes[shape])
    left = PRODUCTS[operator]
    try:
        a, b = dims[left], dims[left + 1]
        dtype = DTYPES[types[left]]
        batch = a[0] if len(a) == 3 else 1
        flops = 2.0 * batch * a[-2] * a[-1] * b[-1]
    except (IndexError, KeyError, TypeError, OverflowError):
        return None
    return (flops, dtype, f"2·m·n·k of the recorded shapes {a} x {b}") if flops > 0 else None


def _decoded(text: bytes) -> list[Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return []
    return found if isinstance(found, list) else []
