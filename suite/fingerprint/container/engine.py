"""In a container or not, how that is known, and what the container allows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.container import cgroup, privileges
from suite.fingerprint.container.mounts import Mount, covers, parse_mounts
from suite.fingerprint.facts import Facts, absent, call, missing, ok
from suite.fingerprint.files import format_cpulist, read_text, under
from suite.fingerprint.system.load import parse_pressure

ENGINES = re.compile(r"\b(docker|kubepods|libpod|lxc|containerd|crio|garden)\b")
# What the launcher hands in (suite/launch/engine.py): a container cannot see its own image.
HANDED_IN = {
    "engine": "SPEEDPROOF_ENGINE",
    "engine_version": "SPEEDPROOF_ENGINE_VERSION",
    "image": "SPEEDPROOF_IMAGE",
    "image_digest": "SPEEDPROOF_IMAGE_DIGEST",
}


def read(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> Facts:
    """Facts of the container and the control groups. Sizes in bytes, the quota in CPUs, times in ns. Never raises.

    `environ` is this process's environment; in a recorded tree, what /proc/self/environ holds.
    """
    known = environ if environ is not None else _environ(root)
    facts: Facts = {
        "container": detect(root),
        **{name: _handed_in(known, variable) for name, variable in HANDED_IN.items()},
        "root_file_system": _root_file_system(root),
        "hidden_folders": _hidden(root),
        "cgroup_version": call("/proc/mounts", lambda: cgroup.version(root), "no control group is mounted"),
        "cpu_quota_cpus": _limit(cgroup.cpu_quota(root), "no CPU quota"),
        "cpu_weight": _limit(cgroup.weight(root), "the control group has none"),
        "cpu_throttling": _throttling(root),
        "cpuset_cpus": _cpuset(root, "cpus"),
        "cpuset_mems": _cpuset(root, "mems"),
        "memory_limit_bytes": _limit(cgroup.memory_limit(root), "no memory limit"),
        "memory_high_bytes": _limit(
            cgroup.smallest(root, "memory", ("", "memory.high")), "no limit that slows allocation down"
        ),
        "swap_limit_bytes": _limit(_swap_limit(root), "no swap limit"),
        "processes_limit": _limit(cgroup.smallest(root, "pids", ("pids.max", "pids.max")), "no limit of processes"),
        **{f"pressure_{name}": _pressure(root, name) for name in ("cpu", "memory")},
        **privileges.read(root),
    }
    shared = "/dev/shm"
    if root == Path("/"):
        facts["shared_memory_bytes"] = call(f"statvfs {shared}", lambda: _size_of(shared))
    return facts


def detect(root: Path = Path("/")) -> Fact:
    """The container's engine, or "none"; the source is what told. Never raises."""
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        try:
            if under(root, path).exists():
                return ok(name, path)
        except OSError:
            continue
    named = read_text(root, "/run/systemd/container").text
    if named:
        return ok(named, "/run/systemd/container")
    match = ENGINES.search(read_text(root, "/proc/self/cgroup").text or "")
    if match:
        return ok(match[1], "/proc/self/cgroup")
    # gVisor answers for the kernel, always with this build's date.
    if "Sun Jan 10 15:06:54 PST 2016" in (read_text(root, "/proc/version").text or ""):
        return ok("gVisor", "/proc/version")
    if any(mount.point == "/" and mount.kind == "overlay" for mount in _mounts(root)):
        return ok("an engine that does not give its name", "/proc/mounts: the root is an overlay")
    return ok("none", "/.dockerenv, /run/.containerenv, /run/systemd/container, /proc/self/cgroup, /proc/mounts")


def _environ(root: Path) -> Mapping[str, str]:
    if root == Path("/"):
        return os.environ
    pairs = (part.partition("=") for part in (read_text(root, "/proc/self/environ").text or "").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def _handed_in(environ: Mapping[str, str], variable: str) -> Fact:
    source = f"environment {variable}"
    value = environ.get(variable)
    return ok(value, source) if value else absent(source, "not handed in: not started by Speedproof in a container")


def _mounts(root: Path) -> list[Mount]:
    return parse_mounts(read_text(root, "/proc/mounts").text or "")


def _root_file_system(root: Path) -> Fact:
    # The last mount over a point is the one that is seen.
    kinds = [mount.kind for mount in _mounts(root) if mount.point == "/"]
    return ok(kinds[-1], "/proc/mounts") if kinds else absent("/proc/mounts", "no mount of the root is listed")


def _hidden(root: Path) -> Fact:
    """What the container's engine covers in /proc and /sys: what stands there is masked below."""
    text = read_text(root, "/proc/mounts")
    if not text.text:
        return missing(root, "/proc/mounts", text.reason or "the file is empty")
    known = covers(root)
    folders = [*known.folders, *sorted(known.replaced), *([] if known.sysfs else ["/sys"])]
    return ok(folders, "/proc/mounts")


def _swap_limit(root: Path) -> cgroup.Limit:
    """Version 1 limits memory and swap together, so its limit of swap is what is left beside memory's."""
    both = cgroup.smallest(root, "memory", ("memory.memsw.limit_in_bytes", ""))
    memory = cgroup.memory_limit(root)
    if both.value is not None and memory.value is not None:
        return cgroup.Limit(max(0.0, both.value - memory.value), both.source)
    return cgroup.smallest(root, "memory", ("", "memory.swap.max"))


def _limit(limit: cgroup.Limit, none: str) -> Fact:
    """The folder is a container's id, so only the file's name is the source."""
    source = f"cgroup {limit.source.rsplit('/', 1)[-1]}"
    if limit.value is None:
        return absent(source, none)
    return ok(int(limit.value) if float(limit.value).is_integer() else limit.value, source)


def _cpuset(root: Path, kind: str) -> Fact:
    numbers, source = cgroup.cpuset(root, kind)
    name = f"cgroup {source.rsplit('/', 1)[-1]}"
    return ok(format_cpulist(numbers), name) if numbers else absent(name, "no cpuset is readable")


def _throttling(root: Path) -> Fact:
    found = cgroup.throttling(root)
    source = "cgroup cpu.stat"
    if found is None:
        return absent(source, "the control group counts no enforcement periods")
    counts = {
        "periods": found.periods,
        "throttled_periods": found.throttled_periods,
        "throttled_ns": found.throttled_ns,
    }
    return ok(counts, source, "since the control group was made; time adds over its CPUs")


def _pressure(root: Path, resource: str) -> Fact:
    source = f"cgroup {resource}.pressure"
    folders = [folder for number, folder in cgroup.folders(root, "cpu") if number == "2"]
    text = next(filter(None, (read_text(root, f"{folder}/{resource}.pressure").text for folder in folders)), "")
    if not text:
        return absent(source, "only control groups of version 2 with PSI have it")
    return call(source, lambda: parse_pressure(text))


def _size_of(path: str) -> int:
    status = os.statvfs(path)
    return status.f_frsize * status.f_blocks
