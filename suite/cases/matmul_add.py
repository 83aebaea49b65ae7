"""matmul_add: add(matmul(x, w), b) on square matrices, the profiling walkthrough's case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from suite.bundle.schema import Case, Pass, ProfilerSchedule, Tensor
from suite.cases.contract import (
    BYTES,
    DTYPES,
    PRECISIONS,
    STEPS,
    Built,
    Context,
    Place,
    Workload,
    normal,
    parse,
    stay,
)

if TYPE_CHECKING:
    import torch

NAME = "matmul_add"
GRAMMAR = "[b<batch>-]<size>-<dtype>[-bias1d]"
PATTERN = re.compile(r"(?:b(?P<batch>[1-9]\d*)-)?(?P<size>[1-9]\d*)-(?P<dtype>\w+?)(?P<bias>-bias1d)?")

WARM_CALLS = 10
"""Calls of the walkthrough's warm-up loop before the profiler starts."""

PASSES = [
    Pass(name="cold", schedule=STEPS, arms=["eager", "inductor"]),
    Pass(name="warm", schedule=STEPS, calls_before=WARM_CALLS, arms=["eager", "inductor"]),
    Pass(
        name="active20",
        schedule=ProfilerSchedule(wait=1, warmup=1, active=20),
        calls_before=WARM_CALLS,
        arms=["eager", "inductor"],
    ),
    Pass(name="wait0", schedule=ProfilerSchedule(wait=0, warmup=0, active=3), arms=["eager"]),
]
"""The walkthrough's profiles: without and with a loop of calls before; twenty steps; and not one step for the profiler to settle."""

PROFILED_SIZES = (64, 4096)


def describe(variant: str, context: Context) -> Case:
    """The plan's row of a variant: all three operands are (size, size), with a leading batch when one is given.

    With `-bias1d` the third is one row of (size,), added to every row: what a compiler may fold into the product's own epilogue.
    """
    match = parse(NAME, GRAMMAR, PATTERN, variant)
    size, dtype = int(match["size"]), DTYPES[match["dtype"]]
    batch = int(match["batch"]) if match["batch"] else None
    shape = [size, size] if batch is None else [batch, size, size]
    elements = size * size * (batch or 1)
    shapes = {"x": shape, "w": shape, "b": [size] if match["bias"] else shape}
    moved = 3 * elements + (size if match["bias"] else elements)
    bias = ", bias of one dimension" if match["bias"] else ""
    return Case(
        name=f"{NAME}/{variant}",
        workload=NAME,
        variant=variant,
        title=f"add(matmul(x, w), b), {'x'.join(map(str, shape))}, {dtype}{bias}",
        parameters={"size": size, "batch": batch, "dtype": dtype} | ({"bias": "1-D"} if bias else {}),
        inputs=[
            Tensor(name=name, shape=each, dtype=dtype, distribution="normal(0, 1)") for name, each in shapes.items()
        ],
        dtype=dtype,
        annotation=NAME,
        schedule=STEPS,
        floating_point_operations=elements * (2 * size + 1),
        minimum_bytes=moved * BYTES[dtype],
        not_applicable={"inductor-freezing": "the case has no parameters to freeze"},
        matmul_precision=PRECISIONS.get(match["dtype"], "highest"),
        passes=PASSES if context.further_passes and batch is None and size in PROFILED_SIZES and not bias else [],
    )


def matmul_add(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The function under test."""
    import torch

    return torch.add(torch.matmul(x, w), b)


def build(case: Case, seed: int, place: Place = stay) -> Built:
    """Operands drawn from one generator seeded with `seed`, in the order x, w, b."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = tuple(place(normal(tuple(tensor.shape), tensor.dtype, generator)) for tensor in case.inputs)
    return Built(matmul_add, inputs, lambda: matmul_add(*(tensor.double() for tensor in inputs)))


WORKLOAD = Workload(
    name=NAME,
    title="add(matmul(x, w), b)",
    grammar=GRAMMAR,
    variants={
        "smoke": ("64-fp32",),
        "quick": ("64-fp32", "1024-fp32"),
        "standard": ("64-fp32", "b8-64-fp32", "1024-fp32", "1024-bf16", "2048-fp32"),
        "paper": ("64-bf16", "4096-bf16", "b8-64-bf16"),
    },
    device_variants={
        "cuda": {
            "smoke": ("64-bf16-hot",),
            "quick": ("64-bf16-hot", "4096-bf16-hot", "4096-bf16-cold", "4096-bf16-bias1d-hot"),
            "standard": (
                "64-bf16-hot",
                "b8-64-bf16-hot",
                "1024-fp32-hot",
                "1024-tf32-hot",
                "4096-bf16-hot",
                "4096-bf16-cold",
                "4096-bf16-bias1d-hot",
                "b8-4096-bf16-hot",
            ),
            "paper": (
                "64-bf16-hot",
                "4096-bf16-hot",
                "4096-bf16-cold",
                "4096-bf16-bias1d-hot",
                "b8-64-bf16-hot",
                "b8-4096-bf16-hot",
            ),
        }
    },
    describe=describe,
    build=build,
)
