"""What a request becomes on its way into a container, and what may not be asked of an ablation."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite import display, machine, session
from suite.__main__ import app
from suite.bundle.schema import Engine, LaunchRequest
from suite.errors import UserError
from suite.launch.engine import Choice
from suite.plan import AblationRequest, Request

PODMAN = Engine(name="podman", containerised=True, reason="a test", image="i", image_digest="sha256:0", flags=[])
LAUNCH = LaunchRequest(cores="0-1", nodes="0", smt=True, strict=True)
REQUESTS = [
    Request("quick", "matmul_add", "inductor", 4, False, launch=LAUNCH),
    Request("quick", launch=LAUNCH, profile=False, ablation=AblationRequest("alone", 2)),
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been started."""
    commands: list[list[str]] = []

    class Started:
        def __init__(self, command: list[str]) -> None:
            commands.append(command)

        def __enter__(self) -> Started:
            return self

        def __exit__(self, *_: object) -> None: ...

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Started)
    return commands


def enter(request: Request, output: Path) -> Any:
    return session._in_container(
        Choice(PODMAN, starts_container=True), request, session.Options(output), display.Display()
    )


@pytest.mark.parametrize("request_", REQUESTS, ids=["bench", "ablate"])
def test_every_option_that_goes_into_a_container_is_one_of_its_command(
    request_: Request, tmp_path: Path, started: list[list[str]]
) -> None:
    assert enter(request_, tmp_path) == 0
    verb, *arguments = started[0][started[0].index("sha256:0") + 1 :]
    command = get_command(app).commands[{"bench": "run"}.get(verb, verb)]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in arguments if word.startswith("--")} <= known
    for option in ("--cores", "--nodes", "--smt", "--strict"):
        assert option in arguments


def test_what_the_user_exported_stands_in_the_container_too_but_for_the_hosts_paths(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("LD_PRELOAD", "")
    enter(REQUESTS[0], tmp_path)
    assert "OMP_NUM_THREADS=3" in started[0]
    assert not any(word.startswith("LD_PRELOAD=") for word in started[0])


@pytest.mark.parametrize("name", ["LD_PRELOAD", "MALLOC_CONF", "KMP_BLOCKTIME", "OMP_NUM_THREADS"])
def test_an_ablation_refuses_exported_settings_that_it_switches(name: str) -> None:
    with pytest.raises(UserError, match=f"they are exported: {name}"):
        machine._refuse_exported({name: "1", "PATH": "/bin"})
    machine._refuse_exported({"PATH": "/bin", "MKL_VERBOSE": "1"})


def test_what_would_change_an_arm_goes_into_the_container_where_it_is_recorded(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    monkeypatch.setenv("TORCHINDUCTOR_REDIS_URL", "redis://user:word@db")
    assert enter(REQUESTS[0], tmp_path) == 0
    assert "TORCHDYNAMO_DISABLE=1" in " ".join(started[0])
    assert "redis" not in " ".join(started[0]).lower()
