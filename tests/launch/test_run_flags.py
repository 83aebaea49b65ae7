"""Which options each engine, user and target gets, and what is said where one cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.launch.cpuset import Cpuset
from suite.launch.engine_facts import ContainerEngine, EngineFacts
from suite.launch.flags_document import document
from suite.launch.run_flags import Flags, Target, User, run_flags

ROOT = Path(__file__).parents[2]
ENGINES: tuple[ContainerEngine, ...] = ("docker", "podman")
CORES = Cpuset((0, 1, 3), (0,), "asked for")


def flags(
    name: ContainerEngine, user: int = 1000, target: Target = "cpu", cpuset: Cpuset | None = None, **facts: object
) -> Flags:
    return run_flags(EngineFacts(name, "1", **facts), User(user, user), target, cpuset)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ENGINES)
def test_every_run_is_without_network_allowed_numactl_and_over_a_fixed_image(name: ContainerEngine):
    words = flags(name).words
    assert {"--rm", "--pull=never", "--network=none", "--cap-add=SYS_NICE", "--read-only"} <= set(words)
    (temporary,) = [word for word in words if word.startswith("--tmpfs=/tmp:")]
    assert ",exec," in temporary and ",size=" in temporary


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("rootless", [False, True])
def test_every_option_has_a_reason_and_can_be_told_from_the_others(
    name: ContainerEngine, target: Target, rootless: bool
):
    found = flags(name, target=target, cpuset=CORES, rootless=rootless)
    assert all(len(flag.reason) > 20 or flag.reason == CORES.reason for flag in found.flags)
    assert all(bool(flag.without) == bool(flag.refusal) for flag in found.flags)
    assert len(set(found.words)) == len(found.words)


def test_results_belong_to_whoever_started_the_run():
    assert "--user=1000:1000" in flags("docker").words
    assert "--user=1000:1000" in flags("podman").words
    # In a rootless engine, root inside is the user outside.
    for name in ENGINES:
        words = flags(name, rootless=True).words
        assert "--user=0:0" in words and "--user=1000:1000" not in words


def test_no_cpuset_unless_somebody_drew_a_line():
    assert not any("cpuset" in word for word in flags("docker").words)


def test_a_cpuset_confines_cpus_and_memory():
    assert {"--cpuset-cpus=0-1,3", "--cpuset-mems=0"} <= set(flags("docker", cpuset=CORES).words)
    assert not any("mems" in word for word in flags("docker", cpuset=Cpuset((0,), (), "asked for")).words)


def test_a_cpuset_that_was_not_delegated_is_left_out_and_said():
    found = run_flags(EngineFacts("podman", "5", rootless=True, cpuset=False), User(1000, 1000), cpuset=CORES)
    assert not any("cpuset" in word for word in found.words)
    loss = next(loss for loss in found.losses if "cpuset" in loss)
    assert "--cpuset-cpus=0-1,3 --cpuset-mems=0 is left out" in loss
    assert "Delegate=cpuset" in loss
    old = EngineFacts("podman", "4", rootless=True, cgroup_version="1", cpuset=False)
    assert any("root's alone" in loss for loss in run_flags(old, User(1000, 1000), cpuset=CORES).losses)


def test_a_rootless_engine_says_what_is_lost():
    assert "SYS_NICE counts in the user's own namespace" in flags("podman", rootless=True).losses[0]
    assert any("no limit of CPUs" in loss for loss in flags("docker", rootless=True, cgroup_version="1").losses)
    assert flags("podman").losses == ()


def test_gpus_are_asked_for_in_each_engines_way():
    docker, podman = flags("docker", target="cuda").words, flags("podman", target="cuda").words
    assert "--gpus=all" in docker and "--device=nvidia.com/gpu=all" in podman
    for words in (docker, podman):
        assert {"--ulimit=memlock=-1:-1", "--ulimit=stack=67108864:67108864"} <= set(words)
        assert {"--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility"} <= set(words)
    assert not any("NVIDIA" in word or "gpu" in word for word in flags("docker").words)


def test_the_page_about_the_options_is_the_current_one():
    # python -m suite.launch.flags_document > docs/container.md
    assert (ROOT / "docs" / "container.md").read_text() == "".join(f"{line}\n" for line in document())
