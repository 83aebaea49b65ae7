"""Writes a bundle so that a kill at any moment leaves it readable.

Documents are written beside and renamed. Rows are appended with one `write` call each, so that the orchestrator and a
worker may append to the same file, and a torn last row (a kill or a full disk in the middle of a write) is cut off before the next row.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from suite.bundle.errors import BundleError
from suite.bundle.schema import Block, Event, Row, State, Telemetry

SAMPLES = "samples.jsonl"
EVENTS = "events.jsonl"
TELEMETRY = "telemetry.jsonl"
STATE = "state.jsonl"
RETAKEN = "retaken.jsonl"
RUN = "run.json"
FINGERPRINT = "fingerprint.json"
SBOM = "sbom.cdx.json"

_encoder = msgspec.json.Encoder()


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically: a reader sees the old file or the new one.

    Raises:
        BundleError: when the place cannot be written (no space, no permission, read only).
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        # A signal too may come between the two: nothing half-written stays.
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


def write_document(path: Path, document: Row) -> None:
    """Write a struct as indented JSON, atomically (see `write_bytes`)."""
    write_bytes(path, msgspec.json.format(_encoder.encode(document), indent=1) + b"\n")


def append(path: Path, row: Row) -> None:
    """Append one row as one line, cutting off a torn last line first.

    Raises:
        BundleError: when the row could not be written whole; the file then ends as it did before.
    """
    line = _encoder.encode(row) + b"\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        # Two writers may append: without the lock one could take the other's half-written row for a torn one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = _whole_lines(descriptor)
        try:
            written = os.write(descriptor, line)
        except OSError as error:
            raise unwritable(path, error) from error
        if written != len(line):
            os.ftruncate(descriptor, size)
            raise BundleError(
                f"{path}: only {written} of {len(line)} bytes could be written; free some disk space and continue the run."
            )
    finally:
        os.close(descriptor)


def _whole_lines(descriptor: int) -> int:
    """Cut a torn last line off and return the size of what stays, in bytes."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    os.ftruncate(descriptor, end)
    return end


def unwritable(path: Path, error: OSError) -> BundleError:
    """The sentence for a place that cannot be written."""
    return BundleError(
        f"{path}: cannot be written ({error.strerror or error}); choose another --output or mend it, then continue the run."
    )


class Bundle:
    """One run's directory, open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def case_directory(self, case: str, arm: str) -> Path:
        """Directory of a case and an arm's name, `cases/<workload>/<variant>/<arm>`."""
        return self.path / "cases" / case / arm

    def block(self, row: Block) -> None:
        """Append a block to samples.jsonl."""
        append(self.path / SAMPLES, row)

    def retaken(self, row: Block) -> None:
        """Append a block that is measured again to retaken.jsonl, which no ratio is computed from."""
        append(self.path / RETAKEN, row)

    def state(self, row: State) -> None:
        """Append a reading of the machine-state reference to state.jsonl."""
        append(self.path / STATE, row)

    def event(self, row: Event) -> None:
        """Append an event to events.jsonl."""
        append(self.path / EVENTS, row)

    def telemetry(self, row: Telemetry) -> None:
        """Append a reading to telemetry.jsonl."""
        append(self.path / TELEMETRY, row)

    def document(self, name: str, document: Row) -> None:
        """Write run.json, fingerprint.json or a document below cases/."""
        write_document(self.path / name, document)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the bundle so that no second orchestrator writes into it.

        Raises:
            BundleError: when another process holds it.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BundleError(
                    f"{self.path}: another process is measuring into this run; wait for it or stop it first."
                ) from error
            yield
        finally:
            os.close(descriptor)
