"""Where a run takes place: natively, or in a container of docker or podman; why, and with which options.

`choose` decides, builds the image when there is none of this very source, and tries a container before the run is trusted to one.
`container_command` writes the command that starts the run again inside, where `choose` recognises it by the SPEEDPROOF_* variables.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from suite.bundle.schema import Engine, Fact
from suite.errors import UserError
from suite.launch import build_failure, cpuset, handover, topology, trial
from suite.launch.engine_facts import (
    ANSWER_TIMEOUT_S,
    QUESTION,
    Answer,
    ContainerEngine,
    EngineFacts,
    free_bytes,
    parse,
    parse_image,
)
from suite.launch.handover import CONTAINER_ENGINES, IMAGE, RESULTS, Place, container_command
from suite.launch.run_flags import Flag, Flags, User, run_flags

__all__ = [
    "ANSWER_TIMEOUT_S",
    "CONTAINER_ENGINES",
    "IMAGE",
    "RESULTS",
    "Answer",
    "Choice",
    "Place",
    "choose",
    "container_command",
]

ROOT = Path(__file__).resolve().parents[2]

BUILD_TIMEOUT_S = 30 * 60.0
BUILD_NEEDS_BYTES, REBUILD_NEEDS_BYTES = 5_000_000_000, 1_000_000_000
"""What docker/image was seen to need at its peak: for the first image, and where only what changed is built."""

ARCHITECTURE = "amd64"
_SOURCE_LABEL = "speedproof.source"

Runner = Callable[[Sequence[str], float, Path | None], Answer]
"""Runs (argv, time-out in seconds, file for all output or None) and answers; tests pass a fake."""


@dataclass(frozen=True)
class Choice:
    """The engine of a run. `starts_container` tells whether `container_command` has to carry the run into it.

    `flags` explains the options that the engine has by their words; `cache` is the folder for the container's compiler cache.
    """

    engine: Engine
    starts_container: bool
    flags: tuple[Flag, ...] = ()
    cache: Path | None = None


@dataclass(frozen=True)
class _Image:
    """An image that is ready to run, and how it came about."""

    digest: str
    how: str


def run_command(argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
    """Run a command without a terminal; with a log, both of its outputs go there and the answer's are empty."""
    try:
        if log is None:
            ended = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                errors="replace",
            )
        else:
            with log.open("w") as sink:
                ended = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, text=True, timeout=timeout_s, check=False
                )
    except OSError:
        return Answer("missing")
    except subprocess.TimeoutExpired:
        return Answer("timed out")
    return Answer("ok" if ended.returncode == 0 else "failed", ended.stdout or "", ended.stderr or "")


def native(reason: str) -> Engine:
    """Return the engine that is none, and why it is none: in a clause that may follow "not in a container that the suite started: "."""
    return Engine(name="native", containerised=False, reason=reason)


def beside_fingerprint(engine: Engine, container: Fact | None) -> Engine:
    """The engine with a reason that agrees with the fingerprint: a native run may be inside of a container that something else started."""
    if engine.containerised or container is None or container.value in (None, "none"):
        return engine
    return msgspec.structs.replace(
        engine,
        reason=f"{engine.reason}; by {container.source} this is one that something else started ({container.value})",
    )


def choose(
    requested: str,
    root: Path = ROOT,
    *,
    place: Place | None = None,
    may_build: bool = True,
    environment: Mapping[str, str] = os.environ,
    run: Runner = run_command,
    free: Callable[[str], int | None] = free_bytes,
    announce: Callable[[str], None] = lambda message: None,
) -> Choice:
    """Decide where the run takes place.

    `requested` is auto, native, docker or podman; `root` is the repository, which holds the image's recipe. With a `place` (a run; the
    doctor has none) a container is tried first, with the run's own mounts and options. Without `may_build` an engine that would
    have to build its image counts as not working. `announce` is told, in one sentence, when an image is going to be built.

    Raises:
        UserError: for an unknown name, for an engine that was asked for and does not work, and for cores or nodes that may not be used.
    """
    inside = handover.inside(environment)
    if inside is not None:
        return Choice(inside, starts_container=False)
    if requested == "native":
        return Choice(native("native was asked for"), starts_container=False)
    if requested not in ("auto", *CONTAINER_ENGINES):
        raise UserError(f"unknown engine {requested!r}: use auto, native, docker or podman.")
    machine = topology.read() if place else None
    confined = cpuset.choose(machine, place.launch) if place and machine else None
    site = _Site(root, run, announce, may_build, free, place, confined, len(machine.online) if machine else None)
    if requested == "auto":
        reasons = []
        for name in CONTAINER_ENGINES:
            found = site.choice(name, because=f"{name} answers")
            if isinstance(found, Choice):
                return found
            reasons.append(found)
        return Choice(native("; ".join(reasons)), starts_container=False)
    found = site.choice(requested, because=f"{requested} was asked for")  # type: ignore[arg-type]
    if isinstance(found, str):
        raise UserError(
            f"ENGINE={requested} was asked for and cannot be had: {found}; repair that, or use ENGINE=auto or ENGINE=native."
        )
    return found


@dataclass(frozen=True)
class _Site:
    """The engines of this machine, each asked whether it is ready to run this source's image."""

    root: Path
    run: Runner
    announce: Callable[[str], None]
    may_build: bool
    free: Callable[[str], int | None]
    place: Place | None
    confined: cpuset.Cpuset | None
    cpus: int | None

    def ask(self, *argv: str) -> Answer:
        return self.run(argv, ANSWER_TIMEOUT_S, None)

    def choice(self, name: ContainerEngine, because: str) -> Choice | str:
        """The engine, ready to run the image; or in a clause why not."""
        facts = parse(name, self.ask(*QUESTION[name]))
        if isinstance(facts, str):
            return facts
        if facts.architecture not in ("", ARCHITECTURE):
            return (
                f"{name} runs linux/{facts.architecture} and the image's locked packages are for {ARCHITECTURE}: an emulator would be "
                "what is measured, so that only a native run with a torch of your own makes sense"
            )
        image = self.image(facts)
        if isinstance(image, str):
            return f"{name} answers but {image}"
        flags = self.flags(facts)
        engine = Engine(
            name=name,
            containerised=True,
            reason=f"{because}, and {IMAGE} {image.how}",
            version=facts.version,
            rootless=facts.rootless,
            runtime=facts.runtime or None,
            image=IMAGE,
            image_digest=image.digest,
            flags=flags.words,
            losses=list(flags.losses),
        )
        if self.place is None:
            return Choice(engine, starts_container=True, flags=flags.flags)
        tried = self.tried(engine, flags, self.place)
        return f"{name} answers but {tried}" if isinstance(tried, str) else tried

    def flags(self, facts: EngineFacts) -> Flags:
        """The options; CPU numbers of this machine mean nothing to an engine on another."""
        elsewhere = self.confined is not None and None not in (facts.cpus, self.cpus) and facts.cpus != self.cpus
        found = run_flags(facts, User(os.getuid(), os.getgid()), cpuset=None if elsewhere else self.confined)
        if not elsewhere:
            return found
        lost = (
            f"no cpuset: {facts.name}'s machine has {facts.cpus} CPUs and this one {self.cpus}, so that it is another (a virtual "
            "machine, or one that is reached over the network)"
        )
        return Flags(found.flags, (*found.losses, lost))

    # --- the image ----------------------------------------------------------------------------------------------------

    def image(self, facts: EngineFacts) -> _Image | str:
        """The image of this very source, built now if need be; or in a clause why there is none."""
        recipe = str(self.root / "docker" / "image")
        source = self.ask(recipe, "--digest").output.strip()
        if not source:
            return f"the image's recipe {trial.shown(Path(recipe))} cannot be run"
        digest, label = self.inspect(facts.name)
        if digest and label == source:
            return _Image(digest, "was built from this source")
        state = "is of another source" if digest else "is not there yet"
        if not self.may_build:
            return f"the image {IMAGE} {state}"
        room = self.free(facts.storage)
        needed = REBUILD_NEEDS_BYTES if digest else BUILD_NEEDS_BYTES
        if room is not None and room < needed:
            return (
                f"the image {IMAGE} {state}, and building it needs {needed / 1e9:.1f} GB where the engine keeps its images "
                f"({trial.shown(Path(facts.storage))}): {room / 1e9:.1f} GB are free"
            )
        log = self.root / f".image-{facts.name}.log"
        self.announce(f"{IMAGE} {state}: building it with {facts.name}, which takes minutes (progress: {log})")
        outcome = self.run((recipe, facts.name), BUILD_TIMEOUT_S, log).outcome
        digest, label = self.inspect(facts.name)
        if outcome != "ok" or label != source:
            late = f" within {BUILD_TIMEOUT_S / 60:.0f} minutes" if outcome == "timed out" else ""
            cause = build_failure.why(log) if outcome != "ok" else "what was built is not of this source"
            return (
                f"the image {IMAGE} could not be built{late}{f': {cause}' if cause else ''} (log: {trial.shown(log)})"
            )
        return _Image(digest, "was built for this run")

    def inspect(self, name: ContainerEngine) -> tuple[str, str]:
        """Digest of the local image and the source it was built from; empty strings for what there is not."""
        answer = self.ask(name, "image", "inspect", "--format", "{{json .}}", IMAGE)
        digest, _, labels = parse_image(answer.output if answer.outcome == "ok" else "")
        return digest, labels.get(_SOURCE_LABEL, "")

    # --- the trial ----------------------------------------------------------------------------------------------------

    def tried(self, engine: Engine, flags: Flags, place: Place) -> Choice | str:
        """The engine with the options that it takes, after a container was started with the run's mounts; or in a clause why none is."""
        try:
            place.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"the results folder {trial.shown(place.output)} cannot be made ({error.strerror})"
        cache = _prepared(handover.image_cache(place.cache, engine)) if place.cache else None

        def start(some: Sequence[Flag]) -> Answer:
            words = [word for flag in some for word in flag.words]
            folders = [(place.output, RESULTS), *handover.cache_folders(cache)]
            binds = [part for folder, target in folders for part in handover.bind(folder, target)]
            argv = [engine.name, "run", *words, *binds, "--entrypoint=sh", handover.image(engine), "-c", trial.SCRIPT]
            return self.run(argv, trial.TIMEOUT_S, None)

        works = trial.settle(flags.flags, start)
        if isinstance(works, str):
            return works
        if refusal := trial.results(works, place.output, os.getuid()):
            return refusal
        losses = [*flags.losses, *works.losses, *trial.confinement(works)]
        if cache and "cache runs" not in works.said:
            losses.append(
                "the compiler cache is not kept: nothing in it can be written and executed; each run compiles torch's header anew"
            )
            cache = None
        if not cache and "tmp runs" not in works.said:
            return "nothing can be executed from the container's /tmp, where compiled kernels are loaded from"
        words = [word for flag in works.flags for word in flag.words]
        ready = msgspec.structs.replace(engine, flags=words, losses=losses)
        return Choice(ready, starts_container=True, flags=works.flags, cache=cache)


def _prepared(folder: Path) -> Path | None:
    """The folder, made and marked as used now (unused ones are removed after a week); None when that is not possible."""
    try:
        (folder / handover.HEADERS).mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return None
    return folder
