"""What a case file provides. Torch is imported only inside `build`, which runs in a worker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from suite.bundle.schema import Case, ProfilerSchedule, Weights
from suite.errors import UserError

if TYPE_CHECKING:
    import torch

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "tf32": "float32"}
"""Short name in a variant -> torch's name. TF32 is float32 whose products a GPU rounds."""

PRECISIONS: Mapping[str, Literal["highest", "high"]] = {"tf32": "high"}
"""Short name in a variant -> torch's matmul precision, where that is not the highest."""

T = TypeVar("T")
Place = Callable[[Any], Any]
"""Moves a tensor or a module to the device that computes on it."""

STEPS = ProfilerSchedule(wait=1, warmup=1, active=3, repeat=1)
"""The profiling walkthrough's schedule: five steps, of which #2 to #4 are recorded."""


@dataclass(frozen=True)
class Context:
    """What a description may depend on besides the variant: the preset and what the user chose for the model.

    `further_passes` asks for the profiles that only a whole look at a case needs (`Case.passes`).
    """

    preset: str
    model_dir: str | None = None
    model_revision: str | None = None
    further_passes: bool = False


@dataclass(frozen=True)
class Built:
    """A case ready to run: `call(*inputs)` returns a tensor or a mapping of tensors; `reference()` the same in float64."""

    call: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    reference: Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """A workload: `variants[preset]` are run by a preset; `describe` turns a variant into the plan's row without torch.

    `device_variants[kind]` replaces `variants` on another device than the processor; names in it may end in the cache's state ("-cold",
    "-hot"). `grammar` shows the form of a variant to the user. `build(case, seed, place)` makes the inputs from the seed, and puts them and
    the model in their place: the same numbers on every device.
    `setup_estimate_s` is a first guess at set-up and compilation in seconds, used for the display of the time left alone.
    `check_again(case)` raises UserError when a continued run would not find what its plan resolved.
    """

    name: str
    title: str
    grammar: str
    variants: Mapping[str, tuple[str, ...]]
    describe: Callable[[str, Context], Case]
    build: Callable[..., Built]
    device_variants: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    setup_estimate_s: Callable[[Case], float] = lambda _case: 8.0
    check_again: Callable[[Case], object] = lambda _case: None


def parse(workload: str, grammar: str, pattern: re.Pattern[str], variant: str) -> re.Match[str]:
    """Match a variant against its workload's pattern.

    Raises:
        UserError: when it does not match, or names a dtype that there is not.
    """
    match = pattern.fullmatch(variant)
    if match is None or match["dtype"] not in DTYPES:
        raise UserError(
            f"case '{workload}/{variant}' is not of the form {workload}/{grammar}, with a dtype of {', '.join(DTYPES)}."
        )
    return match


def stay(movable: T) -> T:
    """The place of what is measured on the processor."""
    return movable


def normal(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """A tensor of standard normal numbers, drawn in float32 and rounded to `dtype`, so that dtypes see the same numbers."""
    import torch

    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


__all__ = [
    "BYTES",
    "DTYPES",
    "PRECISIONS",
    "STEPS",
    "Built",
    "Case",
    "Context",
    "Place",
    "Weights",
    "Workload",
    "normal",
    "parse",
    "stay",
]
