"""In a container or not, how that is known, and what the container allows."""

from __future__ import annotations

import os
import re
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint import cgroup
from suite.fingerprint.facts import Facts, absent, call, ok
from suite.fingerprint.files import format_cpulist, parse_fields, read_text, under

ENGINES = re.compile(r"\b(docker|kubepods|libpod|lxc|containerd|crio|garden)\b")
CAP_SYS_NICE = 23  # include/uapi/linux/capability.h: numactl's memory policies need it under docker's seccomp profile
SECCOMP = {"0": "off", "1": "strict", "2": "filter"}


def read(root: Path = Path("/")) -> Facts:
    """Facts of the container and the control groups. Sizes in bytes, the quota in CPUs. Never raises."""
    status = parse_fields(read_text(root, "/proc/self/status").text or "")
    live = root == Path("/")
    facts: Facts = {
        "container": detect(root),
        "cgroup_version": call("/proc/mounts", lambda: cgroup.version(root), "no control group is mounted"),
        "cpu_quota_cpus": _limit(cgroup.cpu_quota(root), "no CPU quota"),
        "memory_limit_bytes": _limit(cgroup.memory_limit(root), "no memory limit"),
        "cpuset_cpus": _cpuset(root, "cpus"),
        "cpuset_mems": _cpuset(root, "mems"),
        "seccomp": call("/proc/self/status Seccomp", lambda: SECCOMP.get(status.get("Seccomp", ""))),
        "capability_sys_nice": call("/proc/self/status CapEff", lambda: _has(status.get("CapEff"), CAP_SYS_NICE)),
    }
    shared = "/dev/shm"
    if live:
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
    mounts = (line.split() for line in (read_text(root, "/proc/mounts").text or "").splitlines())
    if any(fields[1:3] == ["/", "overlay"] for fields in mounts):
        return ok("an engine that does not give its name", "/proc/mounts: the root is an overlay")
    return ok("none", "/.dockerenv, /run/.containerenv, /run/systemd/container, /proc/self/cgroup, /proc/mounts")


def _limit(limit: cgroup.Limit, none: str) -> Fact:
    """The folder is a container's id, so only the file's name is the source."""
    source = f"cgroup {limit.source.rsplit('/', 1)[-1]}"
    return ok(limit.value, source) if limit.value is not None else absent(source, none)


def _cpuset(root: Path, kind: str) -> Fact:
    numbers, source = cgroup.cpuset(root, kind)
    name = f"cgroup {source.rsplit('/', 1)[-1]}"
    return ok(format_cpulist(numbers), name) if numbers else absent(name, "no cpuset is readable")


def _has(text: str | None, bit: int) -> bool | None:
    return None if text is None else bool(int(text, 16) >> bit & 1)


def _size_of(path: str) -> int:
    status = os.statvfs(path)
    return status.f_frsize * status.f_blocks
