"""What a worker finds set in its own process, and nobody handed on to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from suite import worker
from suite.bundle import reader, schema
from suite.bundle.writer import RUN, Bundle
from suite.plan import Request, plan_cases
from suite.presets import PRESETS
from suite.protocol import Assignment
from tests import samples


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Assignment, Bundle]:
    """A worker in which something has turned the compiler off, before torch is imported."""
    (case,) = plan_cases(Request("smoke", "matmul_add/8-fp32"))
    bundle = Bundle(tmp_path)
    bundle.document(RUN, samples.run([case]))
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    fixed = {"incarnation": 0, "seed": 1, "progress_descriptor": -1, "parent": 0, "process": 0}
    procedure = PRESETS["smoke"][1]
    return Assignment(bundle=str(tmp_path), role="measure", case=case, arms=[], procedure=procedure, **fixed), bundle


def test_it_is_taken_out_before_torch_is_imported_and_noted(begun: tuple[Assignment, Bundle], tmp_path: Path) -> None:
    worker._take_out(*begun)
    assert "TORCHDYNAMO_DISABLE" not in os.environ and os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path)
    (noted,) = [event for event in reader.load(tmp_path).events if isinstance(event, schema.Noted)]
    assert noted.message.startswith("TORCHDYNAMO_DISABLE=1 was set within the worker and is taken out before torch")


def test_a_worker_whose_torch_may_have_read_it_measures_nothing(
    begun: tuple[Assignment, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    with pytest.raises(RuntimeError, match="TORCHDYNAMO_DISABLE=1 was set before the worker began"):
        worker._take_out(*begun)
