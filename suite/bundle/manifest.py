"""SHA256SUMS: the digest of every other file of a bundle, in the format of `sha256sum -c`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from suite.bundle.errors import BundleError
from suite.bundle.writer import write_bytes

NAME = "SHA256SUMS"


class Check(msgspec.Struct, frozen=True):
    """How a bundle's files compare with its manifest; every list holds paths relative to the bundle, sorted."""

    matching: list[str]
    changed: list[str]
    missing: list[str]
    unlisted: list[str]


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal.

    Raises:
        BundleError: when the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror or error}); mend its permissions.") from error


def files(bundle: Path) -> list[str]:
    """Every file that belongs into the manifest: all but the manifest itself and files being written beside."""
    found = (path.relative_to(bundle) for path in bundle.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(
        str(path) for path in found if str(path) != NAME and not (path.name.startswith(".") and path.suffix == ".part")
    )


def write(bundle: Path) -> None:
    """Write the manifest over every file as it is now; called by whoever measured."""
    _write(bundle, {name: digest(bundle / name) for name in files(bundle)})


def renew(bundle: Path, names: list[str]) -> None:
    """Renew the digests of `names` alone, so that re-rendering a report never covers up a changed sample."""
    entries = read(bundle)
    entries.update({name: digest(bundle / name) for name in names})
    _write(bundle, entries)


def _write(bundle: Path, entries: dict[str, str]) -> None:
    lines = "".join(f"{entries[name]}  {name}\n" for name in sorted(entries))
    write_bytes(bundle / NAME, lines.encode())


def read(bundle: Path) -> dict[str, str]:
    """Digests by relative path; empty when the bundle has no manifest yet.

    Raises:
        BundleError: when a line is not "<64 hexadecimal digits>  <path>".
    """
    path = bundle / NAME
    if not path.exists():
        return {}
    entries: dict[str, str] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        value, separator, name = line.partition("  ")
        if not separator or len(value) != hashlib.sha256().digest_size * 2:
            raise BundleError(
                f"{path}:{number}: not a line of sha256sum ('{line[:40]}'); restore the file from where the run was made."
            )
        entries[name] = value
    return entries


def check(bundle: Path, ignore: tuple[str, ...] = ()) -> Check:
    """Compare the files with the manifest, leaving out the names in `ignore`."""
    listed = {name: value for name, value in read(bundle).items() if name not in ignore}
    present = [name for name in files(bundle) if name not in ignore]
    matching: list[str] = []
    changed: list[str] = []
    for name in present:
        if name in listed:
            (matching if digest(bundle / name) == listed[name] else changed).append(name)
    return Check(
        matching=matching,
        changed=changed,
        missing=sorted(set(listed) - set(present)),
        unlisted=[name for name in present if name not in listed],
    )
