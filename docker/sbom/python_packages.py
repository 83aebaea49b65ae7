"""The image's Python packages, from their own metadata, each with the hash that the lock pins it to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sbom import licences

_PIN = re.compile(r"^([a-z0-9.-]+)==([^ ;]+)[^\n]*\n((?: {4}[^\n]*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class Pin:
    """What the lock says of a package; `sha256` holds the hashes of the files that it allows."""

    version: str
    sha256: tuple[str, ...]


def read_lock(text: str) -> dict[str, Pin]:
    """Name -> pin, of a requirements file with hashes."""
    return {
        match[1]: Pin(match[2], tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", match[3])))
        for match in _PIN.finditer(text)
    }


def installed() -> dict[str, Distribution]:
    """Canonical name -> distribution, of everything that this Python can import."""
    return {canonicalize_name(found.metadata["Name"]): found for found in distributions()}


def disagreements(versions: Mapping[str, str], lock: Mapping[str, Pin]) -> list[str]:
    """Where what is installed is not what the lock pins; a build's suffix ("+cpu") is no difference of version."""
    said = [f"{name} {pin.version} is locked and not installed" for name, pin in lock.items() if name not in versions]
    for name, version in versions.items():
        if name not in lock:
            said.append(f"{name} {version} is installed and not locked")
        elif version.partition("+")[0] != lock[name].version:
            said.append(f"{name} {version} is installed and {lock[name].version} is locked")
    return sorted(said)


def purl(name: str, version: str) -> str:
    """Package URL, which is also the component's reference."""
    return f"pkg:pypi/{name}@{quote(version, safe='')}"


def component(name: str, found: Distribution, pin: Pin) -> dict[str, Any]:
    """The package as a CycloneDX component. Its hashes are those of the locked wheel, not of the installed files."""
    metadata = found.metadata
    reference = purl(name, found.version)
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": found.version,
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in pin.sha256],
        "purl": reference,
    }
    licensed = licences.of_python_package(
        _field(found, "License-Expression"), _field(found, "License"), metadata.get_all("Classifier") or []
    )
    if licensed:
        made["licenses"] = licensed
    site = _website(_field(found, "Home-page"), metadata.get_all("Project-URL") or [])
    if site:
        made["externalReferences"] = [{"type": "website", "url": site}]
    return made


def _field(found: Distribution, name: str) -> str:
    return (found.metadata.get_all(name) or [""])[0]


def _website(home: str, labelled: Iterable[str]) -> str:
    """The home page, else the first labelled address, as `Homepage, https://...`."""
    candidates = [home, *sorted((line.partition(",")[2].strip() for line in labelled), key=len)]
    return next((address for address in candidates if re.fullmatch(r"https?://[^\s<>\"]+", address)), "")


def dependencies(found: Mapping[str, Distribution]) -> dict[str, list[str]]:
    """Package URL -> the package URLs of what it requires here, extras left out."""
    references = {name: purl(name, distribution.version) for name, distribution in found.items()}
    wanted = {name: _required(distribution) for name, distribution in found.items()}
    return {
        references[name]: sorted({references[other] for other in others if other in references})
        for name, others in wanted.items()
    }


def _required(distribution: Distribution) -> set[str]:
    requirements = map(Requirement, distribution.requires or [])
    return {
        canonicalize_name(one.name) for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})
    }
