from __future__ import annotations

import json
from pathlib import Path

import msgspec

from suite.fingerprint.software import packages

RECORD = b"mixer/__init__.py,sha256=abc,10\nmixer-1.0.dist-info/METADATA,sha256=def,20\nmixer-1.0.dist-info/RECORD,,\n"


def install(site: Path, name: str, version: str, record: bytes | None = RECORD) -> Path:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    if record is not None:
        (folder / "RECORD").write_bytes(record)
    return folder


def test_packages_are_named_as_the_index_names_them(tmp_path: Path) -> None:
    install(tmp_path, "Foo_Bar.Baz", "1.2.post1")
    assert list(packages.installed([str(tmp_path)])) == ["foo-bar-baz"]
    assert packages.installed([str(tmp_path)])["foo-bar-baz"]["version"] == "1.2.post1"


def test_the_first_folder_on_the_path_stands(tmp_path: Path) -> None:
    install(tmp_path / "a", "mixer", "2.0")
    install(tmp_path / "b", "mixer", "1.0")
    found = packages.installed([str(tmp_path / "none"), str(tmp_path / "a"), str(tmp_path / "b")])
    assert found["mixer"]["version"] == "2.0"


def test_the_hash_is_of_the_wheel_and_not_of_where_it_was_installed() -> None:
    here = (
        RECORD
        + b"../../../bin/mix,sha256=here,5\nmixer/__pycache__/x.cpython-311.pyc,,\nmixer-1.0.dist-info/INSTALLER,sha256=p,4\n"
    )
    there = b"".join(reversed(RECORD.splitlines(keepends=True))) + b'"../../../bin/mix",sha256=there,6\r\n'
    assert packages.record_hash(here) == packages.record_hash(there) == packages.record_hash(RECORD)
    assert packages.record_hash(RECORD) != packages.record_hash(RECORD.replace(b"abc", b"abd"))


def test_a_package_without_a_record_says_so(tmp_path: Path) -> None:
    install(tmp_path, "mixer", "1.0", record=None)
    assert packages.installed([str(tmp_path)])["mixer"] == {"version": "1.0", "no_record": "No such file or directory"}


def test_where_a_package_came_from_is_told_without_its_address(tmp_path: Path) -> None:
    folder = install(tmp_path, "mixer", "1.0")
    url = {
        "url": "https://token@host/ada/mixer",
        "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef" * 2 + "01234567"},
    }
    (folder / "direct_url.json").write_text(json.dumps(url))
    found = packages.installed([str(tmp_path)])["mixer"]
    assert found["installed_from"] == "a repository at 0123456789ab"
    (folder / "direct_url.json").write_text(json.dumps({"url": "file:///home/ada/x", "dir_info": {"editable": True}}))
    assert packages.installed([str(tmp_path)])["mixer"]["installed_from"] == "an editable folder"
    assert "ada" not in str(packages.installed([str(tmp_path)]))
    (folder / "direct_url.json").write_text("{")
    assert packages.installed([str(tmp_path)])["mixer"]["installed_from"] == "not an index"


def test_condas_packages_are_read_from_the_names_of_its_records(tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "intel-openmp-2024.1.0-h_1.json").touch()
    (tmp_path / "conda-meta" / "history").touch()
    assert packages.read([], tmp_path)["conda_packages"].value == {"intel-openmp": "2024.1.0 h_1"}
    assert packages.read([], tmp_path / "none")["conda_packages"].status == "absent"


def test_the_own_environment_is_listed() -> None:
    found = packages.read()["packages"].value
    assert found["msgspec"]["version"] == msgspec.__version__
    assert len(found["msgspec"]["record_sha256"]) == 64
