"""What `.ci/run` leaves to programs of its own: what a build needs of pip's settings, and what a bundle from inside must show."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def build_flags(listing: str) -> list[str]:
    command = [sys.executable, str(ROOT / ".ci" / "build-flags")]
    done = subprocess.run(command, input=listing, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split("\n")[:-1]


def test_without_settings_of_pip_a_build_needs_nothing():
    assert build_flags("global.disable-pip-version-check='1'\nglobal.cert=''\n") == [""]


def test_folders_and_certificates_that_pip_names_are_mounted(tmp_path: Path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "ca.crt").touch()
    links = f"\\n{tmp_path}/wheels\\nhttps://example.org/wheels"
    assert build_flags(f":env:.cert='{tmp_path}/ca.crt'\nglobal.find-links='{links}'\nglobal.timeout='60'\n") == [
        "--build-arg", "PIP_CERT=/tmp/pip/cert0",
        "--build-arg", "PIP_FIND_LINKS=/tmp/pip/find-links0 https://example.org/wheels",
        "--volume", f"{tmp_path}/ca.crt:/tmp/pip/cert0:ro",
        "--volume", f"{tmp_path}/wheels:/tmp/pip/find-links0:ro",
    ]  # fmt: skip


def test_an_index_in_files_is_mounted_with_the_files_beside_it(tmp_path: Path):
    (tmp_path / "mirror" / "simple").mkdir(parents=True)
    assert build_flags(f"global.extra-index-url='file://{tmp_path}/mirror/simple https://example.org/simple'\n") == [
        "--build-arg", "PIP_EXTRA_INDEX_URL=file:///tmp/pip/extra-index-url0/simple https://example.org/simple",
        "--volume", f"{tmp_path}/mirror:/tmp/pip/extra-index-url0:ro",
    ]  # fmt: skip


def test_what_pip_takes_last_wins():
    listing = ":env:.index-url='https://b/simple'\nglobal.index-url='https://a/simple'\n"
    assert build_flags(listing) == ["--build-arg", "PIP_INDEX_URL=https://b/simple"]


LISTED = json.dumps({"bomFormat": "CycloneDX", "components": [{"name": "torch"}]}).encode()
ENGINE: dict[str, Any] = {
    "name": "podman",
    "version": "4.3.1",
    "containerised": True,
    "image": "speedproof:cpu",
    "image_digest": "sha256:" + "a" * 64,
    "sbom_sha256": hashlib.sha256(LISTED).hexdigest(),
    "flags": ["--rm", "--network=none", "--cap-add=SYS_NICE", "--cpuset-cpus=0-1", "--read-only"],
}
SETTINGS = ("LD_PRELOAD libiomp5", "LD_PRELOAD libjemalloc", "cpu_affinity", "memory_nodes")


def check_container(
    folder: Path, engine: dict[str, Any], status: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    settings = [
        {"name": name, "status": (status or {}).get(name, "in force"), "effective": "x", "proof": "a test"}
        for name in SETTINGS
    ]
    (folder / "run.json").write_text(json.dumps({"engine": {**ENGINE, **engine}}))
    (folder / "fingerprint.json").write_text(json.dumps({"settings": settings, "findings": []}))
    (folder / "sbom.cdx.json").write_bytes(LISTED)
    command = [sys.executable, str(ROOT / ".ci" / "check-container"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_bundle_that_shows_everything_passes(tmp_path: Path):
    done = check_container(tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert "in podman 4.3.1, speedproof:cpu sha256:aaa" in done.stdout


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        ({"containerised": False, "reason": "no engine"}, "not in a container that the suite started: no engine"),
        ({"image_digest": None}, "no digest"),
        ({"flags": []}, "started without --network=none"),
        ({"sbom_sha256": "0" * 64}, "not what run.json names"),
    ],
)
def test_what_a_bundle_lacks_is_named(tmp_path: Path, engine: dict[str, Any], problem: str):
    done = check_container(tmp_path, engine)
    assert done.returncode == 1
    assert problem in done.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_not_in_force_is_named(tmp_path: Path, name: str):
    done = check_container(tmp_path, {}, {name: "not in force"})
    assert done.returncode == 1
    assert f"{name} is not in force" in done.stderr
