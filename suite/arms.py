"""The arms: how a case is run. A new one is a line in `ARMS`.

Every arm gets its own copy of the function, so that Dynamo, which keeps its compiled entries on the code object, gives each
arm an entry of its own: no arm's guards are walked on another's behalf.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

BASELINE = "eager"


@dataclass(frozen=True)
class Arm:
    """An arm. `compiled` arms go through torch.compile while `config` (Inductor's settings) is in force during compilation.

    `mode` is torch.compile's own mode; empty is its default.
    """

    name: str
    description: str
    compiled: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    mode: str = ""


ARMS = {
    arm.name: arm
    for arm in (
        Arm("eager", "PyTorch as it is, operator by operator"),
        Arm("inductor", "torch.compile with its default backend", compiled=True),
        Arm(
            "inductor-freezing",
            "torch.compile with weights frozen into the graph, which lets Inductor pack them",
            compiled=True,
            # Set globally while compiling: Dynamo, too, looks at it to decide whether parameters may be constants.
            config={"freezing": True},
        ),
        Arm(
            "inductor-reduce-overhead",
            "torch.compile in the mode reduce-overhead: CUDA graphs take the host's work out of each call",
            compiled=True,
            mode="reduce-overhead",
        ),
        Arm(
            "inductor-max-autotune",
            "torch.compile in the mode max-autotune: kernels are tried out while compiling, and CUDA graphs used on a GPU",
            compiled=True,
            mode="max-autotune",
        ),
    )
}
"""Name -> arm, in the order of reports."""


def own_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a code object of its own."""
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"a case's call must be a plain function, not {type(function).__name__}")
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def prepare(arm: Arm, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as the arm runs it; a compiled one compiles at its first call, to be made within `compiling(arm)`."""
    if not arm.compiled:
        return own_copy(function)
    import torch

    compiled: Callable[..., Any] = torch.compile(own_copy(function), mode=arm.mode or None)
    return compiled


def compiling(arm: Arm, *, kernel_profile: bool = False) -> AbstractContextManager[Any]:
    """Inductor's settings for the arm's first call; with `kernel_profile`, generated C++ kernels appear in the profiler."""
    if not arm.compiled:
        return nullcontext()
    import torch._inductor.config as inductor_config

    settings = dict(arm.config)
    if kernel_profile:
        settings["cpp.enable_kernel_profile"] = True
    return inductor_config.patch(settings)
