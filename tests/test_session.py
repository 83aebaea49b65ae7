"""What a request becomes on its way into a container, and what may not be asked of an ablation."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite import commands, display, machine, session
from suite.bundle.program import Stopped
from suite.bundle.schema import Engine, LaunchRequest
from suite.commands import app
from suite.errors import UserError
from suite.launch.engine import Choice
from suite.plan import AblationRequest, Request
from tests import samples

PODMAN = Engine(name="podman", containerised=True, reason="a test", image="i", image_digest="sha256:0", flags=[])
LAUNCH = LaunchRequest(cores="0-1", nodes="0", smt=True, strict=True)
TIMES = {"matmul_add/8-fp32": {"eager": [2e6, 2.02e6], "eager#2": [2e6, 2.02e6], "inductor": [1e6, 1.01e6]}}
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


def interrupted(*_: object) -> Any:
    raise Stopped(signal.SIGTERM)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("moment", ["prepare", "Bundle.document"])
def test_an_interrupt_in_set_up_leaves_nothing_and_promises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moment: str, there: bool
) -> None:
    monkeypatch.setattr(session, "prepare", lambda *_: machine.Machine(None, tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(f"suite.session.{moment}", interrupted)
    output = tmp_path / "a" / "results"
    if there:
        output.mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        commands.lead(Request("smoke", "matmul_add/8-fp32", "eager"), output, "native", "", quiet=True, json=False)
    assert ended.value.code == 143
    said = capsys.readouterr().err
    assert said == "speedproof: interrupted before anything was measured; nothing is left of this run.\n"
    assert (list(output.iterdir()) == []) if there else list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("interrupted", "every finished block is kept. Continue with: make bench-cpu"),
        ("complete", "the run is complete. Render it with: make report"),
    ],
)
def test_an_interrupted_run_is_promised_only_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: str, told: str
) -> None:
    output = tmp_path / "a b"
    path = samples.write(output / "run", TIMES, changes={"status": status})

    def stopped(*_: object) -> Any:
        raise session.Interrupted(path, 130)

    monkeypatch.setattr(session, "run", stopped)
    with pytest.raises(SystemExit) as ended:
        commands.lead(Request("smoke"), output, "native", "", quiet=True, json=False)
    assert ended.value.code == 130
    assert capsys.readouterr().err == f"speedproof: interrupted; {told} RUN=run OUTPUT='{output}'\n"


def test_an_interrupt_while_the_report_is_rendered_ends_the_renderer_and_says_how_to_render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = samples.write(tmp_path / "run", TIMES)
    renderers: list[subprocess.Popen[str]] = []

    def communicate(renderer: subprocess.Popen[str]) -> Any:
        renderers.append(renderer)
        raise Stopped(signal.SIGHUP)

    monkeypatch.setattr(session, "run", lambda *_: path)
    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with pytest.raises(SystemExit) as ended:
        commands.lead(Request("smoke"), tmp_path, "native", "", quiet=True, json=False)
    assert ended.value.code == 129 and renderers[0].returncode in (143, -signal.SIGTERM)
    assert (
        f"everything measured is kept. Render it with: make report RUN=run OUTPUT={tmp_path}\n"
        in capsys.readouterr().err
    )
    assert not list(path.rglob("*.part"))


@pytest.mark.parametrize("name", ["HOME", "TMPDIR", "XDG_CACHE_HOME"])
def test_a_name_that_is_no_text_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/tmp/\udcff")
    with pytest.raises(UserError, match=f"{name}=.*no text"):
        session.run(Request("smoke"), session.Options(tmp_path), display.Display())
    with pytest.raises(UserError, match="no text"):
        session.run(Request("smoke"), session.Options(tmp_path / "\udcff"), display.Display())


@pytest.mark.parametrize(
    ("status", "said", "memory", "told"),
    [
        (1, "KMP_AFFINITY='noverbose'\n", "", "PyTorch does not work here (it ended with status 1)"),
        (1, "ImportError: no torch\n   KMP_AFFINITY='x'\n", "", "PyTorch does not work here (ImportError: no torch)"),
        (
            -9,
            "",
            "the control group has 350 MiB",
            "too little memory for PyTorch (the control group has 350 MiB): it ended with SIGKILL",
        ),
        (1, "std::bad_alloc\nKMP_AFFINITY='x'", "", "too little memory for PyTorch: std::bad_alloc"),
    ],
)
def test_why_torch_does_not_start_is_the_cause_and_no_setting(status: int, said: str, memory: str, told: str) -> None:
    assert told in machine.why_no_torch(status, said, memory)


def test_what_would_change_an_arm_goes_into_the_container_where_it_is_recorded(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    monkeypatch.setenv("TORCHINDUCTOR_REDIS_URL", "redis://user:word@db")
    assert enter(REQUESTS[0], tmp_path) == 0
    assert "TORCHDYNAMO_DISABLE=1" in " ".join(started[0])
    assert "redis" not in " ".join(started[0]).lower()
