"""This machine as a run sees it: how workers are started, what compiled arms can rely on, and the facts for the fingerprint."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psutil

from suite.ablate import CONTAINER
from suite.arms import ARMS
from suite.bundle.program import WANT_OF_MEMORY, memory_limit
from suite.bundle.schema import SCHEMA_VERSION, Device, Effective, Fact, Finding, Fingerprint, LaunchRequest, Run
from suite.device import registry
from suite.errors import UserError
from suite.fingerprint import host
from suite.fingerprint.collect import collect
from suite.fingerprint.container import cgroup
from suite.fingerprint.redact import names_to_hide, redact_struct
from suite.launch import command, libraries, near_device, settings, topology
from suite.launch.contained import launch_in
from suite.launch.findings import findings as launch_findings
from suite.launch.handover import HEADERS, HEADERS_HERE
from suite.launch.profiles import Knob
from suite.launch.rehearsal import rehearse
from suite.probe import Probe
from suite.profiling.compilation import CACHE_VARIABLE
from suite.protocol import Role
from suite.supervise import signal_name

PROBE_TIMEOUT_S = 600
TEXT = {"PYTHONUTF8": "1"}
"""Inductor reads and writes generated code in the locale's encoding, and the code holds signs that ASCII has not."""
TORCH_BYTES, TORCH_ADDRESS_BYTES = 600 << 20, 3 << 30
"""Below these a failure to start PyTorch is put down to memory: what the probe was seen to hold, and to have mapped, and half as much."""
OPENMP_SETTING = re.compile(r"\[?host\]?|\s*(KMP|OMP|GOMP)_\w+\s*=|OPENMP DISPLAY|OMP: Info|_OPENMP")
STALE_CACHE_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Machine:
    """`cache` is the run's own compiler cache: empty at the run's start, so that process 0 compiles cold and the others warm.

    `not_run` maps an arm's name to the reason why it cannot run here. `levels` are the launches of an ablation, by the index of their
    level; `findings` is what a rehearsal of the launch found before anything was measured. `device` is what is measured on, as the device
    tells of itself. `told` says what became of the user's variables.
    """

    launch: command.Launch
    cache: Path
    facts: dict[str, dict[str, Fact]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    toolchain_ns: int = 0
    levels: list[command.Launch] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    device: Device = field(default_factory=Device)
    told: list[Finding] = field(default_factory=list)

    def launch_of(self, run: Run, process: int) -> command.Launch:
        """How a process of the run is started: every one alike, but for an ablation's."""
        return self.levels[run.ablation.order[process]] if run.ablation else self.launch

    def worker_environment(self, launch: command.Launch, role: Role) -> dict[str, str]:
        """What a worker's environment holds beyond the user's. Profiling compiles different code and so has a cache of its own."""
        return {
            **launch.environment,
            # What Inductor finds out about the processor is kept for the machine; arms compile into folders of the run's.
            "TORCHINDUCTOR_CACHE_DIR": str(toolchain_cache()),
            CACHE_VARIABLE: str(self.cache / role),
            **registry.traits(self.device).environment,
            # The run has resolved what a model needs; a worker must never wait for a network.
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
            **TEXT,
        }

    def fingerprint(self, run: Run, effectives: Sequence[Effective], machine: Sequence[Finding] = ()) -> Fingerprint:
        """The facts, with the settings as the measuring processes saw them in force, and everything that was found.

        Of an ablation the settings are those of its last level, in which all knobs are on. `machine` holds findings about the machine
        during the run.
        """
        launches: list[tuple[str, command.Launch, list[Effective]]] = [("", self.launch, list(effectives))]
        if run.ablation:
            order = run.ablation.order
            launches = [
                (level.label, launch, [e for e in effectives if order[e.process] == number])
                for number, (level, launch) in enumerate(zip(run.ablation.levels, self.levels, strict=True))
            ]
        found = [
            _labelled(label, finding)
            for label, launch, seen in launches
            for finding in (*launch.findings, *launch_findings(launch, seen))
        ]
        # Of an ablation's levels the fullest that was seen.
        label, last, seen = next((each for each in reversed(launches) if each[2]), launches[-1])
        document = Fingerprint(
            schema_version=SCHEMA_VERSION,
            facts={},
            settings=settings.compare_all(last, seen) if seen else [],
            settings_of=label,
            findings=[*_merged(found), *machine, *self.told],
        )
        # Facts were redacted where they were collected.
        return msgspec.structs.replace(redact_struct(document, names_to_hide()), facts=self.facts)


def cache_root() -> Path:
    """Where runs keep their compiler caches: the user's cache directory, or the temporary one when that cannot be written."""
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speedproof"
        root.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # not writable; or a user without a home
        return Path(tempfile.gettempdir()) / "speedproof"
    return root if os.access(root, os.W_OK) else Path(tempfile.gettempdir()) / "speedproof"


def _labelled(label: str, finding: Finding) -> Finding:
    """The finding with the level that it belongs to before its evidence."""
    if not label:
        return finding
    return msgspec.structs.replace(finding, evidence=[f"{label}: {line}" for line in finding.evidence])


def _merged(found: Sequence[Finding]) -> list[Finding]:
    """Findings of one rule and claim as one, as serious as the worst of them, with all of their evidence."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in found:
        key = (finding.rule, finding.claim)
        before = kept.get(key)
        lines = (
            [*before.evidence, *(line for line in finding.evidence if line not in before.evidence)] if before else []
        )
        worst = min((before or finding, finding), key=lambda each: ("wrong", "doubtful", "note").index(each.severity))
        kept[key] = msgspec.structs.replace(worst, evidence=lines) if before else finding
    return list(kept.values())


def _levels(
    run: Run, bundle: Path, cache: Path, plan: Callable[[frozenset[Knob] | None], command.Launch]
) -> list[command.Launch]:
    """The launches of an ablation's levels: with fewer knobs, or in a container of its engine."""
    if run.ablation is None:
        return []
    launches = []
    for level in run.ablation.levels:
        if CONTAINER not in level.knobs or run.ablation.engine is None:
            launches.append(plan(frozenset(level.knobs)))  # type: ignore[arg-type]
            continue
        own = cache / "container"
        folders = {
            bundle.resolve(): bundle.resolve(),
            cache / "measure": own / "measure",
            toolchain_cache(): own / "toolchain",
            Path(HEADERS_HERE): own / HEADERS,
        }
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        passed = ("TORCHINDUCTOR_CACHE_DIR", CACHE_VARIABLE, "HF_HUB_OFFLINE", "PYTHONUNBUFFERED", *TEXT)
        launches.append(launch_in(run.ablation.engine, plan(None), run.launch, folders, passed))
    return launches


def prepare(run: Run, bundle: Path) -> Machine:
    """Look at the machine, rehearse the launch, and try the C++ compiler (once per machine this builds torch's precompiled header).

    Raises:
        UserError: when torch cannot be imported, the device cannot be measured on, cores or nodes that were asked for cannot be used, or,
            with `strict`, when a setting is not in force.
    """
    root = cache_root()
    forget_stale(root)
    here, found = topology.read(), libraries.find(os.environ)
    launch = command.plan(here, found, os.environ, run.launch)
    cache = root / run.run_id
    launches = _levels(run, bundle, cache, lambda knobs: command.plan(here, found, os.environ, run.launch, knobs=knobs))
    findings = rehearsed(launch)
    refuse_if_strict(run.launch, findings)
    if run.ablation:
        _refuse_exported(os.environ)
        if run.launch.strict:
            for one in launches:
                refuse_if_strict(run.launch, [] if one.contained else rehearsed(one))
    answer = _probe(launch, run.device)
    if answer.no_device:
        raise UserError(
            f"nothing can be measured on {run.device.kind} device {run.device.index} here: {answer.no_device}."
        )
    # Where the device sits is known only from the probe, whose own place moves nothing that it tells.
    node = near_device.node_of(answer.device.bus_id)
    nearer = command.plan(here, found, os.environ, run.launch, near=node) if node is not None else launch
    if nearer.cpus != launch.cpus:
        launch, findings = nearer, rehearsed(nearer)
        refuse_if_strict(run.launch, findings)
    if far := near_device.far_from(node, launch, here):
        launch = replace(launch, findings=[*launch.findings, *far])
        findings = [*findings, *far]
    not_run = {arm.name: answer.no_compiler for arm in ARMS.values() if arm.compiled} if answer.no_compiler else {}
    facts = host.with_host({**collect(), "torch": answer.facts}, os.environ)
    if answer.ceilings:
        facts["ceilings"] = answer.ceilings
    return Machine(launch, cache, facts, not_run, answer.compile_ns, launches, findings, answer.device)


def _refuse_exported(environ: Mapping[str, str]) -> None:
    """Raises UserError for exported variables that an ablation switches: with them no level would be without the setting."""
    switched = sorted(name for name in environ if re.fullmatch(r"LD_PRELOAD|MALLOC_CONF|(KMP|OMP|GOMP)_\w+", name))
    if switched:
        names = ", ".join(switched)
        raise UserError(
            f"an ablation switches these settings itself, and they are exported: {names}; unset them (env -u) and start again."
        )


def rehearsed(launch: command.Launch) -> list[Finding]:
    """What is wrong with a launch, seen in a process that is started as workers are, before anything is measured."""
    seen = rehearse(launch)
    if isinstance(seen, str):
        failed = Finding(
            rule="launch.rehearsal-failed",
            severity="wrong",
            claim="A process cannot be started with these settings.",
            evidence=[seen],
            advice="start with SETTINGS=untuned, and see what was exported",
        )
        return [*launch.findings, failed]
    return [*launch.findings, *launch_findings(launch, [seen])]


def refuse_if_strict(request: LaunchRequest, findings: Sequence[Finding]) -> None:
    """Raises UserError, naming every difference with its proof, when `strict` was asked for and something is not in force."""
    wrong = [finding for finding in findings if finding.severity == "wrong"]
    if request.strict and wrong:
        named = "; ".join(f"{finding.claim.rstrip('.')} [{finding.rule}: {finding.evidence[0]}]" for finding in wrong)
        raise UserError(f"the run is not what was asked for, and strict refuses that: {named}.")


def _probe(launch: command.Launch, device: Device) -> Probe:
    """Run the probe as a worker would be run; its answer is the last line that it prints."""
    arguments = launch.command([sys.executable, "-m", "suite.probe", msgspec.json.encode(device).decode()])
    environment = {
        **launch.environ(os.environ),
        **registry.traits(device).environment,
        "TORCHINDUCTOR_CACHE_DIR": str(toolchain_cache()),
        **TEXT,
    }
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
        raise UserError(why_no_torch(done.returncode, done.stderr.decode(errors="replace"), memory_in_words()))
    return msgspec.json.decode(lines[-1], type=Probe)


def why_no_torch(status: int, said: str, memory: str) -> str:
    """Why the probe failed, in a sentence. `said` is its standard error, `memory` what a process may use here, empty if that is enough."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ended = f"it ended with {signal_name(-status)}" if status < 0 else f"it ended with status {status}"
    wanted = [line for line in lines if WANT_OF_MEMORY.search(line)]
    if memory or wanted:
        of = f" ({memory})" if memory else ""
        return f"there is too little memory for PyTorch{of}: {(wanted or [ended])[-1]}; allow it more."
    # What OpenMP prints of its settings, on request, is no reason.
    last = next((line for line in reversed(lines) if not OPENMP_SETTING.match(line)), ended)
    return f"PyTorch does not work here ({last}); type `make setup` to mend the environment."


def memory_in_words() -> str:
    """How much memory a process may have, where that is less than PyTorch was seen to need; else empty."""
    limit = cgroup.memory_limit(Path("/")).value
    available = psutil.virtual_memory().available
    found = {"the control group": limit or available, "the machine": available}
    name = min(found, key=lambda each: found[each])
    of_machine = f"{name} has {found[name] / 2**20:.0f} MiB" if found[name] < TORCH_BYTES else ""
    return memory_limit(TORCH_ADDRESS_BYTES) or of_machine


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
