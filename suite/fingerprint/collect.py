"""All facts that need no torch, by subject. The torch facts come from `python -m suite.fingerprint.torch`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from suite.fingerprint import compiler, container, cpu, memory, python, system
from suite.fingerprint.facts import Facts, absent


def collect(root: Path = Path("/")) -> dict[str, Facts]:
    """Facts by subject and name, in well under half a second; never raises.

    `root` is a recorded tree, or "/" for the live machine; the subjects that are of this process and its tools are left
    out of a recorded tree.
    """
    subjects: dict[str, Callable[[], Facts]] = {
        "cpu": lambda: cpu.read(root),
        "memory": lambda: memory.read(root),
        "system": lambda: system.read(root),
        "container": lambda: container.read(root),
    }
    if root == Path("/"):
        subjects |= {"python": python.read, "compiler": compiler.read}
    return {subject: _guarded(subject, reader) for subject, reader in subjects.items()}


def _guarded(subject: str, reader: Callable[[], Facts]) -> Facts:
    try:
        return reader()
    except Exception as error:  # a machine nobody foresaw must not cost the run
        return {"error": absent(f"suite.fingerprint.{subject}", f"the reader failed: {type(error).__name__}: {error}")}
