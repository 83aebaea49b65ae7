"""The choice of the engine, on recorded answers of docker and podman; and the command that enters the container."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from suite.bundle.schema import Engine
from suite.errors import UserError
from suite.launch.engine import BUILD_TIMEOUT_S, Answer, Choice, choose, container_command, run_command, run_flags

ROOT = Path("/src/speedproof")
RECIPE = str(ROOT / "docker" / "image")
SOURCE = "5e1f" * 16
IMAGE_ID = "0c8f" * 16


@dataclass
class FakeMachine:
    """Answers as an engine would: `engines` maps a name to what its `info` answers; `label` is that of the image."""

    engines: dict[str, Answer] = field(default_factory=dict)
    label: str | None = None
    build: Answer = field(default_factory=lambda: Answer("ok"))
    asked: list[tuple[list[str], float, Path | None]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        self.asked.append((list(argv), timeout_s, log))
        match list(argv):
            case [recipe, "--digest"] if recipe == RECIPE:
                return Answer("ok", SOURCE + "\n")
            case [recipe, _] if recipe == RECIPE:
                if self.build.outcome == "ok":
                    self.label = SOURCE
                return self.build
            case [name, "info", *_]:
                return self.engines.get(name, Answer("missing"))
            case [name, "image", "inspect", *_]:
                prefix = "sha256:" if name == "docker" else ""
                return Answer("failed") if self.label is None else Answer("ok", f"{prefix}{IMAGE_ID} {self.label}\n")
        raise AssertionError(f"unexpected command {argv}")

    def builds(self) -> list[tuple[list[str], float, Path | None]]:
        return [asked for asked in self.asked if asked[0][0] == RECIPE and asked[0][1] != "--digest"]


def pick(requested: str, machine: FakeMachine, environment: dict[str, str] | None = None) -> Choice:
    return choose(requested, ROOT, environment=environment or {}, run=machine)


DOCKER = {"docker": Answer("ok", "27.3.1\n")}
PODMAN = {"podman": Answer("ok", "4.3.1\n")}


def test_auto_takes_docker_when_it_answers_and_has_the_image_of_this_source():
    machine = FakeMachine(DOCKER | PODMAN, label=SOURCE)
    choice = pick("auto", machine)
    assert choice.starts_container
    assert (choice.engine.name, choice.engine.containerised, choice.engine.version) == ("docker", True, "27.3.1")
    assert choice.engine.image == "speedproof:cpu"
    assert choice.engine.image_digest == f"sha256:{IMAGE_ID}"
    assert not machine.builds()


def test_auto_takes_podman_when_only_podman_answers():
    choice = pick("auto", FakeMachine(PODMAN, label=SOURCE))
    assert choice.engine.name == "podman"
    assert choice.engine.image_digest == f"sha256:{IMAGE_ID}"


def test_auto_without_engines_runs_natively_and_says_why():
    choice = pick("auto", FakeMachine({"docker": Answer("failed")}))
    assert choice == Choice(
        Engine(
            name="native",
            containerised=False,
            reason="docker is installed but its daemon does not answer; podman is not installed",
        ),
        starts_container=False,
    )


def test_an_engine_that_hangs_is_named_with_the_time_waited():
    reason = pick("auto", FakeMachine({"podman": Answer("timed out")})).engine.reason
    assert "podman is installed but it does not answer within 10 s" in reason


def test_docker_that_answers_without_a_server_version_does_not_work():
    reason = pick("auto", FakeMachine({"docker": Answer("ok", "\n")})).engine.reason
    assert "its daemon does not answer" in reason


@pytest.mark.parametrize(("label", "state"), [(None, "not there yet"), ("another", "of another source")])
def test_auto_builds_an_image_that_is_missing_or_stale(label: str | None, state: str):
    machine, told = FakeMachine(DOCKER, label=label), []
    choice = choose("auto", ROOT, environment={}, run=machine, announce=told.append)
    assert machine.builds() == [([RECIPE, "docker"], BUILD_TIMEOUT_S, ROOT / ".image-docker.log")]
    assert choice.engine.reason == "docker answers, and speedproof:cpu was built for this run"
    assert len(told) == 1
    assert state in told[0]


def test_auto_goes_on_to_the_next_engine_and_then_natively_when_the_build_fails():
    machine = FakeMachine(DOCKER | PODMAN, build=Answer("failed"))
    choice = pick("auto", machine)
    assert [argv[1] for argv, _, _ in machine.builds()] == ["docker", "podman"]
    assert choice.engine.name == "native"
    assert "docker answers but the image speedproof:cpu could not be built (log: " in choice.engine.reason


def test_a_stale_image_is_not_used_when_its_rebuild_fails():
    machine = FakeMachine(DOCKER, label="another", build=Answer("timed out"))
    choice = pick("auto", machine)
    assert choice.engine.name == "native"
    assert "within 30 minutes" in choice.engine.reason


def test_a_look_at_the_machine_builds_nothing():
    machine = FakeMachine(DOCKER)
    choice = choose("auto", ROOT, may_build=False, environment={}, run=machine)
    assert not machine.builds()
    assert choice.engine.reason.startswith("docker answers but the image speedproof:cpu is not there yet")


def test_native_asks_no_engine():
    machine = FakeMachine(DOCKER, label=SOURCE)
    assert pick("native", machine).engine.reason == "native was asked for"
    assert machine.asked == []


def test_a_forced_engine_that_does_not_work_is_refused_in_one_sentence():
    with pytest.raises(UserError, match=r"^ENGINE=podman was asked for, but podman is not installed; repair that, .*$"):
        pick("podman", FakeMachine(DOCKER, label=SOURCE))


def test_a_forced_engine_leaves_the_other_alone():
    choice = pick("podman", FakeMachine(DOCKER | PODMAN, label=SOURCE))
    assert choice.engine.name == "podman"
    assert choice.engine.reason.startswith("podman was asked for")


def test_an_unknown_engine_is_refused_by_name():
    with pytest.raises(UserError, match="unknown engine 'lxc'"):
        pick("lxc", FakeMachine())


def test_inside_the_container_the_outer_choice_is_described_again():
    outer = pick("auto", FakeMachine(DOCKER, label=SOURCE)).engine
    command = container_command(outer, ["bench"], Path("/results"))
    passed = [value for flag, value in pairwise(command) if flag == "--env"]
    inner = pick("auto", FakeMachine(), dict(pair.split("=", 1) for pair in passed))
    assert inner == Choice(outer, starts_container=False)


def test_the_container_command_mounts_results_and_the_model_read_only(tmp_path: Path):
    engine = pick("auto", FakeMachine(DOCKER, label=SOURCE)).engine
    command = container_command(engine, ["bench", "--cases", "a b"], tmp_path / "out put", tmp_path / "model")
    text = shlex.join(command)
    assert text.startswith("docker run --rm --pull=never --cap-add=SYS_NICE --network=none ")
    assert f"{tmp_path}/out put:/results" in command
    assert f"{tmp_path}/model:/model:ro" in command
    assert "MODEL_DIR=/model" in command
    assert command[-4:] == [f"sha256:{IMAGE_ID}", "bench", "--cases", "a b"]


def test_native_has_no_container_command():
    native = pick("native", FakeMachine()).engine
    with pytest.raises(ValueError, match="starts no containers"):
        container_command(native, ["bench"], Path("results"))


def test_rootless_podman_keeps_the_users_identity():
    assert "--userns=keep-id" in run_flags("podman", 1000, 1000)
    assert "--userns=keep-id" not in run_flags("podman", 0, 0)
    assert "--userns=keep-id" not in run_flags("docker", 1000, 1000)


def test_commands_are_run_with_their_output_failure_absence_and_timeout_told_apart(tmp_path: Path):
    assert run_command(["sh", "-c", "echo 4.3; echo noise >&2"], 10, None) == Answer("ok", "4.3\n")
    assert run_command(["false"], 10, None) == Answer("failed")
    assert run_command([str(tmp_path / "nothing")], 10, None) == Answer("missing")
    assert run_command(["sleep", "10"], 0.05, None) == Answer("timed out")


def test_a_log_takes_both_outputs(tmp_path: Path):
    log = tmp_path / "build.log"
    assert run_command(["sh", "-c", "echo one; echo two >&2"], 10, log) == Answer("ok")
    assert log.read_text() == "one\ntwo\n"
