"""Golden fingerprints: small machines written as text (*.tree), and the fingerprint that is expected of each (*.json).

The trees are our own, modelled on what the kernels, hypervisors and container engines write. Renew the expectations
after a deliberate change with `python -m tests.fingerprint.golden --renew`, and read the difference before committing it.

A tree's lines:
    # a comment
    /proc/sys/vm/swappiness: 60                   one line of text
    /proc/mounts: |                               the indented lines that follow
        proc /proc proc rw 0 0
    /sys/devices/system/cpu/cpu{0-3,8}/online: 1  the same text for each number
    /sys/devices/system/cpu/cpu{0-3}/x: {}        each its own number
    /proc/kcore: !device                          a device is bound over it, as container engines do
    /sys/firmware/dmi/tables/DMI: !denied         only root reads it
    /sys/firmware/efi: !folder                    an empty folder
    /sys/class/dmi/id: !link /sys/devices/virtual/dmi/id
    /sys/firmware/dmi/tables/DMI: !hex 01 02      bytes; indented lines may follow after "!hex |"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from suite.fingerprint.collect import collect
from suite.fingerprint.files import parse_cpulist

FOLDER = Path(__file__).parent
RENEW = "python -m tests.fingerprint.golden --renew"


@dataclass
class Tree:
    """A machine on disk; `denied` are the files that its user may not read (a test's own user may be root)."""

    root: Path
    denied: set[Path] = field(default_factory=set)


def machines() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.tree"))


def write(text: str, root: Path) -> Tree:
    tree = Tree(root)
    for pattern, value in _entries(text):
        for path, content in _expanded(pattern, value):
            _write_one(tree, root / path.lstrip("/"), content)
    return tree


def fingerprint(tree: Tree) -> dict[str, Any]:
    """What the fingerprint says of the tree, as it would stand in fingerprint.json."""
    read_bytes = Path.read_bytes

    def reading(path: Path) -> bytes:
        if path.resolve() in tree.denied:
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    with mock.patch.object(Path, "read_bytes", reading):
        facts = collect(tree.root)
    return msgspec.json.decode(msgspec.json.encode(facts))


def expected(name: str) -> Any:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())


def encoded(facts: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"


def _entries(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(/\S*?):(?: (.*))?", line)
        if match is None:
            raise ValueError(f"not a line of a tree: {line!r}")
        path, value = match[1], match[2] or ""
        if value.endswith("|"):
            block = []
            while lines and (lines[0].startswith("    ") or not lines[0].strip()):
                block.append(lines.pop(0)[4:])
            value = value[:-1] + "\n".join(block).rstrip("\n")
        yield path, value


def _expanded(pattern: str, value: str) -> Iterator[tuple[str, str]]:
    match = re.search(r"\{([\d,-]+)\}", pattern)
    if match is None:
        yield pattern, value
        return
    for number in parse_cpulist(match[1]):
        path = pattern[: match.start()] + str(number) + pattern[match.end() :]
        yield from _expanded(path, value.replace("{}", str(number)))


def _write_one(tree: Tree, path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind, _, rest = content.partition(" ")
    if kind == "!device":
        path.symlink_to("/dev/null")
    elif kind == "!folder":
        path.mkdir(exist_ok=True)
    elif kind == "!link":
        path.symlink_to(os.path.relpath(tree.root / rest.lstrip("/"), path.parent.resolve()))
    elif kind == "!denied":
        path.touch()
        tree.denied.add(path.resolve())
    elif kind == "!hex":
        path.write_bytes(bytes.fromhex(rest))
    else:
        path.write_text(content + "\n", encoding="utf-8")
