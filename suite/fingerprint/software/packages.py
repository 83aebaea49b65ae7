"""Every installed Python package with its version and a hash of its record, without importing any.

The record (RECORD, PEP 376 and 627) lists the package's files with their hashes, so one hash stands for the package's
content. Lines that installing adds (scripts, byte code, the installer's own notes) are left out: the same wheel then
has the same hash in every environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, ok

INFORMATION = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.(?:dist-info|egg-info)")
# Files that pip, uv and conda write beside the wheel's own.
ADDED = re.compile(
    rb'"?(?:\.\./|/)|.*\.pyc,|.*\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json|uv_cache\.json|uv_build\.json),'
)

Package = dict[str, str]


def read(path: Iterable[str] | None = None, prefix: Path | None = None) -> Facts:
    """Facts of the installed packages: those on `path` (sys.path), and conda's in `prefix`. Never raises."""
    return {
        "packages": call(
            "*.dist-info on sys.path", lambda: installed(sys.path if path is None else path) or None, "none"
        ),
        "conda_packages": _conda(Path(sys.prefix) if prefix is None else prefix),
    }


def installed(path: Iterable[str]) -> dict[str, Package]:
    """Packages by normalised name. As in an import, the first folder on the path that has a package stands."""
    found: dict[str, Package] = {}
    for folder in path:
        for name, information in _informations(folder or "."):
            if name not in found:
                found[name] = _package(information)
    return dict(sorted(found.items()))


def record_hash(record: bytes) -> str:
    """SHA-256 of a RECORD's sorted lines, without what installing adds."""
    lines = sorted(line.strip() for line in record.splitlines() if line.strip() and not ADDED.match(line.strip()))
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def normalised(name: str) -> str:
    """A package's name as the index writes it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _informations(folder: str) -> Iterator[tuple[str, str]]:
    """Normalised names and folders of metadata, in order of their names, so that the outcome does not depend on the disk."""
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return
    for entry in entries:
        match = INFORMATION.fullmatch(entry)
        if match:
            yield normalised(match["name"]), os.path.join(folder, entry)


def _package(information: str) -> Package:
    folder = Path(information)
    match = INFORMATION.fullmatch(folder.name)
    package: Package = {"version": match["version"] if match else "unknown"}
    try:
        package["record_sha256"] = record_hash((folder / "RECORD").read_bytes())
    except OSError as error:
        package["no_record"] = error.strerror or type(error).__name__
    if (folder / "direct_url.json").is_file():
        # Not from an index: an own build, a checkout, or a source that may carry a path or a token, so only the kind is told.
        package["installed_from"] = _origin(folder / "direct_url.json")
    return package


def _origin(path: Path) -> str:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return "not an index"
    if "vcs_info" in document:
        commit = str(document["vcs_info"].get("commit_id", ""))
        return f"a repository at {commit[:12]}" if re.fullmatch(r"[0-9a-f]{40}", commit) else "a repository"
    if document.get("dir_info", {}).get("editable"):
        return "an editable folder"
    return "a folder" if "dir_info" in document else "an archive"


def _conda(prefix: Path) -> Fact:
    """Name and version with build of conda's packages, from the names of its records."""
    folder = prefix / "conda-meta"
    source = "sys.prefix/conda-meta"
    try:
        names = sorted(path.stem for path in folder.glob("*.json"))
    except OSError:
        names = []
    matches = [re.fullmatch(r"(.+)-([^-]+)-([^-]+)", name) for name in names]
    found = {match[1]: f"{match[2]} {match[3]}" for match in matches if match}
    return ok(found, source) if found else absent(source, "not a conda environment")
