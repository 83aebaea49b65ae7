"""The folders that a run is given: refused at once, in a sentence, where they could not be used to its end."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from suite.bundle.program import is_text
from suite.bundle.writer import unwritable
from suite.errors import UserError

MANY_FILES = 16384


def check(output: Path, names: Mapping[str, str]) -> None:
    """Refuse what would fail after a while: names that are no text, folders that cannot be written. `names` are a request's other paths.

    What a container's user may do is tried later, in a container.

    Raises:
        UserError: a name that neither a bundle nor a compiler's file can hold; or no folder for temporary files.
        BundleError: an output folder that this user cannot write, or make.
    """
    used = {"OUTPUT": str(output), **names}
    used |= {name: os.environ.get(name, "") for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for name, value in used.items():
        if not is_text(value):
            raise UserError(f"{name}={value}: this name has bytes that are no text (UTF-8); choose another.")
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise UserError(
            f"no folder for temporary files can be written ({error.strerror or error}); name one (TMPDIR)."
        ) from error
    _writable(output)


def _writable(output: Path) -> None:
    try:
        nearest = next(folder for folder in (output.absolute(), *output.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(nearest, os.W_OK | os.X_OK):
            read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            raise OSError(number, os.strerror(number))
        room = os.statvfs(nearest)
        # Some file systems (/proc, overlays of some engines) count no blocks at all.
        if room.f_blocks and not room.f_bavail:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise unwritable(output, error) from error


def allow_many_files() -> None:
    """Telemetry keeps several files of every CPU open: on a machine of hundreds of CPUs more than the usual soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(soft, min(hard, MANY_FILES)) if hard != -1 else MANY_FILES, hard)
        )
