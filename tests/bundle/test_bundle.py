"""Writing, tearing, reading and checking bundles."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from suite.bundle import jsonschema as published
from suite.bundle import manifest, reader, schema, writer
from suite.bundle.errors import BundleError
from tests import samples

CASE = "matmul_add/64-fp32"
TIMES = {CASE: {"eager": [200.0, 210.0, 190.0], "eager#2": [201.0, 209.0, 190.0], "inductor": [100.0, 104.0, 96.0]}}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "run", TIMES)


def test_what_was_written_is_read(bundle: Path) -> None:
    loaded = reader.load(bundle)
    assert len(loaded.blocks) == 3 * 12
    assert loaded.run.cases[0].name == CASE
    assert loaded.notes == []


def test_a_torn_last_line_is_left_out_and_said(bundle: Path) -> None:
    with (bundle / "samples.jsonl").open("ab") as file:
        file.write(b'{"case": "matmul_add/64-fp32", "arm": "ea')
    loaded = reader.load(bundle)
    assert len(loaded.blocks) == 36
    assert "torn" in loaded.notes[0]


def test_appending_after_a_torn_line_cuts_it_off(bundle: Path) -> None:
    path = bundle / "samples.jsonl"
    with path.open("ab") as file:
        file.write(b'{"torn')
    writer.append(path, samples.block(CASE, "eager", 9, 0, 100.0))
    loaded = reader.load(bundle)
    assert len(loaded.blocks) == 37 and loaded.notes == []


def test_a_file_that_holds_nothing_but_a_torn_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b'{"case')
    writer.append(path, samples.block(CASE, "eager", 0, 0, 100.0))
    assert len(path.read_bytes().splitlines()) == 1


def test_damage_in_the_middle_is_named_with_its_line(bundle: Path) -> None:
    path = bundle / "samples.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b"{broken\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(BundleError, match=r"samples.jsonl:5"):
        reader.load(bundle)


def test_a_block_that_stands_twice_counts_once(bundle: Path) -> None:
    path = bundle / "samples.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0])
    loaded = reader.load(bundle)
    assert len(loaded.blocks) == 36
    assert "stands twice" in loaded.notes[0]


@pytest.mark.parametrize(("version", "message"), [("2.0", "schema 2.0"), ("x", "schema x")])
def test_a_newer_major_schema_is_refused_by_name(bundle: Path, version: str, message: str) -> None:
    content = json.loads((bundle / "run.json").read_text())
    # A newer schema may have any shape: the version must be looked at before the fields.
    (bundle / "run.json").write_text(json.dumps({"schema_version": version, "cases": 5}))
    with pytest.raises(BundleError, match=message):
        reader.load(bundle)
    assert content["schema_version"] == schema.SCHEMA_VERSION


def test_a_newer_minor_schema_with_new_fields_and_events_is_read(bundle: Path) -> None:
    content = json.loads((bundle / "run.json").read_text())
    (bundle / "run.json").write_text(json.dumps({**content, "schema_version": "1.7", "new": {"field": 1}}))
    with (bundle / "events.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "Teleported", "at": samples.AT}) + "\n")
    loaded = reader.load(bundle)
    assert loaded.run.schema_version == "1.7"
    assert any("newer schema" in note for note in loaded.notes)


def test_a_wrong_field_is_named_with_its_path(bundle: Path) -> None:
    content = json.loads((bundle / "run.json").read_text())
    content["cases"][0]["inputs"] = "none"
    (bundle / "run.json").write_text(json.dumps(content))
    with pytest.raises(BundleError, match=r"\$\.cases\[0\]\.inputs"):
        reader.load(bundle)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[]"])
def test_a_run_json_that_is_none_is_refused_in_a_sentence(bundle: Path, content: bytes) -> None:
    (bundle / "run.json").write_bytes(content)
    with pytest.raises(BundleError, match=r"run.json"):
        reader.load(bundle)


def test_a_folder_without_run_json_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="not a bundle"):
        reader.load(tmp_path)
    with pytest.raises(BundleError, match="does not exist"):
        reader.load(tmp_path / "nowhere")


def test_a_run_is_found_by_its_id_and_an_unknown_one_names_what_there_is(bundle: Path) -> None:
    assert reader.find_run(bundle.parent, "run") == bundle
    with pytest.raises(BundleError, match="runs there: run"):
        reader.find_run(bundle.parent, "other")


def test_documents_are_replaced_whole_and_leave_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    writer.write_bytes(path, b"one")
    writer.write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot be written"):
        writer.write_bytes(tmp_path / "file" / "run.json", b"")


def test_a_full_disk_keeps_every_whole_row(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in for the full disk: a write comes back short, then fails, as it does there."""
    script = f"""
import resource, signal
from pathlib import Path
from suite.bundle import writer
from suite.bundle.errors import BundleError
from tests import samples
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    for number in range(100):
        writer.append(Path({str(tmp_path)!r}) / "samples.jsonl", samples.block("a/b", "eager", 0, number, 100.0))
except BundleError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "samples.jsonl" in done.stdout and "Traceback" not in done.stderr
    content = (tmp_path / "samples.jsonl").read_bytes()
    assert content.endswith(b"}\n")
    assert [msgspec.json.decode(line, type=schema.Block).block for line in content.splitlines()] == list(
        range(len(content.splitlines()))
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_two_orchestrators_cannot_hold_a_bundle(bundle: Path) -> None:
    with (
        writer.Bundle(bundle).exclusively(),
        pytest.raises(BundleError, match="another process"),
        writer.Bundle(bundle).exclusively(),
    ):
        pass
    with writer.Bundle(bundle).exclusively():
        pass


def test_the_manifest_is_what_sha256sum_checks(bundle: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=bundle, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    names = [line.split("  ")[1] for line in (bundle / "SHA256SUMS").read_text().splitlines()]
    assert names == sorted(names) and "samples.jsonl" in names and "SHA256SUMS" not in names


def test_changed_missing_and_added_files_are_told_apart(bundle: Path) -> None:
    (bundle / "samples.jsonl").write_text("")
    (bundle / "fingerprint.json").unlink()
    (bundle / "extra.txt").write_text("")
    found = manifest.check(bundle)
    assert (found.changed, found.missing, found.unlisted) == (["samples.jsonl"], ["fingerprint.json"], ["extra.txt"])


def test_renewing_a_report_does_not_cover_up_a_changed_sample(bundle: Path) -> None:
    (bundle / "samples.jsonl").write_text("")
    (bundle / "report.html").write_text("x")
    manifest.renew(bundle, ["report.html"])
    found = manifest.check(bundle)
    assert found.changed == ["samples.jsonl"] and "report.html" in found.matching


def test_a_manifest_that_is_none_is_refused_with_its_line(bundle: Path) -> None:
    (bundle / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(BundleError, match="SHA256SUMS:1"):
        manifest.read(bundle)


def test_the_published_schema_is_that_of_the_code() -> None:
    path = Path(__file__).parents[2] / "docs" / f"bundle-{schema.SCHEMA_VERSION}.schema.json"
    assert path.read_text() == published.text(), f"renew it: python -m suite.bundle.jsonschema > {path}"


def test_a_bundle_meets_the_published_schema_and_a_wrong_one_does_not(bundle: Path) -> None:
    document = published.published()

    def validate(file: str, instance: object) -> None:
        jsonschema.validate(instance, {**document["properties"][file], "$defs": document["$defs"]})

    validate("run.json", json.loads((bundle / "run.json").read_text()))
    validate("fingerprint.json", json.loads((bundle / "fingerprint.json").read_text()))
    for name in ("samples.jsonl", "events.jsonl"):
        for line in (bundle / name).read_text().splitlines():
            validate(name, json.loads(line))
    with pytest.raises(jsonschema.ValidationError):
        validate("samples.jsonl", {"case": "x"})
