"""Small readers of /proc and /sys: a text or the reason why there is none, and the formats that the kernel writes.

Paths are written as on a live machine ("/proc/meminfo"); `root` is put before them, so that recorded trees can be read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from suite.bundle.schema import FactStatus


@dataclass(frozen=True)
class Text:
    """One file's text. `text` is None unless `status` is ok; `reason` then says why in words."""

    text: str | None
    status: FactStatus
    source: str
    reason: str = ""


def under(root: Path, path: str) -> Path:
    """`path` (absolute, as on a live machine) inside the tree at `root`."""
    return root / path.lstrip("/")


@dataclass(frozen=True)
class Content:
    """One file's bytes. `data` is None unless `status` is ok; `reason` then says why in words."""

    data: bytes | None
    status: FactStatus
    source: str
    reason: str = ""


def read_text(root: Path, path: str) -> Text:
    """Read one small file; never raises. A container's mask (/dev/null bound over it) is told from an empty file."""
    read = read_bytes(root, path)
    if read.data is None:
        return Text(None, read.status, path, read.reason)
    return Text(read.data.decode("utf-8", errors="replace").strip("\0\n "), "ok", path)


def read_bytes(root: Path, path: str) -> Content:
    """As `read_text`, but the bytes as they are (SMBIOS tables, device trees, compressed files)."""
    try:
        target = under(root, path)
        # Only existing files are opened, and no pipe or device is: reading one might block.
        mode = target.stat().st_mode
        if stat.S_ISCHR(mode):
            return Content(None, "masked", path, "a device is bound over it, as container engines do to hide a file")
        if not stat.S_ISREG(mode):
            return Content(None, "absent", path, "not a regular file")
        return Content(target.read_bytes(), "ok", path)
    except PermissionError:
        return Content(None, "denied", path, "permission denied")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return Content(None, "absent", path, "no such file")
        return Content(None, "absent", path, f"cannot be read: {os.strerror(error.errno) if error.errno else error}")
    except ValueError as error:
        return Content(None, "absent", path, f"cannot be read: {error}")


def list_names(root: Path, path: str, pattern: str = r".*") -> list[str]:
    """Names in a folder that match `pattern` in full, in numeric order; empty when the folder cannot be read."""
    try:
        names = [name for name in os.listdir(under(root, path)) if re.fullmatch(pattern, name)]
    except OSError:
        return []
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def parse_cpulist(text: str) -> list[int]:
    """The kernel's list format ("0-3,8,10-11"), sorted. Empty text is the empty list.

    Raises ValueError on anything else. Source: Linux, Documentation/admin-guide/cputopology.rst.
    """
    numbers: set[int] = set()
    for part in text.strip("\0 \n").split(","):
        if not part.strip():
            continue
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise ValueError(f"not a CPU list: {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 1 << 16:
            raise ValueError(f"not a CPU list: {text!r}")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def parse_cpumask(text: str) -> list[int]:
    """The kernel's mask format ("00000000,0000ff00", most significant word first), sorted. Raises ValueError."""
    mask = int(text.strip().replace(",", "") or "0", 16)
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def format_cpulist(numbers: Iterable[int]) -> str:
    """Inverse of `parse_cpulist`: [0, 1, 2, 5] gives "0-2,5"."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def parse_fields(text: str) -> dict[str, str]:
    """Lines "Key:   value" (meminfo, status) as a dictionary; the first of equal keys stands."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def parse_size(text: str) -> int:
    """A size in bytes: "32K", "1024 kB", "8M", "4096". The kernel's K is 1024. Raises ValueError."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def selected(text: str) -> str:
    """The choice in brackets: "always [madvise] never" gives "madvise". Raises ValueError when none is."""
    match = re.search(r"\[([^\]]+)\]", text)
    if match is None:
        raise ValueError(f"no choice in brackets: {text!r}")
    return match[1]


OWN_FOLDER = str(Path(__file__).resolve().parents[2])
"""Where the suite itself lies: the user's own choice, so no bundle shows it."""

HOMES = r"/home/[^/\s:;,\"']+|/Users/[^/\s:;,\"']+|/root"
BEFORE = r"(?:(?<![\w/.-])|(?<=-[ILB]))"
"""What may stand before a path: nothing that would make it the end of another one, or a compiler's option."""


def own_places() -> list[tuple[str, str]]:
    """Folders of the user's own choice, with what is shown instead: the suite, its Python, and where caches and temporary files go."""
    places = [(OWN_FOLDER, "<speedproof>")]
    if sys.prefix != sys.base_prefix:
        places.append((sys.prefix, "<venv>"))
    places.append((os.environ.get("XDG_CACHE_HOME", ""), "<cache>"))
    temporary = os.environ.get("TMPDIR", "").rstrip("/")
    places.append(("" if temporary in ("/tmp", "/var/tmp", "/dev/shm") else temporary, "<tmp>"))
    return [(folder.rstrip("/"), shown) for folder, shown in places if len(folder) > 1]


def printable(text: str, most: int = 200) -> str:
    """`text` on one line of at most `most` characters, without what could steer a terminal or turn a page's direction."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def without_home(text: str, home: str | None = None) -> str:
    """`text` with the user's own places by name (`own_places`), home directories as "~", and no user in Inductor's default cache folder."""
    own = home if home is not None else os.environ.get("HOME", "")
    for folder, shown in [*own_places(), *([(own.rstrip("/"), "~")] if len(own) > 1 else [])]:
        text = re.sub(rf"{BEFORE}{re.escape(folder)}(?![\w.-])", shown, text)
    text = re.sub(rf"{BEFORE}(?:{HOMES})(?![\w.-])", "~", text)
    return re.sub(r"(torchinductor_)[^/\s:;,\"']+", r"\1<user>", text)
