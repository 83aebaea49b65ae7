"""Outputs of a call, kept apart from whatever the next call does with its own. Runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kept(outputs: Any) -> Any:
    """The outputs copied into the host's memory, tensors within mappings and sequences too; complete on return.

    A call may hand out memory that it writes again: what a CUDA graph returned belongs to the graph, and the next replay of any graph
    of its pool overwrites it.
    """
    import torch

    if isinstance(outputs, torch.Tensor):
        return outputs.detach().to("cpu", copy=True)
    if isinstance(outputs, Mapping):
        return {name: kept(value) for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        return [kept(value) for value in outputs]
    return outputs
