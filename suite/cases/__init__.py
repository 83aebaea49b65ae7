"""The workloads. A new one is a file beside this one that defines `WORKLOAD`, and a line in `REGISTRY`."""

from __future__ import annotations

import importlib

from suite.cases.contract import Workload
from suite.errors import UserError
from suite.nearest import nearest

REGISTRY = (
    "matmul_add",
    "pointwise_chain",
    "mobilebert_qa",
)
"""Module names in this package, in the order in which presets run them."""


def workload(name: str) -> Workload:
    """The registered workload `name`.

    Raises:
        UserError: when there is none, naming the nearest.
    """
    if name not in REGISTRY:
        raise UserError(f"unknown case '{name}'{nearest(name, REGISTRY)}; the cases are {', '.join(REGISTRY)}.")
    found = importlib.import_module(f"suite.cases.{name}").WORKLOAD
    if not isinstance(found, Workload):
        raise TypeError(f"suite.cases.{name}.WORKLOAD is not a Workload")
    return found
