"""Names of products' kernels: which library wrote them, and for which architecture; and how two names differ."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """The library and the architecture that a kernel's name tells; "" where it does not."""

    prefix: str
    library: str
    architecture: str


_CAPABILITIES = {
    "70": "Volta",
    "75": "Turing",
    "80": "Ampere",
    "86": "Ampere",
    "89": "Ada",
    "90": "Hopper",
    "100": "Blackwell",
    "103": "Blackwell",
    "120": "Blackwell",
}

_NVIDIA = re.compile(r"(?P<library>nvjet|cutlass\d*x?)?_?sm_?(?P<capability>\d{2,3})(?=[_a-z]|$)")
_WORD = re.compile(r"(?P<word>ampere|volta|turing|hopper|maxwell)_", re.IGNORECASE)
_CUTLASS = re.compile(r"cutlass_(?P<capability>\d{2,3})_")


def family(name: str) -> Family:
    """What a product's kernel tells by its name: `ampere_bf16_...`, `nvjet_sm90_...`, `sm80_xmma_...`, `cutlass_80_...`, `Cijk_...`."""
    if match := _WORD.match(name):
        return Family(match[0], "cuBLAS", match["word"].capitalize())
    if match := _CUTLASS.search(name):
        return Family(match[0], "CUTLASS kernels in cuBLAS", _CAPABILITIES.get(match["capability"], ""))
    if match := _NVIDIA.match(name):
        library = "cuBLASLt's nvjet kernels" if match["library"] == "nvjet" else "cuBLAS"
        return Family(match[0], library, _CAPABILITIES.get(match["capability"], ""))
    if name.startswith("Cijk_"):
        return Family("Cijk_", "Tensile kernels in rocBLAS or hipBLASLt", "")
    if name.startswith("triton_"):
        return Family("triton_", "Inductor", "")
    return Family("", "", "")


def differing_words(first: str, second: str) -> tuple[tuple[str, str], ...] | None:
    """The words, between underscores, in which two names differ; None where they are not built alike (another number of words)."""
    one, other = first.split("_"), second.split("_")
    if len(one) != len(other):
        return None
    return tuple((a, b) for a, b in zip(one, other, strict=True) if a != b)
