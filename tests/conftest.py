"""Fixtures of more than one file of tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from suite.bundle import reader
from tests import redaction

# What a shell starts in the background ignores interrupts, and so would every run that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

HOST = "quokka-lab-17"
USER = "zebulonquux"


@dataclass(frozen=True)
class RealRun:
    """A finished run with a compiled arm, and everything that names the machine and the user it ran as."""

    done: subprocess.CompletedProcess[str]
    bundle: Path
    names: redaction.Names


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    """One real run of a tiny case, under a name and (where that is allowed) on a host that no honest text mentions."""
    home = tmp_path_factory.mktemp("homes") / USER
    home.mkdir()
    names = redaction.of_this_machine()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    # The compiler's own caches stay where they are: filling new ones takes a minute.
    environment = {**os.environ, "HOME": str(home), "USER": USER, "LOGNAME": USER, "XDG_CACHE_HOME": cache}
    command = [sys.executable, "-m", "suite", "run", "--preset", "smoke", "--cases", "pointwise_chain/64x64-fp32"]
    command += ["--processes", "2", "--engine", "native", "--output", str(home / "results")]
    prefix = ["unshare", "--uts", "sh", "-c", 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"', HOST]
    disguised = _works([*prefix, "true"])
    done = subprocess.run(
        [*prefix, *command] if disguised else command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    hosts = [*names.hosts, HOST] if disguised else names.hosts
    names = replace(names, hosts=hosts, users=[*names.users, USER], homes=[*names.homes, str(home)])
    return RealRun(done, reader.runs(home / "results")[0], names)


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
