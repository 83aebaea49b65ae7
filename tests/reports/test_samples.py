"""The bundles of real machines that the repository keeps: whole, readable, rendered, and without anybody's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.compare.load import gather
from reports.compare.matrix import compare
from reports.render.document import render_html
from suite.bundle import manifest, reader
from suite.fingerprint.redact import MAC, UUID
from tests.redaction import texts

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
BUNDLES = sorted(path.parent for path in SAMPLES.glob("*/*/run.json"))
each_bundle = pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)

ABSOLUTE = re.compile(r"(?<![\w.)\]>~*/-])/[A-Za-z][\w.+-]*(?:/[\w.+-]+)*")
ALLOWED = re.compile(
    # Where facts were read, and where compilers and libraries lie in every image of this kind.
    r"/(?:proc|sys|dev|etc)/.*|/\.dockerenv|/usr/(?:bin|include|lib|lib64|local/(?:cuda|nvidia))(?:/.*)?"
    r"|/opt/(?:gcc|rh/gcc-toolset-\d+)/.*"
)


def test_there_are_samples_and_each_group_says_what_it_is() -> None:
    assert BUNDLES
    for group in {bundle.parent for bundle in BUNDLES}:
        text = (group / "README.md").read_text()
        assert all(bundle.name in text for bundle in BUNDLES if bundle.parent == group)


@each_bundle
def test_a_sample_is_whole_by_its_own_checksums(bundle: Path) -> None:
    check = manifest.check(bundle, ignore=("report.html", "report.pdf"))
    assert check.matching and not check.changed and not check.missing
    assert not [name for name in check.unlisted if not name.endswith("/trace.html")]


@each_bundle
def test_a_sample_is_read_without_a_complaint_and_renders(bundle: Path) -> None:
    loaded = reader.load(bundle)
    assert loaded.notes == [] and loaded.blocks and loaded.run.run_id == bundle.name
    html = render_html(loaded)
    assert loaded.run.device.name in html and not loaded.run.publishable
    assert "interrupted" in html and all(case.name in html for case in loaded.run.cases)


@each_bundle
def test_a_sample_names_no_machine_and_no_ones_folders(bundle: Path) -> None:
    for path in sorted(path for path in bundle.rglob("*") if path.is_file() and path.suffix not in (".html", ".pdf")):
        *_, text = texts(path)  # of a gzipped file: what is in it
        paths = {match[0] for match in ABSOLUTE.finditer(text)}
        assert {each for each in paths if not ALLOWED.fullmatch(each)} == set(), path
        assert UUID.search(text) is None and MAC.search(text) is None, path
        assert set(re.findall(r'"host_name": *"([^"]*)"', text)) <= {""}, path


@pytest.mark.parametrize(
    "text", ["/tmp/tmp.Ab/cache", "/srv/app/.venv/bin/python3", '"/home/ada"', "-I/root/x /data/y"]
)
def test_a_persons_folder_would_be_found(text: str) -> None:
    found = [match[0] for match in ABSOLUTE.finditer(text)]
    assert [each for each in found if not ALLOWED.fullmatch(each)]


def test_samples_of_one_gpu_are_compared_as_one_unit() -> None:
    found = compare(gather([str(bundle) for bundle in BUNDLES if bundle.parent.name == "h200"], SAMPLES))
    (group,) = found.groups
    assert len(group.units) == 1 and group.subject.startswith("this unit of NVIDIA H200")
    assert {cell.status for row in found.rows for cell in row.cells} <= {"baseline", "no baseline", "unmeasured"}
