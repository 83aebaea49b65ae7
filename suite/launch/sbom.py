"""The image's software bill of materials: kept in the bundle, so that what was measured with can be read without the image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "SPEEDPROOF_SBOM"
"""Names the file; the image sets it."""

LARGEST_BYTES = 64 << 20


def read(environment: Mapping[str, str]) -> bytes | str:
    """The file that the environment names; or in a clause why there is none ("" when none is named). Never raises."""
    named = environment.get(VARIABLE)
    if not named:
        return ""
    try:
        content = Path(named).read_bytes()
    except OSError as error:
        return f"{VARIABLE} names a file that cannot be read ({error.strerror or error})"
    if len(content) > LARGEST_BYTES:
        return f"{VARIABLE} names a file of {len(content) / 1e6:.0f} MB, which is no list of packages"
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict) or told.get("bomFormat") != "CycloneDX":
        return f"{VARIABLE} names a file that is not CycloneDX in JSON"
    return content


def digest(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()
