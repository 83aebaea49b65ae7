"""What is left out when an engine refuses options: as little as possible, and said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from suite.launch import trial
from suite.launch.engine_facts import Answer
from suite.launch.run_flags import Flag
from suite.launch.trial import FILE, Works, settle

NEEDED = Flag(("--network=none",), "needed")
PIDS = Flag(("--pids-limit=-1",), "wanted", without="few threads", refusal="pids")
TEMPORARY = Flag(("--read-only", "--tmpfs=/tmp"), "wanted", without="no tmpfs", refusal="read-only|tmpfs")
FLAGS = (NEEDED, PIDS, TEMPORARY)


def engine(refuses: dict[str, str]) -> tuple[Callable[[Sequence[Flag]], Answer], list[str]]:
    """An engine that refuses options by their text, each with its words, and what it was started with."""
    started: list[str] = []

    def start(flags: Sequence[Flag]) -> Answer:
        started.append(" ".join(flag.text for flag in flags))
        said = [error for text, error in refuses.items() if any(flag.text == text for flag in flags)]
        return Answer("failed", error=said[0]) if said else Answer("ok", "tmp runs\ncpus 0-3\n")

    return start, started


def test_an_engine_that_takes_everything_is_started_once():
    start, started = engine({})
    found = settle(FLAGS, start)
    assert isinstance(found, Works)
    assert (found.flags, found.losses, len(started)) == (FLAGS, (), 1)
    assert (found.value("cpus"), found.value("mems")) == ("0-3", None)


def test_options_that_the_engine_names_are_left_out_one_after_the_other():
    start, started = engine(
        {PIDS.text: "Error: controller pids is not there", TEMPORARY.text: "Error: no tmpfs for you"}
    )
    found = settle(FLAGS, start)
    assert isinstance(found, Works)
    assert found.flags == (NEEDED,)
    assert found.losses == (
        "--pids-limit=-1 is refused (controller pids is not there): few threads",
        "--read-only --tmpfs=/tmp is refused (no tmpfs for you): no tmpfs",
    )
    assert len(started) == 3


def test_an_option_that_the_engine_does_not_name_is_found_by_trying():
    start, _ = engine({PIDS.text: "Error: exit status 1"})
    found = settle(FLAGS, start)
    assert isinstance(found, Works)
    assert found.flags == (NEEDED, TEMPORARY)
    assert found.losses == ("--pids-limit=-1 is refused (exit status 1): few threads",)


def test_without_what_it_needs_no_container_starts():
    start, _ = engine({NEEDED.text: "Error: netavark: no such device"})
    assert settle(FLAGS, start) == "a container does not start (netavark: no such device)"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer("timed out"), "does not start within 120 s"), (Answer("missing"), "the engine does not say why")],
)
def test_an_engine_that_hangs_or_vanishes_is_said(answer: Answer, reason: str):
    found = settle(FLAGS, lambda flags: answer)
    assert isinstance(found, str)
    assert reason in found


def confined(**said: str) -> Works:
    flag = Flag(("--cpuset-cpus=0-1,3", "--cpuset-mems=0"), "asked for", without="x", refusal="cpuset")
    return Works((flag,), (), frozenset(f"{name} {value}" for name, value in said.items()))


def test_a_cpuset_is_compared_as_numbers():
    assert trial.confinement(confined(cpus="0,1,3", mems="0")) == []
    assert trial.confinement(confined()) == []
    assert trial.confinement(confined(cpus="0-7", mems="0-1")) == [
        "--cpuset-cpus=0-1,3 was taken and is not in force: 0-7 may be used",
        "--cpuset-mems=0 was taken and is not in force: 0-1 may be used",
    ]


def test_results_must_be_written_and_belong_to_the_user(tmp_path: Path):
    written = Works((), (), frozenset({"results written"}))
    owner = tmp_path.stat().st_uid
    (tmp_path / FILE).touch()
    assert trial.results(written, tmp_path, owner) == ""
    assert not (tmp_path / FILE).exists()
    assert "cannot be written by the container's user" in trial.results(Works((), (), frozenset()), tmp_path, owner)
    (tmp_path / FILE).touch()
    assert "would belong to user" in trial.results(written, tmp_path, owner + 1)
