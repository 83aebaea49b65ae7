"""The command and environment that a worker is started with: what is REQUESTED.

A profile says which settings are wanted (`suite.launch.profiles`). What this machine cannot give stays requested, with the reason
why it could not even be tried, so that it shows as not in force. What the user exported always stands.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from suite.bundle.schema import Finding, LaunchRequest
from suite.errors import UserError
from suite.fingerprint.files import format_cpulist, parse_cpulist, without_home
from suite.launch import placement as placements
from suite.launch.libraries import Libraries, Library
from suite.launch.profiles import MALLOC_CONF, PROFILES, Knob, Profile
from suite.launch.topology import Placement, Topology

Origin = Literal["suite", "user"]
# Runs a command to its end and returns (exit code, standard error).
Probe = Callable[[Sequence[str]], tuple[int, str]]

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
    `findings` says what planning found wrong, with its proof; `notes` are sentences for the user. A `contained` launch starts its own
    container for each worker.
    """

    profile: str
    prefix: list[str]
    environment: dict[str, str]
    requested: list[Requested]
    notes: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    contained: bool = False

    @property
    def cpus(self) -> list[int]:
        """The CPUs that workers are kept on; empty when nothing keeps them."""
        pinned = [request.value for request in self.requested if request.name == "cpu_affinity"] if self.prefix else []
        return parse_cpulist(pinned[0]) if pinned else []

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
    request: LaunchRequest | None = None,
    *,
    knobs: frozenset[Knob] | None = None,
    which: Callable[[str], str | None] = shutil.which,
    probe: Probe = run_probe,
    near: int | None = None,
) -> Launch:
    """Plan how workers are started on this machine. `environ` is the user's environment, `near` the NUMA node of a measured device.

    `knobs` replaces those of the request's profile. `which` and `probe` are replaced in tests.

    Raises:
        UserError: cores and nodes that cannot be used here, or threads that contradict the environment.
    """
    request = request or LaunchRequest()
    draft = _Draft(topology, libraries, environ, request, PROFILES[request.settings], which, probe, near)
    if knobs is not None:
        return draft.launch(knobs)
    # Cores and threads that were asked for hold in any profile.
    asked: set[Knob] = set()
    if request.cores or request.nodes or request.smt:
        asked.add("numactl")
    if request.threads:
        asked.add("threads")
    return draft.launch(draft.profile.knobs | asked)


class _Draft:
    """A launch while it is being planned: each step adds what it requests, and what it could not have."""

    def __init__(
        self,
        topology: Topology,
        libraries: Libraries,
        environ: Mapping[str, str],
        request: LaunchRequest,
        profile: Profile,
        which: Callable[[str], str | None],
        probe: Probe,
        near: int | None = None,
    ) -> None:
        self.near = near
        self.topology = topology
        self.libraries = libraries
        self.environ = environ
        self.request = request
        self.profile = profile
        self.which = which
        self.probe = probe
        self.prefix: list[str] = []
        self.wanted: dict[str, str] = {}
        self.requested: list[Requested] = []
        self.notes: list[str] = []
        self.unavailable: dict[str, str] = {}
        self.findings: list[Finding] = []

    def launch(self, knobs: frozenset[Knob]) -> Launch:
        """Carry out the knobs."""
        placement = placements.choose(self.topology, self.request, self.near)
        if "numactl" in knobs:
            self._place(placement)
        self._preload(knobs)
        if "threads" in knobs:
            self._threads(placement)
        if not knobs and not self.wanted and not self.prefix:
            self.notes.append("Nothing is set: threads, allocator and placement are what the machine gives.")
        environment = {name: value for name, value in self.wanted.items() if name not in self.environ}
        self.requested += [Requested(name, without_home(value), "suite") for name, value in environment.items()]
        self._users()
        return Launch(
            self.profile.name,
            self.prefix,
            environment,
            self.requested,
            self.notes,
            self.unavailable,
            self.findings,
        )

    def _find(self, rule: str, claim: str, evidence: list[str], advice: str) -> None:
        self.findings.append(
            Finding(rule=f"launch.{rule}", severity="wrong", claim=claim, evidence=evidence, advice=advice)
        )

    # --- placement --------------------------------------------------------------------------------------------------

    def _place(self, placement: Placement) -> None:
        cores, nodes = format_cpulist(placement.cores), format_cpulist(placement.nodes)
        self.notes.append(
            f"Placement: CPUs {cores}{f', memory of nodes {nodes}' if nodes else ''} ({placement.reason})."
        )
        self.requested.append(Requested("cpu_affinity", cores, "suite", placement.reason))
        if nodes:
            self.requested.append(Requested("memory_nodes", nodes, "suite"))
        attempts: list[list[str]] = []
        if self.which("numactl"):
            attempts += [["numactl", "-C", cores, "-m", nodes]] if nodes else []
            attempts += [["numactl", "-C", cores]]
        if self.which("taskset"):
            attempts += [["taskset", "-c", cores]]
        refusals = []
        for prefix in attempts:
            code, message = self.probe([*prefix, "true"])
            if code == 0:
                self.prefix = prefix
                break
            message = " ".join(message.split())
            refusals.append(f"`{' '.join(prefix)} true` fails: {message or 'without a message'} (exit code {code})")
        if refusals and "numactl" in refusals[0]:
            self._denied(refusals)
        elif nodes and "-m" not in self.prefix:
            reason = "numactl is not installed"
            self.unavailable["memory_nodes"] = reason
            advice = "install it: apt-get install numactl"
            self._find("numactl-missing", "Memory is not bound to a NUMA node.", ["numactl is not in PATH"], advice)
            instead = "taskset pins the threads" if self.prefix else "nothing pins the threads"
            self.notes.append(f"{reason}: {instead}, and memory is not bound to the cores' NUMA nodes.")
        if not self.prefix:
            reason = "; ".join(refusals) or "neither numactl nor taskset is installed"
            self.unavailable["cpu_affinity"] = reason
            self._find(
                "not-pinned",
                "Threads are not pinned to the requested cores and may move.",
                refusals or ["neither numactl nor taskset is in PATH"],
                "install numactl (or util-linux's taskset)",
            )
            self.notes.append(f"Workers are not pinned ({reason}): threads may move between cores.")

    def _denied(self, refusals: list[str]) -> None:
        forbidden = "not permitted" in refusals[0].lower()
        advice = "in a container, --cap-add SYS_NICE allows it" if forbidden else "see `numactl --hardware`"
        kept = f"`{' '.join(self.prefix)}` is used instead" if self.prefix else "nothing pins the threads"
        claim = "numactl is denied" if forbidden else "numactl fails"
        if "-m" not in self.prefix:
            self.unavailable["memory_nodes"] = refusals[0]
        self._find("numactl-denied", f"{claim}: {kept}, and memory may come from any node.", refusals, advice)
        self.notes.append(f"{refusals[0]}; {kept}: memory may come from a remote node ({advice}).")

    # --- libraries --------------------------------------------------------------------------------------------------

    def _preload(self, knobs: frozenset[Knob]) -> None:
        """LD_PRELOAD and the variables of the libraries in it.

        The user's LD_PRELOAD stands: variables of a library that is not in it are then not requested, since the user chose otherwise.
        """
        wanted: list[tuple[Library, dict[str, str]]] = []
        if "libiomp5" in knobs:
            wanted.append((self.libraries.openmp, self.profile.kmp if "kmp" in knobs else {}))
        if "jemalloc" in knobs:
            wanted.append((self.libraries.jemalloc, {"MALLOC_CONF": MALLOC_CONF}))
        ours = ":".join(str(library.path) for library, _ in wanted if library.path is not None)
        preload = self.environ.get("LD_PRELOAD", ours)
        if preload:
            self.wanted["LD_PRELOAD"] = preload
        loaded = [PurePath(part).name for part in re.split(r"[:\s]+", preload) if part]
        missing = []
        for library, variables in wanted:
            if any(name.startswith(library.name) for name in loaded):
                self.wanted |= variables
            elif "LD_PRELOAD" in self.environ:
                dropped = f", so {', '.join(variables)} {'is' if len(variables) == 1 else 'are'} not requested"
                self.notes.append(f"LD_PRELOAD is the user's and has no {library.name}{dropped if variables else ''}.")
            else:
                missing.append(library)
                self._miss(library, variables)
        # Without libiomp5 among the knobs, KMP_* are set all the same: what they then do (nothing) is what is to be measured.
        if "kmp" in knobs and "libiomp5" not in knobs:
            self.wanted |= self.profile.kmp
        if missing:
            names = " and ".join(library.name for library in missing)
            reasons = [without_home(library.reason) for library in missing]
            self._find("library-missing", f"{names} cannot be preloaded.", reasons, "install what is missing")

    def _miss(self, library: Library, variables: Mapping[str, str]) -> None:
        name, reason = f"LD_PRELOAD {library.name}", without_home(library.reason)
        self.requested.append(Requested(name, library.name, "suite"))
        self.unavailable[name] = reason
        for variable, value in variables.items():
            if variable not in self.environ:
                self.requested.append(Requested(variable, value, "suite"))
                self.unavailable[variable] = f"not set: {library.name}, which reads it, cannot be preloaded"
        instead = (
            "torch's own libgomp runs the threads" if library is self.libraries.openmp else "the C library allocates"
        )
        ignored = f" and {', '.join(variables)} would be ignored" if variables else ""
        self.notes.append(f"{reason}. Without it {instead}{ignored}.")

    # --- threads, and what the user exported --------------------------------------------------------------------------

    def _threads(self, placement: Placement) -> None:
        cpus, quota = len(placement.cores), self.topology.quota_cpus
        affordable = cpus if quota is None else min(cpus, max(1, int(quota)))
        threads = self.request.threads or affordable
        exported = self.environ.get("OMP_NUM_THREADS")
        if self.request.threads and exported is not None and exported != str(threads):
            raise UserError(
                f"{threads} threads were asked for, but OMP_NUM_THREADS={exported} is exported: unset it, or leave threads out."
            )
        self.wanted["OMP_NUM_THREADS"] = str(threads)
        if "OMP_NUM_THREADS" in self.environ:
            return
        if threads > cpus:
            self.notes.append(f"{threads} threads were asked for on {cpus} CPUs: they will wait for each other.")
        if quota is not None and quota < max(threads, cpus):
            why = "more would be throttled" if quota >= threads else "and they will be throttled"
            self.notes.append(
                f"The cgroup's CPU quota is {quota:g} CPUs, so {threads} thread{'s are' if threads != 1 else ' is'} used "
                f"on {cpus} core{'s' if cpus != 1 else ''}: {why}."
            )

    def _users(self) -> None:
        exported = {name: self.environ[name] for name in sorted(self.environ) if STEERING.fullmatch(name)}
        self.requested += [
            Requested(name, without_home(value), "user", "exported by the user") for name, value in exported.items()
        ]
        affinity = exported.get("KMP_AFFINITY") or self.wanted.get("KMP_AFFINITY", "")
        if affinity and not re.search(r"\b(reset|none|disabled)\b", affinity):
            whose = "the user's" if "KMP_AFFINITY" in exported else "the tutorial's"
            self.notes.append(
                f"KMP_AFFINITY is {whose} and lacks `reset,`: the primary thread's mask shrinks to one CPU and the "
                "compiler's processes inherit it (pytorch#136307)."
            )
