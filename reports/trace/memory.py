"""Whether a trace fits in memory, before it is read: a process that the kernel kills says nothing."""

from __future__ import annotations

from os import SEEK_END
from pathlib import Path

from reports.trace.notes import TraceError

BYTES_PER_RAW_BYTE = 0.75
"""Columns and their working copies take less than this for each byte of JSON, measured with `make perf` on the densest real trace."""

BASE_BYTES = 200 << 20
WRAP = 1 << 32
SAMPLE_BYTES = 256 << 10
SAMPLE_MOST = 32 << 20
"""Packed bytes that are unpacked to see how well a file packs, and unpacked bytes at most."""


def check_memory(path: Path, available_bytes: int | None = None) -> None:
    """Refuse a trace that would not fit.

    Raises:
        TraceError: with the memory that is needed.
    """
    try:
        raw = unpacked_bytes(path)
    except OSError:
        return
    needed = int(BASE_BYTES + raw * BYTES_PER_RAW_BYTE)
    available = available_memory() if available_bytes is None else available_bytes
    if available is not None and needed > available:
        raise TraceError(
            f"{path}: reading it needs about {needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free;"
            " record fewer steps (active=...), leave out with_stack, or use a larger machine."
        )


def unpacked_bytes(path: Path) -> int:
    """Size of a trace's text: a packed file's from how its beginning packs, and from the length at its end where that agrees.

    Raises:
        OSError: when the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        sample = stream.read(SAMPLE_BYTES)
        if not sample.startswith(b"\x1f\x8b"):
            return size
        stream.seek(-min(size, 4), SEEK_END)
        told = int.from_bytes(stream.read(4), "little")
    estimate = int(size * _ratio(sample))
    # The length at the end is that of the last member, and wraps at 4 GiB: it is taken where it is near what the beginning promises.
    whole = told + ((estimate - told + WRAP // 2) // WRAP) * WRAP
    return whole if estimate / 2 < whole < 2 * estimate else estimate


def _ratio(packed: bytes) -> float:
    from isal import isal_zlib

    unpack = isal_zlib.decompressobj(wbits=31)
    try:
        unpacked = len(unpack.decompress(packed, SAMPLE_MOST))
    except isal_zlib.IsalError:  # type: ignore[misc] # a class, which its stub does not say
        return 1.0
    return max(1.0, unpacked / max(1, len(packed) - len(unpack.unconsumed_tail) - len(unpack.unused_data)))


def available_memory() -> int | None:
    """Memory that can be had without swapping, in bytes, within the cgroup's limit; None where it is not told."""
    free = _machine_s()
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return max(free, 0)


def _machine_s() -> int:
    try:
        # What psutil reads on Linux too; importing it takes longer than opening a small trace.
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    except (OSError, StopIteration, ValueError, IndexError):
        import psutil

        return int(psutil.virtual_memory().available)
