"""Files of one page, written together: a reader finds all of the old page or all of the new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from suite.bundle.errors import BundleError

Content = bytes | Callable[[IO[bytes]], None]
"""What a file holds, or what writes it."""


def publish(folder: Path, files: Mapping[str, Content]) -> list[Path]:
    """Write files into a folder, which is made when it is not there: all beside their places first, then renamed; their paths.

    Raises:
        BundleError: when the folder cannot be written; what was there before stays as it is.
    """
    here = folder
    pairs: list[tuple[Path, Path]] = []
    with ExitStack() as left:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                here = folder / name
                beside = here.with_name(f".{name}.{os.getpid()}.part")
                left.callback(_remove, beside)
                with beside.open("wb") as file:
                    if isinstance(content, bytes):
                        file.write(content)
                    else:
                        content(file)
                    file.flush()
                    os.fsync(file.fileno())
                pairs.append((beside, here))
            for beside, here in pairs:
                beside.replace(here)
        except OSError as error:
            raise unwritable(here, error) from error
    return [target for _, target in pairs]


def unwritable(path: Path, error: OSError) -> BundleError:
    """The sentence for a page that cannot be written."""
    return BundleError(
        f"{path}: cannot be written ({error.strerror or error}); free some space there, or name another folder (OUTPUT, --output)."
    )


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
