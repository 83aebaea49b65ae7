"""How a run gets into the container: the command that starts it there, and how it is recognised inside.

The engine's own words reach the bundle through SPEEDPROOF_* variables, since a container can see neither its image nor its options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from suite.bundle.schema import Engine, LaunchRequest
from suite.launch.engine_facts import ContainerEngine

IMAGE = "speedproof:cpu"
RESULTS = "/results"
MODEL = "/model"
CACHE = "/cache"
LOGIN = "speedproof"
HEADERS, HEADERS_HERE = "inductor", f"/tmp/torchinductor_{LOGIN}"
"""Folder in the image's cache, and where torch looks for its precompiled header: below the temporary folder, by the user's name, whatever
TORCHINDUCTOR_CACHE_DIR says (torch/_inductor/codecache.py, `_HEADER_DIR`)."""

HOST_FACTS = "host-fingerprint.json"
CONTAINER_ENGINES: tuple[ContainerEngine, ...] = ("docker", "podman")

ENGINE = "SPEEDPROOF_ENGINE"
RECORD = "SPEEDPROOF_ENGINE_RECORD"
DIGEST_DIGITS = 12


@dataclass(frozen=True)
class Place:
    """What a run brings along: where its results go, the model's folder, what it asks of the launch, and the suite's cache on this side."""

    output: Path
    model_dir: Path | None = None
    launch: LaunchRequest = field(default_factory=LaunchRequest)
    cache: Path | None = None


def image_cache(root: Path, engine: Engine) -> Path:
    """The compiler cache of one image on this machine, below the suite's own.

    What torch's precompiled header and the probes of the processor cost is then paid once a machine and image, as it is natively. Arms
    still compile into a folder of their run's own, which is empty at its start.
    """
    digest = (engine.image_digest or "").removeprefix("sha256:")
    return root / f"{engine.name}-{digest[:DIGEST_DIGITS] or 'unknown'}"


def cache_folders(cache: Path | None) -> list[tuple[Path, str]]:
    """The cache's folders, and where the container has them."""
    return [] if cache is None else [(cache, CACHE), (cache / HEADERS, HEADERS_HERE)]


def container_command(
    engine: Engine,
    arguments: Sequence[str],
    output: Path,
    model_dir: Path | None = None,
    *,
    cache: Path | None = None,
    environment: Mapping[str, str] | None = None,
    terminal: bool = False,
) -> list[str]:
    """Return the command that runs `arguments` (an image command such as "bench" and its options) in the container.

    `output`, which must exist, is the container's /results, `model_dir` its /model and `cache` its /cache. `environment` is passed on;
    `terminal` asks for a terminal, so that progress is drawn as it is natively.
    """
    if not engine.containerised:
        raise ValueError(f"the engine {engine.name} starts no containers")
    # Read only: a run must not be able to change the weights that it reports hashes of.
    mounted = [("results", output, RESULTS, False), *([("model", model_dir, MODEL, True)] if model_dir else [])]
    mounted += [("cache", folder, target, False) for folder, target in cache_folders(cache)]
    # The bundle tells what was mounted, not where it lies on this side.
    told = [f"<{name}>:{target}{':ro' if fixed else ''}" for name, _, target, fixed in mounted]
    variables = {
        **(environment or {}),
        **({"MODEL_DIR": MODEL} if model_dir is not None else {}),
        **({"XDG_CACHE_HOME": CACHE, "LOGNAME": LOGIN} if cache is not None else {}),
        # What was collected on the host lies beside the runs, and so in the container's sight.
        **({"SPEEDPROOF_HOST_FINGERPRINT": f"{RESULTS}/{HOST_FACTS}"} if (output / HOST_FACTS).is_file() else {}),
        ENGINE: engine.name,
        "SPEEDPROOF_ENGINE_VERSION": engine.version or "",
        "SPEEDPROOF_IMAGE": engine.image or "",
        "SPEEDPROOF_IMAGE_DIGEST": engine.image_digest or "",
        RECORD: msgspec.json.encode(msgspec.structs.replace(engine, mounts=told)).decode(),
    }
    passed = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    screen = ["--tty"] if terminal else []
    binds = [part for _, folder, target, fixed in mounted for part in bind(folder, target, read_only=fixed)]
    return [engine.name, "run", *engine.flags, *screen, *binds, *passed, image(engine), *arguments]


def image(engine: Engine) -> str:
    """The image by its digest: a tag may move to another image between the choice and the run."""
    return engine.image_digest or engine.image or IMAGE


def bind(folder: Path, target: str, *, read_only: bool = False) -> list[str]:
    """The options that mount a folder of this machine."""
    source = str(folder.resolve())
    if ":" in source:  # --volume would take what follows the colon for the target
        return ["--mount", f"type=bind,source={source},target={target}{',readonly' if read_only else ''}"]
    return ["--volume", f"{source}:{target}{':ro' if read_only else ''}"]


def inside(environment: Mapping[str, str]) -> Engine | None:
    """The engine as the launcher outside described it, or None outside of a container of ours."""
    name = environment.get(ENGINE)
    if name not in CONTAINER_ENGINES:
        return None
    try:
        record = msgspec.json.decode(environment.get(RECORD, ""), type=Engine)
    except msgspec.DecodeError:
        record = None
    if record is not None and record.name == name:
        return record
    return Engine(
        name=name,
        containerised=True,
        reason=environment.get("SPEEDPROOF_ENGINE_REASON") or f"started by {name}",
        version=environment.get("SPEEDPROOF_ENGINE_VERSION") or None,
        image=environment.get("SPEEDPROOF_IMAGE") or None,
        image_digest=environment.get("SPEEDPROOF_IMAGE_DIGEST") or None,
    )
