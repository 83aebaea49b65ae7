"""Whether a trace fits in memory, before it is read: a process that the kernel kills says nothing."""

from __future__ import annotations

import re
from os import SEEK_END
from pathlib import Path

from reports.trace.notes import TraceError
from reports.trace.source import check_regular

BYTES_PER_SLICE = 420
BYTES_PER_FRAME = 210
"""What a slice takes at most, in columns and working copies; Python frames are many, and no working copy holds them. Measured with
`make perf` and on traces of nothing but operators, launches or frames."""

PIECES_BYTES = 16 << 20
BYTES_PER_PIECE_BYTE = 8
"""The pieces of text that are decoded at a time, and the events in them."""

WRAP = 1 << 32
SAMPLE_BYTES = 256 << 10
SAMPLE_MOST = 32 << 20
"""Bytes of the file that are looked at to see how well it packs and how dense its events are, and unpacked bytes at most."""

SLICE = re.compile(rb'"ph"\s*:\s*"[XB]"')
FRAME = re.compile(rb'"cat"\s*:\s*"python_function"')


def check_memory(path: Path, available_bytes: int | None = None) -> None:
    """Refuse a trace that would not fit.

    Raises:
        TraceError: with the memory that is needed.
    """
    try:
        check_regular(path)
        needed = needed_bytes(path)
    except OSError:
        return
    available = available_memory() if available_bytes is None else available_bytes
    if available is not None and needed > available:
        raise TraceError(
            f"{path}: reading it needs about {needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free;"
            " record fewer steps (active=...), leave out with_stack, or use a larger machine."
        )


def needed_bytes(path: Path) -> int:
    """Memory that reading and judging a trace takes at most, as its beginning lets expect.

    Raises:
        OSError: when the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        sample = stream.read(SAMPLE_BYTES)
        stream.seek(-min(size, 4), SEEK_END)
        end = stream.read(4)
    raw, text = (size, sample) if not sample.startswith(b"\x1f\x8b") else _unpacked(size, sample, end)
    slices, frames = len(SLICE.findall(text)), len(FRAME.findall(text))
    dense = max(slices - frames, 0) * BYTES_PER_SLICE + frames * BYTES_PER_FRAME
    return int(min(raw, PIECES_BYTES) * BYTES_PER_PIECE_BYTE + raw / max(len(text), 1) * dense)


def _unpacked(size: int, packed: bytes, end: bytes) -> tuple[int, bytes]:
    """The size of a packed file's text, from how its beginning packs and from the length at its end; and its beginning."""
    from isal import isal_zlib

    unpack = isal_zlib.decompressobj(wbits=31)
    try:
        text = unpack.decompress(packed, SAMPLE_MOST)
    except isal_zlib.IsalError:  # type: ignore[misc] # a class, which its stub does not say
        return size, b""
    used = len(packed) - len(unpack.unconsumed_tail) - len(unpack.unused_data)
    estimate = int(size * max(1.0, len(text) / max(1, used)))
    # The length at the end is that of the last member, and wraps at 4 GiB: it is taken where it is near what the beginning promises.
    told = int.from_bytes(end, "little")
    whole = told + ((estimate - told + WRAP // 2) // WRAP) * WRAP
    return whole if estimate / 2 < whole < 2 * estimate else estimate, text


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
