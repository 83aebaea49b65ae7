"""What engines say of themselves, and how they fail, in the words of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.launch.engine_facts import Answer, ContainerEngine, EngineFacts, free_bytes, message, parse, parse_image
from tests.launch.test_engine import docker, podman


def test_a_rootful_docker():
    assert parse("docker", docker()) == EngineFacts(
        name="docker",
        version="27.3.1",
        runtime="runc",
        architecture="amd64",
        cgroup_version="2",
        cpuset=True,
        cpus=4,
        storage="/var/lib/docker",
    )


def test_a_rootless_docker_is_told_by_its_security_options():
    found = parse("docker", docker(SecurityOptions=["name=seccomp,profile=builtin", "name=rootless"], CPUSet=False))
    assert isinstance(found, EngineFacts)
    assert (found.rootless, found.cpuset) == (True, False)


def test_a_rootless_podman_without_a_delegated_cpuset():
    found = parse("podman", podman(security={"rootless": True}, cgroupControllers=["memory", "pids"]))
    assert isinstance(found, EngineFacts)
    assert (found.rootless, found.cpuset, found.runtime) == (True, False, "crun 1.8.1")


def test_fields_that_an_old_engine_lacks_are_unknown():
    assert parse("docker", Answer("ok", '{"ServerVersion": "18.09", "NCPU": 0}')) == EngineFacts("docker", "18.09")
    assert parse("podman", Answer("ok", '{"host": {}, "version": {"Version": "1.6"}}')) == EngineFacts("podman", "1.6")


SOCKET = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
    'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.24/info": dial unix /var/run/docker.sock: connect: permission denied'
)
DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("name", "answer", "clause"),
    [
        ("docker", Answer("missing"), "docker is not installed"),
        (
            "docker",
            Answer("failed", error=SOCKET),
            "this user may not use it (permission denied on its daemon's socket",
        ),
        # Newer clients print what they know of themselves, and the server's error in it.
        ("docker", Answer("failed", json.dumps({"ServerErrors": [SOCKET]})), "this user may not use it"),
        ("docker", Answer("ok", json.dumps({"ServerErrors": [SOCKET]})), "this user may not use it"),
        ("docker", Answer("failed", error=f"ERROR: {DOWN}\nerrors pretty printing info"), "its daemon does not run"),
        ("docker", Answer("timed out"), "its daemon does not answer within 10 s"),
        ("docker", Answer("ok", "\n"), "its daemon does not answer"),
        ("docker", Answer("ok", "[1]"), "its daemon does not answer"),
        ("docker", podman(), "docker is a stand-in for podman here"),
        ("podman", Answer("timed out"), "it does not answer within 10 s"),
        (
            "podman",
            Answer(
                "failed",
                error='Error: cannot find UID/GID for user x: no subuid ranges found for user "x" in /etc/subuid',
            ),
            "this user cannot have containers of their own",
        ),
        (
            "podman",
            Answer(
                "failed",
                error="Error: open /home/someone/.local/share/containers/storage/storage.lock: permission denied",
            ),
            "this user may not use it (open ~/.local/share/containers/storage/storage.lock: permission denied)",
        ),
        ("podman", Answer("failed", error="Error: database is locked"), "it does not answer (database is locked)"),
    ],
)
def test_an_engine_that_does_not_work_says_why(name: ContainerEngine, answer: Answer, clause: str):
    found = parse(name, answer)
    assert isinstance(found, str)
    assert clause in found


def test_a_message_is_the_line_that_tells_short_and_without_names():
    noise = "time=now level=warning msg=x\ndocker: Error response from daemon: OCI failed: /home/someone/x " + "ab" * 32
    assert message(f"{noise}.\nSee 'docker run --help'.") == "OCI failed: ~/x <id>"
    logged = 'time="2026-11-29T20:04:27Z" level=error msg="cannot find UID/GID"'
    assert message(f"{logged}\nError: keep-id requires additional UIDs") == "keep-id requires additional UIDs"
    assert message(logged) == "cannot find UID/GID"
    assert len(message("error " + "x" * 500)) < 200
    assert message("\n") == ""


@pytest.mark.parametrize("digest", ["sha256:" + "a" * 64, "a" * 64])
def test_an_image_is_named_alike_by_docker_and_podman(digest: str):
    told = {"Id": digest, "Architecture": "amd64", "Config": {"Labels": {"speedproof.source": "s"}}}
    named = ("sha256:" + "a" * 64, "amd64", {"speedproof.source": "s"})
    assert parse_image(json.dumps(told)) == named
    # podman 4.3 prints a list, whatever it is asked for.
    assert parse_image(json.dumps([told])) == named


@pytest.mark.parametrize("output", ["", "[]", "{}", '{"Config": {"Labels": null}}'])
def test_no_image_has_neither_digest_nor_labels(output: str):
    assert parse_image(output) == ("", "", {})


def test_free_space_is_known_of_folders_that_are_here(tmp_path: Path):
    assert (free_bytes(str(tmp_path)) or 0) > 0
    assert free_bytes(str(tmp_path / "not here")) is None
    assert free_bytes("") is None
