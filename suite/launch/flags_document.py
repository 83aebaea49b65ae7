"""docs/container.md: with which options the image is run, and why. `python -m suite.launch.flags_document > docs/container.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from suite.launch.cpuset import Cpuset
from suite.launch.engine_facts import EngineFacts
from suite.launch.run_flags import LEFT_OUT, Flag, User, run_flags

CORES = Cpuset(
    (0, 1, 2, 3, 7), (0,), "the cores that were asked for; one core more for the leading process and telemetry"
)
USER = User(1000, 1000)


def document() -> Iterator[str]:
    """The page, line by line."""
    docker, podman = EngineFacts("docker", "27"), EngineFacts("podman", "5")
    common = run_flags(docker, USER, cpuset=CORES).flags
    yield "<!-- Written by `python -m suite.launch.flags_document`; a test compares. -->"
    yield "# How the image is run"
    yield ""
    yield "`make bench-cpu` starts one container for a run, with docker or podman; `make doctor` shows the options for this machine."
    yield "Before a run is trusted to it, a container is started that only tries: options that the engine refuses are left out, one by one,"
    yield "and what is lost is said by the run, kept in the bundle (`run.json`, `engine.losses`) and shown in the report."
    yield ""
    yield from _table(common)
    yield ""
    yield "`--cpuset-cpus` and `--cpuset-mems` are given with `CORES` or `NODES` (the numbers are an example), and when whoever starts the"
    yield "run is confined to some CPUs, which an engine's daemon would not know of. Otherwise neither is: the launcher inside pins the"
    yield "workers itself (numactl), and its own process and telemetry need a core beside the measured ones."
    yield ""
    yield "## Folders"
    yield ""
    yield "| In the container | On this machine | |"
    yield "| --- | --- | --- |"
    yield "| `/results` | `OUTPUT` | bundles, owned by whoever started the run |"
    yield "| `/model` | `MODEL_DIR`, read-only | a run cannot change the weights that it reports hashes of |"
    yield (
        "| `/cache`, `/tmp/torchinductor_speedproof` | a folder of this image in the user's cache directory | torch's precompiled header "
        "and what was found out about the processor, as natively; arms compile into a folder of their run's own, empty at its start, so "
        "that *cold* stays cold |"
    )
    yield ""
    yield "## Rootless engines"
    yield ""
    poor = EngineFacts("podman", "", rootless=True, cpuset=False)
    old = EngineFacts("podman", "", rootless=True, cgroup_version="1")
    user = next(flag for flag in run_flags(poor, USER).flags if flag.text.startswith("--user"))
    yield f"`{user.text}` instead of the user's own number: {user.reason}. What is lost:"
    yield ""
    for loss in dict.fromkeys((*run_flags(poor, USER, cpuset=CORES).losses, *run_flags(old, USER).losses)):
        yield f"- {loss}"
    yield ""
    yield "## For GPUs, besides"
    yield ""
    for engine in (docker, podman):
        known = run_flags(engine, USER).flags
        yield f"### {engine.name}"
        yield ""
        yield from _table([flag for flag in run_flags(engine, USER, "cuda").flags if flag not in known])
        yield ""
    yield "## Left out on purpose"
    yield ""
    yield "| Option | Why not |"
    yield "| --- | --- |"
    for words, reason in LEFT_OUT.items():
        yield f"| `{words}` | {reason} |"


def _table(flags: Sequence[Flag]) -> Iterator[str]:
    yield "| Option | Why | Where an engine refuses it |"
    yield "| --- | --- | --- |"
    for flag in flags:
        yield f"| `{flag.text}` | {flag.reason} | {flag.without or 'the run does not start'} |"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in document()))
