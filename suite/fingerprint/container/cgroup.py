"""Control groups, versions 1 and 2: which folders govern this process, and the limits they set.

Source: Linux, Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from suite.fingerprint.files import parse_cpulist, read_text, under

UNIFIED = ""  # the name /proc/self/cgroup gives the version 2 hierarchy


@dataclass(frozen=True)
class Limit:
    """One limit: `value` is None when there is none; `source` names the file that sets it, or what was looked at."""

    value: float | None
    source: str


def parse_membership(text: str) -> dict[str, str]:
    """/proc/self/cgroup: path by controller; version 2 stands under `UNIFIED`."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                paths[controller] = fields[2]
    return paths


def parse_mounts(text: str) -> dict[str, str]:
    """/proc/mounts: mount point by version 1 controller; version 2 stands under `UNIFIED`."""
    mounts: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        point, kind, options = fields[1], fields[2], fields[3]
        if kind == "cgroup2":
            mounts.setdefault(UNIFIED, point)
        elif kind == "cpuset":
            mounts.setdefault("cpuset", point)
        elif kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, point)
    return mounts


def version(root: Path = Path("/")) -> str | None:
    """ "1", "2" or "1 and 2" (hybrid) by what is mounted with controllers; None when no cgroup is mounted."""
    mounts = parse_mounts(read_text(root, "/proc/mounts").text or "")
    old = any(name in mounts for name in ("cpu", "memory", "cpuset"))
    new = UNIFIED in mounts
    return {(True, False): "1", (False, True): "2", (True, True): "1 and 2"}.get((old, new))


def folders(root: Path, controller: str) -> list[tuple[str, str]]:
    """(version, folder) pairs that govern this process for `controller`, leaf first, up to the mount point.

    In a container without a cgroup namespace the path of /proc/self/cgroup is the host's and does not exist below the
    mount; the mount point itself is then the process's folder.
    """
    mounts = parse_mounts(read_text(root, "/proc/mounts").text or "")
    paths = parse_membership(read_text(root, "/proc/self/cgroup").text or "")
    if not mounts and under(root, "/sys/fs/cgroup/cgroup.controllers").is_file():
        mounts = {UNIFIED: "/sys/fs/cgroup"}
    found: list[tuple[str, str]] = []
    for number, name in (("1", controller), ("2", UNIFIED)):
        point = mounts.get(name)
        if point is None:
            continue
        path = paths.get(name)
        if path is None and controller == "cpuset":
            path = read_text(root, "/proc/self/cpuset").text
        found += [(number, folder) for folder in _upwards(root, point, path or "/")]
    return found


def _upwards(root: Path, point: str, path: str) -> Iterator[str]:
    relative = PurePosixPath(path.lstrip("/"))
    if ".." in relative.parts:  # a path outside of the cgroup namespace
        relative = PurePosixPath()
    for part in (relative, *relative.parents):
        folder = str(PurePosixPath(point) / part)
        if under(root, folder).is_dir():
            yield folder


def _smallest(candidates: list[Limit], looked_at: str) -> Limit:
    given = [limit for limit in candidates if limit.value is not None]
    return min(given, key=lambda limit: limit.value or 0.0, default=Limit(None, looked_at))


def cpu_quota(root: Path = Path("/")) -> Limit:
    """CPU bandwidth in CPUs (quota / period), the smallest over the process's ancestors."""
    found: list[Limit] = []
    for number, folder in folders(root, "cpu"):
        name = "cpu.max" if number == "2" else "cpu.cfs_quota_us"
        quota = (read_text(root, f"{folder}/{name}").text or "").split()
        if number == "1":
            quota += (read_text(root, f"{folder}/cpu.cfs_period_us").text or "").split()
        # "max" (version 2) and -1 (version 1) mean no limit.
        if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit() and int(quota[1]) > 0:
            found.append(Limit(int(quota[0]) / int(quota[1]), f"{folder}/{name}"))
    return _smallest(found, "cpu.max, cpu.cfs_quota_us")


def memory_limit(root: Path = Path("/")) -> Limit:
    """Memory limit in bytes, the smallest over the process's ancestors; version 1's "no limit" (about 2^63) is none."""
    found: list[Limit] = []
    for number, folder in folders(root, "memory"):
        name = "memory.max" if number == "2" else "memory.limit_in_bytes"
        text = read_text(root, f"{folder}/{name}").text or ""
        if text.isdigit() and int(text) < 1 << 60:
            found.append(Limit(float(text), f"{folder}/{name}"))
    return _smallest(found, "memory.max, memory.limit_in_bytes")


def cpuset(root: Path, kind: str) -> tuple[list[int] | None, str]:
    """The numbers in the process's cpuset and their file; `kind` is "cpus" or "mems". None when none is readable."""
    for _, folder in folders(root, "cpuset"):
        # The last name is of the version 1 file system mounted with `noprefix`.
        for name in (f"cpuset.{kind}.effective", f"cpuset.effective_{kind}", f"cpuset.{kind}", kind):
            text = read_text(root, f"{folder}/{name}").text
            if text:
                try:
                    return parse_cpulist(text), f"{folder}/{name}"
                except ValueError:
                    continue
    return None, "cpuset"


def smallest(root: Path, controller: str, names: tuple[str, str]) -> Limit:
    """A number that limits, the smallest over the process's ancestors; `names` are the files of version 1 and 2.

    An empty name means that the version has no such file. "max" (version 2) and about 2^63 (version 1) are no limit.
    """
    found: list[Limit] = []
    for number, folder in folders(root, controller):
        name = names[1] if number == "2" else names[0]
        text = (read_text(root, f"{folder}/{name}").text or "") if name else ""
        if text.isdigit() and int(text) < 1 << 60:
            found.append(Limit(float(text), f"{folder}/{name}"))
    return _smallest(found, ", ".join(dict.fromkeys(name for name in reversed(names) if name)))


def weight(root: Path) -> Limit:
    """The process's own share of CPU against its siblings, as version 2's weight (100 is usual, 1 to 10000)."""
    for number, folder in folders(root, "cpu"):
        name = "cpu.weight" if number == "2" else "cpu.shares"
        text = read_text(root, f"{folder}/{name}").text or ""
        if text.isdigit():
            # Version 1 counts from 2 to 262144 with 1024 as usual; this is the kernel's own scale of it.
            return Limit(int(text) if number == "2" else round(int(text) * 100 / 1024), f"{folder}/{name}")
    return Limit(None, "cpu.weight, cpu.shares")


@dataclass(frozen=True)
class Throttling:
    """What the CPU quota has cost so far: enforcement periods, those in which it ran out, and the time lost."""

    periods: int
    throttled_periods: int
    throttled_ns: int
    source: str


def throttling(root: Path = Path("/")) -> Throttling | None:
    """cpu.stat of the nearest folder that counts enforcement periods; None where no quota was ever set.

    `throttled_ns` adds over the CPUs of the group and may exceed the time that has passed.
    """
    found: list[Throttling] = []
    for _, folder in folders(root, "cpu"):
        pairs = (line.split() for line in (read_text(root, f"{folder}/cpu.stat").text or "").splitlines())
        stat = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if "nr_periods" in stat:
            lost = stat.get("throttled_usec", 0) * 1000 or stat.get("throttled_time", 0)
            found.append(Throttling(stat["nr_periods"], stat.get("nr_throttled", 0), lost, f"{folder}/cpu.stat"))
    # The root group has no quota; the one that was held back most tells.
    return max(found, key=lambda group: (group.throttled_ns, group.periods), default=None)
