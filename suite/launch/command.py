"""The command and environment that a worker is started with: what is REQUESTED.

The tuned profile follows the PyTorch tutorial on the Inductor CPU backend and `torch.backends.xeon.run_cpu`: one thread
per physical core of one socket, its memory local, Intel's OpenMP run-time and jemalloc preloaded. The untuned profile
sets nothing. What the user exported always stands.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from suite.bundle.schema import Finding
from suite.fingerprint.files import format_cpulist, without_home
from suite.launch.libraries import Libraries
from suite.launch.topology import Placement, Topology

Profile = Literal["tuned", "untuned"]
Origin = Literal["suite", "user"]
# Runs a command to its end and returns (exit code, standard error).
Probe = Callable[[Sequence[str]], tuple[int, str]]

# `reset` puts the primary thread's own CPU mask back after each parallel region. Without it that mask stays at one CPU
# and every child (g++, the compile workers) inherits it: https://github.com/pytorch/pytorch/issues/136307
KMP = {
    "KMP_BLOCKTIME": "1",
    "KMP_SETTINGS": "1",
    "KMP_AFFINITY": "reset,granularity=fine,compact,1,0",
}
MALLOC_CONF = "oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"
# Variables by which a user steers threads, placement, allocation or arithmetic: recorded as requested when exported.
STEERING = re.compile(
    r"(OMP|KMP|GOMP|MKL|DNNL|ONEDNN|OPENBLAS|MALLOC)_\w+|GLIBC_TUNABLES|LD_PRELOAD|ATEN_CPU_CAPABILITY"
)


@dataclass(frozen=True)
class Requested:
    """One requested setting; `origin` says whether the suite asks for it or the user exported it."""

    name: str
    value: str
    origin: Origin
    note: str = ""


@dataclass(frozen=True)
class Launch:
    """How to start a worker. `environment` holds only what the suite sets, to be laid over the user's own.

    `unavailable` maps the name of a requested setting that could not even be tried (no numactl, no libjemalloc) to the reason;
    `findings` says what planning found wrong, with its proof; `notes` are sentences for the user.
    """

    profile: Profile
    prefix: list[str]
    environment: dict[str, str]
    requested: list[Requested]
    notes: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument vector with the placement before it."""
        return [*self.prefix, *argv]

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment: `base` (the user's) with what the suite sets."""
        return {**base, **self.environment}


def run_probe(command: Sequence[str]) -> tuple[int, str]:
    """Run `command` for its exit code and standard error; a command that cannot be started gives code 127."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return 127, str(error)
    return done.returncode, done.stderr.strip()


def plan(
    topology: Topology,
    libraries: Libraries,
    environ: Mapping[str, str],
    profile: Profile = "tuned",
    *,
    which: Callable[[str], str | None] = shutil.which,
    probe: Probe = run_probe,
) -> Launch:
    """Plan how workers are started on this machine. `environ` is the user's environment.

    Raises ValueError for an unknown profile. `which` and `probe` are replaced in tests.
    """
    if profile not in ("tuned", "untuned"):
        raise ValueError(f"profile is 'tuned' or 'untuned', not {profile!r}")
    users = [
        Requested(name, without_home(environ[name]), "user", "exported by the user")
        for name in sorted(environ)
        if STEERING.fullmatch(name)
    ]
    if profile == "untuned":
        note = "The untuned profile sets nothing: threads, allocator and placement are what the machine gives."
        return Launch(profile, [], {}, users, [note])
    notes: list[str] = []
    placement = topology.first_socket()
    prefix, placed = _place(placement, which, probe, notes)
    wanted = _preload(libraries, environ, notes)
    wanted["OMP_NUM_THREADS"] = str(_threads(topology, placement, environ, notes))
    environment = {name: value for name, value in wanted.items() if name not in environ}
    ours = [Requested(name, without_home(value), "suite") for name, value in environment.items()]
    _remark_on_users(environ, notes)
    return Launch(profile, prefix, environment, [*placed, *ours, *users], notes)


def _place(
    placement: Placement, which: Callable[[str], str | None], probe: Probe, notes: list[str]
) -> tuple[list[str], list[Requested]]:
    cores, nodes = format_cpulist(placement.cores), format_cpulist(placement.nodes)
    notes.append(f"Placement: CPUs {cores}{f', memory of nodes {nodes}' if nodes else ''} ({placement.reason}).")
    attempts: list[tuple[list[str], bool]] = []
    if which("numactl"):
        attempts += [(["numactl", "-C", cores, "-m", nodes], True)] if nodes else []
        attempts += [(["numactl", "-C", cores], False)]
    else:
        notes.append("numactl is not installed, so memory is not bound to the cores' NUMA nodes.")
    if which("taskset"):
        attempts += [(["taskset", "-c", cores], False)]
    for prefix, binds_memory in attempts:
        code, message = probe([*prefix, "true"])
        if code == 0:
            requested = [Requested("cpu_affinity", cores, "suite", placement.reason)]
            return prefix, requested + ([Requested("memory_nodes", nodes, "suite")] if binds_memory else [])
        effect = "memory may then come from a remote node" if binds_memory else "the scheduler may move threads"
        help_text = "; in a container --cap-add SYS_NICE allows it" if "not permitted" in message.lower() else ""
        notes.append(f"`{' '.join(prefix)}` fails ({message or f'exit code {code}'}){help_text}: {effect}.")
    notes.append("Workers are not pinned: neither numactl nor taskset can be used, so threads may move between cores.")
    return [], []


def _preload(libraries: Libraries, environ: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """LD_PRELOAD and the variables of the libraries in it; none of a library that is not in it."""
    paths = [library.path for library in (libraries.openmp, libraries.jemalloc) if library.path is not None]
    preload = environ.get("LD_PRELOAD", ":".join(str(path) for path in paths))
    loaded = [PurePath(part).name for part in re.split(r"[:\s]+", preload) if part]
    wanted = {"LD_PRELOAD": preload} if preload else {}
    for library, variables, effect in (
        (libraries.openmp, KMP, "KMP_* settings are not requested and torch's own libgomp runs the threads"),
        (libraries.jemalloc, {"MALLOC_CONF": MALLOC_CONF}, "MALLOC_CONF is not requested"),
    ):
        if any(name.startswith(library.name) for name in loaded):
            wanted |= variables
        elif library.path is not None:
            notes.append(f"LD_PRELOAD is the user's and has no {library.name}: {effect}.")
        else:
            notes.append(f"{without_home(library.reason)}. Without it {effect}.")
    if libraries.jemalloc.path is None and "LD_PRELOAD" not in environ:
        notes.append("The allocator is the C library's, which gives large buffers back and faults them in again.")
    return wanted


def _threads(topology: Topology, placement: Placement, environ: Mapping[str, str], notes: list[str]) -> int:
    cores = len(placement.cores)
    if topology.quota_cpus is None or topology.quota_cpus >= cores:
        return cores
    threads = max(1, int(topology.quota_cpus))
    if "OMP_NUM_THREADS" not in environ:
        notes.append(
            f"The cgroup's CPU quota is {topology.quota_cpus:g} CPUs, so {threads} threads are used on {cores} cores: "
            "more would be throttled."
        )
    return threads


def _remark_on_users(environ: Mapping[str, str], notes: list[str]) -> None:
    affinity = environ.get("KMP_AFFINITY", "")
    if affinity and not re.search(r"\b(reset|none|disabled)\b", affinity):
        notes.append(
            "KMP_AFFINITY is the user's and lacks `reset,`: the primary thread's mask shrinks to one CPU and the "
            "compiler's processes inherit it (pytorch#136307)."
        )
