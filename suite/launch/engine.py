"""Where a run takes place: natively, or in a container of docker or podman; why, and with which command.

`choose` decides, and builds the image when there is none of this very source. `container_command` writes the command
that starts the run again inside the container, where `choose` recognises it by the SPEEDPROOF_* variables.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from suite.bundle.schema import Engine
from suite.errors import UserError

IMAGE = "speedproof:cpu"
ROOT = Path(__file__).resolve().parents[2]
RESULTS = "/results"
MODEL = "/model"
HOST_FACTS = "host-fingerprint.json"
CONTAINER_ENGINES: tuple[ContainerEngine, ...] = ("docker", "podman")

ANSWER_TIMEOUT_S = 10.0
BUILD_TIMEOUT_S = 30 * 60.0

ContainerEngine = Literal["docker", "podman"]

# How each engine is asked for its own version; the question also proves that its daemon or storage answers.
_VERSION_FORMAT = {"docker": "{{.ServerVersion}}", "podman": "{{.Version.Version}}"}
_SOURCE_LABEL = "speedproof.source"


@dataclass(frozen=True)
class Answer:
    """What came of a command: its standard output, or how it failed."""

    outcome: Literal["ok", "failed", "missing", "timed out"]
    output: str = ""


Runner = Callable[[Sequence[str], float, Path | None], Answer]
"""Runs (argv, time-out in seconds, file for all output or None) and answers; tests pass a fake."""


@dataclass(frozen=True)
class Choice:
    """The engine of a run. `starts_container` tells whether `container_command` has to carry the run into it."""

    engine: Engine
    starts_container: bool


@dataclass(frozen=True)
class _Image:
    """An image that is ready to run, and how it came about."""

    digest: str
    how: str


def run_command(argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
    """Run a command without a terminal; with a log, both of its outputs go there and the answer's output is empty."""
    try:
        if log is None:
            ended = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
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
    return Answer("ok" if ended.returncode == 0 else "failed", ended.stdout or "")


def native(reason: str) -> Engine:
    """Return the engine that is none, and why it is none: in a clause that may follow "not containerised: "."""
    return Engine(name="native", containerised=False, reason=reason)


def choose(
    requested: str,
    root: Path = ROOT,
    *,
    may_build: bool = True,
    environment: Mapping[str, str] = os.environ,
    run: Runner = run_command,
    announce: Callable[[str], None] = lambda message: None,
) -> Choice:
    """Decide where the run takes place.

    `requested` is auto, native, docker or podman; `root` is the repository, which holds the image's recipe. Without
    `may_build` an engine that would have to build its image first counts as not working. `announce` is told, in one
    sentence, when an image is going to be built.

    Raises:
        UserError: for an unknown name, and for an engine that was asked for and does not work.
    """
    inside = _inside_container(environment)
    if inside is not None:
        return Choice(inside, starts_container=False)
    if requested == "native":
        return Choice(native("native was asked for"), starts_container=False)
    site = _Site(root, run, announce, may_build)
    if requested == "auto":
        reasons = []
        for name in CONTAINER_ENGINES:
            found = site.engine(name, because=f"{name} answers")
            if isinstance(found, Engine):
                return Choice(found, starts_container=True)
            reasons.append(found)
        return Choice(native("; ".join(reasons)), starts_container=False)
    if requested not in CONTAINER_ENGINES:
        raise UserError(f"unknown engine {requested!r}: use auto, native, docker or podman.")
    found = site.engine(requested, because=f"{requested} was asked for")
    if isinstance(found, str):
        raise UserError(
            f"ENGINE={requested} was asked for, but {found}; repair that, or use ENGINE=auto or ENGINE=native."
        )
    return Choice(found, starts_container=True)


def container_command(
    engine: Engine,
    arguments: Sequence[str],
    output: Path,
    model_dir: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    terminal: bool = False,
) -> list[str]:
    """Return the command that runs `arguments` (an image command such as "bench" and its options) in the container.

    `output`, which must exist, is the container's /results and `model_dir` its /model. `environment` is passed on;
    `terminal` asks for a terminal, so that progress is drawn as it is natively.
    """
    if not engine.containerised:
        raise ValueError(f"the engine {engine.name} starts no containers")
    mounts = ["--volume", f"{output.resolve()}:{RESULTS}"]
    if model_dir is not None:
        # Read only: a run must not be able to change the weights that it reports hashes of.
        mounts += ["--volume", f"{model_dir.resolve()}:{MODEL}:ro"]
    variables = {
        **(environment or {}),
        **({"MODEL_DIR": MODEL} if model_dir is not None else {}),
        # What was collected on the host lies beside the runs, and so in the container's sight.
        **({"SPEEDPROOF_HOST_FINGERPRINT": f"{RESULTS}/{HOST_FACTS}"} if (output / HOST_FACTS).is_file() else {}),
        "SPEEDPROOF_ENGINE": engine.name,
        "SPEEDPROOF_ENGINE_VERSION": engine.version or "",
        "SPEEDPROOF_IMAGE": engine.image or "",
        "SPEEDPROOF_IMAGE_DIGEST": engine.image_digest or "",
        "SPEEDPROOF_ENGINE_REASON": engine.reason,
        "SPEEDPROOF_RUN_FLAGS": shlex.join(engine.flags),
    }
    passed = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    screen = ["--tty"] if terminal else []
    # The image is named by its digest: a tag may move to another image between the choice and the run.
    image = engine.image_digest or engine.image or IMAGE
    return [engine.name, "run", *engine.flags, *screen, *mounts, *passed, image, *arguments]


def run_flags(name: ContainerEngine, user: int, group: int) -> list[str]:
    """Return the engine's flags that can change what is measured; mounts and variables are left to the command."""
    flags = [
        # Results are on the mounted folder; a stopped container holds nothing that is needed.
        "--rm",
        # The image was built from this source; one of the same name elsewhere is not it.
        "--pull=never",
        # Default seccomp profiles allow set_mempolicy and mbind (numactl's calls) only together with this capability.
        "--cap-add=SYS_NICE",
        # Nothing may be downloaded during a measurement, and nothing of the network's work may disturb it.
        "--network=none",
        # The default of 64 MiB is too small for tensors in shared memory.
        "--shm-size=1g",
        # Else SELinux hosts refuse the mounted folders; elsewhere it changes nothing.
        "--security-opt=label=disable",
        # Bundles belong to whoever started the run, not to root or to the image's own user.
        f"--user={user}:{group}",
    ]
    if name == "podman" and user != 0:
        # Rootless podman maps users: without this, the user above would be another one on the host.
        flags.append("--userns=keep-id")
    return flags


@dataclass(frozen=True)
class _Site:
    """The engines of this machine, each asked whether it is ready to run this source's image."""

    root: Path
    run: Runner
    announce: Callable[[str], None]
    may_build: bool

    def ask(self, *argv: str) -> Answer:
        return self.run(argv, ANSWER_TIMEOUT_S, None)

    def engine(self, name: ContainerEngine, because: str) -> Engine | str:
        """The engine, ready to run the image; or in a clause why not."""
        answer = self.ask(name, "info", "--format", _VERSION_FORMAT[name])
        version = answer.output.strip()
        if answer.outcome == "missing":
            return f"{name} is not installed"
        if answer.outcome != "ok" or not version:
            part = "its daemon does" if name == "docker" else "it does"
            late = f" within {ANSWER_TIMEOUT_S:.0f} s" if answer.outcome == "timed out" else ""
            return f"{name} is installed but {part} not answer{late}"
        image = self.image(name)
        if isinstance(image, str):
            return f"{name} answers but {image}"
        return Engine(
            name=name,
            containerised=True,
            reason=f"{because}, and {IMAGE} {image.how}",
            version=version,
            image=IMAGE,
            image_digest=image.digest,
            flags=run_flags(name, os.getuid(), os.getgid()),
        )

    def image(self, name: ContainerEngine) -> _Image | str:
        """The image of this very source, built now if need be; or in a clause why there is none."""
        recipe = str(self.root / "docker" / "image")
        source = self.ask(recipe, "--digest").output.strip()
        if not source:
            return f"the image's recipe {recipe} cannot be run"
        found, label = self.inspect(name)
        if found and label == source:
            return _Image(found, "was built from this source")
        state = "is of another source" if found else "is not there yet"
        if not self.may_build:
            return f"the image {IMAGE} {state}"
        log = self.root / f".image-{name}.log"
        self.announce(f"{IMAGE} {state}: building it with {name}, which takes minutes (progress: {log})")
        outcome = self.run((recipe, name), BUILD_TIMEOUT_S, log).outcome
        found, label = self.inspect(name)
        if outcome != "ok" or label != source:
            late = f" within {BUILD_TIMEOUT_S / 60:.0f} minutes" if outcome == "timed out" else ""
            return f"the image {IMAGE} could not be built{late} (log: {log})"
        return _Image(found, "was built for this run")

    def inspect(self, name: ContainerEngine) -> tuple[str, str]:
        """Digest of the local image and the source it was built from; empty strings for what there is not."""
        wanted = f'{{{{.Id}}}} {{{{index .Config.Labels "{_SOURCE_LABEL}"}}}}'
        answer = self.ask(name, "image", "inspect", "--format", wanted, IMAGE)
        digest, _, label = (answer.output if answer.outcome == "ok" else "").strip().partition(" ")
        # docker writes "sha256:" before the digest, podman does not.
        return (digest if not digest or digest.startswith("sha256:") else f"sha256:{digest}"), label


def _inside_container(environment: Mapping[str, str]) -> Engine | None:
    """The engine as the outer launcher described it, or None outside a container of ours."""
    name = environment.get("SPEEDPROOF_ENGINE")
    if name not in CONTAINER_ENGINES:
        return None
    return Engine(
        name=name,
        containerised=True,
        reason=environment.get("SPEEDPROOF_ENGINE_REASON") or f"started by {name}",
        version=environment.get("SPEEDPROOF_ENGINE_VERSION") or None,
        image=environment.get("SPEEDPROOF_IMAGE") or None,
        image_digest=environment.get("SPEEDPROOF_IMAGE_DIGEST") or None,
        flags=shlex.split(environment.get("SPEEDPROOF_RUN_FLAGS", "")),
    )
