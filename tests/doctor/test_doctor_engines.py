from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from suite.doctor import engines
from suite.errors import UserError
from suite.launch.engine import Answer

SOURCE, DIGEST = "f" * 64, "sha256:" + "a" * 64
INFO = {"docker": '{"ServerVersion": "27.1"}', "podman": '{"host": {}, "version": {"Version": "5.0"}}'}
IMAGE = json.dumps({"Id": DIGEST, "Config": {"Labels": {"speedproof.source": SOURCE}}})


class Site:
    """A machine on which each engine answers, fails, is missing or hangs; with an image of this source or without."""

    def __init__(self, docker: str = "missing", podman: str = "missing", image: bool = False) -> None:
        self.state = {"docker": docker, "podman": podman}
        self.image = image
        self.asked: list[str] = []
        self.patience: list[float] = []
        self.lock = threading.Lock()

    def __call__(self, argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        with self.lock:
            self.asked.append(" ".join(argv[:3]))
            self.patience.append(timeout_s)
        if argv[-1] == "--digest":
            return Answer("ok", f"{SOURCE}\n")
        state = self.state[argv[0]]
        if state != "answers":
            return Answer(state)  # type: ignore[arg-type]
        if argv[1] == "info":
            return Answer("ok", INFO[argv[0]])
        return Answer("ok", IMAGE) if self.image else Answer("failed")


def test_an_engine_with_the_image_is_chosen():
    found = engines.look("auto", {}, Site(podman="answers", image=True))
    assert (found.choice.engine.name, found.choice.starts_container) == ("podman", True)
    assert not found.builds_image


def test_an_engine_without_the_image_would_build_it():
    found = engines.look("auto", {}, Site(docker="answers"))
    assert found.builds_image
    assert found.answering == ("docker",)
    assert "is not there yet" in found.choice.engine.reason


def test_an_engine_that_was_asked_for_and_lacks_the_image_is_not_refused():
    found = engines.look("docker", {}, Site(docker="answers"))
    assert (found.refusal, found.builds_image) == ("", True)


def test_an_engine_that_was_asked_for_and_is_missing_is_refused():
    found = engines.look("docker", {}, Site(podman="answers"))
    assert "docker is not installed" in found.refusal


def test_a_daemon_that_hangs_is_called_slow_and_no_time_is_named_for_it():
    site = Site(docker="timed out", podman="failed")
    found = engines.look("auto", {}, site)
    assert found.slow == ("docker",)
    assert "within 10 s" not in found.choice.engine.reason
    assert max(site.patience) <= engines.PATIENCE_S


def test_each_question_is_put_once():
    site = Site(docker="failed", podman="answers", image=True)
    engines.look("auto", {}, site)
    assert len(site.asked) == len(set(site.asked))


def test_docker_and_podman_are_asked_side_by_side():
    together = threading.Barrier(2, timeout=5)

    def run(argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        together.wait()
        return Answer("failed")

    assert engines.look("auto", {}, run).slow == ()


def test_nobody_is_asked_for_a_native_run_or_inside_a_container_of_ours():
    site = Site()
    assert engines.look("native", {}, site).choice.engine.reason == "native was asked for"
    inside = engines.look("auto", {"SPEEDPROOF_ENGINE": "podman", "SPEEDPROOF_IMAGE_DIGEST": DIGEST}, site)
    assert (inside.choice.engine.name, inside.choice.starts_container) == ("podman", False)
    assert site.asked == []


def test_a_runner_that_raises_does_not_leave_the_other_waiting():
    def run(argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        raise RuntimeError("out of threads")

    began = time.monotonic()
    with pytest.raises(RuntimeError):
        engines.look("auto", {}, run)
    assert time.monotonic() - began < 5


def test_an_unknown_engine_is_bad_usage():
    with pytest.raises(UserError, match="unknown engine 'dokcer': use auto, native, docker or podman"):
        engines.check_name("dokcer")
