"""An arm's compiler cache is its own: Inductor's and Triton's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.profiling.compilation import CACHE_VARIABLE, TRITON_VARIABLE, own_cache

INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(INDUCTOR, "/toolchain")
    monkeypatch.delenv(TRITON_VARIABLE, raising=False)


def test_each_arm_compiles_into_a_folder_of_its_own_and_leaves_nothing_set(tmp_path: Path) -> None:
    seen = []
    for label in ("inductor", "inductor-max-autotune"):
        with own_cache(label):
            seen.append((os.environ[INDUCTOR], os.environ[TRITON_VARIABLE]))
        assert os.environ[INDUCTOR] == "/toolchain" and TRITON_VARIABLE not in os.environ
    assert len({folder for each in seen for folder in each}) == 4
    assert seen[0][0] == str(tmp_path / "inductor")


def test_a_folder_that_the_user_exported_for_triton_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRITON_VARIABLE, "/mine")
    with own_cache("inductor"):
        assert os.environ[TRITON_VARIABLE] == "/mine"
    assert os.environ[TRITON_VARIABLE] == "/mine"
