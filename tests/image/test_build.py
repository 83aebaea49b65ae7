"""docker/image with engines that only pretend: what it refuses and in which words, and how it calls the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Behaves as docker and podman do towards docker/image. `have` lists the images that there are; calls of build go to `calls`.
ENGINE = r"""#!/bin/bash
state=@STATE@ name=$(basename "$0")
case "$1" in
  info)
    if [ -e $state/$name.refusal ]; then cat $state/$name.refusal >&2; exit 1; fi
    echo "$(cat $state/arch) 4.3.1 $state" ;;
  image) [ "$3" != --format ] && wanted=$3 || wanted=$5
    grep -qxF "$wanted" $state/have || exit 1
    case "$*" in *Size*) echo "2345678901 $(printf 'ab%.0s' {1..32})" ;; *RepoDigests*) cat $state/digests 2>/dev/null || echo ;; esac ;;
  pull) echo "pull $2" >>$state/calls; [ ! -e $state/registry ] || echo "$2" >>$state/have; [ -e $state/registry ] ;;
  build)
    printf '%s\n' "$*" >>$state/calls
    if [ -e $state/broken ]; then cat $state/broken; exit 125; fi
    while [ $# -gt 0 ]; do [ "$1" != --tag ] || echo "$2" >>$state/have; shift; done ;;
esac
"""
TOOLS = "bash awk sed grep tr find sort xargs sha256sum cut mktemp rm cat tail df date timeout id tee basename dirname env head wc"
BASE = "docker.io/library/debian:bookworm-slim"


@dataclass(frozen=True)
class Site:
    """A copy of the recipe, and a folder with the only engines that are found."""

    root: Path
    state: Path

    def build(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        # Only what the script itself needs is found, so that the machine's own engines are not.
        environment = {"PATH": f"{self.state}:{self.state / 'tools'}", "HOME": str(self.state), **variables}
        command = [str(self.root / "docker" / "image"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)

    def engine(self, name: str, refusal: str = "") -> None:
        program = self.state / name
        program.write_text(ENGINE.replace("@STATE@", str(self.state)))
        program.chmod(0o755)
        if refusal:
            (self.state / f"{name}.refusal").write_text(refusal + "\n")

    def have(self, *images: str) -> None:
        (self.state / "have").write_text("".join(image + "\n" for image in images))

    def calls(self) -> list[str]:
        calls = self.state / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    root, state = tmp_path / "a checkout", tmp_path / "state"
    (state / "tools").mkdir(parents=True)
    for tool in TOOLS.split():
        found = shutil.which(tool)
        assert found, tool
        os.symlink(found, state / "tools" / tool)
    root.mkdir()
    shutil.copytree(ROOT / "docker", root / "docker", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("suite", "reports"):
        (root / folder).mkdir()
        (root / folder / "module.py").write_text("x = 1\n")
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    (state / "arch").write_text("amd64")
    made = Site(root, state)
    made.have(BASE)
    return made


def test_the_target_its_name_and_its_labels_reach_the_engine(site: Site):
    site.engine("podman")
    ended = site.build("cuda", "podman", "--no-cache", SOURCE_DATE_EPOCH="1700000000", BUILD_FLAGS="--network host")
    assert ended.returncode == 0, ended.stderr
    (call,) = site.calls()
    assert call.startswith("build --target cuda --tag speedproof:cuda ")
    assert "--build-arg CREATED=2023-11-14T22:13:20Z" in call
    assert "--timestamp 1700000000" in call
    assert call.endswith("--network host --no-cache .")
    assert "image: speedproof:cuda is ready: 2.35 GB, sha256:abab" in ended.stdout


def test_without_arguments_it_builds_the_cpu_image_with_the_first_engine_that_answers(site: Site):
    site.engine(
        "docker", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    )
    site.engine("podman")
    ended = site.build()
    assert ended.returncode == 0, ended.stderr
    assert site.calls()[0].startswith("build --target cpu --tag speedproof:cpu ")
    assert "with podman 4.3.1" in ended.stdout


def test_no_engine_is_one_sentence_that_says_what_works_without(site: Site):
    ended = site.build()
    assert ended.returncode == 2
    assert ended.stderr == (
        "image: no container engine to build with: docker is not installed; podman is not installed. "
        "Without one everything but the image works: make bench-cpu ENGINE=native\n"
    )


def test_an_engine_without_permission_says_how_to_get_it(site: Site):
    site.engine(
        "docker",
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
        'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.24/info": dial unix /var/run/docker.sock: connect: permission denied',
    )
    ended = site.build()
    assert ended.returncode == 2
    assert "docker is installed, but" in ended.stderr
    assert "may not use it (sudo usermod --append --groups docker" in ended.stderr


def test_another_architecture_is_refused_with_the_native_way(site: Site):
    site.engine("podman")
    (site.state / "arch").write_text("arm64")
    ended = site.build()
    assert ended.returncode == 2
    assert "the locked packages are for x86_64, and podman builds for arm64" in ended.stderr
    assert "never publishable" in ended.stderr
    assert site.build("--platform=linux/amd64").returncode == 0


def test_too_little_space_is_named_before_anything_is_built(site: Site):
    site.engine("podman")
    program = site.state / "df"
    program.write_text("#!/bin/sh\nprintf 'Avail\\n1500000000\\n'\n")
    program.chmod(0o755)
    ended = site.build("cuda")
    assert ended.returncode == 2
    assert f"{site.state}, where podman keeps images, has 1.50 GB free" in ended.stderr
    assert site.calls() == []
    # With the image of before, only what changed is built.
    site.have(BASE, "speedproof:cuda")
    assert site.build("cuda").returncode == 0


def test_a_base_image_that_cannot_be_fetched_names_the_way_without_a_registry(site: Site):
    site.engine("podman")
    site.have()
    ended = site.build()
    assert ended.returncode == 2
    assert "the step 'base image' needs a registry" in ended.stderr
    assert "docker/offline-base podman" in ended.stderr
    assert site.calls() == [f"pull {BASE}"]
    (site.state / "registry").touch()
    assert site.build().returncode == 0


def test_a_base_image_is_not_fetched_when_the_site_forbids_it(site: Site):
    site.engine("podman")
    site.have()
    assert site.build(BUILD_FLAGS="--pull=never").returncode == 2
    assert site.calls() == []


def test_a_base_image_of_ones_own_is_used_and_named_with_its_digest(site: Site):
    site.engine("podman")
    site.have("mirror/debian:12")
    (site.state / "digests").write_text("mirror/debian@sha256:" + "12" * 32 + "\n")
    assert site.build(BASE="mirror/debian:12").returncode == 0
    (call,) = site.calls()
    assert "--build-arg BASE=mirror/debian:12" in call
    assert "--label org.opencontainers.image.base.name=mirror/debian:12" in call
    assert "--label org.opencontainers.image.base.digest=sha256:" + "12" * 32 in call


@pytest.mark.parametrize("prefix", ["", "#12 3.456 "])
def test_a_failed_step_has_the_last_word(site: Site, prefix: str):
    site.engine("docker")
    said = "setup: the CPU build of torch 2.13.0 needs PyTorch's own index, which cannot be reached."
    (site.state / "broken").write_text(f"STEP 9/12: RUN x\n{prefix}{said}\nError: building at STEP: exit status 2\n")
    ended = site.build()
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == f"image: the build of speedproof:cpu failed. The step's last words: {said}"


def test_an_unknown_engine_is_refused(site: Site):
    ended = site.build(ENGINE="lxc")
    assert ended.returncode == 2
    assert "ENGINE=lxc is neither docker nor podman" in ended.stderr


def test_an_unknown_wish_for_weights_is_refused(site: Site):
    site.engine("podman")
    assert "WEIGHTS=yes is unknown" in site.build(WEIGHTS="yes").stderr
    assert site.build(WEIGHTS="bake").returncode == 0
    assert "--build-arg WEIGHTS=bake" in site.calls()[0]


def test_the_layers_script_refuses_to_run_on_a_machine():
    ended = subprocess.run(
        [str(ROOT / "docker" / "layer"), "system"], capture_output=True, text=True, check=False, timeout=10
    )
    assert ended.returncode == 2
    assert ended.stderr == "image: docker/layer is for the Dockerfile alone\n"
