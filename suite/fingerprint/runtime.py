"""What the run-time libraries of this very process do: which library answers a call, and the options it has in force.

Reads the process's own symbol table through ctypes; run inside the worker, after warm-up. Nothing here raises.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from suite.fingerprint.files import Text

FAMILIES: Mapping[str, str] = {
    "openmp": r"lib(iomp5|omp|gomp)\b",
    "allocator": r"lib(jemalloc|tcmalloc\w*|mimalloc\w*|tbbmalloc\w*|c-\d[\d.]*\.so|c\.so)",
    "blas": r"lib(mkl_\w+|openblas\w*|scipy_openblas\w*|blis\w*|flexiblas\w*|cblas|blas|armpl\w*|nvpl_\w+|cublas\w*)\b",
}
# One call of each kind that torch makes. GNU's entry point is answered by libiomp5 too, when that is loaded first.
CALLS: Mapping[str, str] = {"openmp": "GOMP_parallel", "allocator": "malloc"}
# jemalloc's options and their C types. Source: jemalloc(3), MALLCTL NAMESPACE.
JEMALLOC_OPTIONS: Mapping[str, type[ctypes._SimpleCData[Any]]] = {
    "oversize_threshold": ctypes.c_size_t,
    "background_thread": ctypes.c_bool,
    "metadata_thp": ctypes.c_char_p,
    "dirty_decay_ms": ctypes.c_ssize_t,
    "muzzy_decay_ms": ctypes.c_ssize_t,
}


def mapped_files(maps: str) -> list[str]:
    """Paths of the files in /proc/self/maps, each once, in the order of their addresses."""
    paths = (line.split(None, 5) for line in maps.splitlines())
    # A library replaced while it runs is marked; its name is still the one that was loaded.
    return list(dict.fromkeys(f[5].removesuffix(" (deleted)") for f in paths if len(f) == 6 and f[5].startswith("/")))


def libraries_by_kind(maps: str) -> dict[str, list[str]]:
    """File names (with versions) of the OpenMP, allocator and BLAS libraries in /proc/self/maps, sorted."""
    names = {PurePosixPath(path).name for path in mapped_files(maps)}
    names = {name for name in names if re.search(r"\.so(\.|$)", name)}
    return {kind: sorted(n for n in names if re.match(pattern, n)) for kind, pattern in FAMILIES.items()}


def file_at(maps: str, address: int) -> str | None:
    """The file mapped at an address, from /proc/self/maps; None for anonymous memory and unmapped addresses."""
    for line in maps.splitlines():
        fields = line.split(None, 5)
        low, _, high = fields[0].partition("-") if fields else ("", "", "")
        if high and int(low, 16) <= address < int(high, 16):
            return fields[5].removesuffix(" (deleted)") if len(fields) == 6 and fields[5].startswith("/") else None
    return None


def called_libraries(maps: str) -> dict[str, list[str]]:
    """Under "openmp_called" and "allocator_called" the file that answers this process's calls of that kind.

    Several OpenMP run-times are often mapped (torch links its own libgomp); the loader gives each symbol to the first
    in its search order, and that is the one that runs.
    """
    called = {}
    for kind, symbol in CALLS.items():
        path = _file_of(symbol, maps)
        if kind == "allocator" and path == os.path.realpath("/proc/self/exe"):
            # A program that is not position independent (Debian's python3.11) holds malloc's canonical address in its own
            # linkage table, whoever serves the calls; so jemalloc is asked whether it served one.
            path = _file_of("mallctl", maps) if jemalloc_serves() else None
        if path:
            called[f"{kind}_called"] = [PurePosixPath(path).name]
    return called


def _file_of(symbol: str, maps: str) -> str | None:
    """The file in which this process finds a symbol; None when it has none of that name."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None
    return file_at(maps, address) if address else None


def jemalloc_serves(size: int = 1 << 20) -> bool:
    """Whether jemalloc counts an allocation of `size` bytes made through malloc as its own (its `thread.allocated`)."""
    try:
        process = ctypes.CDLL(None)
        process.malloc.restype = ctypes.c_void_p
        process.malloc.argtypes, process.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
        before = _allocated_by_jemalloc(process)
        block = process.malloc(size)
        after = _allocated_by_jemalloc(process)
        process.free(block)
    except (AttributeError, OSError, TypeError):
        return False
    return before is not None and after is not None and after - before >= size


def _allocated_by_jemalloc(process: ctypes.CDLL) -> int | None:
    value, length = ctypes.c_uint64(), ctypes.c_size_t(8)
    failed = process.mallctl(b"thread.allocated", ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0))
    return None if failed else value.value


def options_in_force() -> dict[str, str]:
    """What libiomp5 and jemalloc have in force: "openmp.kmp_blocktime_ms", "jemalloc.<option>"; empty without them."""
    options = {}
    try:
        process = ctypes.CDLL(None)
    except (OSError, TypeError):
        return {}
    if hasattr(process, "kmp_get_blocktime"):
        options["openmp.kmp_blocktime_ms"] = str(process.kmp_get_blocktime())
    if hasattr(process, "mallctl"):
        for name, kind in JEMALLOC_OPTIONS.items():
            value = kind()
            size = ctypes.c_size_t(ctypes.sizeof(value))
            failed = process.mallctl(
                f"opt.{name}".encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
            )
            if not failed:
                options[f"jemalloc.{name}"] = _option_text(value.value)
    return options


def _option_text(value: object) -> str:
    """As MALLOC_CONF writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def memory_policy(first_line: Text) -> str | None:
    """The process's NUMA policy ("default", "bind:0", "interleave:0-1") from the first line of /proc/self/numa_maps.

    The first mapping is the program's own and carries no policy of its own, so the line shows the process's.
    """
    fields = (first_line.text or "").split()
    return fields[1] if len(fields) > 1 else None
