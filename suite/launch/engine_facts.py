"""What docker and podman say of themselves: parsed from `info`, and in words where they do not answer.

Sources: docker's API, GET /info (System information); podman-info(1).
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from suite.fingerprint.files import without_home

ContainerEngine = Literal["docker", "podman"]

ANSWER_TIMEOUT_S = 10.0
QUESTION: dict[ContainerEngine, tuple[str, ...]] = {
    "docker": ("docker", "info", "--format", "{{json .}}"),
    "podman": ("podman", "info", "--format", "json"),
}
"""How each engine is asked; the question also proves that its daemon or storage answers."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LONGEST_MESSAGE = 160


@dataclass(frozen=True)
class Answer:
    """What came of a command: its standard output and standard error, or how it failed."""

    outcome: Literal["ok", "failed", "missing", "timed out"]
    output: str = ""
    error: str = ""


@dataclass(frozen=True)
class EngineFacts:
    """An engine that answers. None and "" are what it does not tell.

    `cpuset` is whether it can confine a container to CPUs, `cpus` how many its machine has, `storage` the folder of its images.
    `architecture` is in Go's words (amd64, arm64).
    """

    name: ContainerEngine
    version: str
    rootless: bool = False
    runtime: str = ""
    architecture: str = ""
    cgroup_version: str = ""
    cpuset: bool | None = None
    cpus: int | None = None
    storage: str = ""


def parse(name: ContainerEngine, answer: Answer) -> EngineFacts | str:
    """The engine's facts from its answer to `QUESTION`; or in a clause why it cannot be used. Never raises."""
    if answer.outcome == "missing":
        return f"{name} is not installed"
    told = _object(answer.output)
    if name == "docker" and "host" in told:
        return "docker is a stand-in for podman here"
    facts = (_docker if name == "docker" else _podman)(told)
    if answer.outcome == "ok" and facts.version:
        return facts
    return f"{name} is installed but {_why(name, answer, told)}"


def _docker(told: dict[str, Any]) -> EngineFacts:
    options = told.get("SecurityOptions") or []
    cpuset, cpus = told.get("CPUSet"), told.get("NCPU")
    return EngineFacts(
        name="docker",
        version=str(told.get("ServerVersion") or ""),
        rootless=any("name=rootless" in str(option) for option in options),
        runtime=str(told.get("DefaultRuntime") or ""),
        architecture=_architecture(told.get("Architecture")),
        cgroup_version=str(told.get("CgroupVersion") or ""),
        cpuset=cpuset if isinstance(cpuset, bool) else None,
        cpus=cpus if isinstance(cpus, int) and cpus > 0 else None,
        storage=str(told.get("DockerRootDir") or ""),
    )


def _podman(told: dict[str, Any]) -> EngineFacts:
    host, store, version = _part(told, "host"), _part(told, "store"), _part(told, "version")
    runtime = _part(host, "ociRuntime")
    controllers, cpus = host.get("cgroupControllers"), host.get("cpus")
    number = re.search(r"\b\d+\.\d+(\.\d+)?", str(runtime.get("version") or ""))
    return EngineFacts(
        name="podman",
        version=str(version.get("Version") or ""),
        rootless=_part(host, "security").get("rootless") is True,
        runtime=" ".join(part for part in (str(runtime.get("name") or ""), number[0] if number else "") if part),
        architecture=_architecture(host.get("arch")),
        cgroup_version=str(host.get("cgroupVersion") or "").removeprefix("v"),
        cpuset="cpuset" in controllers if isinstance(controllers, list) else None,
        cpus=cpus if isinstance(cpus, int) and cpus > 0 else None,
        storage=str(store.get("graphRoot") or ""),
    )


def _why(name: ContainerEngine, answer: Answer, told: dict[str, Any]) -> str:
    """Why an installed engine cannot be used, in a clause after "is installed but"."""
    if answer.outcome == "timed out":
        return f"{'its daemon does' if name == 'docker' else 'it does'} not answer within {ANSWER_TIMEOUT_S:.0f} s"
    said = " ".join([answer.error, *map(str, told.get("ServerErrors") or [])])
    if re.search(r"permission denied", said, re.IGNORECASE):
        if name == "docker":
            return (
                "this user may not use it (permission denied on its daemon's socket; members of the group docker may, "
                "and rootless docker and podman need no such right)"
            )
        return f"this user may not use it ({message(answer.error)})"
    if re.search(r"cannot connect to the docker daemon|is the docker daemon running|connection refused", said, re.I):
        return "its daemon does not run"
    if re.search(r"subuid|subgid|newuidmap|newgidmap|user namespaces?", said, re.IGNORECASE):
        return (
            "this user cannot have containers of their own (no range of user ids in /etc/subuid and /etc/subgid, no newuidmap, "
            "or no user namespaces)"
        )
    told_why = message(answer.error)
    who = "its daemon does" if name == "docker" else "it does"
    return f"{who} not answer{f' ({told_why})' if told_why else ''}"


def message(error: str) -> str:
    """The line of a program's standard error that says what is wrong, short and without paths of home or long ids."""
    # podman's libraries write their log beside its own words: time="..." level=error msg="...".
    lines = [re.sub(r'^time=.*? msg="(.*)"$', r"\1", line.strip()) for line in error.splitlines() if line.strip()]
    signs = (r"^(docker: )?Error\b", r"\berror\b|denied|cannot|failed")
    chosen = (line for sign in signs for line in lines if re.search(sign, line, re.IGNORECASE))
    line = next(chosen, lines[-1] if lines else "")
    line = re.sub(r"^(docker: |Error: |Error response from daemon: |error: )+", "", line)
    line = re.sub(r"\b[0-9a-f]{32,}\b", "<id>", without_home(line)).rstrip(".")
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE].rstrip()} ..."


def free_bytes(folder: str) -> int | None:
    """Free space for this user's or a daemon's files at `folder`; None where this machine does not have it."""
    try:
        return shutil.disk_usage(folder).free if folder and Path(folder).exists() else None
    except OSError:
        return None


def _architecture(text: object) -> str:
    return ARCHITECTURES.get(str(text or ""), str(text or ""))


def _object(text: str) -> dict[str, Any]:
    """The JSON object in a text, or the one in a list of one, as some podmans print it; empty for anything else."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    if isinstance(told, list) and len(told) == 1:
        told = told[0]
    return told if isinstance(told, dict) else {}


def _part(told: dict[str, Any], name: str) -> dict[str, Any]:
    part = told.get(name)
    return part if isinstance(part, dict) else {}


def parse_image(output: str) -> tuple[str, str, dict[str, str]]:
    """Digest, architecture and labels of `image inspect --format '{{json .}}'`; empty where there is no image. Never raises."""
    told = _object(output)
    digest = str(told.get("Id") or "")
    # docker writes "sha256:" before the digest, podman does not.
    whole = digest if not digest or digest.startswith("sha256:") else f"sha256:{digest}"
    labels = _part(_part(told, "Config"), "Labels")
    return whole, _architecture(told.get("Architecture")), {str(key): str(value) for key, value in labels.items()}
