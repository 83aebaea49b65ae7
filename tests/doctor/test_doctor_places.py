from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.cases.mobilebert_weights import MODEL_ID
from suite.doctor import places
from suite.doctor.places import Memory
from tests.fingerprint.trees import write_tree

GIB = 1 << 30


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path):
    place = places.place("results", tmp_path / "a" / "b")
    assert place.refusal == ""
    assert place.free_bytes
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "results").write_text("")
    assert places.place("results", tmp_path / "results" / "x").refusal.endswith("results is not a folder")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("suite.doctor.places.os.access", lambda *_: False)  # root may write everywhere
    assert "may not be written by this user" in places.place("results", tmp_path).refusal


@pytest.mark.parametrize(
    ("flag", "files", "refused", "free", "runs_code"),
    [
        (os.ST_RDONLY, 0, True, GIB, True),
        (os.ST_NOEXEC, 0, False, GIB, False),
        (0, 1000, False, 0, True),  # no inode is left
    ],
)
def test_read_only_and_noexec_mounts_and_the_last_inode_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, files: int, refused: bool, free: int, runs_code: bool
):
    status = os.statvfs_result((4096, 4096, 0, 0, GIB // 4096, files, 0, 0, flag, 255))
    monkeypatch.setattr("suite.doctor.places.os.statvfs", lambda _: status)
    place = places.place("results", tmp_path)
    assert (bool(place.refusal), place.free_bytes, place.runs_code) == (refused, free, runs_code)


def test_the_home_folder_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    assert places.place("results", tmp_path / "results").path == "~/results"


def test_packages_are_found_without_being_imported():
    found = places.packages()
    assert set(found) == set(places.PACKAGES)
    assert found["numpy"]


def test_a_package_without_metadata_counts_as_missing(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise places.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("suite.doctor.places.metadata.version", missing)
    assert set(places.packages().values()) == {None}


def test_the_locked_torch_is_read_from_the_lock(tmp_path: Path):
    write_tree(tmp_path, {"docker/requirements-cuda.lock": "# comment\ntorch==2.13.0 \\\n    --hash=sha256:0\n"})
    assert places.locked_torch(tmp_path) == "2.13.0"
    assert places.locked_torch(tmp_path / "elsewhere") is None
    assert places.locked_torch()


def test_weights_in_a_folder_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert places.weights({})[0] is False
    repository = f"models--{MODEL_ID.replace('/', '--')}"
    snapshot = f"{repository}/snapshots/abcdef"
    write_tree(
        tmp_path,
        {f"{repository}/refs/main": "abcdef", f"{snapshot}/config.json": "{}", f"{snapshot}/model.safetensors": "x"},
    )
    assert places.weights({}) == (True, f"{MODEL_ID} at abcdef in the local Hugging Face cache")
    assert places.weights({"MODEL_REVISION": "other"})[0] is False
    assert places.weights({"MODEL_DIR": str(tmp_path / snapshot)})[0] is True
    assert places.weights({"MODEL_DIR": str(tmp_path)})[0] is False


MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\nSwapTotal: 1048576 kB\nSwapFree: 524288 kB\n"


def test_memory_of_a_machine_without_a_limit(tmp_path: Path):
    write_tree(tmp_path, {"proc/meminfo": MEMINFO})
    assert places.memory(tmp_path) == Memory(60 * GIB, None, GIB // 2)


def test_a_limit_leaves_what_is_not_in_use_and_file_pages_can_be_dropped(tmp_path: Path):
    write_tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/memory.max": str(2 * GIB),
            "sys/fs/cgroup/memory.current": str(GIB),
            "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GIB // 2}\n",
        },
    )
    assert places.memory(tmp_path) == Memory(2 * GIB - GIB // 2, 2 * GIB, GIB // 2)


def test_the_first_version_of_control_groups_names_its_files_otherwise(tmp_path: Path):
    folder = "sys/fs/cgroup/memory"
    write_tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/mounts": "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0",
            "proc/self/cgroup": "4:memory:/",
            f"{folder}/memory.limit_in_bytes": str(4 * GIB),
            f"{folder}/memory.usage_in_bytes": str(GIB),
            f"{folder}/memory.stat": "inactive_file 5\ntotal_inactive_file 0\n",
        },
    )
    assert places.memory(tmp_path).available_bytes == 3 * GIB


def test_a_tree_without_memory_tells_nothing(tmp_path: Path):
    assert places.memory(tmp_path) == Memory(None, None, 0)
