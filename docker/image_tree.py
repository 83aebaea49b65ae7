"""File trees of images: read from an exported archive, compared, and their differences explained."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from fnmatch import fnmatchcase
from typing import IO

HEADER = "# kind mode owner size content mtime path"

# What the engine, not the image, puts into every container it exports.
ENGINES_OWN = (
    ".dockerenv", "run/.containerenv", "dev/*", "dev", "proc", "sys", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab",
)  # fmt: skip

# Path pattern -> why builds differ there. docker/layer removes these causes; where one comes back, it is named.
KNOWN: Mapping[str, str] = {
    "var/log/*": "a log with dates (apt, dpkg, alternatives, fontconfig); docker/layer empties the folder",
    "var/cache/ldconfig/*": "ldconfig's auxiliary cache holds inode numbers and times",
    "etc/ld.so.cache": "the loader's cache: it differs when the libraries do",
    "*/fontconfig/*": "fontconfig's cache holds the times of the font folders",
    "*.pyc": "byte code: compiled with times instead of hashes, or its constants marshalled in another order",
    "etc/*-": "a backup that the user tools leave, with the date of a change",
    "etc/shadow": "the date on which a password was changed last (useradd without SOURCE_DATE_EPOCH)",
    "etc/machine-id": "a random number of the base image's making",
    "var/lib/apt/lists/*": "lists of packages, which Debian's archive renews several times a day",
    "var/cache/apt/*": "apt's caches",
    "var/cache/debconf/*": "debconf's store and its backup, in the order of the answers",
    "var/lib/dpkg/*": "dpkg's records: other versions of packages (use SNAPSHOT to fix them)",
    "var/lib/systemd/*": "systemd's state",
    "opt/speedproof/sbom.cdx.json": "the list of what is inside, with its time: it differs when anything else does",
    "opt/speedproof/.venv/*/RECORD": "pip's list of installed files",
    "usr/*": "a file of a Debian package: other versions of packages (use SNAPSHOT and a base by digest to fix them)",
    "tmp/*": "left over by a step of the build",
    "root/*": "left over by a step of the build",
}


@dataclass(frozen=True)
class Entry:
    """One path of a tree. `content` is a file's SHA-256, a link's target, or a device's numbers; `mtime` in seconds."""

    kind: str
    mode: int
    owner: str
    size: int
    content: str
    mtime: int


Tree = Mapping[str, Entry]
"""Path, without a slash before it -> what is there."""


@dataclass(frozen=True)
class Difference:
    """What differs at one path (kind, mode, owner, size, content, or "only in the first/second"), and why if that is known."""

    path: str
    what: str
    why: str


def read_archive(stream: IO[bytes]) -> dict[str, Entry]:
    """Read an exported file system (a tar stream), without unpacking it; what the engine adds itself is left out."""
    tree: dict[str, Entry] = {}
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            if path and not any(fnmatchcase(path, pattern) for pattern in ENGINES_OWN):
                tree[path] = _entry(archive, member, tree)
    return tree


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree) -> Entry:
    owner, mtime = f"{member.uid}:{member.gid}", int(member.mtime)
    if member.islnk():
        # Which of two hard-linked names comes first is the archive's own affair: both are the file.
        target = tree.get(member.linkname.removeprefix("./").strip("/"))
        if target is not None:
            return replace(target, mtime=mtime)
    if member.issym() or member.islnk():
        return Entry("link", member.mode, owner, 0, f"-> {member.linkname}", mtime)
    if member.isdir():
        return Entry("folder", member.mode, owner, 0, "", mtime)
    if member.isreg():
        file = archive.extractfile(member)
        digest = hashlib.file_digest(file, "sha256").hexdigest() if file else ""  # type: ignore[arg-type]
        return Entry("file", member.mode, owner, member.size, digest, mtime)
    return Entry("special", member.mode, owner, 0, f"{member.devmajor},{member.devminor}", mtime)


def compare(first: Tree, second: Tree) -> list[Difference]:
    """Every path at which two trees differ, times left aside."""
    return [
        Difference(path, what, explain(path))
        for path in sorted(first.keys() | second.keys())
        if (what := _what(first.get(path), second.get(path)))
    ]


def _what(one: Entry | None, other: Entry | None) -> str:
    if one is None or other is None:
        return "only in the second" if one is None else "only in the first"
    names = ("kind", "mode", "owner", "size", "content")
    return ", ".join(name for name in names if getattr(one, name) != getattr(other, name))


def different_times(first: Tree, second: Tree) -> list[str]:
    """Paths that are in both trees with different modification times."""
    return sorted(path for path in first.keys() & second.keys() if first[path].mtime != second[path].mtime)


def explain(path: str) -> str:
    """The known reason why builds differ at a path; empty when there is none."""
    return next((why for pattern, why in KNOWN.items() if fnmatchcase(path, pattern)), "")


def write_listing(tree: Tree) -> Iterator[str]:
    """The tree as lines of text, sorted by path, for a comparison on another machine."""
    yield HEADER
    for path in sorted(tree):
        kind, mode, owner, size, content, mtime = astuple(tree[path])
        yield f"{kind}\t{mode:o}\t{owner}\t{size}\t{content}\t{mtime}\t{path!r}"


def read_listing(lines: Iterable[str]) -> dict[str, Entry]:
    """Read what `write_listing` wrote.

    Raises:
        ValueError: a line is not of that format.
    """
    import ast

    tree = {}
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        kind, mode, owner, size, content, mtime, path = line.rstrip("\n").split("\t")
        tree[str(ast.literal_eval(path))] = Entry(kind, int(mode, 8), owner, int(size), content, int(mtime))
    return tree
