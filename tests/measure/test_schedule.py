"""The order of blocks: mirrored, rotated, balanced."""

from collections import Counter

import pytest

from suite.measure.schedule import iterations_per_block, pairs_within, slots


def test_two_arms_run_abba_then_baab() -> None:
    assert "".join(slot.arm for slot in slots("AB", 2, 0)) == "ABBABAAB"


def test_processes_start_with_different_arms() -> None:
    assert [slots("ABC", 1, process)[0].arm for process in range(3)] == ["A", "B", "C"]


@pytest.mark.parametrize("arms", ["AB", "ABC", "ABCD"])
def test_every_arm_has_the_same_mean_position_in_each_pair(arms: str) -> None:
    for pair in range(3):
        mean = {arm: sum(s.position for s in slots(arms, 3, 0) if s.pair == pair and s.arm == arm) / 2 for arm in arms}
        assert set(mean.values()) == {len(arms) - 0.5}


def test_over_as_many_pairs_as_arms_each_arm_stands_in_each_place_equally_often() -> None:
    counts = Counter((slot.arm, slot.position) for slot in slots("ABC", 3, 1))
    assert set(counts.values()) == {1} and len(counts) == 18


def test_blocks_are_numbered_from_zero_without_gaps() -> None:
    assert [slot.block for slot in slots("ABC", 2, 5)] == list(range(12))


@pytest.mark.parametrize(
    ("arms", "pairs", "message"),
    [("", 1, "at least one"), ("AB", 0, "at least one"), (["eager", "eager"], 1, "unique")],
)
def test_a_schedule_without_meaning_is_refused(arms: str, pairs: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slots(arms, pairs, 0)


def test_a_block_lasts_its_duration_or_its_minimum_of_iterations() -> None:
    assert iterations_per_block(1_000_000, 1, 100_000_000, 5) == 100
    assert iterations_per_block(300_000_000, 1, 100_000_000, 5) == 5
    assert iterations_per_block(10_000, 10, 100_000_000, 5) == 1000


def test_pairs_fill_the_budget_within_their_bounds() -> None:
    block_ns = {"A": 1e9, "B": 1.5e9}  # a pair takes 5 s
    assert pairs_within(12_000_000_000, block_ns, 1, 6) == 2
    assert pairs_within(1, block_ns, 2, 6) == 2
    assert pairs_within(10**12, block_ns, 2, 6) == 6
