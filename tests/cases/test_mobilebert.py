"""MobileBERT's weights: found in a folder or in the cache, pinned, refused, or random and said so."""

import hashlib
import json
import time
from pathlib import Path

import pytest

from suite.cases.contract import Context
from suite.cases.mobilebert_qa import WORKLOAD, build
from suite.cases.mobilebert_weights import MODEL_ID, locate, resolve
from suite.errors import UserError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache


def fake_model(directory: Path, model_type: str = "mobilebert") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"model_type": model_type}))
    (directory / "model.safetensors").write_bytes(b"weights")
    return directory


def cached(cache: Path, commit: str = COMMIT, branch: str | None = "main") -> None:
    repository = cache / f"models--{MODEL_ID.replace('/', '--')}"
    fake_model(repository / "snapshots" / commit)
    if branch:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / branch).write_text(commit)


def test_without_weights_there_are_none_within_a_second_and_no_network() -> None:
    start = time.monotonic()
    assert resolve(None, None) is None
    assert time.monotonic() - start < 1


def test_the_cache_names_its_commit_and_the_weights_hash(empty_cache: Path) -> None:
    cached(empty_cache)
    found = resolve(None, None)
    assert found is not None and found.source == "cache" and found.revision == COMMIT
    assert found.sha256["model.safetensors"] == hashlib.sha256(b"weights").hexdigest()


def test_a_pinned_revision_is_used_and_a_missing_one_refused(empty_cache: Path) -> None:
    cached(empty_cache)
    cached(empty_cache, OTHER, branch=None)
    pinned = resolve(None, OTHER)
    assert pinned is not None and pinned.revision == OTHER
    with pytest.raises(UserError, match="MODEL_REVISION=nope"):
        resolve(None, "nope")


@pytest.mark.parametrize("revision", ["..", "../../x", "."])
def test_a_revision_cannot_lead_out_of_the_cache(empty_cache: Path, revision: str) -> None:
    cached(empty_cache)
    with pytest.raises(UserError):
        resolve(None, revision)


def test_a_folder_is_used_with_its_hashes(tmp_path: Path) -> None:
    found = resolve(str(fake_model(tmp_path / "model")), None)
    assert (
        found is not None and found.source == "MODEL_DIR" and set(found.sha256) == {"config.json", "model.safetensors"}
    )


def test_a_folder_that_is_none_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        resolve(str(tmp_path / "nowhere"), None)
    with pytest.raises(UserError, match=r"config\.json is missing"):
        resolve(str(tmp_path), None)
    with pytest.raises(UserError, match="type 'bert'"):
        resolve(str(fake_model(tmp_path / "bert", "bert")), None)
    model = fake_model(tmp_path / "model")
    (model / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no weights file"):
        resolve(str(model), None)


def test_a_folder_and_a_revision_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only one of the two"):
        resolve(str(tmp_path), COMMIT)


def test_random_weights_are_said(tmp_path: Path) -> None:
    case = WORKLOAD.describe("b1-s8-fp32", Context("quick"))
    assert case.weights is not None and case.weights.source == "random"
    assert any("random weights" in note for note in case.notes)


def test_the_bundle_holds_no_path_of_the_weights(tmp_path: Path) -> None:
    folder = fake_model(tmp_path / "model")
    found = resolve(str(folder), None)
    assert found is not None
    assert str(tmp_path) not in str(found)
    assert locate(found, {"MODEL_DIR": str(folder)}) == folder


def test_weights_that_are_gone_or_changed_are_refused(tmp_path: Path) -> None:
    folder = fake_model(tmp_path / "model")
    found = resolve(str(folder), None)
    assert found is not None
    with pytest.raises(UserError, match="give the same MODEL_DIR again"):
        locate(found, {})
    with pytest.raises(UserError, match="no longer where they were"):
        locate(found, {"MODEL_DIR": str(tmp_path)})
    with (folder / "config.json").open("a") as file:
        file.write(" ")
    with pytest.raises(UserError, match=r"config\.json of this run's weights .* changed"):
        locate(found, {"MODEL_DIR": str(folder)})


def test_a_model_saved_to_disk_is_loaded_from_model_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real loading code on a small real model: its outputs are those of the model that was saved."""
    import torch
    from transformers import MobileBertConfig, MobileBertForQuestionAnswering

    torch.manual_seed(7)
    saved = MobileBertForQuestionAnswering(MobileBertConfig(num_hidden_layers=1, attn_implementation="eager")).eval()
    saved.save_pretrained(tmp_path / "model")
    case = WORKLOAD.describe("b2-s8-fp32", Context("quick", model_dir=str(tmp_path / "model")))
    monkeypatch.setenv("MODEL_DIR", str(tmp_path / "model"))
    built = build(case, seed=1)
    with torch.no_grad():
        ours, theirs = built.call(*built.inputs), saved(input_ids=built.inputs[0])
        again = built.reference()
    assert torch.equal(ours.start_logits, theirs.start_logits)
    assert again.start_logits.dtype == torch.float64


def test_the_same_seed_gives_the_same_random_model_and_inputs() -> None:
    import torch

    case = WORKLOAD.describe("b1-s8-fp32-l1", Context("smoke"))
    first, second, other = build(case, 1), build(case, 1), build(case, 2)
    with torch.no_grad():
        outputs = [built.call(*built.inputs).end_logits for built in (first, second, other)]
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])
