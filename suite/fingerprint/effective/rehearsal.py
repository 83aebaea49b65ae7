"""A worker's start without torch: `python -m suite.fingerprint.effective.rehearsal` prints one line of JSON, an `Effective`.

Started like a worker (same prefix, same environment), it loads the OpenMP run-time that torch's library needs, as torch would, lets
the run-time start its threads, and says what is then in force. Well under half a second; torch is looked for, never imported.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import msgspec

from suite.fingerprint.effective import openmp
from suite.fingerprint.effective.worker import read
from suite.fingerprint.files import without_home


def torch_library() -> Path | None:
    """The library of torch that makes the OpenMP calls; None without a torch, or with one built otherwise."""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    for folder in (found.submodule_search_locations or []) if found else []:
        path = Path(folder) / "lib" / "libtorch_cpu.so"
        if path.is_file():
            return path
    return None


def main() -> int:
    """Print what is in force. The fields of torch and of the timer are empty."""
    library = torch_library()
    failures = openmp.load_run_times(library, Path(sys.prefix)) if library else []
    most = openmp.most_threads()
    openmp.start_threads()
    seen = read(
        case="",
        process=0,
        at="",
        threads={} if most is None else {"openmp_maximum": most},
        torch={},
        awaited=library,
    )
    if failures:
        seen = msgspec.structs.replace(
            seen, runtime=seen.runtime | {"openmp.not_loaded": without_home("; ".join(failures))}
        )
    sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
