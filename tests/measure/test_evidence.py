"""What a measuring process does with the evidence of its arms: an arm that is another is not timed, or not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from suite.bundle import reader, schema
from suite.bundle.writer import RUN, Bundle
from suite.cases.contract import Built
from suite.measure.process import Measurement
from suite.plan import Request, plan_cases
from suite.presets import PRESETS
from suite.profiling.evidence import Look
from suite.profiling.proof import NotWhatItSaysError
from suite.protocol import Assignment, Reporter
from tests import samples

EAGER, AGAIN, INDUCTOR = samples.ARMS


def measurement(tmp_path: Path, looks: list[Look], monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Measurement:
    """A process whose calls are seen as `looks`, one after the other."""
    (case,) = plan_cases(Request("smoke", "matmul_add/8-fp32"))
    bundle = Bundle(tmp_path)
    bundle.document(RUN, samples.run([case]))
    fields: dict[str, Any] = {
        "bundle": str(tmp_path),
        "role": "measure",
        "case": case,
        "arms": samples.ARMS,
        "procedure": PRESETS["smoke"][1],
        "process": 0,
        "incarnation": 0,
        "seed": 1,
        "progress_descriptor": -1,
        "parent": 0,
    }
    monkeypatch.setattr("suite.profiling.evidence.look", lambda call, synchronise: looks.pop(0))
    return Measurement(Assignment(**{**fields, **changes}), bundle, Reporter(-1))


def built() -> Built:
    def call() -> int:
        return 1

    return Built(call, (), call)


def events(found: Measurement, kind: type[Any]) -> list[Any]:
    return [event for event in reader.load(found.bundle.path).events if isinstance(event, kind)]


def test_an_eager_arm_in_which_compiled_code_ran_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measurement(tmp_path, [Look(["0/0"], 1, 0)], monkeypatch)
    with pytest.raises(NotWhatItSaysError, match="compiled code ran in its call"):
        found._make_ready(built())
    (evidence,) = events(found, schema.ArmEvidence)
    assert evidence.faults == ["compiled code ran in its call (1 time)"] and not events(found, schema.ArmReady)


def test_a_compiled_arm_that_compiled_nothing_is_not_timed_and_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measurement(tmp_path, [Look([], 0, 2)] * 3, monkeypatch)
    found._make_ready(built())
    assert list(found.calls) == list(found.outputs) == ["eager", "eager#2"]
    (left,) = events(found, schema.ArmNotRun)
    assert (left.arm, left.withheld) == ("inductor", True)
    assert left.reason == "it is not what it says: no graph was compiled for it"
    assert [event.arm for event in events(found, schema.ArmReady)] == ["eager", "eager#2"]


def test_an_arm_that_changed_while_it_was_timed_is_withheld_with_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measurement(tmp_path, [Look([], 0, 2), Look([], 0, 2)], monkeypatch)
    for arm in (EAGER, INDUCTOR):
        found.calls[arm.label] = lambda: None
        found.witness._before[arm.label] = samples.evidence(found.case.name, arm.label, 0)
        found.bundle.block(samples.block(found.case.name, arm.label, 0, len(found.calls), 1000.0))
    found._look_again()
    loaded = reader.load(found.bundle.path)
    assert [block.arm for block in loaded.blocks] == ["eager"]
    assert [block.arm for block in loaded.withheld_blocks] == ["inductor"]
    assert loaded.withheld[found.case.name, "inductor"].startswith(
        "after the last block it is not what it says: 0 of 1 calls"
    )
    assert {event.arm: bool(event.faults) for event in events(found, schema.ArmEvidence)} == {
        "eager": False,
        "inductor": True,
    }


def test_a_later_process_is_told_and_does_not_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measurement(tmp_path, [Look([], 0, 2)] * 2, monkeypatch, not_run={"inductor": "it is not what it says: x"})
    found._make_ready(built())
    assert [event.reason for event in events(found, schema.ArmNotRun)] == ["it is not what it says: x"]
    with pytest.raises(NotWhatItSaysError, match="it is not what it says: y"):
        measurement(tmp_path / "other", [], monkeypatch, not_run={"eager": "it is not what it says: y"})._make_ready(
            built()
        )


def test_evidence_survives_the_bundle(tmp_path: Path) -> None:
    row = samples.evidence(
        "matmul_add/8-fp32", "inductor", 0, settings={"torch._inductor.config.freezing": "True"}, faults=["a"]
    )
    assert msgspec.json.decode(msgspec.json.encode(row), type=schema.ArmEvidence) == row
