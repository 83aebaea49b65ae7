"""Which process a run buys next: by width, budget, maximum and failures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from suite.allocate import Wish, decide, is_settled, pairs_for
from suite.bundle import reader, schema
from suite.bundle.writer import EVENTS, append
from suite.measure.schedule import least_pairs
from suite.measure.stopping import widest
from suite.presets import PRESETS
from tests import samples

CASE = "matmul_add/64-fp32"
STEADY = {"eager": [200.0, 200.1, 199.9], "eager#2": [200.0] * 3, "inductor": [100.0, 100.1, 99.9]}
WIDE = {"eager": [200.0, 210.0, 190.0], "eager#2": [200.0] * 3, "inductor": [100.0, 90.0, 110.0]}


def loaded(path: Path, times: Mapping[str, Sequence[float]], **procedure: object) -> reader.Loaded:
    """A bundle of one case, with changes to the quick preset's procedure; each process is said to have taken 5 s."""
    changed = msgspec.structs.replace(PRESETS["quick"][1], **procedure)
    return reader.load(samples.write(path / "run", {CASE: times}, changes={"procedure": changed}))


def decision(bundle: reader.Loaded, failed: bool = False) -> Wish | schema.Stopped:
    return decide(bundle, bundle.run.cases[0], 60.0, failed)


def test_a_narrow_interval_has_reached_the_target(tmp_path: Path) -> None:
    found = decision(loaded(tmp_path, STEADY))
    assert isinstance(found, schema.Stopped)
    assert (found.reason, found.processes) == ("target reached", 3)
    assert found.half_width is not None and found.half_width < 0.01


def test_a_wide_interval_buys_the_next_process(tmp_path: Path) -> None:
    found = decision(loaded(tmp_path, WIDE))
    assert isinstance(found, Wish)
    assert (found.process, found.cost_s) == (3, 5.0) and found.half_width > 0.1


@pytest.mark.parametrize(
    ("procedure", "failed", "reason"),
    [
        ({"budget_ns": 19_000_000_000}, False, "budget spent"),  # 15 s are spent, another process takes 5 s
        ({"processes_maximum": 3}, False, "most processes reached"),
        ({}, True, "failures"),
    ],
)
def test_a_wide_interval_is_left_with_the_reason(
    tmp_path: Path, procedure: dict[str, object], failed: bool, reason: str
) -> None:
    found = decision(loaded(tmp_path, WIDE, **procedure), failed)
    assert isinstance(found, schema.Stopped) and found.reason == reason


def test_without_an_interval_there_is_no_width_and_more_is_wanted(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, {arm: times[:2] for arm, times in STEADY.items()})
    assert widest(bundle.blocks, bundle.run.arms, bundle.run.procedure) is None
    assert isinstance(decision(bundle), Wish)


def test_a_case_whose_candidate_never_ran_waits_for_nothing(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, {arm: STEADY[arm] for arm in ("eager", "eager#2")})
    assert widest(bundle.blocks, bundle.run.arms, bundle.run.procedure) == 0.0


def test_a_decision_holds_when_the_run_is_continued(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, STEADY)
    found = decision(bundle)
    assert isinstance(found, schema.Stopped) and not is_settled(bundle, bundle.run.cases[0])
    append(bundle.path / EVENTS, found)
    assert is_settled(reader.load(bundle.path), bundle.run.cases[0])


def test_failures_are_forgotten_when_the_run_is_continued(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, WIDE)
    found = decision(bundle, failed=True)
    assert isinstance(found, schema.Stopped)
    append(bundle.path / EVENTS, found)
    assert not is_settled(reader.load(bundle.path), bundle.run.cases[0])


def test_a_pilot_asks_for_few_pairs_where_processes_differ_and_for_many_where_they_do_not(tmp_path: Path) -> None:
    # Pairs of one process are equal here, processes differ: one pair a process is enough.
    bundle = loaded(tmp_path, WIDE)
    assert pairs_for(bundle, bundle.run.cases[0], 60.0) == 1
    empty = loaded(tmp_path / "empty", {"eager": [], "inductor": []})
    assert pairs_for(empty, empty.run.cases[0], 60.0) is None


def test_every_arm_is_measured_for_its_least_time() -> None:
    # A block of 0.1 s: a pair holds 0.2 s of each arm, so that three pairs hold half a second.
    assert least_pairs({"eager": 1e8, "inductor": 2e8}, 500_000_000, minimum=2) == 3
    assert least_pairs({"eager": 1e9}, 500_000_000, minimum=2) == 2


def test_a_process_without_enough_whole_pairs_counts_as_little_here_as_in_the_report(tmp_path: Path) -> None:
    bundle = loaded(tmp_path, {arm: times[:2] for arm, times in STEADY.items()})
    for number, arm in enumerate((*STEADY, *reversed(STEADY))):  # one whole pair, where the preset asks for two
        append(bundle.path / "samples.jsonl", samples.block(CASE, arm, 2, number, STEADY[arm][2]))
    again = reader.load(bundle.path)
    assert widest(again.blocks, again.run.arms, again.run.procedure) is None
