"""Join pip-compile's pins and pip's report into the lock files: one file, one hash a package.

Called by docker/lock as `split_locks.py FOLDER`; FOLDER holds `run` and `dev` (pip-compile's output), `dev.json` (pip's
report on the files of `dev`) and perhaps `cpu.json` (the report on the CPU build of torch).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

LOCKS = Path(__file__).parent
HEADER = "# {what}\n# Written by docker/lock; installed with --no-deps --require-hashes. One file a package: Python 3.11, Linux, x86_64.\n"


@dataclass(frozen=True)
class Wheel:
    """The file that a pin stands for."""

    name: str
    sha256: str


def entries(text: str) -> dict[str, str]:
    """Name of each pinned package -> its pin and pip-compile's remarks on where it comes from."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    kept = (block for block in blocks if re.match(r"[A-Za-z0-9._-]+==", block))
    # pip-compile's remark on pip and setuptools trails the entry before them.
    return {block.split("==")[0]: re.sub(r"\n# The following.*\n", "\n", block).rstrip() + "\n" for block in kept}


def is_cuda(name: str) -> bool:
    """Whether only the CUDA build of torch needs the package."""
    return name == "triton" or name.startswith("cuda-") or (name.startswith("nvidia-") and name != "nvidia-ml-py")


def wheels(report: Path) -> dict[str, Wheel]:
    """Name -> the file that pip chose, from its report; empty when there is none."""
    if not report.exists():
        return {}
    found = {}
    for one in json.loads(report.read_text())["install"]:
        name = re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower()
        download = one["download_info"]
        file = unquote(download["url"].rpartition("/")[2])
        found[name] = Wheel(file, download["archive_info"]["hashes"]["sha256"])
    return found


def cpu_wheel(version: str, report: Path, lock: Path) -> Wheel:
    """The CPU build of torch: from pip's report, else from the lock when it is of the same version."""
    if reported := wheels(report).get("torch"):
        return reported
    pattern = rf"^torch=={re.escape(version)} \\\n    --hash=sha256:([0-9a-f]{{64}})\n    # (torch-\S+)"
    known = re.search(pattern, lock.read_text() if lock.exists() else "", re.MULTILINE)
    if known is None:
        sys.exit(
            f"docker/lock: PyTorch's CPU index cannot be reached, and the CPU wheel of {version} is not locked yet"
        )
    print(f"docker/lock: PyTorch's CPU index cannot be reached; the locked hash of torch {version}+cpu stays")
    return Wheel(known[2], known[1])


def locked(pin: str, wheel: Wheel) -> str:
    """An entry of a lock: the pin, its hash, the file's name, where it comes from."""
    first, _, remarks = pin.partition("\n")
    return f"{first} \\\n    --hash=sha256:{wheel.sha256}\n    # {wheel.name}\n{remarks}"


def lock_text(what: str, names: Iterable[str], pins: Mapping[str, str], files: Mapping[str, Wheel]) -> str:
    """A whole lock, in the order of the names."""
    return HEADER.format(what=what) + "".join(locked(pins[name], files[name]) for name in sorted(names))


def main(folder: Path) -> None:
    """Write the three locks."""
    run, dev = (entries((folder / name).read_text()) for name in ("run", "dev"))
    files = wheels(folder / "dev.json")
    cpu = LOCKS / "requirements-cpu.lock"
    version = run["torch"].split("==")[1].split()[0]
    cpu_files = {**files, "torch": cpu_wheel(version, folder / "cpu.json", cpu)}
    texts = {
        "cpu": lock_text(
            "The target cpu: the CPU build of torch (PyTorch's own index) and all that a run needs.",
            (name for name in run if not is_cuda(name)),
            run,
            cpu_files,
        ),
        "cuda": lock_text(
            "The target cuda: the default index's build of torch, its CUDA libraries and all that a run needs.",
            run,
            run,
            files,
        ),
        "dev": lock_text("The developer tools, beside one of the two targets.", dev.keys() - run.keys(), dev, files),
    }
    for name, text in texts.items():
        (LOCKS / f"requirements-{name}.lock").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
