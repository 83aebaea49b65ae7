"""How facts are made: `value or reason`, with the file or call it came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.files import read_text, without_home

Facts = dict[str, Fact]


def ok(value: Any, source: str, note: str = "") -> Fact:
    """A fact that was read."""
    return Fact(value=value, source=source, status="ok", note=note)


def absent(source: str, note: str = "") -> Fact:
    """A fact that this machine does not offer, and why."""
    return Fact(value=None, source=source, status="absent", note=note)


def from_file(
    root: Path, path: str, parse: Callable[[str], Any] = str, note: str = "", *, may_be_empty: bool = False
) -> Fact:
    """The fact in one file; a file that `parse` refuses is absent with the refusal in the note. Never raises.

    An empty file is absent too, unless it `may_be_empty` (an empty list of CPUs is a fact).
    """
    read = read_text(root, path)
    if read.text is None:
        return Fact(value=None, source=path, status=read.status, note=". ".join(filter(None, (read.reason, note))))
    if not read.text and not may_be_empty:
        return absent(path, "the file is empty")
    try:
        return ok(parse(read.text), path, note)
    except Exception as error:  # any refusal by a parser is a reason, never a failed run
        return absent(path, f"not understood: {error}")


def first(*facts: Fact) -> Fact:
    """The first fact that was read, else the last one's reason."""
    return next((fact for fact in facts if fact.status in ("ok", "masked", "virtualised")), facts[-1])


def call(source: str, reader: Callable[[], Any], missing: str = "not given") -> Fact:
    """The fact a call returns; None is absent for the reason `missing`, an exception for its own. Never raises."""
    try:
        value = reader()
    except PermissionError:
        return Fact(value=None, source=source, status="denied", note="permission denied")
    except Exception as error:  # a fact must not stop a run
        return absent(source, without_home(f"{type(error).__name__}: {error}"))
    return absent(source, missing) if value is None else ok(value, source)


def virtualised(fact: Fact, note: str) -> Fact:
    """The same fact in a virtual machine: the hypervisor chose the value, or hides it (then it stays absent)."""
    status = "virtualised" if fact.status == "ok" else fact.status
    joined = ". ".join(filter(None, (fact.note, note)))
    return msgspec.structs.replace(fact, status=status, note=joined)
