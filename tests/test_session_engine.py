"""One call of `run`, up to where measuring starts: what is refused before an engine is chosen, and how a run is handed over."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite import session
from suite.bundle.errors import BundleError
from suite.bundle.schema import Engine, LaunchRequest
from suite.display import Display
from suite.errors import UserError
from suite.launch import sbom
from suite.launch.engine import Choice, Place
from suite.plan import Request

ENGINE = Engine(name="podman", containerised=True, reason="a test", image_digest="sha256:" + "a" * 64, flags=["--rm"])


class Process:
    """Stands for the engine's process: ends at once with `status`."""

    status = 0
    commands: list[list[str]]

    def __init__(self, command: list[str]) -> None:
        Process.commands.append(command)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to wait for."""

    def wait(self) -> int:
        return self.status


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """The places that an engine was chosen for; the engine starts a container that ends at once."""
    chosen: list[Place] = []

    def choose(requested: str, *, place: Place, announce: object) -> Choice:
        chosen.append(place)
        return Choice(ENGINE, starts_container=True, cache=place.output / "cache")

    Process.commands = []
    monkeypatch.setattr(session.engines, "choose", choose)
    monkeypatch.setattr(session, "subprocess", SimpleNamespace(Popen=Process))
    return chosen


def run(output: Path, launch: LaunchRequest | None = None) -> Path | int:
    request = Request("smoke", "matmul_add/8-fp32", launch=launch or LaunchRequest())
    return session.run(request, session.Options(output=output), Display())


def test_an_engine_is_chosen_for_the_place_and_the_launch_of_the_run(places: list[Place], tmp_path: Path):
    launch = LaunchRequest(cores="0", strict=True)
    assert run(tmp_path, launch) == 0
    assert (places[0].output, places[0].launch) == (tmp_path, launch)
    (command,) = Process.commands
    assert f"{tmp_path}/cache:/cache" in command
    assert command[command.index(ENGINE.image_digest or "") + 1] == "bench"
    assert {"--cores", "--strict"} <= set(command)


@pytest.mark.parametrize("status", [125, 126, 127])
def test_an_engine_that_fails_is_told_from_a_run_that_does(
    places: list[Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
):
    monkeypatch.setattr(Process, "status", status)
    with pytest.raises(UserError, match="podman could not start the run in the image"):
        run(tmp_path)


def test_the_status_of_the_run_inside_is_handed_on(
    places: list[Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Process, "status", 130)
    assert run(tmp_path) == 130


def test_results_that_cannot_be_written_are_refused_before_an_engine_is_asked(places: list[Place], tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(BundleError, match="Not a directory"):
        run(tmp_path / "file" / "results")
    assert places == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(places: list[Place], tmp_path: Path):
    tmp_path.chmod(0o555)
    with pytest.raises(BundleError, match="Permission denied"):
        run(tmp_path / "results")


def test_a_run_is_continued_in_an_image_of_the_same_software(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    listed = tmp_path / "sbom.json"
    listed.write_text('{"bomFormat": "CycloneDX"}')
    before = Engine(
        name="podman",
        containerised=True,
        reason="",
        image_digest="sha256:1",
        sbom_sha256=sbom.digest(listed.read_bytes()),
    )
    rebuilt = Engine(name="podman", containerised=True, reason="", image_digest="sha256:2")
    session._same_image(tmp_path, before, before)
    with pytest.raises(UserError, match=r"was measured in image sha256:1, and this is sha256:2"):
        session._same_image(tmp_path, before, rebuilt)
    monkeypatch.setenv("SPEEDPROOF_SBOM", str(listed))
    session._same_image(tmp_path, before, rebuilt)
    listed.write_text('{"bomFormat": "CycloneDX", "components": [1]}')
    with pytest.raises(UserError, match="start a new run"):
        session._same_image(tmp_path, before, rebuilt)
