"""What a published peak is: a number with the document that states it, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Dtype = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"]

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

ALIASES: Mapping[str, Dtype] = MappingProxyType(
    {
        "float64": "fp64",
        "double": "fp64",
        "float32": "fp32",
        "float": "fp32",
        "tfloat32": "tf32",
        "bfloat16": "bf16",
        "float16": "fp16",
        "half": "fp16",
        "float8_e4m3fn": "fp8",
        "float8_e5m2": "fp8",
        "float8_e4m3fnuz": "fp8",
        "float8_e5m2fnuz": "fp8",
    }
)
"""torch's names of what the tables call by the field's short names."""

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class NotKnown:
    """There is no figure, or no model, and why."""

    reason: str


@dataclass(frozen=True)
class Figure:
    """A published number in the unit of the field that holds it. `source` names the document, `note` how it was read."""

    value: float
    source: str
    note: str = ""


@dataclass(frozen=True)
class Peaks:
    """What the maker publishes of one GPU model, as one device of CUDA's or HIP's.

    `patterns` are regular expressions for the whole name that a driver gives, without regard to case. `flops` holds dense
    rates in FLOP per s (int8: operations), one for each of `DTYPES`: the highest one published for the dtype, matrix units
    included, never the figure with sparsity. `l3_bytes` is a cache between L2 and memory (AMD's
    Infinity Cache). `multiprocessors` are SMs or CUs. `note` says what a reader has to know about the whole row.
    """

    model: str
    patterns: tuple[str, ...]
    memory_bytes: int
    memory_bytes_per_s: Figure | NotKnown
    flops: Mapping[Dtype, Figure | NotKnown]
    l2_bytes: Figure | NotKnown
    multiprocessors: Figure | NotKnown
    l3_bytes: Figure | NotKnown = NotKnown("not stated")
    note: str = ""

    def flop_per_s(self, dtype: str) -> Figure | NotKnown:
        """The dense peak for a dtype by its short name ("bf16") or torch's ("torch.bfloat16")."""
        bare = dtype.removeprefix("torch.").lower()
        known = next((each for each in DTYPES if each == bare), ALIASES.get(bare))
        return self.flops[known] if known else NotKnown(f"no peak is published for the dtype {dtype!r}")

    @property
    def cache_bytes(self) -> int | None:
        """L2 and what lies between it and memory; None when L2 is not known."""
        if isinstance(self.l2_bytes, NotKnown):
            return None
        return int(self.l2_bytes.value + (self.l3_bytes.value if isinstance(self.l3_bytes, Figure) else 0))


Rate = float | tuple[float, str]
"""Tera-operations per s, or these with a note."""

Rates = Mapping[Dtype, Rate]
Reasons = Mapping[Dtype, str]


def row(
    model: str,
    patterns: tuple[str, ...],
    source: str,
    *,
    memory_gib: int,
    gb_per_s: Rate | None,
    rates: Rates,
    missing: Reasons = MappingProxyType({}),
    l2_mib: float | None,
    units: int | None,
    l3_mib: float | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
    note: str = "",
) -> Peaks:
    """A row of a table: rates in TFLOP per s, `gb_per_s` in 1e9 bytes per s, caches in MiB.

    `source` is the document of every figure that `sources` names no other for (by dtype, or "memory", "l2", "l3", "units").
    A dtype without a rate is not known, for the reason in `missing`, else because no figure was found.
    """

    def figure(name: str, value: Rate | None, scale: float, reason: str) -> Figure | NotKnown:
        if value is None:
            return NotKnown(reason)
        number, said = value if isinstance(value, tuple) else (value, "")
        return Figure(number * scale, sources.get(name, source), said)

    none = "not on file: no figure for it was found in a document of the maker's"
    return Peaks(
        model=model,
        patterns=patterns,
        memory_bytes=memory_gib * GIB,
        memory_bytes_per_s=figure("memory", gb_per_s, 1e9, none),
        flops=MappingProxyType({each: figure(each, rates.get(each), 1e12, missing.get(each, none)) for each in DTYPES}),
        l2_bytes=figure("l2", l2_mib, MIB, none),
        l3_bytes=figure("l3", l3_mib, MIB, "no cache between L2 and memory is described"),
        multiprocessors=figure("units", units, 1, none),
        note=note,
    )
