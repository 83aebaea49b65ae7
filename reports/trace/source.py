"""The bytes of a trace file: unpacked by content, never by name; cut-short files are read as far as they go.

Unpacking runs one piece ahead in a thread: isal releases the interpreter, and decoding takes longer than unpacking.
"""

from __future__ import annotations

import codecs
import queue
import stat
import threading
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from reports.trace.notes import Notes, TraceError

PIECE_BYTES = 4 << 20
"""Unpacked bytes handed on at a time: large enough that per-piece costs vanish, small enough that memory stays flat."""

PACKED_BYTES = 1 << 20
SALVAGED_BYTES = 1 << 14

GZIP = b"\x1f\x8b"
OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive: unpack it and give the trace in it",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it first (`unzstd FILE`)",
    b"\xfd7zXZ": "packed with xz: unpack it first (`unxz FILE`)",
    b"BZh": "packed with bzip2: unpack it first (`bunzip2 FILE`)",
    b"\x80\x02": "a Python pickle (a memory snapshot?), which is never opened: give the trace that export_chrome_trace wrote",
    b"\x80\x04": "a Python pickle (a memory snapshot?), which is never opened: give the trace that export_chrome_trace wrote",
    b"\x80\x05": "a Python pickle (a memory snapshot?), which is never opened: give the trace that export_chrome_trace wrote",
    b"SQLite format 3": "an SQLite file (of Nsight Systems?): give the trace that torch's export_chrome_trace wrote",
    b"%PDF": "a PDF: give the trace that torch's export_chrome_trace wrote",
}
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_regular(path: Path) -> None:
    """Refuse what is no file before it is opened: a pipe that nobody writes to would be waited for.

    Raises:
        TraceError: when the path names a pipe, a device or a socket.
        OSError: when there is nothing.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise TraceError(f"{path}: is no regular file (a pipe, a device?); write the trace to a file and name that.")


def pieces(path: Path, notes: Notes) -> Generator[bytes, None, None]:
    """Unpacked pieces of the file, about `PIECE_BYTES` each; close it where it is left before its end, for a thread unpacks ahead.

    Raises:
        TraceError: when the file cannot be opened, is empty, or is plainly something else.
    """
    try:
        check_regular(path)
        stream = path.open("rb")
    except FileNotFoundError:
        raise TraceError(f"{path}: there is no such file; name a trace that export_chrome_trace wrote.") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a directory; name one trace file in it.") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error}).") from None
    with stream:
        try:
            head = stream.read(16)
            stream.seek(0)
        except OSError as error:
            raise TraceError(f"{path}: cannot be read ({error.strerror or error}).") from None
        if not head:
            raise TraceError(
                f"{path}: is empty: the profiler never stopped, or the disk was full; record the trace again."
            )
        for magic, what in OTHER_KINDS.items():
            if head.startswith(magic):
                raise TraceError(f"{path}: is {what}.")
        unpacked = _gunzip(stream, notes) if head.startswith(GZIP) else _plain(stream)
        yield from _utf8(_ahead(unpacked), notes)


def _plain(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(PIECE_BYTES):
        yield piece


def _gunzip(stream: IO[bytes], notes: Notes) -> Iterator[bytes]:
    from isal import isal_zlib

    unpack = isal_zlib.decompressobj(wbits=31)
    packed, reason = b"", ""
    member = given = 0  # where this gzip member begins in the file, and how much of it was unpacked
    while not reason:
        parts: list[bytes] = []
        have = 0
        while have < PIECE_BYTES:
            if not packed and not (packed := stream.read(PACKED_BYTES)):
                if not unpack.eof:
                    reason = "the packed file ends in the middle"
                break
            try:
                part = unpack.decompress(packed, PIECE_BYTES - have)
            except isal_zlib.IsalError as error:  # type: ignore[misc] # a class, which its stub does not say
                reason = f"the packed file is damaged ({error})"
                parts.append(_salvaged(stream, member, given))
                have += len(parts[-1])
                break
            parts.append(part)
            have += len(part)
            given += len(part)
            packed = unpack.unconsumed_tail
            if unpack.eof:
                # Several members one after the other are one file; what is no member is padding.
                packed = (unpack.unused_data or stream.read(PACKED_BYTES)).lstrip(b"\0")
                member, given = stream.tell() - len(packed), 0
                if not packed.startswith(GZIP[: len(packed)]) or not packed:
                    if parts:
                        yield b"".join(parts)
                    return
                unpack = isal_zlib.decompressobj(wbits=31)
        if have:
            yield b"".join(parts)
        if not have and not reason:
            return
    notes.add(
        "truncated",
        f"{reason}: what comes after is lost, and what is said of the whole recording is withheld",
        withholds={"window"},
    )


def _salvaged(stream: IO[bytes], member: int, skip: int) -> bytes:
    """What a damaged gzip member holds up to its damage, less the first `skip` bytes: isal gives nothing of the piece it fails in."""
    stream.seek(member)
    unpack = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    while not unpack.eof and (packed := stream.read(SALVAGED_BYTES)):
        before = unpack.copy()
        try:
            part = unpack.decompress(packed)
        except zlib.error:
            parts.append(_until_damage(before, packed)[skip:])
            break
        parts.append(part[skip:])
        skip = max(0, skip - len(part))
    return b"".join(parts)


def _until_damage(unpack: zlib._Decompress, packed: bytes) -> bytes:
    found = bytearray()
    try:
        for at in range(len(packed)):
            found += unpack.decompress(packed[at : at + 1])
    except zlib.error:
        pass
    return bytes(found)


def _utf8(unpacked: Iterator[bytes], notes: Notes) -> Iterator[bytes]:
    """Without a byte-order mark; UTF-16 (which some editors save) becomes UTF-8."""
    first = next(unpacked, b"")
    mark = next((mark for mark in UTF16 if first.startswith(mark)), None)
    if mark is None:
        first = first.removeprefix(codecs.BOM_UTF8)
        if first:
            yield first
        yield from unpacked
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for piece in (first, *unpacked):
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _ahead(iterator: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, of which the next one is made in a thread meanwhile."""
    first = next(iterator, None)
    if first is None:
        return
    second = next(iterator, None) if len(first) >= PIECE_BYTES else None
    if second is None:
        yield first
        yield from iterator
        return
    pipe: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def fill() -> None:
        last: BaseException | None = None
        try:
            for piece in iterator:
                if not _put(pipe, piece, stop):
                    return
        except Exception as error:
            last = error
        _put(pipe, last, stop)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield first
        yield second
        while True:
            item = pipe.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def _put(
    pipe: queue.Queue[bytes | BaseException | None], item: bytes | BaseException | None, stop: threading.Event
) -> bool:
    while not stop.is_set():
        try:
            pipe.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
