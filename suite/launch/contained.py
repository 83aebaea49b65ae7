"""A worker in a container of its own, started beside workers on the host: what the container costs is the difference between them.

The container sees the bundle at the host's own path; its compiler caches are its own, so that no binary crosses. Inside, this module
plans the launch anew, since libraries lie elsewhere there, and becomes the worker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from suite.bundle.schema import Engine, LaunchRequest
from suite.launch import command, libraries, topology
from suite.launch.command import Launch

REQUEST = "SPEEDPROOF_LAUNCH"
WORKER = ("-m", "suite.worker")


def launch_in(
    engine: Engine,
    on_host: Launch,
    request: LaunchRequest,
    folders: Mapping[Path, Path],
    passed: Iterable[str] = (),
) -> Launch:
    """The launch of a worker in a container of `engine`, requested as on the host.

    `folders` maps each folder that the container is to see, by its path inside, to the one that it is on the host; `passed` names the
    variables that the container is given with the values that the worker's environment has.
    """
    mounts = [part for inside, outside in folders.items() for part in ("--volume", f"{outside}:{inside}")]
    variables = [part for name in passed for part in ("--env", name)]
    asked = ["--env", f"{REQUEST}={msgspec.json.encode(request).decode()}"]
    image = engine.image_digest or engine.image or ""
    start = [engine.name, "run", "--interactive", *engine.flags, *mounts, *variables, *asked, image]
    return replace(on_host, prefix=[*start, "python", "-m", "suite.launch.contained"], environment={}, contained=True)


def main() -> None:
    """Plan the launch inside the container and become the worker; whatever arguments came along are the host's and mean nothing here."""
    request = msgspec.json.decode(os.environ.get(REQUEST, "{}"), type=LaunchRequest)
    launch = command.plan(topology.read(), libraries.find(os.environ), os.environ, request)
    argv = launch.command([sys.executable, *WORKER])
    os.execvpe(argv[0], argv, launch.environ(os.environ))


if __name__ == "__main__":
    main()
