"""The options that jemalloc has in force in this very process, by mallctl. Nothing here raises."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

Kind: TypeAlias = "type[ctypes._SimpleCData[Any]]"

# Options that are always read, and their C types. Source: jemalloc(3), MALLCTL NAMESPACE.
OPTIONS: Mapping[str, Kind] = MappingProxyType(
    {
        "oversize_threshold": ctypes.c_size_t,
        "background_thread": ctypes.c_bool,
        "metadata_thp": ctypes.c_char_p,
        "dirty_decay_ms": ctypes.c_ssize_t,
        "muzzy_decay_ms": ctypes.c_ssize_t,
        "narenas": ctypes.c_uint,
        "percpu_arena": ctypes.c_char_p,
        "thp": ctypes.c_char_p,
        "retain": ctypes.c_bool,
        "tcache": ctypes.c_bool,
    }
)
# Other options whose values are text; the type of the rest is told by its size.
TEXT = frozenset(
    {"dss", "junk", "stats_print_opts", "stats_interval_opts", "prof_prefix", "zero_realloc", "malloc_conf"}
)
LARGEST = 1 << 40  # a word above this that is not known to be a number may as well be an address


def options(malloc_conf: str = "") -> dict[str, str]:
    """ "jemalloc.<option>" as text: the usual ones, those that `malloc_conf` names, and the version; empty without jemalloc.

    "jemalloc.background_thread_running" is whether such threads run now.
    """
    try:
        process = ctypes.CDLL(None)
        if not hasattr(process, "mallctl"):
            return {}
    except (OSError, TypeError):
        return {}
    found = {}
    for name in dict.fromkeys([*OPTIONS, *names(malloc_conf)]):
        value = _read(process, f"opt.{name}", _kinds(name))
        if value is not None:
            found[f"jemalloc.{name}"] = value
    for name, key, kind in (
        ("version", "version", ctypes.c_char_p),
        ("background_thread_running", "background_thread", ctypes.c_bool),
    ):
        value = _read(process, key, [kind])
        if value is not None:
            found[f"jemalloc.{name}"] = value
    return found


def pairs(malloc_conf: str) -> list[tuple[str, str]]:
    """MALLOC_CONF's "key:value" pairs in their order; a part without a colon has an empty value."""
    parts = (part.partition(":") for part in malloc_conf.split(",") if part.strip())
    return [(key.strip(), value.strip()) for key, _, value in parts]


def names(malloc_conf: str) -> Iterable[str]:
    """The names in MALLOC_CONF that could be those of options."""
    return [key for key, _ in pairs(malloc_conf) if re.fullmatch(r"[a-z_]{1,40}", key)]


def serves(size: int = 1 << 20) -> bool:
    """Whether jemalloc counts an allocation of `size` bytes made through malloc as its own (its `thread.allocated`)."""
    try:
        process = ctypes.CDLL(None)
        process.malloc.restype = ctypes.c_void_p
        process.malloc.argtypes, process.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
        before = _allocated(process)
        block = process.malloc(size)
        after = _allocated(process)
        process.free(block)
    except (AttributeError, OSError, TypeError):
        return False
    return before is not None and after is not None and after - before >= size


def _allocated(process: ctypes.CDLL) -> int | None:
    text = _read(process, "thread.allocated", [ctypes.c_uint64])
    return None if text is None else int(text)


def _kinds(name: str) -> list[Kind]:
    if name in OPTIONS:
        return [OPTIONS[name]]
    return [ctypes.c_char_p] if name in TEXT else [ctypes.c_bool, ctypes.c_uint, ctypes.c_ssize_t]


def _read(process: ctypes.CDLL, key: str, kinds: Iterable[Kind]) -> str | None:
    """The value in the first of the types that has its size: mallctl refuses any other size."""
    for kind in kinds:
        value = kind()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        failed = process.mallctl(key.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
        if not failed:
            read = value.value
            if isinstance(read, bool):
                return "true" if read else "false"
            if isinstance(read, bytes):
                return read.decode(errors="replace")
            # A text option that is not known as such would show its address.
            return None if read is None or (kind is ctypes.c_ssize_t and abs(read) > LARGEST) else str(read)
    return None
