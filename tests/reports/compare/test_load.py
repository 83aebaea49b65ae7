"""What is read, and what is named and left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reports.compare.load import gather, letters
from suite.bundle import manifest, schema
from suite.bundle.writer import FINGERPRINT, RUN, write_document
from tests.reports.compare import bundles
from tests.reports.compare.bundles import MATMUL, POINTWISE, arms, bundle, fact, gathered

TIMES = {POINTWISE: arms(100e3, 50e3)}


def change(path: Path, before: str, after: str, name: str = RUN) -> Path:
    text = (path / name).read_text()
    assert before in text
    (path / name).write_text(text.replace(before, after, 1))
    return path


def reason(path: Path, tmp_path: Path) -> str:
    found = gathered(bundle(tmp_path / "good", TIMES), path)
    assert [one.bundle.path.name for one in found.members] == ["good"]
    (left,) = found.left_out
    assert left.name == str(path)
    return left.reason


def test_members_have_letters_in_the_order_given(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name) for name in ("x", "y", "z")]
    assert [(one.letter, one.bundle.path.name) for one in gathered(*paths).members] == [
        ("A", "x"),
        ("B", "y"),
        ("C", "z"),
    ]
    assert [letters(n) for n in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


def test_a_run_is_found_by_its_id_below_the_output(tmp_path: Path) -> None:
    bundle(tmp_path / "x", TIMES)
    assert gather(["x"], tmp_path).members[0].run_id == "20260301-100000-quick-x"


def test_what_is_missing_is_named_and_left_out(tmp_path: Path) -> None:
    assert "does not exist" in reason(tmp_path / "nowhere", tmp_path)


def test_a_damaged_bundle_is_left_out(tmp_path: Path) -> None:
    path = bundle(tmp_path / "x", TIMES)
    (path / "samples.jsonl").write_bytes(b"no json\n" + (path / "samples.jsonl").read_bytes())
    assert "damaged line" in reason(path, tmp_path)


def test_a_newer_bundle_is_left_out_by_its_schema(tmp_path: Path) -> None:
    path = change(
        bundle(tmp_path / "x", TIMES), f'"schema_version": "{schema.SCHEMA_VERSION}"', '"schema_version": "2.0"'
    )
    assert "schema 2.0" in reason(path, tmp_path)


def test_an_ablation_is_left_out(tmp_path: Path) -> None:
    level = schema.Level(label="none", knobs=[], description="")
    plan = schema.Ablation(design="steps", levels=[level, level], order=[0, 1, 0, 1, 0, 1])
    assert "an ablation" in reason(bundle(tmp_path / "x", TIMES, ablation=plan), tmp_path)


def test_a_copy_is_no_second_run(tmp_path: Path) -> None:
    path = bundle(tmp_path / "x", TIMES)
    shutil.copytree(path, tmp_path / "copy")
    found = gathered(path, tmp_path / "copy", path)
    assert len(found.members) == 1
    assert [one.reason for one in found.left_out] == ["the same run as A (20260301-100000-quick-x)."] * 2


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]], "nested too deeply"),
        (2**65, "larger than any"),
        ({"deep": {"er": -(10**30)}}, "larger"),
    ],
)
def test_values_that_no_machine_has_are_refused(tmp_path: Path, value: object, sentence: str) -> None:
    path = bundle(tmp_path / "x", TIMES, facts={"cpu": {"odd": fact(value)}})
    assert sentence in reason(path, tmp_path)


def test_a_nesting_that_would_exhaust_the_stack_is_refused(tmp_path: Path) -> None:
    path = bundle(tmp_path / "x", TIMES)
    deep = "[" * 100_000 + "]" * 100_000
    change(path, '"Test CPU"', deep, FINGERPRINT)
    assert "damaged" in reason(path, tmp_path) or "nested" in reason(path, tmp_path)


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    path = change(bundle(tmp_path / "x", TIMES), '"started_at": "2026-03-01', '"started_at": "2026-99-01')
    assert "no time of a run" in reason(path, tmp_path)


def test_numbers_that_cannot_be_worked_out_leave_only_their_bundle_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import reports.compare.load as module

    real = module.results

    def broken(loaded: object, barred: str) -> object:
        if loaded.path.name == "x":  # type: ignore[attr-defined]
            raise OverflowError("math range error")
        return real(loaded, barred)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "results", broken)
    assert "OverflowError: math range error" in reason(bundle(tmp_path / "x", TIMES), tmp_path)


def test_no_word_of_a_bundle_reaches_a_sentence_with_control_characters(tmp_path: Path) -> None:
    path = change(
        bundle(tmp_path / "x", TIMES),
        f'"schema_version": "{schema.SCHEMA_VERSION}"',
        '"schema_version": "9\\u001b[2J\\u202e"',
    )
    told = reason(path, tmp_path)
    assert told.isprintable() and "schema 9 [2J is not" in told


def test_a_page_does_not_tell_where_a_bundle_lay(tmp_path: Path) -> None:
    path = bundle(tmp_path / "x", TIMES)
    (path / RUN).write_text("{")
    (left,) = gathered(bundle(tmp_path / "good", TIMES), path).left_out
    assert left.own_name == "x" and left.told.startswith("run.json: damaged")
    assert str(tmp_path) not in left.told


def test_changed_files_are_noticed(tmp_path: Path) -> None:
    path = bundle(tmp_path / "x", {**TIMES, MATMUL: arms(1e6, 5e5)})
    write_document(path / FINGERPRINT, schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts={}))
    (member,) = gathered(path).members
    assert member.check.changed == [FINGERPRINT]
    manifest.write(path)
    assert bundles.gathered(path).members[0].check.changed == []


@pytest.mark.parametrize("name", ["report.html", "walkthrough.html", f"cases/{POINTWISE}/inductor/trace.html"])
def test_what_is_rendered_of_a_bundle_is_no_change_of_it(tmp_path: Path, name: str) -> None:
    path = bundle(tmp_path / "x", TIMES)
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text("rendered")
    assert gathered(path).members[0].intact
