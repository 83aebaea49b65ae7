"""This machine as a run sees it: how workers are started, what compiled arms can rely on, and the facts for the fingerprint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from suite.arms import ARMS
from suite.bundle.schema import SCHEMA_VERSION, Effective, Fact, Fingerprint
from suite.errors import UserError
from suite.fingerprint.collect import collect
from suite.launch import command, libraries, settings, topology
from suite.probe import Probe
from suite.profiling.compilation import CACHE_VARIABLE
from suite.protocol import Role

PROBE_TIMEOUT_S = 600
STALE_CACHE_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Machine:
    """`cache` is the run's own compiler cache: empty at the run's start, so that process 0 compiles cold and the others warm.

    `not_run` maps an arm's name to the reason why it cannot run here.
    """

    launch: command.Launch
    cache: Path
    facts: dict[str, dict[str, Fact]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    toolchain_ns: int = 0

    def worker_environment(self, role: Role) -> dict[str, str]:
        """What a worker's environment holds beyond the user's. Profiling compiles different code and so has a cache of its own."""
        return {
            **self.launch.environment,
            # What Inductor finds out about the processor is kept for the machine; arms compile into folders of the run's.
            "TORCHINDUCTOR_CACHE_DIR": str(toolchain_cache()),
            CACHE_VARIABLE: str(self.cache / role),
            # The run has resolved what a model needs; a worker must never wait for a network.
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def fingerprint(self, effective: Effective | None) -> Fingerprint:
        """The facts, with the settings as the first measuring process saw them in force."""
        compared = settings.compare(self.launch, effective) if effective else []
        return Fingerprint(schema_version=SCHEMA_VERSION, facts=self.facts, settings=compared)


def cache_root() -> Path:
    """Where runs keep their compiler caches: the user's cache directory, or the temporary one when that cannot be written."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speedproof"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / "speedproof"
    return root if os.access(root, os.W_OK) else Path(tempfile.gettempdir()) / "speedproof"


def prepare(run_id: str) -> Machine:
    """Look at the machine and try its C++ compiler (once per machine this builds torch's precompiled header).

    Raises:
        UserError: when torch cannot be imported.
    """
    root = cache_root()
    forget_stale(root)
    launch = command.plan(topology.read(), libraries.find(os.environ), os.environ)
    answer = _probe(launch)
    not_run = {arm.name: answer.no_compiler for arm in ARMS.values() if arm.compiled} if answer.no_compiler else {}
    return Machine(launch, root / run_id, {**collect(), "torch": answer.facts}, not_run, answer.compile_ns)


def _probe(launch: command.Launch) -> Probe:
    """Run the probe as a worker would be run; its answer is the last line that it prints."""
    arguments = launch.command([sys.executable, "-m", "suite.probe"])
    environment = {**launch.environ(os.environ), "TORCHINDUCTOR_CACHE_DIR": str(toolchain_cache())}
    try:
        done = subprocess.run(
            arguments,
            env=environment,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"PyTorch could not be tried ({error}); type `make setup` to mend the environment.") from error
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(f"PyTorch does not work here ({last}); type `make setup` to mend the environment.")
    return msgspec.json.decode(lines[-1], type=Probe)


def toolchain_cache() -> Path:
    """Where Inductor keeps what it found out about this machine's processor and compiler, for all runs."""
    return cache_root() / "toolchain"


def forget_stale(root: Path) -> None:
    """Remove the caches of runs that were given up a week ago or more."""
    if not root.is_dir():
        return
    for path in root.iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > STALE_CACHE_S:
            shutil.rmtree(path, ignore_errors=True)
