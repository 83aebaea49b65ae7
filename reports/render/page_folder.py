"""Where a trace's page lies: a folder named after the trace that no other trace's page is in."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from reports.render.plain_text import plain

HTML = "trace.html"
LONGEST_BYTES = 200
"""Of a folder's name: file systems take 255, and a number may follow."""

GENERIC = re.compile(r"(?:trace|profile|\d*)", re.IGNORECASE)
"""Names that say nothing of what was recorded: the folders around the trace do."""

PLACE = '<meta name="speedproof-trace" content="{}">'
SHOWN_PARTS = 3


def page_folders(traces: Sequence[Path], output: Path | None = None) -> list[str]:
    """The folder of each trace's page, no two the same, on any file system, and none that holds another trace's page in `output`.

    It is the trace's name. A name that says nothing, that several traces have (one a rank, say), or whose folder is taken, is told apart
    by the folders that the trace lies in, then by a number.
    """
    often = Counter(_as_one(folder_name(path)) for path in traces)
    used: set[str] = set()
    folders = []
    for path in traces:
        name = folder_name(path)
        alone = often[_as_one(name)] == 1 and not GENERIC.fullmatch(name)
        folder = next(
            wanted
            for wanted in _names(path, name, alone)
            if _as_one(wanted) not in used and (output is None or _free(output / wanted, path))
        )
        used.add(_as_one(folder))
        folders.append(folder)
    return folders


def _names(path: Path, name: str, alone: bool) -> Iterator[str]:
    around = [found for folder in path.absolute().parents if (found := clean(folder.name))]
    longer = [_short(f"{'-'.join(reversed(around[:depth]))}-{name}") for depth in (1, 2) if len(around) >= depth]
    first = [name] if alone or not longer else []
    yield from (*first, *longer)
    number = 1
    while True:
        number += 1
        yield f"{longer[0] if longer else name}-{number}"


def _free(folder: Path, trace: Path) -> bool:
    """Whether the folder holds no page, or an earlier one of this very trace."""
    try:
        with (folder / HTML).open("rb") as file:
            return PLACE.format(place(trace)).encode() in file.read(2000)
    except OSError:
        return True  # nothing there; or nothing that can be written either, which is said when the page is


def place(trace: Path) -> str:
    """A mark of where a trace lies that does not tell where."""
    return hashlib.sha256(os.fsencode(trace.absolute())).hexdigest()[:16]


def folder_name(path: Path) -> str:
    """A trace's name without what says how it is packed; "trace" where nothing is left."""
    name = clean(path.name)
    for ending in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return clean(name) or "trace"


def clean(name: str) -> str:
    """A name as a folder's: without what could steer a terminal or hide the folder, and never one that means another folder."""
    return _short(" ".join(plain(name).split()).replace("/", " ").replace("\\", " ").strip(". "))


def shown(trace: Path) -> str:
    """The end of a trace's path, fit for a line: a name like trace.json.gz says nothing without the folders around it."""
    parts = trace.parts if len(trace.parts) > 1 else trace.absolute().parts[-2:]
    return plain("/".join(part for part in parts[-SHOWN_PARTS:] if part != "/"), 120)


def _short(name: str) -> str:
    return name.encode("utf-8", "replace")[:LONGEST_BYTES].decode("utf-8", "ignore").strip(". ")


def _as_one(name: str) -> str:
    """What a file system that ignores case, or composes accents, takes for one name."""
    return unicodedata.normalize("NFC", name).casefold()
