"""Whether a trace fits in memory, before it is read: a process that the kernel kills says nothing."""

from __future__ import annotations

from pathlib import Path

from reports.trace.notes import TraceError

BYTES_PER_RAW_BYTE = 0.75
"""Columns and their working copies take less than this for each byte of JSON, measured with `make perf` on the densest real trace."""

BASE_BYTES = 200 << 20
GZIP_RATIO = 20
"""JSON traces pack 10 to 20 times; the last four bytes of a gzip file, which give its length, wrap at 4 GiB."""


def check_memory(path: Path, available_bytes: int | None = None) -> None:
    """Refuse a trace that would not fit.

    Raises:
        TraceError: with the memory that is needed.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
    except OSError:
        return
    raw = size * GZIP_RATIO if packed else size
    needed = int(BASE_BYTES + raw * BYTES_PER_RAW_BYTE)
    available = available_memory() if available_bytes is None else available_bytes
    if available is not None and needed > available:
        raise TraceError(
            f"{path}: reading it needs about {needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free;"
            " record fewer steps (active=...), leave out with_stack, or use a larger machine."
        )


def available_memory() -> int | None:
    """Memory that can be had without swapping, in bytes, within the cgroup's limit; None where it is not told."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return max(free, 0)
