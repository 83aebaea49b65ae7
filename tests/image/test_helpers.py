"""docker/offline-base, check-cuda-image and compare-images where something is missing: one sentence each, nothing done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PODMAN = """#!/bin/sh
case "$*" in
  info*) [ ! -e @STATE@/dead ] ;;
  "image inspect"*) [ -e @STATE@/image ] ;;
  create*) echo "Error: no such image" >&2; exit 125 ;;
  *) echo "$*" >>@STATE@/calls ;;
esac
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder with the only engine that is found, and the tools that the scripts need; debootstrap is not among them."""
    for tool in ["bash", "env", "timeout", "id", "uname", "dirname", "mktemp", "rm", "df", "tail", "cat"]:
        found = shutil.which(tool)
        assert found, tool
        os.symlink(found, tmp_path / tool)
    os.symlink(os.path.realpath(sys.executable), tmp_path / "python3")
    program(tmp_path, "podman", PODMAN.replace("@STATE@", str(tmp_path)))
    program(tmp_path, "id", "#!/bin/sh\necho 0\n")
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(state: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "docker" / script), *arguments]
    environment = {"PATH": str(state), **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)


def test_a_base_image_that_is_there_is_not_made_again(state: Path):
    (state / "image").touch()
    ended = run(state, "offline-base")
    assert ended.returncode == 0
    assert (
        ended.stdout == "offline-base: localhost/speedproof-base:bookworm is there already (AGAIN=yes makes it anew)\n"
    )
    assert not (state / "calls").exists()


def test_the_base_image_needs_root_and_debootstrap(state: Path):
    assert "debootstrap is missing: apt-get install debootstrap" in run(state, "offline-base").stderr
    program(state, "id", "#!/bin/sh\necho 1000\n")
    ended = run(state, "offline-base")
    assert (ended.returncode, ended.stderr) == (2, "offline-base: debootstrap needs root: sudo docker/offline-base\n")


def test_a_mirror_that_cannot_be_reached_is_named(state: Path):
    program(state, "debootstrap", "#!/bin/sh\necho 'E: Failed getting release file'\nexit 1\n")
    ended = run(state, "offline-base", "podman", MIRROR="http://mirror.example/debian")
    assert ended.returncode == 2
    assert "debootstrap could not take bookworm from http://mirror.example/debian" in ended.stderr
    assert not (state / "calls").exists()


@pytest.mark.parametrize("script", ["offline-base", "check-cuda-image"])
def test_without_an_engine_that_answers_nothing_is_tried(state: Path, script: str):
    (state / "dead").touch()
    ended = run(state, script)
    assert ended.returncode == 2
    assert "neither docker nor podman answers here" in ended.stderr


def test_a_cuda_image_that_was_not_built_is_named_with_its_command(state: Path):
    ended = run(state, "check-cuda-image")
    assert (ended.returncode, ended.stderr) == (
        2,
        "check-cuda-image: podman has no image speedproof:cuda: run make image-cuda\n",
    )


def test_an_image_that_is_not_there_cannot_be_compared(state: Path):
    ended = run(state, "compare-images", "speedproof:one", "speedproof:two")
    assert (ended.returncode, ended.stderr) == (
        2,
        "compare-images: podman has no image speedproof:one: Error: no such image\n",
    )


def test_listings_are_compared_without_an_engine(state: Path, tmp_path: Path):
    line = "file\t644\t0:0\t1\t{0}\t{1}\t'opt/speedproof/suite/worker.py'\n"
    for name, content, mtime in (("one", "ab", 1), ("two", "ab", 2), ("three", "cd", 1)):
        (tmp_path / name).write_text(line.format(content, mtime))
    same = run(state, "compare-images", str(tmp_path / "one"), str(tmp_path / "two"))
    assert same.returncode == 0
    assert same.stdout.endswith("the trees are the same; the modification times are not\n")
    other = run(state, "compare-images", str(tmp_path / "one"), str(tmp_path / "three"))
    assert other.returncode == 1
    assert "1 differ: no known reason\n  /opt/speedproof/suite/worker.py: content" in other.stdout
