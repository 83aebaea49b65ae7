"""/proc/<pid>/maps: which file lies where in a process's memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mapping:
    """One stretch of memory, `start` to `end` (exclusive), showing the file `path` from `offset` bytes on; "" when it is no file."""

    start: int
    end: int
    offset: int
    path: str


def parse(text: str) -> list[Mapping]:
    """The mappings in the order of their addresses; lines of another form are skipped. Source: proc_pid_maps(5)."""
    mappings = []
    for line in text.splitlines():
        fields = line.split(None, 5)
        low, dash, high = fields[0].partition("-") if fields else ("", "", "")
        if not dash or len(fields) < 5:
            continue
        # A library replaced while it runs is marked; its name is still the one that was loaded.
        path = fields[5].removesuffix(" (deleted)") if len(fields) == 6 and fields[5].startswith("/") else ""
        try:
            mappings.append(Mapping(int(low, 16), int(high, 16), int(fields[2], 16), path))
        except ValueError:
            continue
    return sorted(mappings, key=lambda mapping: mapping.start)


def files(mappings: Sequence[Mapping]) -> list[str]:
    """Paths of the mapped files, each once, in the order of their addresses."""
    return list(dict.fromkeys(mapping.path for mapping in mappings if mapping.path))


def file_at(mappings: Sequence[Mapping], address: int) -> str | None:
    """The file mapped at an address; None for anonymous memory and for unmapped addresses."""
    index = bisect_right(mappings, address, key=lambda mapping: mapping.start) - 1
    if index < 0 or address >= mappings[index].end:
        return None
    return mappings[index].path or None
