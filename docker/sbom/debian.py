"""Debian's packages in this image, from dpkg's own records."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sbom import licences

_FIELDS = (
    "Package",
    "Version",
    "Architecture",
    "source:Package",
    "source:Version",
    "Homepage",
    "Pre-Depends",
    "Depends",
)
_QUERY = "${db:Status-Status}\\t" + "\\t".join(f"${{{name}}}" for name in _FIELDS) + "\\n"


@dataclass(frozen=True)
class DebianPackage:
    """One installed package. `depends` holds alternatives: the first that is installed is the one depended on."""

    name: str
    version: str
    architecture: str
    source: str
    source_version: str
    homepage: str
    depends: tuple[tuple[str, ...], ...]

    @property
    def purl(self) -> str:
        """Package URL, which is also the component's reference."""
        version = quote(self.version, safe=":~")
        return f"pkg:deb/debian/{quote(self.name, safe='')}@{version}?arch={self.architecture}"


def installed() -> list[DebianPackage]:
    """Every package that dpkg has installed here, by name.

    Raises:
        subprocess.CalledProcessError: dpkg-query failed.
    """
    asked = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={_QUERY}"], capture_output=True, text=True, check=True
    )
    return sorted(parse(asked.stdout), key=lambda package: (package.name, package.architecture))


def parse(text: str) -> Iterator[DebianPackage]:
    """Read dpkg-query's answer; packages of which only the configuration is left are passed over."""
    for line in text.splitlines():
        status, *fields = line.split("\t")
        if status == "installed" and len(fields) == len(_FIELDS):
            name, version, architecture, source, source_version, homepage, before, depends = fields
            yield DebianPackage(
                name, version, architecture, source, source_version, homepage, _alternatives(f"{before}, {depends}")
            )


def _alternatives(text: str) -> tuple[tuple[str, ...], ...]:
    """`a (>= 1), b:any | c` -> (("a",), ("b", "c"))."""
    groups = ([re.split(r"[ (:\[]", choice.strip())[0] for choice in group.split("|")] for group in text.split(","))
    return tuple(tuple(filter(None, group)) for group in groups if any(group))


def component(package: DebianPackage, documents: Path = Path("/usr/share/doc")) -> dict[str, Any]:
    """The package as a CycloneDX component; licences from its copyright file where that is machine-readable."""
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "supplier": {"name": "Debian"},
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "properties": [
            {"name": "debian:source", "value": package.source},
            {"name": "debian:source-version", "value": package.source_version},
        ],
    }
    found = licences.of_copyright_file(_copyright(documents / package.name / "copyright"))
    if found:
        made["licenses"] = found
    if package.homepage:
        made["externalReferences"] = [{"type": "website", "url": package.homepage}]
    return made


def _copyright(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def dependencies(packages: list[DebianPackage]) -> dict[str, list[str]]:
    """Package URL -> the package URLs of what it depends on, among the installed ones."""
    here = {package.name: package.purl for package in packages}
    return {
        package.purl: sorted(
            {
                next(here[name] for name in group if name in here)
                for group in package.depends
                if here.keys() & set(group)
            }
        )
        for package in packages
    }
