"""The choice of the engine, on recorded answers of docker and podman, and the build and the trial that come before a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from suite.bundle.schema import Engine, Fact, LaunchRequest
from suite.errors import UserError
from suite.launch import engine as engines
from suite.launch.engine import BUILD_TIMEOUT_S, Answer, Choice, Place, choose, run_command
from suite.launch.topology import Cpu, Topology
from suite.launch.trial import FILE

ROOT = Path("/src/speedproof")
RECIPE = str(ROOT / "docker" / "image")
SOURCE = "5e1f" * 16
IMAGE_ID = "0c8f" * 16
WORKS = "results written\ntmp runs\ncache runs\ncpus 0-3\nmems 0\n"


def docker(**changes: object) -> Answer:
    """What `docker info --format '{{json .}}'` says of a rootful docker."""
    told = {
        "ServerVersion": "27.3.1",
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
        "DefaultRuntime": "runc",
        "Architecture": "x86_64",
        "CgroupVersion": "2",
        "CPUSet": True,
        "NCPU": 4,
        "DockerRootDir": "/var/lib/docker",
    }
    return Answer("ok", json.dumps({**told, **changes}))


def podman(**host: object) -> Answer:
    """What `podman info --format json` says of a rootful podman."""
    told = {
        "arch": "amd64",
        "cgroupControllers": ["cpuset", "cpu", "memory", "pids"],
        "cgroupVersion": "v2",
        "cpus": 4,
        "ociRuntime": {"name": "crun", "version": "crun version 1.8.1\ncommit: f8a096be"},
        "security": {"rootless": False},
    }
    store = {"graphRoot": "/var/lib/containers/storage"}
    return Answer("ok", json.dumps({"host": {**told, **host}, "store": store, "version": {"Version": "4.3.1"}}))


@dataclass
class FakeMachine:
    """Answers as an engine would: `engines` maps a name to what its `info` answers; `label` is that of the image.

    `refuses` maps a part of an option to what the engine says of it; `says` is what a container prints that starts.
    """

    engines: dict[str, Answer] = field(default_factory=dict)
    label: str | None = None
    build: Answer = field(default_factory=lambda: Answer("ok"))
    refuses: dict[str, str] = field(default_factory=dict)
    says: str = WORKS
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
                return Answer("failed") if self.label is None else Answer("ok", self.image(name))
            case [_, "run", *words]:
                said = [error for part, error in self.refuses.items() if any(part in word for word in words)]
                return Answer("failed", error=said[0]) if said else Answer("ok", self.says)
        raise AssertionError(f"unexpected command {argv}")

    def image(self, name: str) -> str:
        digest = f"{'sha256:' if name == 'docker' else ''}{IMAGE_ID}"
        labels = {"speedproof.source": self.label}
        return json.dumps({"Id": digest, "Architecture": "amd64", "Config": {"Labels": labels}})

    def builds(self) -> list[tuple[list[str], float, Path | None]]:
        return [asked for asked in self.asked if asked[0][0] == RECIPE and asked[0][1] != "--digest"]

    def trials(self) -> list[list[str]]:
        return [argv for argv, _, _ in self.asked if argv[1] == "run"]


def pick(requested: str, machine: FakeMachine, **options: object) -> Choice:
    return choose(requested, ROOT, environment={}, run=machine, free=lambda folder: 1 << 40, **options)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A run's folders, on a machine of four CPUs."""
    cpus = {number: Cpu(number, number, (number,), 0, 0) for number in range(4)}
    monkeypatch.setattr(engines.topology, "read", lambda: Topology(cpus, (0, 1, 2, 3), (0,), None))
    return Place(tmp_path / "results", cache=tmp_path / "cache")


DOCKER, PODMAN = {"docker": docker()}, {"podman": podman()}


def test_auto_takes_docker_when_it_answers_and_has_the_image_of_this_source():
    machine = FakeMachine(DOCKER | PODMAN, label=SOURCE)
    choice = pick("auto", machine)
    assert choice.starts_container
    assert (choice.engine.name, choice.engine.containerised, choice.engine.version) == ("docker", True, "27.3.1")
    assert (choice.engine.rootless, choice.engine.runtime) == (False, "runc")
    assert choice.engine.image == "speedproof:cpu"
    assert choice.engine.image_digest == f"sha256:{IMAGE_ID}"
    assert choice.engine.flags == [word for flag in choice.flags for word in flag.words]
    assert not machine.builds()


def test_auto_takes_podman_when_only_podman_answers():
    choice = pick("auto", FakeMachine(PODMAN, label=SOURCE))
    assert (choice.engine.name, choice.engine.runtime) == ("podman", "crun 1.8.1")
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


@pytest.mark.parametrize(("label", "state"), [(None, "not there yet"), ("another", "of another source")])
def test_auto_builds_an_image_that_is_missing_or_stale(label: str | None, state: str):
    machine, told = FakeMachine(DOCKER, label=label), list[str]()
    choice = pick("auto", machine, announce=told.append)
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


def test_a_failed_build_says_which_step_needed_what(tmp_path: Path):
    (tmp_path / ".image-docker.log").write_text("ERROR: No matching distribution found for torch==2.13.0\n")
    machine = FakeMachine(DOCKER, build=Answer("failed"))

    def run(argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        return machine([word.replace(str(tmp_path), str(ROOT)) for word in argv], timeout_s, log)

    with pytest.raises(UserError, match="could not be built: the locked Python packages need a package index"):
        choose("docker", tmp_path, environment={}, run=run, free=lambda folder: None)


def test_a_stale_image_is_not_used_when_its_rebuild_fails():
    machine = FakeMachine(DOCKER, label="another", build=Answer("timed out"))
    choice = pick("auto", machine)
    assert choice.engine.name == "native"
    assert "within 30 minutes" in choice.engine.reason


def test_nothing_is_built_where_there_is_no_room_for_it():
    machine, asked = FakeMachine(PODMAN), list[str]()

    def free(folder: str) -> int:
        asked.append(folder)
        return 1_500_000_000

    with pytest.raises(UserError, match=r"building it needs 5\.0 GB .*/var/lib/containers/storage\): 1\.5 GB are free"):
        choose("podman", ROOT, environment={}, run=machine, free=free)
    assert asked == ["/var/lib/containers/storage"]
    assert not machine.builds()
    # Of an image that is there only what changed is built.
    machine.label = "another"
    assert choose("podman", ROOT, environment={}, run=machine, free=free).starts_container


def test_a_look_at_the_machine_builds_and_starts_nothing():
    machine = FakeMachine(DOCKER)
    choice = pick("auto", machine, may_build=False)
    assert not machine.builds() and not machine.trials()
    assert choice.engine.reason.startswith("docker answers but the image speedproof:cpu is not there yet")


def test_native_asks_no_engine():
    machine = FakeMachine(DOCKER, label=SOURCE)
    assert pick("native", machine).engine.reason == "native was asked for"
    assert machine.asked == []


def test_a_forced_engine_that_does_not_work_is_refused_in_one_sentence():
    with pytest.raises(
        UserError, match=r"^ENGINE=podman was asked for and cannot be had: podman is not installed; repair that, .*$"
    ):
        pick("podman", FakeMachine(DOCKER, label=SOURCE))


def test_a_forced_engine_leaves_the_other_alone():
    choice = pick("podman", FakeMachine(DOCKER | PODMAN, label=SOURCE))
    assert choice.engine.name == "podman"
    assert choice.engine.reason.startswith("podman was asked for")


def test_an_unknown_engine_is_refused_by_name():
    with pytest.raises(UserError, match="unknown engine 'lxc'"):
        pick("lxc", FakeMachine())


def test_an_engine_of_another_architecture_is_no_engine_for_this_image():
    machine = FakeMachine({"docker": docker(Architecture="aarch64")}, label=SOURCE)
    reason = pick("auto", machine).engine.reason
    assert "docker runs linux/arm64 and the image's locked packages are for amd64" in reason
    assert "native run" in reason
    assert not machine.builds()


# --- the trial --------------------------------------------------------------------------------------------------------


def test_a_run_is_trusted_to_an_engine_after_a_container_was_tried_with_its_mounts(place: Place):
    machine = FakeMachine(PODMAN, label=SOURCE)
    choice = pick("podman", machine, place=place)
    (trial,) = machine.trials()
    assert trial[:4] == ["podman", "run", "--rm", "--pull=never"]
    assert f"{place.output}:/results" in trial
    assert f"{choice.cache}:/cache" in trial
    assert trial[trial.index("--entrypoint=sh") + 1] == f"sha256:{IMAGE_ID}"
    assert choice.engine.losses == []
    assert choice.cache == place.cache / f"podman-{IMAGE_ID[:12]}"
    assert choice.cache.is_dir() and place.output.is_dir()


def test_what_the_engine_refuses_is_left_out_and_said(place: Place):
    refused = {"--pids-limit": "Error: OCI runtime error: cannot set pids limit: controller `pids` is not available\n"}
    choice = pick("podman", FakeMachine(PODMAN, label=SOURCE, refuses=refused), place=place)
    assert not any("pids" in word for word in choice.engine.flags)
    assert "--network=none" in choice.engine.flags
    (loss,) = choice.engine.losses
    assert loss.startswith("--pids-limit=-1 is refused (OCI runtime error: cannot set pids limit")
    assert "threads are limited" in loss


def test_results_that_the_containers_user_cannot_write_are_refused_before_anything_starts(place: Place):
    machine = FakeMachine(PODMAN, label=SOURCE, says="tmp runs\ncache runs\n")
    with pytest.raises(UserError, match=r"the results folder .*results cannot be written by the container's user"):
        pick("podman", machine, place=place)
    assert pick("auto", machine, place=place).engine.name == "native"


def test_results_that_would_belong_to_another_user_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.output.mkdir()
    (place.output / FILE).touch()
    monkeypatch.setattr(engines.os, "getuid", lambda: 4711)
    with pytest.raises(UserError, match="would belong to user"):
        pick("podman", FakeMachine(PODMAN, label=SOURCE), place=place)
    assert not (place.output / FILE).exists()


def test_a_cache_that_cannot_execute_is_left_out_and_said(place: Place):
    choice = pick("podman", FakeMachine(PODMAN, label=SOURCE, says="results written\ntmp runs\n"), place=place)
    assert choice.cache is None
    assert "the compiler cache is not kept" in choice.engine.losses[0]


def test_a_container_in_which_no_kernel_could_be_loaded_is_refused(place: Place):
    with pytest.raises(UserError, match="nothing can be executed from the container's /tmp"):
        pick("podman", FakeMachine(PODMAN, label=SOURCE, says="results written\n"), place=place)


def test_cores_that_were_asked_for_confine_the_container_with_a_core_apart(place: Place):
    asked = Place(place.output, launch=LaunchRequest(cores="0-1"))
    choice = pick(
        "podman", FakeMachine(PODMAN, label=SOURCE, says="results written\ntmp runs\ncpus 0-1,3\nmems 0\n"), place=asked
    )
    assert {"--cpuset-cpus=0-1,3", "--cpuset-mems=0"} <= set(choice.engine.flags)
    assert choice.engine.losses == []


def test_a_cpuset_that_was_taken_and_is_not_in_force_is_said(place: Place):
    asked = Place(place.output, launch=LaunchRequest(cores="0-1"))
    choice = pick("podman", FakeMachine(PODMAN, label=SOURCE), place=asked)
    assert choice.engine.losses == ["--cpuset-cpus=0-1,3 was taken and is not in force: 0-3 may be used"]


def test_cores_that_may_not_be_used_are_refused_before_an_image_is_built(place: Place):
    machine = FakeMachine(PODMAN)
    with pytest.raises(UserError, match="CPU 9 may not be used here"):
        pick("auto", machine, place=Place(place.output, launch=LaunchRequest(cores="9")))
    assert machine.asked == []


def test_an_engine_on_another_machine_gets_no_cpu_numbers_of_this_one(place: Place):
    asked = Place(place.output, launch=LaunchRequest(cores="0-1"))
    choice = pick("docker", FakeMachine({"docker": docker(NCPU=2)}, label=SOURCE), place=asked)
    assert not any("cpuset" in word for word in choice.engine.flags)
    assert choice.engine.losses[0].startswith("no cpuset: docker's machine has 2 CPUs and this one 4")


# --- commands ---------------------------------------------------------------------------------------------------------


def test_commands_are_run_with_their_output_failure_absence_and_timeout_told_apart(tmp_path: Path):
    assert run_command(["sh", "-c", "echo 4.3; echo noise >&2"], 10, None) == Answer("ok", "4.3\n", "noise\n")
    assert run_command(["false"], 10, None) == Answer("failed")
    assert run_command([str(tmp_path / "nothing")], 10, None) == Answer("missing")
    assert run_command(["sleep", "10"], 0.05, None) == Answer("timed out")


def test_a_log_takes_both_outputs(tmp_path: Path):
    log = tmp_path / "build.log"
    assert run_command(["sh", "-c", "echo one; echo two >&2"], 10, log) == Answer("ok")
    assert log.read_text() == "one\ntwo\n"


def test_a_native_run_in_another_container_says_what_the_fingerprint_says() -> None:
    engine = engines.native("native was asked for")
    inside = engines.beside_fingerprint(engine, Fact(value="docker", source="/.dockerenv", status="ok"))
    assert inside.reason == "native was asked for; by /.dockerenv this is one that something else started (docker)"
    assert engines.beside_fingerprint(engine, Fact(value="none", source="/.dockerenv", status="ok")) == engine
