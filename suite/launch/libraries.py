"""Where the run-time libraries of the tuned profile are: Intel's OpenMP run-time and jemalloc.

They are only found here, never loaded; whether they came into force is read in the worker (`suite.launch.settings`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# (name shown, file names in order of preference). jemalloc's number is its ABI: 2 since jemalloc 4.0.
OPENMP = ("libiomp5", ("libiomp5.so",))
JEMALLOC = ("libjemalloc", ("libjemalloc.so.2", "libjemalloc.so"))
INSTALL = {
    "libiomp5": "install it with `pip install intel-openmp` or `conda install intel-openmp`",
    "libjemalloc": "install it with `apt-get install libjemalloc2` or `conda install jemalloc`",
}


@dataclass(frozen=True)
class Library:
    """One shared library: `path` is None when it cannot be used; `reason` says where it was found, or why not."""

    name: str
    path: Path | None
    reason: str


@dataclass(frozen=True)
class Libraries:
    """What the tuned profile preloads."""

    openmp: Library
    jemalloc: Library


def find(
    environ: Mapping[str, str],
    prefix: Path = Path(sys.prefix),
    root: Path = Path("/"),
    cache: str | None = None,
) -> Libraries:
    """Look in the Python prefix, conda's, and the system's folders.

    pip's intel-openmp puts libiomp5.so into <prefix>/lib. `cache` is the text of `ldconfig -p`, which is asked for when
    it is None. Never raises.
    """
    folders = _folders(environ, prefix, root)
    if cache is None:
        cache = _ldconfig()
    return Libraries(*(_find(name, files, folders, cache, root) for name, files in (OPENMP, JEMALLOC)))


def parse_ldconfig(text: str) -> dict[str, list[Path]]:
    """`ldconfig -p` as paths by library name, in the loader's order; lines of another form are skipped.

    A line reads "libjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2".
    """
    paths: dict[str, list[Path]] = {}
    for match in re.finditer(r"^\s+(\S+) \([^)]*\) => (/.+)$", text, re.MULTILINE):
        paths.setdefault(match[1], []).append(Path(match[2]))
    return paths


def _folders(environ: Mapping[str, str], prefix: Path, root: Path) -> list[Path]:
    folders = [prefix / "lib"]
    folders += [Path(environ[name]) / "lib" for name in ("CONDA_PREFIX", "VIRTUAL_ENV") if environ.get(name)]
    try:
        multiarch = sorted((root / "usr/lib").glob("*-linux-gnu"))
    except OSError:
        multiarch = []
    system = [root / name for name in ("usr/local/lib", "usr/local/lib64", "usr/lib64", "usr/lib")]
    folders += [*multiarch, *system]
    if environ.get("HOME"):
        folders.append(Path(environ["HOME"]) / ".local/lib")
    return list(dict.fromkeys(folders))


def _ldconfig() -> str:
    for program in ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"):  # sbin is often not in a user's PATH
        try:
            run = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        if run.returncode == 0:
            return run.stdout
    return ""


def _find(name: str, files: Iterable[str], folders: list[Path], cache: str, root: Path) -> Library:
    cached = parse_ldconfig(cache)
    refused: list[str] = []
    for file in files:
        for path in [folder / file for folder in folders] + cached.get(file, []):
            if not path.is_file():
                continue
            why_not = _unusable(path)
            if why_not is None:
                return Library(name, path, f"found at {path}")
            refused.append(f"{path} {why_not}")
    looked = ", ".join(str(folder) for folder in folders)
    told = f" ({'; '.join(refused)})" if refused else ""
    return Library(name, None, f"{name} is not in {looked} nor in ldconfig's cache{told}; {INSTALL[name]}")


def _unusable(path: Path) -> str | None:
    """Why the dynamic loader could not preload this file, or None when it could."""
    if re.search(r"[\s:]", str(path)):
        return "has a space or a colon in its path, which LD_PRELOAD takes as a separator"
    if not os.access(path, os.R_OK):
        return "is not readable"
    own, other = _machine(Path(sys.executable)), _machine(path)
    if other is None:
        return "is not a shared library"
    return None if own is None or own == other else "is built for another architecture"


def _machine(path: Path) -> bytes | None:
    """ELF class and machine of a file (bytes 4 and 18-19 of its header), or None when it is not ELF."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return header[4:5] + header[18:20] if header[:4] == b"\x7fELF" and len(header) == 20 else None
