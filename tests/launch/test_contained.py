"""A worker in a container of its own: how it is started, and what it plans inside."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from suite.bundle.schema import Engine, LaunchRequest
from suite.launch import contained
from suite.launch.command import Launch, Requested

PODMAN = Engine(
    name="podman",
    containerised=True,
    reason="a test",
    image="speedproof:cpu",
    image_digest="sha256:0f1e",
    flags=["--rm", "--cap-add=SYS_NICE"],
)
HOST = Launch(
    "tuned",
    ["numactl", "-C", "0-1"],
    {"LD_PRELOAD": "/host/libiomp5.so"},
    [Requested("cpu_affinity", "0-1", "suite")],
)


def test_the_container_is_started_by_digest_with_its_folders_and_variables_and_keeps_the_request() -> None:
    folders = {Path("/results/run"): Path("/results/run"), Path("/cache/toolchain"): Path("/cache/container/toolchain")}
    launch = contained.launch_in(PODMAN, HOST, LaunchRequest(cores="0-1"), folders, ["TORCHINDUCTOR_CACHE_DIR"])
    assert launch.contained
    assert launch.requested == HOST.requested
    # The host's libraries lie elsewhere inside: nothing of the host's environment is set for the engine's own program.
    assert launch.environment == {}
    line = launch.command(["/host/python", "-m", "suite.worker"])
    assert line[:5] == ["podman", "run", "--interactive", "--rm", "--cap-add=SYS_NICE"]
    assert "/cache/container/toolchain:/cache/toolchain" in line
    assert line[line.index("TORCHINDUCTOR_CACHE_DIR") - 1] == "--env"
    assert line[line.index("sha256:0f1e") + 1 :][:3] == ["python", "-m", "suite.launch.contained"]
    (asked,) = [word.partition("=")[2] for word in line if word.startswith(contained.REQUEST)]
    assert json.loads(asked) == {"cores": "0-1"}


def test_inside_the_launch_is_planned_anew_and_becomes_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execvpe", lambda *call: became.append(call))
    monkeypatch.setenv(contained.REQUEST, '{"settings": "untuned", "threads": 1}')
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    contained.main()
    ((program, argv, environment),) = became
    assert (program, argv) == (sys.executable, [sys.executable, "-m", "suite.worker"])
    assert environment["OMP_NUM_THREADS"] == "1"
