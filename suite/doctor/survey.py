"""Everything that the doctor looks at, at once: topology, facts, launch, rehearsal, engines, folders, load.

Each look is timed and guarded: one that fails, on a machine nobody foresaw, costs what it would have told and not the doctor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import TypeVar

from suite.bundle.schema import Effective, Engine, Fact, Finding, LaunchRequest, Setting, Source
from suite.clocktime import now
from suite.doctor import engines, load, places
from suite.doctor.engines import Engines
from suite.doctor.load import Load
from suite.doctor.places import Memory, Place
from suite.errors import UserError
from suite.fingerprint.files import without_home
from suite.launch import command, libraries, placement, topology
from suite.launch.command import Launch
from suite.launch.engine import Choice
from suite.launch.libraries import Libraries, Library
from suite.launch.topology import Placement, Topology
from suite.plan import check_launch, source

REHEARSAL_TIMEOUT_S = 2.0
GPU_TIMEOUT_S = 2.0
# Load is counted in ticks of 10 ms: a shorter window would tell it in steps of more than 2 %.
LOAD_WINDOW_S = 0.6

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What a run would be asked for."""

    engine: str = "auto"
    output: Path = Path("results")
    launch: LaunchRequest = field(default_factory=LaunchRequest)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What was seen. `effective` is what a rehearsed worker had in force, or why there is none.

    `failures` maps the name of a look that failed to the reason, `durations_s` each look to what it took.
    """

    at: str
    options: Options
    topology: Topology
    placement: Placement
    libraries: Libraries
    launch: Launch
    effective: Effective | str
    settings: list[Setting]
    findings: list[Finding]
    facts: dict[str, dict[str, Fact]]
    engines: Engines
    places: list[Place]
    packages: dict[str, str | None]
    locked_torch: str | None
    weights: tuple[bool, str]
    memory: Memory
    load: Load
    source: Source
    environ: Mapping[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    durations_s: dict[str, float] = field(default_factory=dict)

    def fact(self, subject: str, name: str) -> Fact:
        """The fact, or an absent one that says that nobody looked."""
        missing = Fact(value=None, source=f"{subject} {name}", status="absent", note="not looked at")
        return self.facts.get(subject, {}).get(name, missing)

    def value(self, subject: str, name: str) -> object:
        """The fact's value, None unless it was read."""
        return self.fact(subject, name).value

    def distinct(self, subject: str, name: str) -> list[str]:
        """The distinct values of a fact that may differ from CPU to CPU; empty when it was not read."""
        value = self.value(subject, name)
        if isinstance(value, dict | list):
            return sorted(str(item) for item in value)
        return [] if value is None else [str(value)]

    @property
    def threads(self) -> int | None:
        """Threads that a worker would compute with: requested by the suite or the user, else None."""
        requested = {request.name: request.value for request in self.launch.requested}
        first = requested.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        return int(first) if first.isdigit() else None

    @property
    def in_image(self) -> bool:
        """Whether a run would leave this environment for a container: its libraries and tools are then the image's."""
        return self.engines.choice.starts_container


class _Looks:
    """Times and guards each look."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self.durations_s: dict[str, float] = {}

    def __call__(self, name: str, look: Callable[[], T], otherwise: T) -> T:
        began = time.monotonic()
        try:
            return look()
        except UserError:
            raise
        except Exception as error:
            self.failures[name] = without_home(f"{type(error).__name__}: {error}")
            return otherwise
        finally:
            self.durations_s[name] = time.monotonic() - began


def look(options: Options, environ: Mapping[str, str] = os.environ) -> Survey:
    """Look at the machine: about a second, at most three.

    Raises:
        UserError: for an engine or settings that do not exist, and for cores or nodes that cannot be used here.
    """
    engines.check_name(options.engine)
    check_launch(options.launch)
    # What contradicts the machine is refused before anything is waited for.
    machine = topology.read()
    chosen = placement.choose(machine, options.launch)
    looks = _Looks()
    before = load.snapshot()
    with ThreadPoolExecutor(max_workers=6) as pool:
        nothing = Engines(Choice(Engine(name="native", containerised=False, reason="not looked at"), False))
        engine = pool.submit(looks, "engines", lambda: engines.look(options.engine, environ), nothing)
        facts = pool.submit(looks, "facts", _facts, {})
        gpu = pool.submit(looks, "gpu", _gpu, {})
        revision = pool.submit(looks, "source", source, Source(version="unknown"))
        weights = pool.submit(looks, "weights", lambda: places.weights(environ), (False, "not looked at"))
        packages = pool.submit(looks, "packages", places.packages, {})
        found = looks("libraries", lambda: libraries.find(environ), _NO_LIBRARIES)
        launch = command.plan(machine, found, environ, options.launch)
        effective: Effective | str = looks("rehearsal", lambda: _rehearse(launch, environ), _unrehearsed())
        unjudged: tuple[list[Setting], list[Finding]] = ([], list(launch.findings))
        settings, findings = looks("settings", lambda: _compared(launch, effective), unjudged)
        folders: list[Place] = looks("folders", lambda: _places(options.output), [])
        memory = looks("memory", places.memory, Memory())
    time.sleep(max(0.0, LOAD_WINDOW_S - (time.monotonic() - before.at_s)))
    return Survey(
        at=now(),
        options=options,
        topology=machine,
        placement=chosen,
        libraries=found,
        launch=launch,
        effective=effective,
        settings=settings,
        findings=findings,
        places=folders,
        locked_torch=places.locked_torch(),
        memory=memory,
        load=load.between(before, load.snapshot(), load.load_1min()),
        environ=environ,
        failures=looks.failures,
        durations_s=looks.durations_s,
        facts={**gpu.result(), **facts.result()},
        engines=engine.result(),
        source=revision.result(),
        weights=weights.result(),
        packages=packages.result(),
    )


_NO_LIBRARIES = Libraries(Library("libiomp5", None, "not looked for"), Library("libjemalloc", None, "not looked for"))


def _facts() -> dict[str, dict[str, Fact]]:
    from suite.fingerprint.collect import collect

    # NVML is asked beside it, with less patience.
    return collect(without=("gpu",))


def _gpu() -> dict[str, dict[str, Fact]]:
    from suite.fingerprint.gpu import devices as gpu

    return {"gpu": gpu.read(timeout_s=GPU_TIMEOUT_S)}


def _rehearse(launch: Launch, environ: Mapping[str, str]) -> Effective | str:
    from suite.launch.rehearsal import rehearse

    return rehearse(launch, environ, timeout_s=REHEARSAL_TIMEOUT_S)


def _unrehearsed() -> Effective | str:
    return "the rehearsal failed"


def _compared(launch: Launch, effective: Effective | str) -> tuple[list[Setting], list[Finding]]:
    """Requested against effective, as a run would report it; the launch's own findings when nothing was rehearsed."""
    if isinstance(effective, str):
        return [], list(launch.findings)
    from suite.launch.findings import findings
    from suite.launch.settings import compare_all

    return compare_all(launch, [effective]), [*launch.findings, *findings(launch, [effective])]


def _places(output: Path) -> list[Place]:
    from suite.machine import cache_root

    return [
        places.place("results", output),
        places.place("compiler cache", cache_root()),
        places.place("temporary files", Path(gettempdir())),
    ]
