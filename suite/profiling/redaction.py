"""Takes out of a trace what names the machine: Kineto writes the host's name and the path of its own temporary file."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from isal import igzip

HOST_NAME = re.compile(rb'("host_name":\s*)"(?:[^"\\]|\\.)*"')
TRACE_NAME = re.compile(rb'("traceName":\s*)"((?:[^"\\]|\\.)*)"')


def without_names(trace: bytes) -> bytes:
    """A Kineto trace (JSON) with an empty host name, and of its own path only the file's name."""
    trace = HOST_NAME.sub(rb'\1""', trace)
    return TRACE_NAME.sub(lambda match: match[1] + b'"' + PurePosixPath(match[2].decode()).name.encode() + b'"', trace)


def keep(written: Path, kept: Path) -> None:
    """Move a gzipped trace from where torch wrote it to where it is kept, without names.

    Raises:
        OSError, igzip.IGzipError: when `written` is not a whole gzip file, or `kept` cannot be written.
    """
    content = without_names(igzip.decompress(written.read_bytes()))  # type: ignore[no-untyped-call]
    written.write_bytes(igzip.compress(content, compresslevel=2, mtime=0))
    written.replace(kept)
