"""Licence names as Debian and Python packages write them -> CycloneDX licence entries, with SPDX identifiers where they are plain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Only names whose meaning is beyond doubt ("BSD" alone is not). The schema admits SPDX identifiers in `id`, anything in `name`.
SPDX: Mapping[str, str] = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "artistic-2.0": "Artistic-2.0",
    "boost-1.0": "BSL-1.0",
    "bsl-1.0": "BSL-1.0",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "mit": "MIT",
    "mit license": "MIT",
    "the mit license": "MIT",
    "isc": "ISC",
    "isc license (iscl)": "ISC",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "openssl": "OpenSSL",
    "psf-2.0": "PSF-2.0",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "unlicense": "Unlicense",
    "zlib": "Zlib",
    "zlib/libpng": "Zlib",
    "zpl-2.1": "ZPL-2.1",
}
# GPL-2, LGPL-2.1+, GFDL-1.3+ ... of Debian's machine-readable copyright files.
_GNU = re.compile(r"(A?GPL|LGPL|GFDL)-(\d)(?:\.(\d))?(\+?)", re.IGNORECASE)
_LONGEST_NAME = 60


def entry(name: str) -> dict[str, Any]:
    """One licence: by SPDX identifier when the name is known, by name otherwise."""
    cleaned = " ".join(name.split())
    if match := _GNU.fullmatch(cleaned):
        family, major, minor, later = match.groups()
        suffix = "or-later" if later else "only"
        return {"license": {"id": f"{family.upper()}-{major}.{minor or 0}-{suffix}"}}
    known = SPDX.get(cleaned.lower())
    return {"license": {"id": known} if known else {"name": cleaned}}


def entries(names: Iterable[str]) -> list[dict[str, Any]]:
    """Several licences, each once, in a fixed order."""
    found = {str(made["license"].get("id") or made["license"]["name"]): made for made in map(entry, names)}
    return [found[key] for key in sorted(found)]


def of_copyright_file(text: str) -> list[dict[str, Any]]:
    """Licences of a Debian copyright file; empty when the file is not of the machine-readable kind (DEP-5)."""
    if not text.lstrip().lower().startswith(("format:", "format-specification:")):
        return []
    names = (match[1].strip() for match in re.finditer(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE | re.IGNORECASE))
    return entries(name for name in names if name)


def of_python_package(expression: str, licence: str, classifiers: Iterable[str]) -> list[dict[str, Any]]:
    """Licences of a Python package from its metadata: License-Expression, else License, else the trove classifiers."""
    if expression:
        return [{"expression": expression}]
    # Some packages put the whole text of their licence into the field.
    if licence and "\n" not in licence.strip() and len(licence) <= _LONGEST_NAME and licence != "UNKNOWN":
        return entries([licence])
    ends = (line.rsplit(" :: ", 1)[-1] for line in classifiers if line.startswith("License ::"))
    return entries(end for end in ends if end != "OSI Approved")
