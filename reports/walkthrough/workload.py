"""A bundle's case of matmul_add: its dtype in short, and what one call computes."""

from __future__ import annotations

from reports.trace.workload import Workload
from suite.bundle import schema

WORKLOAD = "matmul_add"
SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


def dtype_of(case: schema.Case) -> str:
    """The dtype in short, "tf32" where products of float32 may be rounded to it."""
    if case.dtype == "float32" and case.matmul_precision != "highest" and case.cache:
        return "tf32"
    return SHORT.get(case.dtype, case.dtype)


def work_of(case: schema.Case) -> Workload | None:
    """What a call of matmul_add computes; nothing of another workload, or of a plan that does not say."""
    size, batch = case.parameters.get("size"), case.parameters.get("batch") or 1
    if case.workload != WORKLOAD or not isinstance(size, int) or not isinstance(batch, int) or min(size, batch) < 1:
        return None
    shape = f"{f'{batch}·' if batch > 1 else ''}{size}³"
    return Workload(case.title, size, 2.0 * batch * size**3, dtype_of(case), f"2·{shape}, the case's own parameters")
