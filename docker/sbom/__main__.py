"""Writes the software bill of materials of the image that this runs in.

    PYTHONPATH=docker .venv/bin/python -m sbom --target cpu --output sbom.cdx.json

Refuses to describe an image whose Python packages are not those of its lock: such a build has to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sbom import debian, document, python_packages

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "speedproof"


def application(version: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Speedproof's own code."""
    named = {"revision": environment.get("REVISION", ""), "source-digest": environment.get("SOURCE", "")}
    return {
        "type": "application",
        "bom-ref": APPLICATION,
        "name": APPLICATION,
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "properties": [{"name": f"speedproof:{name}", "value": value} for name, value in named.items() if value],
    }


def operating_system(release: str) -> dict[str, Any]:
    """Debian itself, from /etc/os-release."""
    fields = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    name, version = (fields.get(key, "unknown").strip('"') for key in ("ID", "VERSION_ID"))
    return {"type": "operating-system", "bom-ref": f"os:{name}-{version}", "name": name, "version": version}


def weights(record: Path) -> list[dict[str, Any]]:
    """The model's files, where the image holds them (docker/weights writes the record)."""
    if not record.is_file():
        return []
    known = json.loads(record.read_text())
    return [
        {
            "type": "machine-learning-model" if name != "config.json" else "data",
            "bom-ref": f"weights:{known['model']}/{name}",
            "name": f"{known['model']}/{name}",
            "version": known["revision"],
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for name, digest in sorted(known["sha256"].items())
    ]


def main(arguments: list[str] | None = None) -> None:
    """Collect, check against the lock, write."""
    parser = argparse.ArgumentParser(prog="sbom", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args(arguments)

    lock = python_packages.read_lock((ROOT / "docker" / f"requirements-{chosen.target}.lock").read_text())
    found = python_packages.installed()
    wrong = python_packages.disagreements({name: one.version for name, one in found.items()}, lock)
    if wrong:
        sys.exit(f"sbom: the image's Python packages are not those of its lock: {'; '.join(wrong)}")
    system = debian.installed()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    components = [
        application(project["version"], os.environ),
        operating_system(Path("/etc/os-release").read_text()),
        *weights(ROOT / "hub" / "weights.json"),
        *(python_packages.component(name, one, lock[name]) for name, one in found.items()),
        *(debian.component(package) for package in system),
    ]
    dependencies = {
        **python_packages.dependencies(found),
        **debian.dependencies(system),
        APPLICATION: sorted(python_packages.purl(name, found[name].version) for name in direct if name in found),
    }
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    content = document.build(
        chosen.target,
        project["version"],
        components,
        dependencies,
        epoch=int(epoch) if epoch else None,
        properties={"speedproof:target": chosen.target},
    )
    chosen.output.write_text(document.text(content))
    print(f"sbom: {len(found)} Python packages and {len(system)} Debian packages in {chosen.output}")


if __name__ == "__main__":
    main()
