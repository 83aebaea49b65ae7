"""The last net before facts are stored: this machine's name, the user's names, UUIDs and MAC addresses in any text.

Readers leave identifiers out where they know them; this catches what a machine nobody foresaw puts elsewhere (a host's
name in an environment variable, a disk's UUID in a note).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.files import without_home

REMOVED = "<removed>"
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
MAC = re.compile(r"(?<![0-9a-f:-])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?![0-9a-f:-])", re.IGNORECASE)
MINIMUM_NAME = 4
# Names that many machines and users have, and that stand in honest texts (kernel builds, distributions, paths).
COMMON = {
    "localhost", "localdomain", "debian", "ubuntu", "fedora", "centos", "rocky", "alpine", "linux", "docker", "podman",
    "container", "root", "user", "users", "admin", "nobody", "test", "build", "runner", "python", "torch", "server",
    "worker", "node", "host", "home", "default",
}  # fmt: skip


def names_to_hide(environ: Mapping[str, str] = os.environ, host: str | None = None) -> list[str]:
    """This machine's and user's names, as far as they name anything: not words that every machine has."""
    full = socket.gethostname() if host is None else host
    names = {
        full,
        full.partition(".")[0],
        *(environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME")),
    }
    return sorted(name for name in names if len(name) >= MINIMUM_NAME and name.lower() not in COMMON)


def redact(facts: Mapping[str, Mapping[str, Fact]], names: Iterable[str]) -> dict[str, dict[str, Fact]]:
    """The same facts with `names` and identifiers taken out of values, notes and sources."""
    whole = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in names]
    patterns = [UUID, MAC, *whole]
    return {
        subject: {name: _redact_fact(fact, patterns) for name, fact in found.items()}
        for subject, found in facts.items()
    }


def redact_text(text: str, names: Iterable[str]) -> str:
    """A text of any program's (a worker's log) without `names`, identifiers, home directories and the suite's own folder."""
    whole = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in names]
    return _redact_text(without_home(text), [UUID, MAC, *whole])


S = TypeVar("S", bound=msgspec.Struct)


def redact_struct(struct: S, names: Iterable[str]) -> S:
    """The same struct with every text in it as `redact_text` leaves it; names of fields and keys stay."""
    hidden = list(names)
    plain = _each(msgspec.to_builtins(struct), lambda text: redact_text(text, hidden))
    return msgspec.convert(plain, type(struct))


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    return value


def _redact_fact(fact: Fact, patterns: list[re.Pattern[str]]) -> Fact:
    return msgspec.structs.replace(
        fact,
        value=_each(fact.value, lambda text: _redact_text(text, patterns)),
        source=_redact_text(fact.source, patterns),
        note=_redact_text(fact.note, patterns),
    )


def _redact_text(text: str, patterns: list[re.Pattern[str]]) -> str:
    for pattern in patterns:
        text = pattern.sub(REMOVED, text)
    return text
