"""Split pip-compile's output into the lock files that set-up and the image install one after the other.

Called by docker/lock as `split_locks.py TORCH_VERSION FOLDER`; FOLDER holds `run` and `dev` (pip-compile's output) and
perhaps `cpu.json` (pip's report on the CPU build of torch).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

LOCKS = Path(__file__).parent
HEADER = "# {what}\n# Written by docker/lock; installed with --no-deps --require-hashes.\n"


def entries(text: str) -> dict[str, str]:
    """Name of each pinned package -> its whole entry, comments included."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    kept = (block for block in blocks if re.match(r"[A-Za-z0-9._-]+==", block))
    # pip-compile's remark on pip and setuptools trails the entry before them.
    return {block.split("==")[0]: re.sub(r"\n# The following.*\n", "\n", block).rstrip() + "\n" for block in kept}


def is_cuda(name: str) -> bool:
    """Whether only the CUDA build of torch needs the package."""
    return name == "triton" or name.startswith("cuda-") or (name.startswith("nvidia-") and name != "nvidia-ml-py")


def cpu_wheel_hash(version: str, report: Path, lock: Path) -> str:
    """SHA-256 of the CPU wheel: from pip's report, else from the lock when it is of the same version."""
    if report.exists():
        (found,) = json.loads(report.read_text())["install"]
        return str(found["download_info"]["archive_info"]["hashes"]["sha256"])
    first_hash = rf"^torch=={re.escape(version)} \\\n    --hash=sha256:([0-9a-f]{{64}})"
    known = re.search(first_hash, lock.read_text(), re.MULTILINE)
    if known is None:
        sys.exit(
            f"docker/lock: PyTorch's CPU index cannot be reached, and the CPU wheel of {version} is not locked yet"
        )
    print(f"docker/lock: PyTorch's CPU index cannot be reached; the locked hash of torch {version}+cpu stays")
    return known[1]


def torch_lock(version: str, cpu: str, default: str) -> str:
    """The lock of torch itself: one version, two wheels."""
    tags = "cp311-cp311-manylinux_2_28_x86_64.whl"
    return (
        f"torch=={version} \\\n    --hash=sha256:{cpu} \\\n    --hash=sha256:{default}\n"
        f"    # first:  torch-{version}+cpu-{tags} of PyTorch's CPU index\n"
        f"    # second: torch-{version}-{tags} of the default index (CUDA build)\n"
    )


def default_wheel_hash(report: Path) -> str:
    """SHA-256 of the default index's wheel for this platform."""
    (found,) = json.loads(report.read_text())["install"]
    return str(found["download_info"]["archive_info"]["hashes"]["sha256"])


def main(version: str, folder: Path) -> None:
    """Write the four locks."""
    run, dev = (entries((folder / name).read_text()) for name in ("run", "dev"))
    lock = LOCKS / "requirements-torch.lock"
    cpu = cpu_wheel_hash(version, folder / "cpu.json", lock)
    torch = torch_lock(version, cpu, default_wheel_hash(folder / "default.json"))
    apart = {"torch"} | {name for name in dev if is_cuda(name)}
    files = {
        "torch": ("torch itself: the CPU build or the default index's, whichever set-up finds.", torch),
        "torch-cuda": (
            "What the default index's build of torch needs besides; the CPU build needs none of it.",
            "".join(entry for name, entry in run.items() if is_cuda(name)),
        ),
        "cpu": (
            "Run time: everything but torch itself.",
            "".join(entry for name, entry in run.items() if name not in apart),
        ),
        "dev": (
            "Run time and developer tools: everything but torch itself.",
            "".join(entry for name, entry in dev.items() if name not in apart),
        ),
    }
    for name, (what, body) in files.items():
        (LOCKS / f"requirements-{name}.lock").write_text(HEADER.format(what=what) + body)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
