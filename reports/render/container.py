"""Where a run ran, and what of its container bears on its numbers, in words."""

from __future__ import annotations

from suite.bundle.schema import Engine
from suite.bundle.writer import SBOM


def where(engine: Engine) -> str:
    """Engine, image and digest in a clause; or why there was none."""
    if not engine.containerised:
        return f"not in a container that the suite started: {engine.reason}"
    parts = [_engine(engine), f"image {engine.image or 'unnamed'}"]
    parts[1] += f" ({engine.image_digest})" if engine.image_digest else ""
    parts += [f"its software listed in {SBOM} (sha256:{engine.sbom_sha256})"] if engine.sbom_sha256 else []
    parts += ["not all that was asked for could be given (see The container)"] if engine.losses else []
    return ", ".join(parts)


def rows(engine: Engine) -> list[tuple[str, list[str]]]:
    """The container's rows for the environment section: name, and one or more lines."""
    told = [
        ("Engine", [_engine(engine)]),
        ("Why", [engine.reason]),
        ("Image", [engine.image or "unnamed", engine.image_digest or "no digest"]),
        ("Software", [f"{SBOM}, sha256:{engine.sbom_sha256}" if engine.sbom_sha256 else "not listed (no SBOM)"]),
        ("Options", [" ".join(engine.flags) or "none recorded"]),
        ("Folders", engine.mounts),
        ("What the engine could not give", engine.losses),
    ]
    return [(name, lines) for name, lines in told if lines]


def _engine(engine: Engine) -> str:
    rights = {True: "rootless", False: "rootful", None: ""}[engine.rootless]
    about = ", ".join(part for part in (rights, engine.runtime or "") if part)
    return f"{engine.name} {engine.version or ''}".rstrip() + (f" ({about})" if about else "")
