"""The bundle's format as a JSON Schema file, for programs that do not use this package.

`python -m suite.bundle.jsonschema > docs/bundle-1.3.schema.json` renews the published file; a test holds the two together.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from suite.bundle import schema

FILES: dict[str, Any] = {
    "run.json": schema.Run,
    "fingerprint.json": schema.Fingerprint,
    "samples.jsonl": schema.Block,
    "retaken.jsonl": schema.Block,
    "state.jsonl": schema.State,
    "events.jsonl": schema.AnyEvent,
    "telemetry.jsonl": schema.Telemetry,
    "cases/<case>/<arm>/profile.json": schema.Profile,
    "cases/<case>/<arm>/accuracy.json": schema.Accuracy,
}
"""File of a bundle -> what it holds; in a .jsonl file, what each line holds."""


def published() -> dict[str, Any]:
    """The schema document: `properties` names every file, `$defs` holds the structs."""
    schemas, components = msgspec.json.schema_components(list(FILES.values()), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Speedproof bundle {schema.SCHEMA_VERSION}",
        "description": "Each property is a file of a bundle; of a .jsonl file, the schema of every line.",
        "type": "object",
        "properties": dict(zip(FILES, schemas, strict=True)),
        "$defs": components,
    }


def text() -> str:
    """The published file's content."""
    return msgspec.json.format(msgspec.json.encode(published(), order="sorted"), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
