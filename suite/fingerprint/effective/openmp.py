"""Which OpenMP run-time serves the libraries of this very process: the proof by the loader's own tables.

torch's wheels bring a libgomp, which is always mapped; a preloaded libiomp5 takes its calls over. Run inside the worker, after
warm-up. Nothing here raises.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from suite.fingerprint.effective import elf, maps
from suite.fingerprint.effective.maps import Mapping

RUN_TIMES = re.compile(r"lib(iomp5|omp|gomp)\b")
SYMBOLS = re.compile(r"(GOMP_|omp_|__kmpc_|kmp_)\w+")
MOST_LIBRARIES = 2000


@dataclass
class Answers:
    """`symbols` maps each run-time that answers something to the symbols it answers, `callers` to the libraries that ask it.

    `bound` of `total` (library, symbol) pairs were read from the library's own table, where the loader has put the address that is
    called; the rest had not been called yet, and the search order tells.
    """

    symbols: dict[str, list[str]] = field(default_factory=dict)
    callers: dict[str, list[str]] = field(default_factory=dict)
    bound: int = 0
    total: int = 0

    def add(self, run_time: str, symbol: str, caller: str) -> None:
        for table, value in ((self.symbols, symbol), (self.callers, caller)):
            values = table.setdefault(run_time, [])
            if value not in values:
                values.append(value)


def answers(mappings: Sequence[Mapping], names: dict[str, str]) -> Answers:
    """Who answers the OpenMP symbols that the mapped libraries leave undefined. `names` gives the name to show for a path.

    The loader looks for a symbol in the global scope first (the program, preloaded libraries, what was opened with RTLD_GLOBAL, and
    what these need) and then in the scope of the library that was opened and of what that needs. It does so at the first call, and
    notes the address in the library's table. So the table is read first; a symbol not called yet is looked up as the loader would do.
    """
    found = Answers()
    for path in maps.files(mappings)[:MOST_LIBRARIES]:
        name = PurePosixPath(path).name
        if RUN_TIMES.match(name) or not re.search(r"\.so(\.|$)", name):
            continue
        wanted = elf.imports(path, SYMBOLS)
        if isinstance(wanted, str) or not wanted.symbols:
            continue
        base = _load_address(path, mappings, wanted)
        for symbol in wanted.symbols:
            words = [] if base is None else [_word(base + slot) for slot in wanted.slots.get(symbol, [])]
            noted = [address for address in words if address is not None]
            found.total += 1
            if noted and all(address == 0 for address in noted):
                continue  # a weak symbol that nobody defines: the library does without
            # Before the first call the slot points back into the library itself.
            files = [maps.file_at(mappings, address) for address in noted if address]
            answering = next((file for file in files if file is not None and file != path), None)
            found.bound += answering is not None
            answering = answering or _looked_up(symbol, path, mappings)
            if answering is not None:
                found.add(names.get(answering, PurePosixPath(answering).name), symbol, name)
    return found


def expected(library: Path, mappings: Sequence[Mapping], names: dict[str, str]) -> Answers:
    """The same for a library that is not loaded: who would answer it in this process's global scope."""
    found, wanted = Answers(), elf.imports(library, SYMBOLS, with_slots=False)
    for symbol in [] if isinstance(wanted, str) else wanted.symbols:
        found.total += 1
        answering = _in_scope(lambda: ctypes.CDLL(None), symbol, mappings)
        if answering is not None:
            found.add(names.get(answering, PurePosixPath(answering).name), symbol, library.name)
    return found


def load_run_times(library: Path, prefix: Path) -> list[str]:
    """Load the OpenMP run-times that a library (torch's) needs, as importing it would; returns reasons for those that cannot be."""
    wanted = elf.imports(library, SYMBOLS, with_slots=False)
    failures = []
    for name in [] if isinstance(wanted, str) else filter(RUN_TIMES.match, wanted.needed):
        folders = (library.parent, library.parents[2] / "torch.libs", prefix / "lib")
        path = next((str(folder / name) for folder in folders if (folder / name).is_file()), name)
        try:
            # torch opens its libtorch_global_deps.so, and with it the run-time, with RTLD_GLOBAL.
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            failures.append(f"{name}: {error}")
    return failures


def start_threads() -> bool:
    """Have the answering run-time start its threads, with an empty parallel region; False when there is no run-time.

    libgomp, libomp and libiomp5 all answer GNU's entry point. The region's body is the C library's getpid, which ignores the argument.
    """
    try:
        process = ctypes.CDLL(None)
        parallel, body = process.GOMP_parallel, ctypes.cast(process.getpid, ctypes.c_void_p)
        parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel.restype = None
        parallel(body, None, 0, 0)
    except (AttributeError, OSError, TypeError):
        return False
    return True


def most_threads() -> int | None:
    """omp_get_max_threads() of the run-time in the global scope; None when it has none."""
    try:
        return int(ctypes.CDLL(None).omp_get_max_threads())
    except (AttributeError, OSError, TypeError):
        return None


def callers_shown(callers: Iterable[str]) -> str:
    """Names of the calling libraries; Inductor's kernels, whose names are hashes, as a number."""
    kernels = [name for name in callers if re.fullmatch(r"c[a-z2-7]{40,}.*\.so", name)]
    others = sorted(set(callers) - set(kernels))
    shown = [*others[:8], *([f"{len(others) - 8} more"] if len(others) > 8 else [])]
    return ", ".join(
        [*shown, *([f"{len(kernels)} compiled kernel{'s' if len(kernels) > 1 else ''}"] if kernels else [])]
    )


def _load_address(path: str, mappings: Sequence[Mapping], wanted: elf.Imports) -> int | None:
    """Where a library was loaded: what has to be added to its virtual addresses."""
    for mapping in mappings:
        if mapping.path == path and mapping.offset in wanted.first_page:
            return mapping.start - wanted.first_page[mapping.offset]
    return None


def _word(address: int) -> int | None:
    """The eight bytes at an address of this process; None when they cannot be read (here a wrong address is no crash)."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int.from_bytes(os.pread(memory, 8, address), "little")
        finally:
            os.close(memory)
    except (OSError, OverflowError):
        return None


def _looked_up(symbol: str, path: str, mappings: Sequence[Mapping]) -> str | None:
    """The file that a call would reach: by the global scope, else by the library's own."""
    own = ctypes.RTLD_LOCAL | os.RTLD_NOLOAD | os.RTLD_LAZY
    return _in_scope(lambda: ctypes.CDLL(None), symbol, mappings) or _in_scope(
        lambda: ctypes.CDLL(path, mode=own), symbol, mappings
    )


def _in_scope(scope: Callable[[], ctypes.CDLL], symbol: str, mappings: Sequence[Mapping]) -> str | None:
    try:
        address = ctypes.cast(getattr(scope(), symbol), ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError, ValueError):
        return None
    return maps.file_at(mappings, address) if address else None
