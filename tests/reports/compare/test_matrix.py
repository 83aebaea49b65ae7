"""Ratios between machines, their noise floors and verdicts, models, means and ceilings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reports.compare.ceilings import Ceiling, Share, ceilings, least_times
from reports.compare.cells import Cell, Row
from reports.compare.load import Gathered, Member
from reports.compare.matrix import Comparison, compare
from reports.results import CaseResult
from suite.bundle import manifest, schema
from suite.bundle.errors import BundleError
from suite.bundle.writer import Bundle
from suite.statistics.ratio import Interval
from suite.statistics.unpaired import welch
from suite.statistics.verdict import NoiseFloor
from tests import samples
from tests.reports.compare.bundles import MATMUL, POINTWISE, arms, bundle, gathered


def row(found: Comparison, case: str = POINTWISE, arm: str = "eager") -> Row:
    return next(each for each in found.rows if each.key == (case, arm))


def words(found: Comparison, arm: str = "eager") -> list[str | None]:
    return [cell.verdict.word if cell.verdict else None for cell in row(found, arm=arm).cells]


def two(tmp_path: Path, eager_ns: float, compiled_ns: float = 50e3, **other: object) -> Comparison:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    times = {POINTWISE: arms(eager_ns, compiled_ns, seed=5)}
    return compare(gathered(base, bundle(tmp_path / "other", times, **{"unit": "2", "cpu": "Other CPU", **other})))  # type: ignore[arg-type]


def test_a_machine_is_faster_slower_or_the_same(tmp_path: Path) -> None:
    assert words(two(tmp_path / "1", 50e3)) == [None, "faster"]
    assert words(two(tmp_path / "2", 130e3)) == [None, "slower"]
    assert words(two(tmp_path / "3", 100e3)) == [None, "equivalent"]


def test_the_ratio_is_welchs_over_the_processes_of_either_run(tmp_path: Path) -> None:
    base, other = row(two(tmp_path, 50e3)).cells
    assert other.ratio == welch(base.log_times, other.log_times)
    assert other.ratio is not None and other.ratio.counts == (6, 6)
    assert base.typical_ns is not None and other.typical_ns is not None
    assert other.ratio.estimate == pytest.approx(base.typical_ns / other.typical_ns)
    assert isinstance(base.interval_ns, Interval) and base.interval_ns.contains(base.typical_ns)


def test_two_processes_give_a_ratio_without_a_verdict(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    other = bundle(tmp_path / "other", {POINTWISE: arms(50e3, 20e3, processes=2)}, unit="2")
    found = compare(gathered(base, other))
    cell = row(found).cells[1]
    assert cell.ratio is not None and cell.ratio.estimate == pytest.approx(2, rel=0.02)
    assert cell.verdict is not None and cell.verdict.word is None and "6 against 2 processes" in cell.verdict.reason
    assert found.comparisons == 0


def test_p_is_adjusted_over_the_whole_page(tmp_path: Path) -> None:
    found = two(tmp_path, 50e3)
    assert found.comparisons == 2
    cells = [each.cells[1] for each in found.rows]
    assert all(cell.adjusted_p is not None for cell in cells)
    # The larger of two p values stays, the smaller at most doubles.
    from suite.statistics.ratio import p_value

    raw = sorted(p_value(cell.ratio) for cell in cells if cell.ratio)
    assert sorted(cell.adjusted_p or 0 for cell in cells) == pytest.approx([min(2 * raw[0], raw[1]), raw[1]])


def floor(found: Comparison, place: int = 1) -> NoiseFloor:
    return row(found).cells[place].floor or NoiseFloor(0.0, "none")


def test_the_noise_floor_is_the_widest_of_the_two_runs(tmp_path: Path) -> None:
    noisy = arms(97e3, 50e3)
    noisy["eager#2"] = [time * 1.08 for time in noisy["eager"]]
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    found = compare(gathered(base, bundle(tmp_path / "other", {POINTWISE: noisy}, unit="2")))
    assert floor(found).delta == pytest.approx(0.08, abs=0.005)
    assert floor(found).source.startswith("B: ")
    assert words(found) == [None, "inconclusive"]


def test_a_unit_that_differs_from_itself_between_sessions_widens_the_floor(tmp_path: Path) -> None:
    paths = [
        bundle(tmp_path / "a", {POINTWISE: arms(100e3, 50e3)}),
        bundle(tmp_path / "b", {POINTWISE: arms(92e3, 50e3, seed=9)}),
        bundle(tmp_path / "c", {POINTWISE: arms(95e3, 50e3, seed=7)}, unit="2", cpu="Other CPU"),
    ]
    found = compare(gathered(*paths))
    assert "B against A: one unit with the same settings" in floor(found, 2).source
    assert floor(found, 2).delta == pytest.approx(100 / 92 - 1, abs=0.01)
    assert words(found)[2] == "inconclusive"
    # Without the second session the same difference is claimed.
    assert words(compare(gathered(paths[0], paths[2])))[1] == "faster"


def test_a_noisy_run_does_not_widen_the_floor_of_others(tmp_path: Path) -> None:
    noisy = arms(97e3, 50e3)
    noisy["eager#2"] = [time * 1.3 for time in noisy["eager"]]
    paths = [
        bundle(tmp_path / "a", {POINTWISE: arms(100e3, 50e3)}),
        bundle(tmp_path / "b", {POINTWISE: noisy}, unit="2"),
        bundle(tmp_path / "c", {POINTWISE: arms(95e3, 50e3, seed=7)}, unit="3"),
    ]
    found = compare(gathered(*paths))
    assert floor(found, 1).delta > 0.2 and floor(found, 2).delta == 0.01
    assert words(found) == [None, "inconclusive", "faster"]


def test_what_a_third_unit_shows_against_itself_is_its_own_affair(tmp_path: Path) -> None:
    paths = [
        bundle(tmp_path / "a", {POINTWISE: arms(100e3, 50e3)}),
        bundle(tmp_path / "b", {POINTWISE: arms(92e3, 50e3, seed=9)}, unit="2"),
        bundle(tmp_path / "c", {POINTWISE: arms(99e3, 50e3, seed=3)}, unit="2"),
        bundle(tmp_path / "d", {POINTWISE: arms(95e3, 50e3, seed=7)}, unit="3"),
    ]
    found = compare(gathered(*paths))
    assert [round(floor(found, place).delta, 2) for place in (1, 2, 3)] == [0.08, 0.08, 0.01]


def test_other_settings_on_the_same_unit_are_no_second_session(tmp_path: Path) -> None:
    base = bundle(tmp_path / "a", {POINTWISE: arms(100e3, 50e3)})
    launch = schema.LaunchRequest(settings="untuned")
    found = compare(gathered(base, bundle(tmp_path / "b", {POINTWISE: arms(92e3, 50e3, seed=9)}, launch=launch)))
    assert floor(found).delta == 0.01
    assert words(found)[1] == "faster"


def test_an_arm_that_computes_something_else_on_either_machine_gets_no_verdict(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    failed = schema.Accuracy(
        case=POINTWISE, arm="inductor", passed=False, rule="r", tolerance=1e-4, outputs=[], message="off by 2"
    )
    Bundle(base).case_directory(POINTWISE, "inductor")
    Bundle(base).document(f"cases/{POINTWISE}/inductor/accuracy.json", failed)
    manifest.write(base)
    found = compare(gathered(base, bundle(tmp_path / "other", {POINTWISE: arms(50e3, 20e3)}, unit="2")))
    assert words(found, "inductor") == [None, None]
    assert row(found, arm="inductor").cells[1].verdict is not None
    assert "off by 2" in row(found, arm="inductor").cells[1].verdict.reason  # type: ignore[union-attr]
    assert words(found) == [None, "faster"]
    assert isinstance(found.means["inductor"], str)


def test_each_machine_keeps_its_own_speedup_of_compiling(tmp_path: Path) -> None:
    found = two(tmp_path, 50e3, 10e3)
    ratios = [cell.arm.ratio.estimate for cell in row(found, arm="inductor").cells if cell.arm and cell.arm.ratio]
    assert ratios == pytest.approx([2.0, 5.0], rel=0.02)


def test_the_geometric_mean_is_over_the_intersection_alone(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3), MATMUL: arms(80e3, 40e3)})
    whole = bundle(tmp_path / "whole", {POINTWISE: arms(50e3, 25e3), MATMUL: arms(10e3, 5e3)}, unit="2")
    found = compare(gathered(base, whole)).means["eager"]
    assert not isinstance(found, str) and found.ratios["B"] == pytest.approx(4.0, rel=0.02)
    assert (len(found.cases), found.total) == (2, 2)
    partial = bundle(tmp_path / "partial", {POINTWISE: arms(200e3, 100e3)}, unit="3")
    found = compare(gathered(base, whole, partial)).means["eager"]
    assert not isinstance(found, str) and (found.cases, found.total) == ((POINTWISE,), 2)
    assert dict(found.ratios) == pytest.approx({"B": 2.0, "C": 0.5}, rel=0.02)


def test_the_baseline_is_chosen_by_letter_id_or_beginning(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    other = bundle(tmp_path / "other", {POINTWISE: arms(50e3, 25e3)}, unit="2")
    members = gathered(base, other)
    for name in ("B", "20260301-100000-quick-other", "20260301-100000-quick-o", "other", str(other)):
        found = compare(members, name)
        assert found.baseline.letter == "B"
        assert words(found) == ["slower", None]
    with pytest.raises(BundleError, match=r"the baseline 20260301 names more than one of the runs; name one of A \("):
        compare(members, "20260301")
    with pytest.raises(BundleError, match="names none of the runs"):
        compare(members, "C")


def test_a_case_that_the_baseline_lacks_has_times_and_no_ratio(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    found = compare(gathered(base, bundle(tmp_path / "other", {MATMUL: arms(50e3, 25e3)}, unit="2")))
    assert [cell.status for cell in row(found, MATMUL).cells] == ["unmeasured", "no baseline"]
    assert [cell.status for cell in row(found).cells] == ["baseline", "unmeasured"]


def test_fewer_than_two_bundles_are_refused_with_the_reasons(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    with pytest.raises(BundleError, match=r"only one bundle is left to compare, two are needed \(.*does not exist"):
        compare(gathered(base, tmp_path / "nothing"))


def models(tmp_path: Path, units: tuple[int, int]) -> Comparison:
    paths = []
    for name, count, time in (("x", units[0], 100e3), ("y", units[1], 80e3)):
        for number in range(count):
            times = {POINTWISE: arms(time * (1 + 0.004 * number), 50e3, seed=number)}
            paths.append(bundle(tmp_path / f"{name}{number}", times, cpu=f"CPU {name}", unit=f"{name}{number}"))
    return compare(gathered(*paths))


def test_three_units_on_both_sides_are_compared_as_models_with_units_as_replicates(tmp_path: Path) -> None:
    eager = next(each for each in models(tmp_path, (3, 4)).models if each.arm == "eager")
    assert eager.ratio.counts == (3, 4)
    assert eager.ratio.estimate == pytest.approx(100 * 1.004 / (80 * 1.006), rel=0.005)
    assert eager.verdict.word == "faster"


def test_models_are_not_compared_where_a_unit_computes_something_else(tmp_path: Path) -> None:
    models(tmp_path, (3, 3))
    failed = schema.Accuracy(case=POINTWISE, arm="inductor", passed=False, rule="r", tolerance=1e-4, outputs=[])
    Bundle(tmp_path / "y1").case_directory(POINTWISE, "inductor")
    Bundle(tmp_path / "y1").document(f"cases/{POINTWISE}/inductor/accuracy.json", failed)
    manifest.write(tmp_path / "y1")
    found = compare(gathered(*(tmp_path / f"{name}{number}" for name in "xy" for number in range(3))))
    assert [each.arm for each in found.models] == ["eager"]


def test_nothing_is_claimed_of_models_while_an_arm_of_a_unit_is_unsteady(tmp_path: Path) -> None:
    models(tmp_path, (3, 3))
    members = gathered(*(tmp_path / f"{name}{number}" for name in "xy" for number in range(3)))
    found = unsteady(members, "E", "inductor")
    words = {each.arm: (each.verdict.word, each.verdict.reason) for each in compare(found).models}
    assert words["eager"][0] == "faster"
    assert words["inductor"] == (
        "inconclusive",
        "no claim is made: inductor in E was still changing when measuring ended",
    )


def unsteady(members: Gathered, letter: str, arm: str) -> Gathered:
    """The same runs, of which one arm of one never came to rest."""

    def restless(found: CaseResult) -> CaseResult:
        of_arm = [replace(a, steadiness="no steady state") if a.arm.label == arm else a for a in found.candidates]
        return replace(found, candidates=tuple(of_arm))

    def changed(one: Member) -> Member:
        cases = tuple(restless(each) for each in one.results.cases)
        return replace(one, results=replace(one.results, cases=cases))

    return replace(members, members=tuple(changed(one) if one.letter == letter else one for one in members.members))


@pytest.mark.parametrize("units", [(3, 2), (2, 3)])
def test_two_units_of_a_model_are_not_compared_as_one(tmp_path: Path, units: tuple[int, int]) -> None:
    assert models(tmp_path, units).models == ()


def shares(cells: tuple[Cell, ...]) -> list[tuple[str, float] | str]:
    return [
        (cell.share.ceiling.bound, cell.share.fraction) if isinstance(cell.share, Share) else cell.share
        for cell in cells
    ]


def test_each_machine_is_held_against_its_own_ceilings(tmp_path: Path) -> None:
    # 1 MB at 50 GB/s are 20 us, 2 million operations at 200 GFLOP/s 10 us: memory binds, and 100 us reach 20 % of it.
    case = {"minimum_bytes": 1_000_000, "floating_point_operations": 2_000_000}
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)}, case_changes=case)
    other = bundle(tmp_path / "other", {POINTWISE: arms(100e3, 50e3)}, unit="2", rates=(500.0, 40.0), case_changes=case)
    blind = bundle(tmp_path / "blind", {POINTWISE: arms(100e3, 50e3)}, unit="3", rates=None, case_changes=case)
    found = shares(row(compare(gathered(base, other, blind))).cells)
    assert found[0] == ("memory", pytest.approx(0.2, rel=0.02))
    assert found[1] == ("arithmetic", pytest.approx(0.5, rel=0.02))
    assert found[2] == "the run measured no ceiling"


def test_the_small_product_says_nothing_about_another_dtype(tmp_path: Path) -> None:
    case = {"dtype": "bfloat16", "minimum_bytes": 1_000, "floating_point_operations": 2_000_000_000}
    path = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)}, case_changes=case)
    other = bundle(
        tmp_path / "other", {POINTWISE: arms(100e3, 50e3)}, unit="2", case_changes={**case, "minimum_bytes": None}
    )
    found = shares(row(compare(gathered(path, other))).cells)
    assert found[0] == ("memory", pytest.approx(0.0002, rel=0.02))
    assert isinstance(found[1], str)


def reading(gemm_ms: float, dtype: str = "bfloat16") -> schema.State:
    return schema.State(
        case=POINTWISE, process=0, incarnation=0, before_block=0, at_ns=1, triad_bytes=10**9, triad_ns=10**6,
        gemm_operations=2 * 8192**3, gemm_ns=round(gemm_ms * 1e6), gemm_dtype=dtype,
    )  # fmt: skip


def seen(states: list[schema.State], **facts: object) -> tuple[Ceiling, ...]:
    """The ceilings of a run with these readings, and these facts of the device's own."""
    own = {
        f"{name} {'bytes/s' if name == 'copy' else 'FLOP/s'}": schema.Fact(
            value=value, source="test", status="ok", note="8192 x 8192 x 8192"
        )
        for name, value in facts.items()
    }
    fingerprint = schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts={"ceilings": own})
    return ceilings(SimpleNamespace(states=states, fingerprint=fingerprint))  # type: ignore[arg-type]


def test_a_reading_that_names_its_dtype_is_the_ceiling_of_that_dtype() -> None:
    memory, arithmetic = seen([reading(3), reading(2)])
    assert memory.rate == pytest.approx(1e12)
    assert (arithmetic.dtype, arithmetic.rate) == ("bfloat16", pytest.approx(2 * 8192**3 / 2e-3))
    rounded = samples.case(minimum_bytes=None, floating_point_operations=10**9, matmul_precision="high")
    exact = samples.case(minimum_bytes=None, floating_point_operations=10**9)
    fp32 = replace(arithmetic, dtype="float32")
    assert len(least_times(exact, (fp32,))) == 1 and least_times(rounded, (fp32,)) == []
    assert arithmetic.source == "bfloat16 product of 8192 x 8192, best of 2 readings"


def test_the_devices_own_ceilings_stand_beside_the_readings_and_the_higher_rate_is_the_ceiling() -> None:
    found = {(each.bound, each.dtype): each for each in seen([reading(2)], bf16=9e15, tf32=3e14, fp32=5e13, copy=9e11)}
    assert {key: each.rate for key, each in found.items()} == {
        ("memory", None): pytest.approx(1e12),  # the triad's, above the copy's
        ("arithmetic", "bfloat16"): 9e15,
        ("arithmetic", "float32, rounded"): 3e14,
        ("arithmetic", "float32"): 5e13,
    }
    assert found["arithmetic", "bfloat16"].source == "bfloat16 product of 8192 x 8192 x 8192, before the run"
    assert found["memory", None].source == "triad, best of 1 reading"
    rounded = samples.case(minimum_bytes=None, floating_point_operations=3 * 10**14, matmul_precision="high")
    ((ceiling, least),) = least_times(rounded, tuple(found.values()))
    assert (ceiling.dtype, least) == ("float32, rounded", pytest.approx(1e9))


@pytest.mark.parametrize("value", [None, "fast", True, 0, -1.0, float("inf"), float("nan"), 2**90])
def test_what_is_no_rate_is_no_ceiling(value: object) -> None:
    assert seen([], copy=value) == ()


def test_numbers_that_no_call_has_are_no_amounts(tmp_path: Path) -> None:
    case = {"minimum_bytes": 10**400, "floating_point_operations": -5}
    paths = [bundle(tmp_path / name, {POINTWISE: arms(100e3, 50e3)}, unit=name, case_changes=case) for name in "ab"]
    assert all(isinstance(share, str) for share in shares(row(compare(gathered(*paths))).cells))


def test_times_are_the_same_as_in_the_bundles_own_report(tmp_path: Path) -> None:
    found = two(tmp_path, 50e3)
    for cell in row(found).cells:
        assert cell.arm is not None and cell.typical_ns is not None
        assert cell.typical_ns == pytest.approx(cell.arm.typical_ns)
        assert cell.typical_ns == pytest.approx(math.exp(sum(cell.log_times) / len(cell.log_times)))


def test_a_bundle_that_was_changed_after_sealing_is_refused_in_every_row(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)})
    edited = bundle(tmp_path / "edited", {POINTWISE: arms(50e3, 20e3)}, unit="2")
    assert {cell.status for row in compare(gathered(base, edited)).rows for cell in row.cells} == {"baseline", "ranked"}
    (edited / "added.txt").write_text("x")
    for members, reason in (((base, edited), "the bundle's files are not"), ((edited, base), "of the baseline A: the")):
        found = compare(gathered(*members))
        cells = [row.cells[1] for row in found.rows]
        assert [(cell.status, cell.verdict) for cell in cells] == [("refused", None)] * 2
        assert all(cell.reasons[0].text.startswith(reason) for cell in cells)
        assert all("1 not listed (added.txt)" in cell.reasons[0].text for cell in cells)
