"""What is refused, and what is ranked only when it is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.compare.align import _like
from reports.compare.matrix import Comparison, compare
from reports.compare.parity import allowed
from suite.bundle import schema
from suite.bundle.errors import BundleError
from tests import samples
from tests.reports.compare.bundles import POINTWISE, arms, bundle, gathered

TIMES = {POINTWISE: arms(100e3, 50e3)}
FASTER = {POINTWISE: arms(50e3, 20e3)}


def half(dtype: str) -> dict[str, object]:
    tensor = schema.Tensor(name="x", shape=[64, 64], dtype=dtype, distribution="normal(0, 1)")
    return {"dtype": dtype, "inputs": [tensor], "parameters": {"size": 64, "dtype": dtype}}


def against(tmp_path: Path, *, allow: tuple[str, ...] = (), times: object = FASTER, **other: object) -> Comparison:
    base = bundle(tmp_path / "base", TIMES, case_changes=half("float32"))
    changes: dict[str, object] = {"unit": "2", "case_changes": half("float32"), **other}
    second = bundle(tmp_path / "other", times, **changes)  # type: ignore[arg-type]
    return compare(gathered(base, second), None, allowed(allow))


def cell(found: Comparison) -> tuple[str, list[str]]:
    second = found.rows[0].cells[1]
    return second.status, [each.text for each in second.reasons]


def test_the_same_case_on_another_machine_is_ranked(tmp_path: Path) -> None:
    assert cell(against(tmp_path)) == ("ranked", [])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"version": "1.0.0"}, "suite 1.0.0, in the baseline 0.1.0: another major version"),
        (
            {"case_changes": half("float32") | {"parameters": {"size": 128, "dtype": "float32"}}},
            "the case is defined differently (parameters size)",
        ),
        (
            {"case_changes": half("float32") | {"floating_point_operations": 7}},
            "the case is defined differently (floating-point operations)",
        ),
        (
            {"case_changes": half("float32") | {"weights": schema.Weights(source="random", description="")}},
            "the case is defined differently (weights)",
        ),
        ({"case_changes": half("bfloat16")}, "dtype bfloat16, in the baseline float32"),
        (
            {"torch": {"float32_matmul_precision": "high"}},
            "another precision (float32_matmul_precision high, in the baseline highest)",
        ),
    ],
)
def test_another_measurement_is_refused_with_the_reason_and_has_no_ratio(
    tmp_path: Path, other: dict[str, object], reason: str
) -> None:
    found = against(tmp_path, **other)  # type: ignore[arg-type]
    assert cell(found) == ("refused", [reason])
    second = found.rows[0].cells[1]
    assert second.ratio is None and second.verdict is None and second.typical_ns is not None
    assert all(isinstance(mean, str) for mean in found.means.values())


def weights(source: str, digest: str, **changes: object) -> dict[str, object]:
    return half("float32") | {
        "weights": schema.Weights(source=source, description=source, sha256={"w": digest} if digest else {}, **changes)  # type: ignore[arg-type]
    }


def with_weights(folder: Path, first: dict[str, object], second: dict[str, object]) -> tuple[str, list[str]]:
    base = bundle(folder / "base", TIMES, case_changes=first)
    return cell(compare(gathered(base, bundle(folder / "other", FASTER, unit="2", case_changes=second))))


def test_the_same_weights_by_another_route_are_the_same_case(tmp_path: Path) -> None:
    cached = weights("cache", "aa", model_id="google/mobilebert", revision="7")
    assert with_weights(tmp_path / "same", cached, weights("MODEL_DIR", "aa")) == ("ranked", [])
    reason = "the case is defined differently (weights sha256 w)"
    assert with_weights(tmp_path / "other", cached, weights("MODEL_DIR", "bb")) == ("refused", [reason])
    ledger = compare(gathered(tmp_path / "same" / "base", tmp_path / "same" / "other")).ledger
    assert [each.status for each in ledger if each.name.endswith(": definition")] == ["match"]


def test_weights_without_a_hash_are_known_by_their_source(tmp_path: Path) -> None:
    first = weights("cache", "", model_id="m", revision="7")
    assert with_weights(tmp_path / "same", first, first) == ("ranked", [])
    assert with_weights(tmp_path / "later", first, weights("cache", "", model_id="m", revision="8"))[0] == "refused"
    assert with_weights(tmp_path / "random", weights("cache", "aa"), weights("random", ""))[0] == "refused"


def test_another_dtype_of_the_same_case_is_refused_in_its_row(tmp_path: Path) -> None:
    times = {"pointwise_chain/64x64-bf16": arms(80e3, 40e3)}
    found = against(tmp_path, times=times, case_changes=half("bfloat16"))
    assert [row.key for row in found.rows] == [(POINTWISE, "eager"), (POINTWISE, "inductor")]
    assert cell(found) == ("refused", ["dtype bfloat16, in the baseline float32"])


def test_another_dtype_has_its_own_row_where_the_case_itself_is_there(tmp_path: Path) -> None:
    # The fp32 case takes the row of its name; the other one stands alone, without a baseline.
    times = {**FASTER, "pointwise_chain/64x64-bf16": arms(80e3, 40e3)}
    found = against(tmp_path, times=times)
    assert {row.case: row.cells[1].status for row in found.rows} == {
        POINTWISE: "ranked",
        "pointwise_chain/64x64-bf16": "no baseline",
    }


@pytest.mark.parametrize(
    ("other", "field", "text"),
    [
        ({"torch": {"version": "2.11.0+cpu"}}, "torch", "torch 2.11.0, in the baseline 2.13.0"),
        ({"threads": 8}, "threads", "threads 8, in the baseline 2"),
    ],
)
def test_another_torch_or_thread_count_is_ranked_only_when_allowed_and_then_marked(
    tmp_path: Path, other: dict[str, object], field: str, text: str
) -> None:
    assert cell(against(tmp_path, **other)) == ("asked", [text])  # type: ignore[arg-type]
    wrong = {"torch": "threads", "threads": "torch"}[field]
    assert cell(against(tmp_path / "wrong", allow=(wrong,), **other))[0] == "asked"  # type: ignore[arg-type]
    found = against(tmp_path / "allowed", allow=(field,), **other)  # type: ignore[arg-type]
    assert cell(found) == ("ranked", [])
    assert [each.text for each in found.rows[0].cells[1].allowed] == [text]
    assert found.marked == (field,)


def test_a_build_for_another_device_is_the_same_torch(tmp_path: Path) -> None:
    assert cell(against(tmp_path, torch={"version": "2.13.0+cu130"})) == ("ranked", [])


def test_what_is_allowed_but_does_not_differ_marks_nothing(tmp_path: Path) -> None:
    assert against(tmp_path, allow=("torch", "threads")).marked == ()


def test_what_one_side_does_not_tell_is_unknown_and_no_difference(tmp_path: Path) -> None:
    found = against(tmp_path, threads=None)
    assert cell(found)[0] == "ranked"
    (line,) = [each for each in found.ledger if each.name == f"{POINTWISE}: threads"]
    assert line.status == "unknown"


def test_fields_are_allowed_by_name(tmp_path: Path) -> None:
    assert allowed(["threads, torch"]) == ("torch", "threads")
    with pytest.raises(BundleError, match="there is no field cpu to allow; known: torch, threads"):
        allowed(["cpu"])
    with pytest.raises(BundleError, match="dtype cannot be allowed"):
        allowed(["torch", "dtype"])


def test_parameters_that_restate_another_field_define_no_case(tmp_path: Path) -> None:
    restated = half("float32") | {
        "parameters": {"size": 64, "dtype": "float32", "matmul_precision": "highest", "cache": "hot"}
    }
    assert cell(against(tmp_path, case_changes=restated)) == ("ranked", [])


def test_the_same_case_under_another_name_stands_in_the_same_row_and_is_ranked(tmp_path: Path) -> None:
    # A GPU's names end in the state of its cache.
    found = against(tmp_path, times={f"{POINTWISE}-hot": arms(50e3, 20e3)})
    assert {row.case for row in found.rows} == {POINTWISE}
    assert cell(found) == ("ranked", [])
    assert found.rows[0].cells[1].case is not None and found.rows[0].cells[1].case.case.name == f"{POINTWISE}-hot"


def test_a_case_stands_in_one_row_only_and_in_its_own_when_the_baseline_has_it(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3), f"{POINTWISE}-b": arms(90e3, 50e3)})
    found = compare(gathered(base, bundle(tmp_path / "other", {f"{POINTWISE}-b": arms(50e3, 20e3)}, unit="2")))
    assert {row.case: row.cells[1].status for row in found.rows} == {
        POINTWISE: "unmeasured",
        f"{POINTWISE}-b": "ranked",
    }


def test_of_two_cases_alike_the_one_in_the_same_precision_is_taken(tmp_path: Path) -> None:
    wanted, like = samples.case(), samples.case()
    rounded = samples.case(matmul_precision="high")
    bf16 = samples.case(dtype="bfloat16")
    assert _like(wanted, [bf16, rounded, like]) is like
    assert _like(wanted, [bf16, rounded]) is rounded
    assert _like(wanted, [bf16]) is bf16
    assert _like(wanted, [samples.case(cache="cold")]) is None
