"""pointwise_chain: ((a0 + a1) + a2) * a3 + a4, the memory-bound chain that the CPU walkthrough takes out of MobileBERT."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from suite.bundle.schema import Case, Tensor
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

NAME = "pointwise_chain"
GRAMMAR = "<rows>x<columns>-<dtype>"
PATTERN = re.compile(r"(?P<rows>[1-9]\d*)x(?P<columns>[1-9]\d*)-(?P<dtype>\w+)")


def describe(variant: str, context: Context) -> Case:
    """The plan's row of a variant: a0 and a2 are (rows, columns); a1, a3 and a4 are rows of (1, columns)."""
    match = parse(NAME, GRAMMAR, PATTERN, variant)
    rows, columns, dtype = int(match["rows"]), int(match["columns"]), DTYPES[match["dtype"]]
    full, row = [rows, columns], [1, columns]
    paper = context.preset == "paper"
    return Case(
        name=f"{NAME}/{variant}",
        workload=NAME,
        variant=variant,
        title=f"((a0 + a1) + a2) * a3 + a4, {rows}x{columns} with 1x{columns} rows, {dtype}",
        parameters={"rows": rows, "columns": columns, "dtype": dtype},
        inputs=[
            Tensor(name=f"a{index}", shape=shape, dtype=dtype, distribution="normal(0, 1)")
            for index, shape in enumerate((full, row, full, row, row))
        ],
        dtype=dtype,
        annotation=NAME,
        schedule=STEPS,
        floating_point_operations=4 * rows * columns,
        # Fused: read a0 and a2, write the result, and the three rows once.
        minimum_bytes=(3 * rows + 3) * columns * BYTES[dtype],
        warmup_iterations=10 if paper else None,
        measured_iterations=100 if paper else None,
        not_applicable={"inductor-freezing": "the case has no parameters to freeze"},
        matmul_precision=PRECISIONS.get(match["dtype"], "highest"),
    )


def pointwise_chain(
    a0: torch.Tensor, a1: torch.Tensor, a2: torch.Tensor, a3: torch.Tensor, a4: torch.Tensor
) -> torch.Tensor:
    """The function under test."""
    return ((a0 + a1) + a2) * a3 + a4


def build(case: Case, seed: int, place: Place = stay) -> Built:
    """Inputs drawn from one generator seeded with `seed`, in the order a0 to a4."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = tuple(place(normal(tuple(tensor.shape), tensor.dtype, generator)) for tensor in case.inputs)
    return Built(pointwise_chain, inputs, lambda: pointwise_chain(*(tensor.double() for tensor in inputs)))


WORKLOAD = Workload(
    name=NAME,
    title="((a0 + a1) + a2) * a3 + a4",
    grammar=GRAMMAR,
    variants={
        "smoke": ("512x512-fp32",),
        "quick": ("16384x512-fp32",),
        "standard": ("16384x512-fp32", "16384x512-bf16"),
        "paper": ("16384x512-fp32",),
    },
    device_variants={
        "cuda": {
            "smoke": ("512x512-fp32-hot",),
            "quick": ("16384x512-fp32-hot", "65536x512-fp32-cold"),
            "standard": ("16384x512-fp32-hot", "16384x512-bf16-hot", "65536x512-fp32-cold", "65536x512-bf16-cold"),
            "paper": ("16384x512-fp32-hot", "65536x512-fp32-cold"),
        }
    },
    describe=describe,
    build=build,
)
