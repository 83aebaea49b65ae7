"""The accuracy check of an arm: its error and the baseline's, both against the same call in float64.

Comparing an arm with the baseline alone would call any reordering of a sum an error. So both are held against a float64
reference, as torch's own accuracy minifier does at its level 4, and the arm may be off by little more than the baseline is.
Runs in a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from suite.bundle.schema import Accuracy, Case, OutputError

if TYPE_CHECKING:
    import torch

TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2, "float16": 1e-3}
"""Tolerated root mean square error relative to the reference's root mean square. float32's is torch's own for `same`."""

BASELINE_MULTIPLE = 3.0
"""An arm may have three times the baseline's error where that is more than the tolerance."""


def named_tensors(outputs: Any) -> dict[str, torch.Tensor]:
    """Tensors of a call's result by name: of a tensor, a mapping (a model's output) or a sequence; "states.0" is one within another.

    Raises:
        TypeError: when the result holds no tensor.
    """
    import torch

    if isinstance(outputs, torch.Tensor):
        return {"output": outputs}
    tensors = dict(_named(outputs))
    if not tensors:
        raise TypeError(f"a case's call returned {type(outputs).__name__} without a tensor in it")
    return tensors


def _named(outputs: Any, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(outputs, torch.Tensor):
        yield prefix, outputs
    elif isinstance(outputs, Mapping | tuple | list):
        items = outputs.items() if isinstance(outputs, Mapping) else enumerate(outputs)
        for name, value in items:
            yield from _named(value, f"{prefix}.{name}" if prefix else str(name))


def criterion(tolerance: float) -> str:
    """The rule in words."""
    return (
        f"each output's root mean square error against float64 is at most {tolerance:g} of the reference's root mean square, "
        f"or {BASELINE_MULTIPLE:g} times the baseline's error where that is more; shapes and dtypes are equal and every number is finite"
    )


def failed(case: Case, arm: str, error: Exception) -> Accuracy:
    """The result of a check that could not be made."""
    tolerance = TOLERANCE[case.dtype]
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "without a message")
    message = f"its output could not be compared: {type(error).__name__}: {first}"
    return Accuracy(
        case=case.name,
        arm=arm,
        passed=False,
        rule=criterion(tolerance),
        tolerance=tolerance,
        outputs=[],
        message=message,
    )


def compare(case: str, arm: str, dtype: str, outputs: Any, baseline: Any, reference: Any) -> Accuracy:
    """Hold an arm's outputs against the baseline's and the float64 reference's; outputs are matched by name."""
    tolerance = TOLERANCE[dtype]
    rule = criterion(tolerance)
    tensors, expected, exact = named_tensors(outputs), named_tensors(baseline), named_tensors(reference)
    if tensors.keys() != expected.keys():
        message = f"outputs are {', '.join(tensors)} where the baseline has {', '.join(expected)}"
        return Accuracy(case=case, arm=arm, passed=False, rule=rule, tolerance=tolerance, outputs=[], message=message)
    errors, complaints = [], []
    for name, value in tensors.items():
        complaint, error = _one(name, value, expected[name], exact[name], tolerance)
        errors.append(error)
        if complaint:
            complaints.append(complaint)
    return Accuracy(
        case=case,
        arm=arm,
        passed=not complaints,
        rule=rule,
        tolerance=tolerance,
        outputs=errors,
        message="; ".join(complaints),
    )


def _one(
    name: str, value: torch.Tensor, baseline: torch.Tensor, exact: torch.Tensor, tolerance: float
) -> tuple[str, OutputError]:
    shape, dtype = list(value.shape), str(value.dtype).removeprefix("torch.")
    if value.shape != baseline.shape or value.dtype != baseline.dtype:
        theirs = f"{str(baseline.dtype).removeprefix('torch.')}{list(baseline.shape)}"
        return f"{name} is {dtype}{shape} where the baseline has {theirs}", _incomparable(name, shape, dtype)
    for whose, tensor in (("the arm's", value), ("the baseline's", baseline), ("the float64 reference's", exact)):
        if not bool(tensor.isfinite().all()):
            return f"{whose} {name} holds numbers that are not finite", _incomparable(name, shape, dtype)
    difference = (value.double() - baseline.double()).abs()
    scale = float(exact.double().square().mean().sqrt()) or 1.0
    error = OutputError(
        name=name,
        shape=shape,
        dtype=dtype,
        identical=bool((value == baseline).all()),
        max_absolute_error=float(difference.max()),
        max_relative_error=float((difference / baseline.double().abs().clamp_min(scale * 1e-6)).max()),
        root_mean_square_error=float((value.double() - exact.double()).square().mean().sqrt()) / scale,
        baseline_root_mean_square_error=float((baseline.double() - exact.double()).square().mean().sqrt()) / scale,
    )
    allowed = max(tolerance, BASELINE_MULTIPLE * error.baseline_root_mean_square_error)
    if not error.root_mean_square_error <= allowed:
        found = f"{error.root_mean_square_error:.3g} of the reference's root mean square"
        return f"{name} is off by {found} ({allowed:.3g} allowed)", error
    return "", error


def _incomparable(name: str, shape: list[int], dtype: str) -> OutputError:
    """A row for an output that cannot be compared; -1 stands for "no number" (JSON has no infinity)."""
    return OutputError(
        name=name,
        shape=shape,
        dtype=dtype,
        identical=False,
        max_absolute_error=-1.0,
        max_relative_error=-1.0,
        root_mean_square_error=-1.0,
        baseline_root_mean_square_error=-1.0,
    )
