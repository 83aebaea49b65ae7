"""What a step computes, where that is known: from a bundle's case, or from the walkthrough's own file names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

WALKTHROUGH = re.compile(
    r"(?:^|_)(?:(?P<batch>\d+)x)?(?P<size>\d+)_(?P<dtype>bf16|fp16|fp32|tf32)_(?:cold|warm|nowait)\d*_(?:eager|compiled?)"
)


@dataclass(frozen=True)
class Workload:
    """`flops` are the floating-point operations of one call's matrix product, `size` the edge of its matrices; `source` says how that
    is known."""

    name: str
    size: int
    flops: float
    dtype: str
    source: str


def from_file_name(path: Path, annotations: set[str]) -> Workload | None:
    """The walkthrough names its traces `<size>_<dtype>_<cold|warm>_<eager|compile>`; trusted only where `matmul_add` is annotated."""
    match = WALKTHROUGH.search(path.name)
    if match is None or "matmul_add" not in annotations:
        return None
    size, batch = int(match["size"]), int(match["batch"] or 1)
    return Workload(
        f"matmul_add {f'{batch}x' if batch > 1 else ''}{size}x{size}",
        size,
        2.0 * batch * size**3,
        match["dtype"],
        f"2·{f'{batch}·' if batch > 1 else ''}{size}³, the size and the dtype taken from the file's name",
    )
