"""The software bill of materials: what CycloneDX 1.6 demands, Debian's and Python's records, and the same bytes every time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from sbom import __main__ as sbom_main
from sbom import debian, document, licences, python_packages

ROOT = Path(__file__).parents[2]

# As dpkg-query prints it, recorded on Debian 12; the last package is removed but for its configuration.
DPKG = (
    "installed\tlibc6\t2.36-9+deb12u9\tamd64\tglibc\t2.36-9+deb12u9\thttps://www.gnu.org\t\tlibgcc-s1, libcrypt1 (>= 1:4.4.10-10~)\n"
    "installed\tlibcrypt1\t1:4.4.33-2\tamd64\tlibxcrypt\t1:4.4.33-2\t\t\tlibc6 (>= 2.36)\n"
    "installed\tg++\t4:12.2.0-3\tamd64\tgcc-defaults (1.203)\t1.203\t\t\tcpp (= 4:12.2.0-3), g++-12 (>= 12.2.0-1~) | c++-compiler\n"
    "installed\tcpp\t4:12.2.0-3\tamd64\tgcc-defaults\t1.203\t\tlibc6:any\t\n"
    "config-files\told\t1\tamd64\told\t1\t\t\t\n"
)
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Files: *
License: GPL-2+ or MIT
Files: lib/*
License: LGPL-2.1+
 This is free software ...
License: Expat
License: GPL-3
"""
LOCK = (
    "# The target.\nnumpy==2.4.6 \\\n    --hash=sha256:"
    + "ab" * 32
    + "\n    # numpy-2.4.6-x.whl\n    # via speedproof\n"
    "torch==2.13.0 ; sys_platform == 'linux' \\\n    --hash=sha256:" + "cd" * 32 + "\n"
)


def distribution(folder: Path, metadata: str) -> PathDistribution:
    folder.mkdir()
    (folder / "METADATA").write_text(metadata)
    return PathDistribution(folder)


def sample(epoch: int | None = 1_700_000_000) -> dict[str, Any]:
    packages = list(debian.parse(DPKG))
    return document.build(
        "cpu",
        "0.1.0",
        [debian.component(package, Path("/nowhere")) for package in packages],
        debian.dependencies(packages),
        epoch=epoch,
        properties={"speedproof:target": "cpu", "empty": ""},
    )


def check_cyclonedx(content: Mapping[str, Any]) -> None:
    """What the specification's JSON schema requires of the parts that we use."""
    assert content["bomFormat"] == "CycloneDX"
    assert content["specVersion"] == "1.6"
    assert content["version"] == 1
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", content["serialNumber"])
    if "timestamp" in content["metadata"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", content["metadata"]["timestamp"])
    types = {"application", "library", "operating-system", "machine-learning-model", "data"}
    references = [content["metadata"]["component"]["bom-ref"]]
    for component in content["components"]:
        assert component["type"] in types
        assert component["name"] and component["version"]
        references.append(component["bom-ref"])
        for digest in component.get("hashes", []):
            assert digest["alg"] == "SHA-256" and re.fullmatch(r"[0-9a-f]{64}", digest["content"])
        licensed = component.get("licenses", [])
        assert all(set(one) == {"license"} for one in licensed) or [set(one) for one in licensed] == [{"expression"}]
        assert all(len(one["license"].keys() & {"id", "name"}) == 1 for one in licensed if "license" in one)
    assert len(references) == len(set(references))
    assert sorted(one["ref"] for one in content["dependencies"]) == sorted(
        set(references) & {one["ref"] for one in content["dependencies"]}
    )
    for one in content["dependencies"]:
        assert set(one["dependsOn"]) <= set(references)


def test_debians_packages_have_purls_sources_and_dependencies():
    packages = list(debian.parse(DPKG))
    assert [package.name for package in packages] == ["libc6", "libcrypt1", "g++", "cpp"]
    assert packages[0].purl == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64"
    assert packages[2].purl == "pkg:deb/debian/g%2B%2B@4:12.2.0-3?arch=amd64"
    edges = debian.dependencies(packages)
    assert edges[packages[0].purl] == [packages[1].purl]
    assert edges[packages[2].purl] == [packages[3].purl]
    assert edges[packages[3].purl] == [packages[0].purl]


def test_the_document_has_what_cyclonedx_requires():
    content = sample()
    check_cyclonedx(content)
    assert content["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert content["metadata"]["component"]["properties"] == [{"name": "speedproof:target", "value": "cpu"}]
    roots = next(one["dependsOn"] for one in content["dependencies"] if one["ref"] == document.IMAGE)
    assert roots == ["pkg:deb/debian/g%2B%2B@4:12.2.0-3?arch=amd64"]


def test_the_same_content_is_the_same_bytes_and_another_is_another_serial_number():
    assert document.text(sample()) == document.text(sample())
    assert sample(epoch=1)["serialNumber"] != sample()["serialNumber"]
    assert "timestamp" not in sample(epoch=None)["metadata"]


def test_licences_of_debian_are_identifiers_where_they_are_plain(tmp_path: Path):
    assert licences.of_copyright_file(COPYRIGHT) == [
        {"license": {"name": "GPL-2+ or MIT"}},
        {"license": {"id": "GPL-3.0-only"}},
        {"license": {"id": "LGPL-2.1-or-later"}},
        {"license": {"id": "MIT"}},
    ]
    assert licences.of_copyright_file("This package was debianised by hand.\nLicense: MIT\n") == []
    (tmp_path / "libc6").mkdir()
    (tmp_path / "libc6" / "copyright").write_text(COPYRIGHT)
    assert len(debian.component(next(debian.parse(DPKG)), tmp_path)["licenses"]) == 4


@pytest.mark.parametrize(
    ("expression", "licence", "classifiers", "expected"),
    [
        ("MIT OR Apache-2.0", "x", ["License :: OSI Approved :: BSD License"], [{"expression": "MIT OR Apache-2.0"}]),
        ("", "BSD 3-Clause", [], [{"license": {"id": "BSD-3-Clause"}}]),
        (
            "",
            "The MIT License\n\nCopyright ...",
            ["License :: OSI Approved :: MIT License"],
            [{"license": {"id": "MIT"}}],
        ),
        (
            "",
            "",
            ["License :: Other/Proprietary License", "Topic :: X"],
            [{"license": {"name": "Other/Proprietary License"}}],
        ),
        ("", "UNKNOWN", ["License :: OSI Approved"], []),
    ],
)
def test_licences_of_python_packages(expression: str, licence: str, classifiers: list[str], expected: list[Any]):
    assert licences.of_python_package(expression, licence, classifiers) == expected


def test_python_packages_carry_the_hash_of_the_locked_file(tmp_path: Path):
    lock = python_packages.read_lock(LOCK)
    text = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\nLicense: BSD-3-Clause\nHome-page: https://pytorch.org\n"
    found = distribution(tmp_path / "torch-2.13.0+cpu.dist-info", text)
    assert python_packages.component("torch", found, lock["torch"]) == {
        "type": "library",
        "bom-ref": "pkg:pypi/torch@2.13.0%2Bcpu",
        "name": "torch",
        "version": "2.13.0+cpu",
        "hashes": [{"alg": "SHA-256", "content": "cd" * 32}],
        "purl": "pkg:pypi/torch@2.13.0%2Bcpu",
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        "externalReferences": [{"type": "website", "url": "https://pytorch.org"}],
    }


def test_requirements_of_other_systems_and_extras_are_no_dependencies(tmp_path: Path):
    text = (
        "Metadata-Version: 2.1\nName: a\nVersion: 1\nRequires-Dist: B_b>=1\nRequires-Dist: c; sys_platform == 'win32'\n"
        "Requires-Dist: c; extra == 'x'\n"
    )
    others = "Metadata-Version: 2.1\nName: {0}\nVersion: 1\n"
    found = {
        name: distribution(tmp_path / name, text if name == "a" else others.format(name)) for name in ("a", "b-b", "c")
    }
    assert python_packages.dependencies(found)["pkg:pypi/a@1"] == ["pkg:pypi/b-b@1"]


def test_an_image_that_is_not_its_lock_is_not_described():
    lock = python_packages.read_lock(LOCK)
    assert python_packages.disagreements({"numpy": "2.4.6", "torch": "2.13.0+cpu"}, lock) == []
    assert python_packages.disagreements({"numpy": "2.4.5", "pip": "23.0.1"}, lock) == [
        "numpy 2.4.5 is installed and 2.4.6 is locked",
        "pip 23.0.1 is installed and not locked",
        "torch 2.13.0 is locked and not installed",
    ]


def test_every_entry_of_the_real_locks_is_read():
    for target in ("cpu", "cuda"):
        text = (ROOT / "docker" / f"requirements-{target}.lock").read_text()
        lock = python_packages.read_lock(text)
        assert len(lock) == text.count("==") - text.count(" == ")
        assert all(len(pin.sha256) == 1 for pin in lock.values())


def test_weights_are_components_with_their_hashes(tmp_path: Path):
    assert sbom_main.weights(tmp_path / "weights.json") == []
    record = {
        "model": "a/b",
        "revision": "12" * 20,
        "sha256": {"config.json": "ab" * 32, "model.safetensors": "cd" * 32},
    }
    (tmp_path / "weights.json").write_text(json.dumps(record))
    assert [
        (one["type"], one["name"], one["hashes"][0]["content"]) for one in sbom_main.weights(tmp_path / "weights.json")
    ] == [
        ("data", "a/b/config.json", "ab" * 32),
        ("machine-learning-model", "a/b/model.safetensors", "cd" * 32),
    ]


def test_the_operating_system_is_named():
    release = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
    assert sbom_main.operating_system(release)["bom-ref"] == "os:debian-12"
