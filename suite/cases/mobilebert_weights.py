"""Finds MobileBERT's published weights on this machine, without a network and without torch.

The order: MODEL_DIR, then the local Hugging Face cache, then none (the case then uses random weights and says so). Nothing is
downloaded and no revision is invented: what the cache holds names its own commit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from suite.bundle.schema import Weights
from suite.errors import UserError

MODEL_ID = "csarron/mobilebert-uncased-squad-v2"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
"""In order of preference. A pickle is loaded by torch with weights_only, which unpickles tensors alone."""


def resolve(model_dir: str | None, revision: str | None) -> Weights | None:
    """The weights to use, or None when there are none.

    Raises:
        UserError: `model_dir` holds no MobileBERT, or `revision` was pinned and is not in the cache.
    """
    if model_dir:
        if revision:
            raise UserError(
                f"MODEL_REVISION={revision} cannot be checked against MODEL_DIR={model_dir} (a folder names no commit); "
                "give only one of the two."
            )
        return _from_directory(Path(model_dir).expanduser().resolve())
    return _from_cache(revision)


def locate(weights: Weights, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the weights of a plan lie on this machine; None for random ones. A bundle holds no path of the user's.

    Raises:
        UserError: they are not where they were, or are other files by now.
    """
    if weights.source == "random":
        return None
    if weights.source == "MODEL_DIR":
        if not environ.get("MODEL_DIR"):
            raise UserError("this run's weights came from MODEL_DIR; give the same MODEL_DIR again.")
        folder: Path | None = Path(environ["MODEL_DIR"]).expanduser().resolve()
    else:
        folder = _snapshot(weights.revision)
    file = _weights_file(folder) if folder else None
    if folder is None or file is None:
        raise UserError(f"the weights of this run ({weights.description}) are no longer where they were.")
    changed = [name for name, digest in _digests(folder, file).items() if weights.sha256.get(name) != digest]
    if changed:
        raise UserError(
            f"{', '.join(changed)} of this run's weights ({weights.description}) changed since it was started."
        )
    return folder


def _from_directory(directory: Path) -> Weights:
    weights = _weights_file(directory)
    if weights is None:
        raise UserError(
            f"MODEL_DIR={directory}: {_what_is_missing(directory)}; "
            f"it needs config.json of a MobileBERT and one of {', '.join(WEIGHT_FILES)}."
        )
    return Weights(
        source="MODEL_DIR",
        description=f"read from MODEL_DIR ({weights.name})",
        sha256=_digests(directory, weights),
    )


def _what_is_missing(directory: Path) -> str:
    if not directory.is_dir():
        return "there is no such folder"
    config = directory / "config.json"
    if not config.is_file():
        return "config.json is missing"
    if _model_type(config) != "mobilebert":
        return f"config.json is of a model of type '{_model_type(config)}'"
    return "there is no weights file"


def _model_type(config: Path) -> str:
    try:
        content = json.loads(config.read_bytes())
    except (OSError, ValueError) as error:
        return f"unreadable: {error}"
    return str(content.get("model_type")) if isinstance(content, dict) else "unreadable: not an object"


def _weights_file(directory: Path) -> Path | None:
    config = directory / "config.json"
    if not config.is_file() or _model_type(config) != "mobilebert":
        return None
    return next((directory / name for name in WEIGHT_FILES if (directory / name).is_file()), None)


def _from_cache(revision: str | None) -> Weights | None:
    snapshot = _snapshot(revision)
    weights = _weights_file(snapshot) if snapshot else None
    if snapshot is None or weights is None:
        if revision:
            raise UserError(
                f"MODEL_REVISION={revision} of {MODEL_ID} is not in the local Hugging Face cache; "
                f"download it first (`hf download {MODEL_ID} --revision {revision}`) or leave MODEL_REVISION out."
            )
        return None
    return Weights(
        source="cache",
        description=f"{MODEL_ID} at {snapshot.name}, from the local Hugging Face cache",
        model_id=MODEL_ID,
        revision=snapshot.name,
        sha256=_digests(snapshot, weights),
    )


def _snapshot(revision: str | None) -> Path | None:
    """The cache's folder of a revision (a branch, tag or commit; None: main), named by its commit."""
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{MODEL_ID.replace('/', '--')}"
    wanted = revision or "main"
    reference = repository / "refs" / wanted
    commit = reference.read_text().strip() if reference.is_file() else wanted
    snapshot = repository / "snapshots" / commit
    return snapshot if commit not in ("", ".", "..") and "/" not in commit and snapshot.is_dir() else None


def _digests(directory: Path, weights: Path) -> dict[str, str]:
    digests = {}
    for path in (directory / "config.json", weights):
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
