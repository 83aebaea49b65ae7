"""The options with which an engine runs the image: each with its reason, and what is lost where the engine cannot give it.

`python -m suite.launch.flags_document` writes them as docs/container.md. Mounts and variables are `container_command`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from suite.fingerprint.files import format_cpulist
from suite.launch.cpuset import Cpuset
from suite.launch.engine_facts import EngineFacts

Target = Literal["cpu", "cuda"]

TEMPORARY_SIZE = "4g"


@dataclass(frozen=True)
class Flag:
    """One option, or several that only make sense together.

    `without` is what is lost without it, in a clause; where it is empty the run cannot do without. `refusal` is a pattern of an
    engine's words when it is this option that it refuses.
    """

    words: tuple[str, ...]
    reason: str
    without: str = ""
    refusal: str = ""

    @property
    def text(self) -> str:
        """As it stands on a command line."""
        return " ".join(self.words)


@dataclass(frozen=True)
class User:
    """The user who starts the run: numeric ids on the host."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Flags:
    """What an engine is started with, and in sentences what it cannot give here."""

    flags: tuple[Flag, ...]
    losses: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The options as they stand on a command line."""
        return [word for flag in self.flags for word in flag.words]


def run_flags(engine: EngineFacts, user: User, target: Target = "cpu", cpuset: Cpuset | None = None) -> Flags:
    """The options for this engine, user and target. `cpuset` is what `suite.launch.cpuset` chose, if anything."""
    confined, losses = _cpuset(engine, cpuset)
    flags = [*_always(), *_identity(engine, user), *confined, *(_gpu(engine) if target == "cuda" else ())]
    return Flags(tuple(flags), (*_rootless(engine), *losses))


def _always() -> Iterator[Flag]:
    yield Flag(("--rm",), "results lie in the mounted folder; a stopped container holds nothing that is needed")
    yield Flag(("--pull=never",), "the image was built from this source; one of the same name elsewhere is not it")
    yield Flag(
        ("--network=none",), "nothing can be downloaded during a run, and no traffic of others reaches its processes"
    )
    yield Flag(
        ("--cap-add=SYS_NICE",),
        "the engines' seccomp profiles allow set_mempolicy and mbind, numactl's calls, only with this capability",
        without="numactl may be denied, and memory then comes from any NUMA node",
        refusal=r"capabilit|SYS_NICE",
    )
    yield Flag(
        ("--security-opt=no-new-privileges",),
        "nothing in the image needs more rights than it starts with",
        without="programs with a setuid bit keep their effect in the container",
        refusal=r"no.?new.?priv",
    )
    yield Flag(
        ("--security-opt=label=disable",),
        "SELinux would refuse the mounted folders; relabelling them would change the user's files; elsewhere it does nothing",
        without="on a host with SELinux the mounted folders may be refused",
        refusal=r"label|selinux",
    )
    yield Flag(
        ("--ipc=private", "--shm-size=1g"),
        "shared memory of its own: OpenMP registers itself there and tensors may pass through it, for which the usual 64 MiB are "
        "too few; the host's (--ipc=host) would show other programs' and keep what a killed run leaves",
        without="shared memory has the engine's usual size",
        refusal=r"shm|\bipc\b",
    )
    yield Flag(
        ("--read-only", f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={TEMPORARY_SIZE}"),
        "a run cannot change the image that its report names; temporary files are in memory, and executable because the "
        f"compiler's products are loaded from there; {TEMPORARY_SIZE} is a limit and takes nothing before it is used",
        without="the container can write over the image's files, and temporary files go through the engine's storage driver",
        refusal=r"read-?only|tmpfs|noexec",
    )
    yield Flag(
        ("--pids-limit=-1",),
        "podman's limit is 2048 threads and docker has none; a machine of many cores needs more, and both shall behave alike",
        without="threads are limited to the engine's own number",
        refusal=r"pids",
    )
    yield Flag(
        ("--log-driver=none",),
        "the engine would write the progress to disk a second time, while it is being measured",
        without="the engine keeps a log of the progress beside the run",
        refusal=r"log.?driver|logging",
    )


def _identity(engine: EngineFacts, user: User) -> Iterator[Flag]:
    """Who runs inside, so that what is written to the mounted results belongs to whoever started the run."""
    if engine.rootless:
        # podman's --userns=keep-id would do too, at the price of a copy of the whole image with other owners.
        yield Flag(
            ("--user=0:0",), "a rootless engine maps root inside to the user who runs it: the bundle belongs to them"
        )
        return
    yield Flag(
        (f"--user={user.uid}:{user.gid}",), "the bundle belongs to whoever started the run, not to root or the image"
    )


def _cpuset(engine: EngineFacts, cpuset: Cpuset | None) -> tuple[list[Flag], list[str]]:
    if cpuset is None:
        return [], []
    cpus, nodes = format_cpulist(cpuset.cpus), format_cpulist(cpuset.nodes)
    words = (f"--cpuset-cpus={cpus}", *([f"--cpuset-mems={nodes}"] if nodes else []))
    kept = "only numactl inside keeps the workers on their cores"
    if engine.cpuset is False:
        how = "the engine says that it cannot"
        if engine.rootless and engine.cgroup_version == "1":
            how = "control groups of version 1 are root's alone"
        elif engine.rootless:
            how = "the cpuset controller is not delegated to this user; with systemd, as root: Delegate=cpuset for user@.service"
        return [], [f"{' '.join(words)} is left out ({how}): {kept}"]
    return [Flag(words, cpuset.reason, without=kept, refusal=r"cpuset")], []


def _gpu(engine: EngineFacts) -> Iterator[Flag]:
    """Sources: NVIDIA Container Toolkit, "Specialized Configurations" and "Container Device Interface"."""
    if engine.name == "docker":
        yield Flag(("--gpus=all",), "docker's request for all GPUs, which NVIDIA's container toolkit carries out")
    else:
        yield Flag(
            ("--device=nvidia.com/gpu=all",), "podman's request for all GPUs, by the names of a CDI specification"
        )
    yield Flag(
        ("--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
        "of the host's driver, libcuda is mounted (compute) and NVML (utility), with which state is read; no graphics",
    )
    yield Flag(
        ("--ulimit=memlock=-1:-1",),
        "memory that copies to a GPU is locked in place",
        without="locked memory has the engine's usual limit, so that pinned buffers may be refused",
        refusal=r"rlimit|ulimit|memlock",
    )
    yield Flag(
        ("--ulimit=stack=67108864:67108864",),
        "NVIDIA's own images ask for a stack of 64 MiB",
        without="the stack has the engine's usual limit",
        refusal=r"rlimit|ulimit|stack",
    )


def _rootless(engine: EngineFacts) -> Iterator[str]:
    """What a rootless engine cannot give, known before anything is started."""
    if not engine.rootless:
        return
    yield (
        "rootless: SYS_NICE counts in the user's own namespace, so that numactl may bind memory, but no priority can be raised "
        "and no limit beyond the user's own"
    )
    if engine.cgroup_version == "1":
        yield "rootless with control groups of version 1: no limit of CPUs, memory or threads is in force"


LEFT_OUT = {
    "--cpus": "a CPU quota stops threads in the middle of a block; a cpuset gives whole CPUs",
    "--memory": "a limit that is reached kills workers; the suite keeps a ceiling of its own below what the machine has",
    "--privileged, --security-opt=seccomp=unconfined": "numactl needs SYS_NICE alone",
    "--ipc=host, --pid=host": "the run's own processes are all that it needs to see",
}
"""Options that are left out on purpose, and why."""
