"""The accuracy check on tensors with known errors."""

import msgspec
import pytest
import torch

from suite.accuracy.compare import compare, named_tensors

EXACT = torch.linspace(1, 2, 100, dtype=torch.float64)


def check(value: object, baseline: object = None) -> object:
    return compare("case", "arm", "float32", value, EXACT.float() if baseline is None else baseline, EXACT)


def test_equal_outputs_pass_and_are_identical() -> None:
    found = check(EXACT.float())
    assert found.passed and found.outputs[0].identical and found.outputs[0].max_absolute_error == 0


def test_an_error_above_the_tolerance_fails_with_its_size() -> None:
    found = check(EXACT.float() * 1.001)
    assert not found.passed
    assert "off by 0.001" in found.message
    assert found.outputs[0].root_mean_square_error == pytest.approx(1e-3, rel=0.01)


def test_an_error_below_the_tolerance_passes_and_is_recorded() -> None:
    found = check(EXACT.float() * (1 + 5e-5))
    assert found.passed and not found.outputs[0].identical
    assert found.outputs[0].max_relative_error == pytest.approx(5e-5, rel=0.05)


def test_an_arm_may_be_as_wrong_as_three_baselines() -> None:
    baseline = EXACT.float() * 1.001
    assert check(EXACT.float() * 0.998, baseline).passed
    assert not check(EXACT.float() * 0.996, baseline).passed


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_fail(bad: float) -> None:
    value = EXACT.float()
    value[3] = bad
    found = check(value)
    assert not found.passed and "the arm's output" in found.message and "not finite" in found.message


def test_whose_numbers_are_not_finite_is_said_and_nothing_unreadable_is_written() -> None:
    bad = EXACT.float()
    bad[3] = float("nan")
    found = check(EXACT.float(), bad)
    assert not found.passed and "the baseline's output" in found.message
    assert b"null" not in msgspec.json.encode(found.outputs)
    reference = EXACT.clone()
    reference[3] = float("inf")
    assert "reference" in compare("case", "arm", "float32", EXACT.float(), EXACT.float(), reference).message


def test_another_shape_dtype_or_name_fails() -> None:
    assert "float32[50]" in check(EXACT.float()[:50]).message
    assert "float64" in check(EXACT).message
    assert "outputs are other" in check({"other": EXACT.float()}).message


def test_outputs_are_named_as_the_call_names_them() -> None:
    assert list(named_tensors(EXACT)) == ["output"]
    assert list(named_tensors({"start": EXACT, "loss": None})) == ["start"]
    assert list(named_tensors((EXACT, EXACT))) == ["0", "1"]
    with pytest.raises(TypeError):
        named_tensors({"loss": None})
