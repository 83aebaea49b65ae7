"""Where a run writes and what it reads: folders, packages, weights, memory. Thin edges; nothing here raises or imports torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from suite.cases.mobilebert_weights import MODEL_ID, WEIGHT_FILES
from suite.fingerprint.container import cgroup
from suite.fingerprint.files import parse_fields, parse_size, read_text, without_home

ROOT = Path(__file__).resolve().parents[2]

PACKAGES: Mapping[str, str] = {
    "torch": "nothing can be measured",
    "numpy": "the report cannot be computed",
    "transformers": "MobileBERT cannot be measured",
    "jinja2": "there is no report",
    "matplotlib": "the report has no charts",
    "weasyprint": "the report has no PDF",
}
"""Package -> what is missing without it."""


@dataclass(frozen=True)
class Place:
    """A folder that a run writes to. `refusal` is empty when it can be written; `runs_code` is False on a `noexec` mount."""

    name: str
    path: str
    refusal: str = ""
    free_bytes: int | None = None
    runs_code: bool = True


@dataclass(frozen=True)
class Memory:
    """In bytes: what a run can have now, the control group's limit (None: none), the swap in use."""

    available_bytes: int | None = None
    limit_bytes: int | None = None
    swap_used_bytes: int = 0


def place(name: str, path: Path) -> Place:
    """Look at a folder, or at the nearest one above that exists, in which it would be made."""
    shown = without_home(str(path))
    try:
        nearest = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            return Place(name, shown, f"{without_home(str(nearest))} is not a folder")
        status = os.statvfs(nearest)
    except (OSError, StopIteration) as error:
        return Place(name, shown, without_home(str(error)))
    refusal = ""
    if status.f_flag & os.ST_RDONLY:
        refusal = "its file system is mounted read-only"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        refusal = f"{without_home(str(nearest))} may not be written by this user"
    # File systems that make inodes on demand (btrfs, some network ones) count none.
    full = status.f_files > 0 and status.f_favail == 0
    free = 0 if full else status.f_bavail * status.f_frsize
    return Place(name, shown, refusal, free, not status.f_flag & os.ST_NOEXEC)


def packages() -> dict[str, str | None]:
    """Version of each of `PACKAGES`, or None when it cannot be imported; found, not imported."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            # Metadata without the package's files is what a broken installation leaves, and so is the reverse.
            versions[name] = metadata.version(name) if find_spec(name) is not None else None
        except (ImportError, ValueError, OSError):
            versions[name] = None
    return versions


def locked_torch(root: Path = ROOT) -> str | None:
    """The version of torch that the locks pin; an image holds the lock of its own target alone."""
    texts = (read_text(root, f"/docker/requirements-{target}.lock").text or "" for target in ("cpu", "cuda"))
    matches = (re.search(r"^torch==([^\s;\\]+)", text, re.MULTILINE) for text in texts)
    return next((match[1] for match in matches if match), None)


def weights(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether a run would use MobileBERT's published weights, and from where or why not; hashes are left to the run."""
    if environ.get("MODEL_DIR"):
        folder, name = Path(environ["MODEL_DIR"]).expanduser(), "MODEL_DIR"
        return _complete(folder), f"{name} ({without_home(str(folder))})"
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:
        return False, "huggingface-hub is not installed"
    repository = Path(HF_HUB_CACHE) / f"models--{MODEL_ID.replace('/', '--')}"
    revision = environ.get("MODEL_REVISION") or "main"
    try:
        reference = repository / "refs" / revision
        commit = reference.read_text().strip() if reference.is_file() else revision
        found = _complete(repository / "snapshots" / commit)
    except OSError as error:
        return False, f"the Hugging Face cache cannot be read: {os.strerror(error.errno or 0)}"
    return found, f"{MODEL_ID} at {commit[:12]} in the local Hugging Face cache" if found else (
        f"{MODEL_ID} is not in the local Hugging Face cache"
    )


def memory(root: Path = Path("/")) -> Memory:
    """What /proc/meminfo and the control group leave for a run."""
    fields = parse_fields(read_text(root, "/proc/meminfo").text or "")

    def size(name: str) -> int | None:
        try:
            return parse_size(fields[name])
        except (KeyError, ValueError):
            return None

    available, limit = size("MemAvailable"), cgroup.memory_limit(root)
    if limit.value is not None:
        left = max(0, int(limit.value) - _working_set(root, limit.source.rpartition("/")[0]))
        available = left if available is None else min(available, left)
    swap, swap_free = size("SwapTotal"), size("SwapFree")
    return Memory(available, None if limit.value is None else int(limit.value), (swap or 0) - (swap_free or 0))


def _working_set(root: Path, folder: str) -> int:
    """Memory in use in a control group without the files that the kernel would drop first; 0 when it does not tell."""
    texts = (read_text(root, f"{folder}/{name}").text for name in ("memory.current", "memory.usage_in_bytes"))
    used = next((int(text) for text in texts if text and text.isdigit()), 0)
    pairs = (line.split() for line in (read_text(root, f"{folder}/memory.stat").text or "").splitlines())
    counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
    return max(0, used - counts.get("total_inactive_file", counts.get("inactive_file", 0)))


def _complete(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in WEIGHT_FILES)
