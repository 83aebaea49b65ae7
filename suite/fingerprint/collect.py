"""All facts that need no torch, by subject. The torch facts come from `python -m suite.fingerprint.software.torch`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from suite.fingerprint import identity, redact
from suite.fingerprint.container import engine as container
from suite.fingerprint.container import process
from suite.fingerprint.facts import Facts, absent
from suite.fingerprint.files import without_home
from suite.fingerprint.gpu import devices as gpu
from suite.fingerprint.memory import sizes as memory
from suite.fingerprint.processor import cpu
from suite.fingerprint.software import compiler, python
from suite.fingerprint.system import kernel as system
from suite.fingerprint.system import load

Reader = Callable[[Path], Facts]

SUBJECTS: dict[str, Reader] = {
    "cpu": cpu.read,
    "memory": memory.read,
    "gpu": gpu.read,
    "system": system.read,
    "load": load.read,
    "container": container.read,
    "process": process.read,
    "identity": identity.read,
}
"""The subjects that a recorded tree has too, one line each."""

LIVE_SUBJECTS: dict[str, Reader] = {
    "python": lambda _: python.read(),
    "compiler": lambda _: compiler.read(),
}
"""The subjects of this process's own tools, which a recorded tree does not hold."""


def collect(root: Path = Path("/"), without: Collection[str] = ()) -> dict[str, Facts]:
    """Facts by subject and name, in about half a second; never raises.

    `root` is a recorded tree, or "/" for the live machine; `without` names subjects to be left out. Identifiers of the machine and the
    user are taken out.
    """
    subjects = SUBJECTS if root != Path("/") else SUBJECTS | LIVE_SUBJECTS
    facts = {name: _guarded(name, reader, root) for name, reader in subjects.items() if name not in without}
    return redact.redact(facts, redact.names_to_hide() if root == Path("/") else ())


def _guarded(subject: str, reader: Reader, root: Path) -> Facts:
    try:
        return reader(root)
    except Exception as error:  # a machine nobody foresaw must not cost the run
        note = without_home(f"the reader failed: {type(error).__name__}: {error!s:.300}")
        return {"error": absent(f"suite.fingerprint.{subject}", note)}
