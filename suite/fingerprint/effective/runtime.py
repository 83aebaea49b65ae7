"""What the run-time libraries of this very process do: which are mapped, which one answers a call, and what they have in force.

Reads the process's own symbols through ctypes; run inside the worker, after warm-up. Nothing here raises.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from suite.fingerprint.effective import jemalloc, maps
from suite.fingerprint.effective.openmp import RUN_TIMES

FAMILIES: Mapping[str, str] = {
    "openmp": RUN_TIMES.pattern,
    "allocator": r"lib(jemalloc|tcmalloc\w*|mimalloc\w*|tbbmalloc\w*|c-\d[\d.]*\.so|c\.so)",
    "blas": r"lib(mkl_\w+|openblas\w*|scipy_openblas\w*|blis\w*|flexiblas\w*|cblas|blas|armpl\w*|nvpl_\w+|cublas\w*)\b",
}
# One call of each kind that torch makes. GNU's entry point is answered by libiomp5 too, when that is loaded first.
CALLS: Mapping[str, str] = {"openmp": "GOMP_parallel", "allocator": "malloc"}


def library_names(mappings: Sequence[maps.Mapping]) -> dict[str, str]:
    """The mapped shared libraries by path: file names (with versions); a second file of the same name is "libx.so (2)"."""
    names: dict[str, str] = {}
    for path in maps.files(mappings):
        name = PurePosixPath(path).name
        if re.search(r"\.so(\.|$)", name):
            number = 1 + sum(PurePosixPath(other).name == name for other in names)
            names[path] = name if number == 1 else f"{name} ({number})"
    return names


def libraries_by_kind(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of the OpenMP, allocator and BLAS libraries among those of `library_names`, sorted."""
    return {kind: sorted(n for n in names.values() if re.match(pattern, n)) for kind, pattern in FAMILIES.items()}


def called_libraries(mappings: Sequence[maps.Mapping], names: Mapping[str, str]) -> dict[str, list[str]]:
    """Under "openmp_called" and "allocator_called" the file that answers this process's calls of that kind.

    Several OpenMP run-times are often mapped (torch links its own libgomp); the loader gives each symbol to the first
    in its search order, and that is the one that runs.
    """
    called = {}
    for kind, symbol in CALLS.items():
        path = _file_of(symbol, mappings)
        if kind == "allocator" and path == os.path.realpath("/proc/self/exe"):
            # A program that is not position independent (Debian's python3.11) holds malloc's canonical address in its own
            # linkage table, whoever serves the calls; so jemalloc is asked whether it served one.
            path = _file_of("mallctl", mappings) if jemalloc.serves() else None
        if path:
            called[f"{kind}_called"] = [names.get(path, PurePosixPath(path).name)]
    return called


def _file_of(symbol: str, mappings: Sequence[maps.Mapping]) -> str | None:
    """The file in which this process finds a symbol; None when it has none of that name."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None
    return maps.file_at(mappings, address) if address else None


def options_in_force(environ: Mapping[str, str]) -> dict[str, str]:
    """What libiomp5 and jemalloc have in force: "openmp.kmp_blocktime_ms", "jemalloc.<option>"; empty without them."""
    options = jemalloc.options(environ.get("MALLOC_CONF", ""))
    with suppress(AttributeError, OSError, TypeError):
        options["openmp.kmp_blocktime_ms"] = str(ctypes.CDLL(None).kmp_get_blocktime())
    return options
