"""docker/weights against a hub that is a folder: what is recorded, what is checked, what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.cases import mobilebert_weights

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = json.dumps({"model_type": "mobilebert"})
MODEL = mobilebert_weights.MODEL_ID


@dataclass(frozen=True)
class Hub:
    """A folder that answers as the hub does, and a copy of the script that asks it."""

    folder: Path
    script: Path

    def weights(self, *arguments: str, endpoint: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"HF_ENDPOINT": endpoint or self.folder.as_uri()}
        command = [sys.executable, str(self.script), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)

    def file(self, name: str) -> Path:
        return self.folder / MODEL / "resolve" / COMMIT / name

    def lock(self) -> dict[str, object]:
        return dict(json.loads((self.script.parent / "weights.lock").read_text()))


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(tmp_path / "hub", tmp_path / "docker" / "weights")
    made.script.parent.mkdir()
    for name in ("weights", "weights.lock"):
        shutil.copy(ROOT / "docker" / name, made.script.parent / name)
    revision = made.folder / "api" / "models" / MODEL / "revision" / "main"
    revision.parent.mkdir(parents=True)
    revision.write_text(json.dumps({"sha": COMMIT}))
    made.file("config.json").parent.mkdir(parents=True)
    made.file("config.json").write_text(CONFIG)
    made.file("pytorch_model.bin").write_bytes(b"weights")
    return made


def test_the_repositorys_lock_names_the_suites_model_and_invents_no_revision():
    lock = json.loads((ROOT / "docker" / "weights.lock").read_text())
    assert lock["model"] == MODEL
    assert (lock["revision"] is None) == (lock["sha256"] == {})


def test_baked_weights_are_what_the_suite_finds_in_its_cache(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ended = hub.weights("bake", str(tmp_path / "cache"))
    assert ended.returncode == 0, ended.stderr
    assert "which is not locked" in ended.stdout
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    found = mobilebert_weights.resolve(None, None)
    assert found is not None
    assert (found.source, found.revision) == ("cache", COMMIT)
    recorded = json.loads((tmp_path / "cache" / "weights.json").read_text())
    assert recorded == {
        "model": MODEL,
        "revision": COMMIT,
        "locked": False,
        "sha256": dict(sorted(found.sha256.items())),
    }


def test_safetensors_are_preferred_and_one_file_is_enough(hub: Hub):
    hub.file("model.safetensors").write_bytes(b"tensors")
    assert hub.weights("record").returncode == 0
    assert hub.lock() == {
        "model": MODEL,
        "revision": COMMIT,
        "sha256": {
            "config.json": hashlib.sha256(CONFIG.encode()).hexdigest(),
            "model.safetensors": hashlib.sha256(b"tensors").hexdigest(),
        },
    }


def test_a_file_that_is_not_the_recorded_one_is_refused(hub: Hub, tmp_path: Path):
    assert hub.weights("record").returncode == 0
    assert "is what weights.lock names" in hub.weights("bake", str(tmp_path / "good")).stdout
    hub.file("pytorch_model.bin").write_bytes(b"others")
    ended = hub.weights("bake", str(tmp_path / "bad"))
    assert ended.returncode == 2
    assert "it is not the file that was recorded, and is not taken" in ended.stderr
    assert list((tmp_path / "bad").rglob("pytorch_model.bin")) == []
    assert not (tmp_path / "bad" / "weights.json").exists()


def test_a_recorded_revision_is_taken_whatever_main_is_now(hub: Hub, tmp_path: Path):
    assert hub.weights("record").returncode == 0
    (hub.folder / "api" / "models" / MODEL / "revision" / "main").write_text(json.dumps({"sha": "f" * 40}))
    assert hub.weights("bake", str(tmp_path / "cache")).returncode == 0


def test_a_hub_that_cannot_be_reached_is_one_sentence(hub: Hub, tmp_path: Path):
    # Port 9 of this machine: nobody listens there.
    ended = hub.weights("bake", str(tmp_path / "cache"), endpoint="http://127.0.0.1:9")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "http://127.0.0.1:9 cannot be reached" in ended.stderr
    assert "WEIGHTS=bake needs it while building" in ended.stderr


def test_a_revision_that_the_hub_lacks_is_named(hub: Hub):
    ended = hub.weights("record", "v9")
    assert ended.returncode == 2
    assert "has no revision v9" in ended.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"model": "other/model", "revision": "x", "sha256": {}}'])
def test_a_broken_lock_is_refused(hub: Hub, tmp_path: Path, text: str):
    (hub.script.parent / "weights.lock").write_text(text)
    ended = hub.weights("bake", str(tmp_path / "cache"))
    assert ended.returncode == 2
    assert "is not a lock of" in ended.stderr
