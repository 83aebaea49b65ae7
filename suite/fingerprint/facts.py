"""How facts are made: `value or reason`, with the file or call it came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.container.mounts import hidden, replaced
from suite.fingerprint.files import read_text, without_home

Facts = dict[str, Fact]


def ok(value: Any, source: str, note: str = "") -> Fact:
    """A fact that was read."""
    return Fact(value=value, source=source, status="ok", note=note)


def absent(source: str, note: str = "") -> Fact:
    """A fact that this machine does not offer, and why."""
    return Fact(value=None, source=source, status="absent", note=note)


def denied(source: str, note: str = "permission denied") -> Fact:
    """A fact that the machine keeps from this user."""
    return Fact(value=None, source=source, status="denied", note=note)


def missing(root: Path, path: str, note: str, source: str = "") -> Fact:
    """A fact without its file or folder `path`: masked where a container's mount hides it, else absent."""
    cover = hidden(root, path)
    if cover:
        return Fact(value=None, source=source or path, status="masked", note=cover)
    return absent(source or path, note)


def from_file(
    root: Path, path: str, parse: Callable[[str], Any] = str, note: str = "", *, may_be_empty: bool = False
) -> Fact:
    """The fact in one file; a file that `parse` refuses is absent with the refusal in the note. Never raises.

    `note` explains the value. An empty file is absent too, unless it `may_be_empty` (an empty list of CPUs is a fact).
    A file that the container replaces by its own is masked, and has a value.
    """
    read = read_text(root, path)
    if read.text is None:
        if read.status == "absent":
            return missing(root, path, read.reason)
        return Fact(value=None, source=path, status=read.status, note=read.reason)
    if not read.text and not may_be_empty:
        return absent(path, "the file is empty")
    try:
        fact = ok(parse(read.text), path, note)
    except Exception as error:  # any refusal by a parser is a reason, never a failed run
        return absent(path, without_home(f"not understood: {error!s:.200}"))
    return shown_by_container(root, path, fact)


def shown_by_container(root: Path, path: str, fact: Fact) -> Fact:
    """The same fact, masked where the container serves `path` itself."""
    why = replaced(root, path)
    if why is None or fact.status != "ok":
        return fact
    return msgspec.structs.replace(fact, status="masked", note=joined(fact.note, why))


def first(*facts: Fact) -> Fact:
    """The first fact that was read; else the first with a better reason than absent; else the last one's reason."""
    read = next((fact for fact in facts if fact.value is not None), None)
    kept = next((fact for fact in facts if fact.status != "absent"), facts[-1])
    return read or kept


def call(source: str, reader: Callable[[], Any], missing: str = "not given") -> Fact:
    """The fact a call returns; None is absent for the reason `missing`, an exception for its own. Never raises."""
    try:
        value = reader()
    except PermissionError:
        return denied(source)
    except Exception as error:  # a fact must not stop a run
        return absent(source, without_home(f"{type(error).__name__}: {error}"))
    return absent(source, missing) if value is None else ok(value, source)


def virtualised(fact: Fact, note: str) -> Fact:
    """The same fact in a virtual machine: the hypervisor chose the value, or hides it (then there is none).

    What the container masks or the user may not read stays so: that is the nearer reason.
    """
    if fact.status not in ("ok", "absent"):
        return fact
    return msgspec.structs.replace(fact, status="virtualised", note=joined(fact.note, note))


def joined(*parts: str) -> str:
    """Notes as one text, the empty ones left out."""
    return "; ".join(part for part in parts if part)
