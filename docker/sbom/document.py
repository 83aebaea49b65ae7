"""The CycloneDX document around the components: the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
IMAGE = "speedproof-image"


def build(
    target: str,
    version: str,
    components: Sequence[Mapping[str, Any]],
    dependencies: Mapping[str, Sequence[str]],
    *,
    epoch: int | None,
    properties: Mapping[str, str],
) -> dict[str, Any]:
    """The whole document of the image `target` (cpu or cuda).

    `dependencies` maps references to references; the image itself depends on whatever nothing else depends on. `epoch`
    is SOURCE_DATE_EPOCH in seconds; without it the document has no time. The serial number is derived from the rest.
    """
    depended_on = {reference for others in dependencies.values() for reference in others}
    roots = sorted(str(one["bom-ref"]) for one in components if one["bom-ref"] not in depended_on)
    graph = {**dependencies, IMAGE: roots}
    metadata: dict[str, Any] = {
        **({"timestamp": timestamp(epoch)} if epoch is not None else {}),
        "lifecycles": [{"phase": "build"}],
        "tools": {"components": [{"type": "application", "name": "speedproof docker/sbom", "version": version}]},
        "component": {
            "type": "container",
            "bom-ref": IMAGE,
            "name": f"speedproof:{target}",
            "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "properties": [{"name": name, "value": value} for name, value in sorted(properties.items()) if value],
        },
    }
    content: dict[str, Any] = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
        "dependencies": [{"ref": name, "dependsOn": sorted(others)} for name, others in sorted(graph.items())],
    }
    content["serialNumber"] = serial_number(content)
    return content


def serial_number(content: Mapping[str, Any]) -> str:
    """A UUID of the content: random ones would make two equal images differ."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"


def timestamp(epoch: int) -> str:
    """Seconds since 1970 in ISO 8601, UTC."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def text(content: Mapping[str, Any]) -> str:
    """The document as it is written."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
