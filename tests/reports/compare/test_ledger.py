"""The ledger: every field, what it can do to a result, and only the differing part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.compare.fields import Effect, Field, Known, Several, effect_of
from reports.compare.matrix import compare
from reports.render import comparison_ledger as ledger
from suite.bundle import schema
from tests.reports.compare.bundles import POINTWISE, arms, bundle, fact, gathered

TIMES = {POINTWISE: arms(100e3, 50e3, processes=3)}


def fields(tmp_path: Path, first: object, second: object, **changes: object) -> dict[str, Field]:
    one = bundle(tmp_path / "a", TIMES, facts={"system": {"thing": first}})  # type: ignore[dict-item]
    other = bundle(tmp_path / "b", TIMES, facts={"system": {"thing": second}}, unit="2", **changes)  # type: ignore[dict-item, arg-type]
    return {each.name: each for each in compare(gathered(one, other)).ledger}


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (fact(1), fact(1), "match"),
        (fact(1), fact(2), "differ"),
        (fact(1), fact(None, "masked"), "unknown"),
        (fact(1), fact(None, "denied"), "unknown"),
        (fact(None, "absent"), fact(None, "absent"), "match"),
        (fact(1), fact(None, "absent"), "differ"),
        (fact(1, "virtualised"), fact(1), "match"),
    ],
)
def test_a_field_matches_differs_or_is_unknown(tmp_path: Path, first: object, second: object, status: str) -> None:
    assert fields(tmp_path, first, second)["system.thing"].status == status


def test_lists_of_cpus_are_shown_whole(tmp_path: Path) -> None:
    found = fields(tmp_path, fact(list(range(16))), fact([0, 1]))["system.thing"]
    assert ledger.line(found, ["A", "B"]).texts == ("0-15", "0, 1")


def test_measured_ceilings_are_of_the_moment_and_have_their_unit(tmp_path: Path) -> None:
    assert effect_of("ceilings.bf16 FLOP/s")[0] == effect_of("in force.runtime.cuda.peak_allocated_bytes")[0]
    assert effect_of("ceilings.bf16 FLOP/s")[0] is Effect.MOMENT
    found = Field("ceilings.bf16 FLOP/s", Effect.MOMENT, 0, {"A": Known(True, 7.08009e14), "B": Known(True, 9.5e8)})
    told = ledger.line(found, ["A", "B"])
    assert (told.name, told.texts) == ("Ceilings: bf16", ("708 TFLOP/s", "950 MFLOP/s"))
    found = Field("ceilings.copy bytes/s", Effect.MOMENT, 0, {"A": Known(True, 4.26775e12), "B": Known(True, 12)})
    assert ledger.line(found, ["A", "B"]).texts == ("4.27 TB/s", "12.0 B/s")


def test_a_field_that_a_bundle_does_not_have_is_unknown(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / "a", TIMES, facts={"new": {"fact": fact(1)}}), bundle(tmp_path / "b", TIMES, unit="2")]
    found = {each.name: each.status for each in compare(gathered(*paths)).ledger}
    assert found["new.fact"] == "unknown"


def test_the_ledger_is_ordered_by_effect(tmp_path: Path) -> None:
    found = list(fields(tmp_path, fact(1), fact(1), version="0.2.0").values())
    effects = [each.effect for each in found]
    assert effects == sorted(effects)
    names = [each.name for each in found]
    assert names[0] == "suite's major version"
    order = [
        f"{POINTWISE}: definition",
        f"{POINTWISE}: dtype",
        f"{POINTWISE}: torch",
        "cpu.model",
        "run.suite",
        "system.thing",
        "identity.machine_id",
    ]
    places = [names.index(name) for name in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("cpu.model", Effect.LARGE),
        ("gpu.gpu 0 name", Effect.LARGE),
        ("in force.library.allocator", Effect.LARGE),
        ("cpu.microcode", Effect.SOME),
        ("system.kernel", Effect.SOME),
        ("system.libc", Effect.SMALL),
        ("nobody.knows", Effect.SMALL),
        ("load.load_average", Effect.MOMENT),
        ("identity.boot", Effect.MOMENT),
        ("gpu.gpu 0 temperature_c", Effect.MOMENT),
    ],
)
def test_effects_follow_from_names(name: str, effect: Effect) -> None:
    assert effect_of(name)[0] == effect


def test_settings_and_what_the_processes_saw_are_fields(tmp_path: Path) -> None:
    found = fields(
        tmp_path, fact(1), fact(1), launch=schema.LaunchRequest(settings="untuned"), torch={"grad_enabled": "True"}
    )
    assert found["run.settings"].status == "differ"
    assert found["in force.torch.grad_enabled"].status == "unknown"
    assert found["in force.library.allocator"].status == "match"


def test_only_what_differs_of_a_long_value_is_told() -> None:
    values = {
        "A": Known(True, {"x": "1", "y": "2", "z": {"deep": "3", "same": "4"}}),
        "B": Known(True, {"x": "1", "y": "5", "z": {"deep": "6", "same": "4"}}),
    }
    line = ledger.line(Field("python.things", Effect.SMALL, 0, values), ["A", "B"])
    assert line.texts == ("y: 2; z: deep 3", "y: 5; z: deep 6")
    lists = {"A": Known(True, ["avx", "sse"]), "B": Known(True, ["avx"]), "C": Known(False, note="masked")}
    line = ledger.line(Field("cpu.flags", Effect.SMALL, 0, lists), ["A", "B", "C"])
    assert line.texts == ("sse", "nothing of its own", "(masked)")
    assert line.odd == (False, True, False)


def test_doubtful_fields_are_named(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a", TIMES, facts={"cpu": {"governor": fact(None, "masked")}, "system": {"thing": fact(1)}})
    other = bundle(tmp_path / "b", TIMES, facts={"cpu": {"governor": fact("performance")}}, unit="2")
    names = ledger.doubtful(compare(gathered(one, other)).ledger)
    assert "CPU: governor" in names
    assert "System: thing" not in names


def test_a_run_that_is_like_an_earlier_one_does_not_repeat_it() -> None:
    values = {k: Known(True, v) for k, v in {"A": "tuned", "B": "tuned", "C": "untuned", "D": "untuned"}.items()}
    line = ledger.line(Field("run.settings", Effect.LARGE, 0, values), ["A", "B", "C", "D"])
    assert line.texts == ("tuned", "as A", "untuned", "as C")
    assert line.odd == (False, False, True, True)
    same = {letter: Known(True, 1) for letter in "AB"}
    assert ledger.line(Field("x.y", Effect.LARGE, 0, same), ["A", "B"]).texts == ("1", "1")


def test_of_long_texts_only_the_lines_that_differ_are_told_and_digests_are_cut() -> None:
    values = {"A": Known(True, "same\nfirst"), "B": Known(True, "same\nsecond")}
    assert ledger.line(Field("torch.config", Effect.LARGE, 0, values), ["A", "B"]).texts == ("first", "second")
    values = {"A": Known(True, "none"), "B": Known(True, f"sha256:{'0123456789abcdef' * 4}")}
    line = ledger.line(Field("run.image_digest", Effect.SOME, 0, values), ["A", "B"])
    assert line.texts == ("none", "sha256:0123456789ab…")


def test_what_the_processes_of_one_run_do_not_agree_on_is_told_as_alternatives() -> None:
    values = {"A": Known(True, Several(["27 of 27", "30 of 30"])), "B": Known(True, "27 of 27")}
    line = ledger.line(Field("in force.runtime.bound", Effect.SOME, 0, values), ["A", "B"])
    assert line.texts == ("27 of 27 or 30 of 30", "27 of 27")


def test_a_gpu_that_a_machine_does_not_have_is_not_missed(tmp_path: Path) -> None:
    gpu = {"gpu": {"count": fact(1), "gpu 0 name": fact("Fast GPU"), "gpu 0 power_limit_w": fact(None, "denied")}}
    one = bundle(tmp_path / "a", TIMES, facts=gpu, torch={"cuda_matmul_allow_tf32": "False"},
                 device=schema.Device(kind="cuda", name="Fast GPU"))  # fmt: skip
    other = bundle(tmp_path / "b", TIMES, facts={"gpu": {"count": fact(0)}}, unit="2")
    blind = bundle(tmp_path / "c", TIMES, unit="3")
    names = ledger.doubtful(compare(gathered(one, other)).ledger)
    assert "GPU: GPU 0 name" not in names and not [name for name in names if "tf32" in name]
    assert any("power" in name for name in names)
    assert "GPU: GPU 0 name" in ledger.doubtful(compare(gathered(one, blind)).ledger)


def test_fields_are_listed_by_status_and_effect(tmp_path: Path) -> None:
    found = list(fields(tmp_path, fact(1), fact(2)).values())
    differing = ledger.parts(found, ["A", "B"], "differ")
    assert [line.name for part in differing for line in part.lines] == ["System: thing"]
    moment = ledger.parts(found, ["A", "B"], "differ", moment=True)
    assert [line.name for part in moment for line in part.lines] == ["Identity: machine ID"]
    assert sum(ledger.count(found, status) for status in ("match", "differ", "unknown")) == len(found)
