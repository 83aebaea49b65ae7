"""matmul_add: add(matmul(x, w), b) on square matrices, the profiling walkthrough's case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from suite.bundle.schema import Case, Tensor
from suite.cases.contract import BYTES, DTYPES, STEPS, Built, Context, Workload, normal, parse

if TYPE_CHECKING:
    import torch

NAME = "matmul_add"
GRAMMAR = "[b<batch>-]<size>-<dtype>"
PATTERN = re.compile(r"(?:b(?P<batch>[1-9]\d*)-)?(?P<size>[1-9]\d*)-(?P<dtype>\w+)")


def describe(variant: str, context: Context) -> Case:
    """The plan's row of a variant: all three operands are (size, size), with a leading batch when one is given."""
    match = parse(NAME, GRAMMAR, PATTERN, variant)
    size, dtype = int(match["size"]), DTYPES[match["dtype"]]
    batch = int(match["batch"]) if match["batch"] else None
    shape = [size, size] if batch is None else [batch, size, size]
    elements = size * size * (batch or 1)
    return Case(
        name=f"{NAME}/{variant}",
        workload=NAME,
        variant=variant,
        title=f"add(matmul(x, w), b), {'x'.join(map(str, shape))}, {dtype}",
        parameters={"size": size, "batch": batch, "dtype": dtype},
        inputs=[Tensor(name=name, shape=shape, dtype=dtype, distribution="normal(0, 1)") for name in ("x", "w", "b")],
        dtype=dtype,
        annotation=NAME,
        schedule=STEPS,
        floating_point_operations=elements * (2 * size + 1),
        minimum_bytes=4 * elements * BYTES[dtype],
        not_applicable={"inductor-freezing": "the case has no parameters to freeze"},
    )


def matmul_add(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The function under test."""
    import torch

    return torch.add(torch.matmul(x, w), b)


def build(case: Case, seed: int) -> Built:
    """Operands drawn from one generator seeded with `seed`, in the order x, w, b."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = tuple(normal(tuple(tensor.shape), tensor.dtype, generator) for tensor in case.inputs)
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
    describe=describe,
    build=build,
)
