"""What the loader and the run-time libraries wrote to this very process's standard error: complaints, and Intel OpenMP's settings."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter

from suite.fingerprint.files import without_home

STDERR = "/proc/self/fd/2"
# Libraries speak when they are loaded and at first use, so what matters stands at the start.
MOST_BYTES = 4 << 20
MOST_MESSAGES, LONGEST_MESSAGE = 40, 300

# Lines in which a library says that it did not do what it was asked. glibc's are those of its loader, its tunables and its heap checks.
COMPLAINTS = re.compile(
    r"ERROR: ld\.so: .+"
    r"|WARNING: ld\.so: .+"
    r"|\S.*: error while loading shared libraries: .+"
    r"|\S.*: symbol lookup error: .+"
    r"|<jemalloc>: .+"
    r"|OMP: (?:Warning|Error|System error|Hint) ?#?.*"
    r"|libgomp: .+"
    r"|libnuma: .+|numactl: .+|set_mempolicy: .+|sched_setaffinity: .+|taskset: .+"
    r"|Fatal glibc error: .+|\*\*\* .+ \*\*\*.*"
    r"|(?:malloc|free|realloc|calloc|munmap_chunk|mremap_chunk|malloc_consolidate)\(\): .+"
    r"|double free or corruption.*|corrupted (?:size vs\.|double-linked).*"
    r"|(?:src/)?tcmalloc\S*: .+|mimalloc: (?:warning|error): .+"
    r"|OpenBLAS (?:[Ww]arning|:).*|(?:Intel |INTEL |one)?MKL (?:WARNING|ERROR|FATAL).*"
)


def written_since(offset: int) -> str:
    """What this process's standard error has got since `offset` bytes, when that is a regular file; else "". Never raises.

    The file is opened through /proc, so that it may have been renamed meanwhile.
    """
    try:
        if not stat.S_ISREG(os.stat(STDERR).st_mode):
            return ""
        with open(STDERR, "rb") as file:
            file.seek(max(0, offset))
            return file.read(MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def complaints(text: str) -> list[str]:
    """Complaining lines in the order of their first appearance, without home directories; repeated ones once, with their number.

    Every child (the prefix, compilers) loads the same libraries and complains again.
    """
    lines: Counter[str] = Counter()
    for line in map(str.strip, text.splitlines()):
        if COMPLAINTS.fullmatch(line):
            lines[without_home(line)] += 1
    shown = [
        (line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…")
        + (f" ({count} times)" if count > 1 else "")
        for line, count in lines.items()
    ]
    more = len(shown) - MOST_MESSAGES
    return [*shown[:MOST_MESSAGES], *([f"and {more} other complaints"] if more > 0 else [])]


def openmp_settings(text: str) -> dict[str, str]:
    """The "Effective settings" that LLVM's and Intel's run-times print for KMP_SETTINGS=1: values without quotes, only defined ones.

    The first block stands: children that use OpenMP print theirs later.
    """
    settings: dict[str, str] = {}
    _, heading, rest = text.partition("Effective settings:")
    for line in rest.splitlines() if heading else []:
        match = re.fullmatch(r"\s+((?:KMP|OMP|LIBOMP|GOMP|TCM|UMF)_\w+)(?:=(.*)|:.*)", line)
        if match is None:
            if line.strip() or settings:
                break
            continue
        if match[2] is not None:
            settings[match[1]] = without_home(match[2].strip().strip("'\""))
    return settings
