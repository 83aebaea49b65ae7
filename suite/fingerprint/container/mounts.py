"""What a container's mounts hide or replace in /proc and /sys.

Container engines lay an empty tmpfs over folders (/sys/firmware, /proc/acpi, /sys/devices/virtual/powercap) and LXC
serves its own /proc files through lxcfs. Source: OCI runtime specification, config-linux.md, "Masked Paths".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from suite.fingerprint.files import read_text, under

# Version 1 of the control groups is mounted inside a tmpfs of its own.
_ORDINARY = re.compile(r"/sys/fs/cgroup(/.*)?")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/mounts: the mount point, the file system's type and its options."""

    point: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Covers:
    """`folders` have an empty tmpfs over them, `replaced` are files that lxcfs serves; `sysfs` is False where /sys is not mounted."""

    folders: tuple[str, ...]
    replaced: frozenset[str]
    sysfs: bool = True


def parse_mounts(text: str) -> list[Mount]:
    r"""/proc/mounts by line. Blanks in a mount point are written as \040 (fstab(5))."""
    mounts = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[1])
            mounts.append(Mount(point, fields[2], tuple(fields[3].split(","))))
    return mounts


@lru_cache(maxsize=4)
def covers(root: Path) -> Covers:
    """What is covered below `root`; read once, since a process's mounts stay as they are while it runs."""
    mounts = parse_mounts(read_text(root, "/proc/mounts").text or "")
    folders = {
        mount.point
        for mount in mounts
        if mount.kind == "tmpfs" and re.match(r"/(proc|sys)/", mount.point) and not _ORDINARY.fullmatch(mount.point)
    }
    replaced = frozenset(mount.point for mount in mounts if mount.kind == "fuse.lxcfs")
    proc = any(mount.kind == "proc" for mount in mounts)
    sysfs = any(mount.kind == "sysfs" or re.match(r"/sys(/|$)", mount.point) for mount in mounts)
    return Covers(tuple(sorted(folders)), replaced, sysfs or not proc)


def hidden(root: Path, path: str) -> str | None:
    """Why a missing `path` is the container's doing, or None when it is not. Never raises."""
    known = covers(root)
    if not known.sysfs and path.startswith("/sys/"):
        return "the container has no /sys"
    if not known.folders:
        return None
    # A link may lead under the cover: /sys/class/dmi/id is a link into /sys/devices/virtual.
    base = os.path.realpath(root)
    real = os.path.realpath(under(root, path))
    inside = real if base == "/" else real.removeprefix(base)
    for folder in known.folders:
        if any(name == folder or name.startswith(f"{folder}/") for name in (path, inside)):
            return f"the container has an empty file system over {folder}"
    return None


def replaced(root: Path, path: str) -> str | None:
    """Why the file at `path` shows the container rather than the machine, or None when it does not."""
    return "lxcfs serves it: the container's share, not the machine's" if path in covers(root).replaced else None
