"""The command that enters the container, and how the run is recognised inside."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from suite.bundle.schema import Engine
from suite.launch import handover
from suite.launch.engine import Choice, choose, native
from suite.launch.handover import bind, container_command, image_cache

DIGEST = "sha256:" + "0c8f" * 16
ENGINE = Engine(
    name="podman",
    containerised=True,
    reason="podman answers",
    version="4.3.1",
    rootless=True,
    image="speedproof:cpu",
    image_digest=DIGEST,
    flags=["--rm", "--network=none", "--tmpfs=/tmp:rw,exec"],
    losses=["no cpuset"],
)


def environment(command: list[str]) -> dict[str, str]:
    return dict(value.split("=", 1) for flag, value in pairwise(command) if flag == "--env")


def test_results_are_mounted_and_the_model_read_only(tmp_path: Path):
    command = container_command(ENGINE, ["bench", "--cases", "a b"], tmp_path / "out put", tmp_path / "model")
    assert shlex.join(command).startswith("podman run --rm --network=none --tmpfs=/tmp:rw,exec ")
    assert f"{tmp_path}/out put:/results" in command
    assert f"{tmp_path}/model:/model:ro" in command
    assert environment(command)["MODEL_DIR"] == "/model"
    assert command[-4:] == [DIGEST, "bench", "--cases", "a b"]


def test_a_cache_is_mounted_and_named_to_the_suite_inside(tmp_path: Path):
    command = container_command(ENGINE, ["bench"], tmp_path, cache=tmp_path / "cache")
    assert f"{tmp_path}/cache:/cache" in command
    assert f"{tmp_path}/cache/inductor:/tmp/torchinductor_speedproof" in command
    passed = environment(command)
    assert (passed["XDG_CACHE_HOME"], passed["LOGNAME"]) == ("/cache", "speedproof")
    assert "XDG_CACHE_HOME" not in environment(container_command(ENGINE, ["bench"], tmp_path))


def test_each_image_has_a_cache_of_its_own(tmp_path: Path):
    other = replace(ENGINE, image_digest="sha256:" + "1" * 64)
    assert image_cache(tmp_path, ENGINE) == tmp_path / "podman-0c8f0c8f0c8f"
    assert image_cache(tmp_path, ENGINE) != image_cache(tmp_path, other)


def test_inside_the_outer_choice_is_described_again_with_what_was_mounted(tmp_path: Path):
    command = container_command(ENGINE, ["bench"], tmp_path, tmp_path / "model")
    found = choose("auto", environment=environment(command))
    assert found == Choice(replace(ENGINE, mounts=["<results>:/results", "<model>:/model:ro"]), starts_container=False)


def test_no_folder_of_the_host_is_told_inside(tmp_path: Path):
    passed = environment(container_command(ENGINE, ["bench"], tmp_path, tmp_path / "model", cache=tmp_path / "cache"))
    assert not any(str(tmp_path) in value for value in passed.values())


@pytest.mark.parametrize("record", [None, "", "{", '{"name": "docker", "containerised": true, "reason": ""}'])
def test_without_a_record_that_fits_the_single_variables_count(record: str | None):
    passed = {"SPEEDPROOF_ENGINE": "podman", "SPEEDPROOF_IMAGE_DIGEST": DIGEST}
    found = handover.inside(passed if record is None else {**passed, "SPEEDPROOF_ENGINE_RECORD": record})
    assert found is not None
    assert (found.name, found.image_digest, found.reason) == ("podman", DIGEST, "started by podman")


def test_whoever_starts_the_image_by_hand_may_give_a_reason():
    found = handover.inside({"SPEEDPROOF_ENGINE": "docker", "SPEEDPROOF_ENGINE_REASON": "started by docker compose"})
    assert found is not None and found.reason == "started by docker compose"


def test_an_engine_that_nobody_knows_is_outside():
    assert handover.inside({"SPEEDPROOF_ENGINE": "lxc"}) is None
    assert handover.inside({}) is None


def test_a_folder_with_a_colon_is_mounted_by_words(tmp_path: Path):
    assert bind(tmp_path / "10:00", "/results") == ["--mount", f"type=bind,source={tmp_path}/10:00,target=/results"]
    assert bind(tmp_path / "10:00", "/model", read_only=True)[1].endswith(",target=/model,readonly")


def test_what_was_collected_on_the_host_is_named_when_it_is_there(tmp_path: Path):
    assert "SPEEDPROOF_HOST_FINGERPRINT" not in environment(container_command(ENGINE, ["bench"], tmp_path))
    (tmp_path / "host-fingerprint.json").touch()
    passed = environment(container_command(ENGINE, ["bench"], tmp_path))
    assert passed["SPEEDPROOF_HOST_FINGERPRINT"] == "/results/host-fingerprint.json"


def test_native_has_no_container_command():
    with pytest.raises(ValueError, match="starts no containers"):
        container_command(native("asked for"), ["bench"], Path("results"))
