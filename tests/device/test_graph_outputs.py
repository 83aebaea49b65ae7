"""Outputs of arms that replay what they recorded: each call of any of them writes into the same memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace as changed

from suite import arms as all_arms
from suite.accuracy.outputs import kept
from suite.bundle import reader, schema
from suite.bundle.writer import RUN
from suite.cases.contract import Built
from suite.measure import process
from suite.measure.process import Measurement
from suite.profiling import proof
from tests import samples
from tests.device.fake import US, Timeline
from tests.device.test_measurement import measurement, on_gpu

EAGER, GRAPH, TUNED = "eager", "inductor-reduce-overhead", "inductor-max-autotune"
RIGHT = 3.0


def arm(name: str) -> schema.Arm:
    role: Any = "baseline" if name == EAGER else "candidate"
    return schema.Arm(label=name, name=name, role=role, description=name)


def graphs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, list[float]]) -> Measurement:
    """A process whose arms return, call by call, these values (the last one stays) in the one tensor that all graphs share."""
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline), None)
    shared = torch.zeros(8, dtype=torch.bfloat16)
    work = timeline.work(5 * US, 300 * US)

    def prepare(arm: all_arms.Arm, function: Any) -> Callable[..., Any]:
        left = list(values[arm.name])

        def call() -> torch.Tensor:
            work()
            return shared.fill_(left.pop(0) if len(left) > 1 else left[0])

        return call

    monkeypatch.setattr(process, "prepare", prepare)
    # Nothing is compiled here: what these arms return is looked at, not what they are.
    monkeypatch.setattr(proof, "faults_before", lambda *_, **__: [])
    monkeypatch.setattr(proof, "faults_after", lambda *_: [])
    arms = [arm(name) for name in values]
    found.assignment = changed(found.assignment, arms=arms)
    found.bundle.document(RUN, samples.run([found.case], arms))
    found.calls = {}
    return found


def built() -> Built:
    reference = torch.full((8,), RIGHT, dtype=torch.float64)
    return Built(call=lambda: None, inputs=(), reference=lambda: reference)


def passed(found: Measurement) -> dict[str, bool]:
    loaded = reader.load(found.bundle.path)
    return {name: accuracy.passed for (_, name), accuracy in loaded.accuracies.items()}


def test_each_arms_output_is_its_own_where_graphs_write_into_one_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [7.0], TUNED: [RIGHT]})
    found._make_ready(built())
    found._check_accuracy(built())
    assert passed(found) == {GRAPH: False, TUNED: True}


def test_what_is_checked_is_a_replay_and_not_the_call_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [RIGHT, RIGHT, 7.0], TUNED: [7.0, 7.0, RIGHT]})
    found._make_ready(built())
    found._check_accuracy(built())
    assert passed(found) == {GRAPH: False, TUNED: True}


def test_an_arm_that_is_wrong_after_the_last_block_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [RIGHT] * 3 + [7.0], TUNED: [RIGHT]})
    found._make_ready(built())
    check = found._check_accuracy(built())
    assert passed(found) == {GRAPH: True, TUNED: True}
    check.after(found.calls, found.assignment.arms)
    assert passed(found) == {GRAPH: False, TUNED: True}
    loaded = reader.load(found.bundle.path)
    (message,) = [each.message for each in loaded.accuracies.values() if not each.passed]
    assert message.startswith("after the last block: ")


def test_a_whole_process_checks_again_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [RIGHT] * 3 + [7.0]})
    found.assignment = changed(found.assignment, check_accuracy=True)
    monkeypatch.setattr(Measurement, "_warm_up", lambda self: {})
    monkeypatch.setattr(Measurement, "_plan", lambda self, warm: None)
    monkeypatch.setattr(Measurement, "_record_effective", lambda self: None)
    monkeypatch.setattr(Measurement, "_measure", lambda self, plan: None)
    monkeypatch.setattr(process, "workload", lambda name: type("W", (), {"build": lambda *arguments: built()}))
    found.run()
    assert passed(found) == {GRAPH: False}


def test_a_check_that_raises_fails_its_arm_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [RIGHT], TUNED: [RIGHT]})
    found._make_ready(built())
    found.outputs[GRAPH] = "nothing to compare"
    found._check_accuracy(built())
    assert passed(found) == {GRAPH: False, TUNED: True}
    (message,) = [each.message for each in reader.load(found.bundle.path).accuracies.values() if not each.passed]
    assert message == "its output could not be compared: TypeError: a case's call returned str without a tensor in it"


def test_an_arm_whose_replay_fails_did_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = graphs(monkeypatch, tmp_path, {EAGER: [RIGHT], GRAPH: [RIGHT]})
    usual = process.prepare

    def prepare(arm: all_arms.Arm, function: Any) -> Callable[..., Any]:
        calls: list[int] = []

        def call() -> Any:
            calls.append(1)
            if arm.name == GRAPH and len(calls) == 2:
                raise RuntimeError("operation not permitted when stream is capturing")
            return usual(arm, function)()

        return call

    monkeypatch.setattr(process, "prepare", prepare)
    found._make_ready(built())
    (event,) = [e for e in reader.load(found.bundle.path).events if isinstance(e, schema.ArmNotRun)]
    assert event.arm == GRAPH and "capturing" in event.reason
    assert list(found.calls) == [EAGER]


def test_outputs_within_mappings_and_sequences_are_copied_too() -> None:
    inner = torch.ones(2)
    copied = kept({"states": (inner, {"last": inner}), "count": 3})
    inner.fill_(5.0)
    assert copied["states"][0].tolist() == copied["states"][1]["last"].tolist() == [1.0, 1.0]
    assert copied["count"] == 3


def test_the_labels_of_the_doubles_are_the_suites() -> None:
    assert {EAGER, GRAPH, TUNED} <= set(all_arms.ARMS) and samples.ARMS[0].label == EAGER
