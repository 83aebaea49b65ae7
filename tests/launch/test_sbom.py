"""The image's list of software: read when the image names one, and refused when it is something else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from suite.launch import sbom

LIST = b'{"bomFormat": "CycloneDX", "components": []}'


def test_the_file_that_the_image_names_is_taken_as_it_is(tmp_path: Path):
    path = tmp_path / "image.cdx.json"
    path.write_bytes(LIST)
    content = sbom.read({"SPEEDPROOF_SBOM": str(path)})
    assert content == LIST
    assert sbom.digest(LIST) == hashlib.sha256(LIST).hexdigest()


def test_without_a_name_nothing_is_said():
    assert sbom.read({}) == ""
    assert sbom.read({"SPEEDPROOF_SBOM": ""}) == ""


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"bomFormat": "SPDX"}', b"\xff\xfe"])
def test_another_file_is_refused_with_the_reason(tmp_path: Path, content: bytes):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert "is not CycloneDX" in str(sbom.read({"SPEEDPROOF_SBOM": str(path)}))


def test_a_file_that_is_not_there_is_said(tmp_path: Path):
    assert "cannot be read (No such file" in str(sbom.read({"SPEEDPROOF_SBOM": str(tmp_path / "x")}))
