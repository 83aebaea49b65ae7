"""Which slice lies in which: by time and thread alone."""

from __future__ import annotations

import numpy as np
import pytest

from reports.trace import nesting
from reports.trace.nesting import Nesting, nest


def nested(*slices: tuple[int, int], lane: list[int] | None = None, tolerance: int = 0) -> Nesting:
    start = np.array([first for first, _ in slices], np.int64)
    end = np.array([last for _, last in slices], np.int64)
    lanes = np.array(lane or [0] * len(slices), np.int32)
    return nest(lanes, start, end, tolerance)


def test_children_lie_in_their_parents_and_take_their_time() -> None:
    found = nested((0, 100), (10, 40), (20, 30), (50, 90))
    assert found.parent.tolist() == [-1, 0, 1, 0]
    assert found.depth.tolist() == [0, 1, 2, 1]
    assert found.self_time.tolist() == [30, 20, 10, 40]


def test_threads_do_not_nest_in_each_other() -> None:
    found = nested((0, 100), (10, 40), lane=[0, 1])
    assert found.parent.tolist() == [-1, -1] and found.self_time.tolist() == [100, 30]


def test_slices_that_touch_are_brothers() -> None:
    assert nested((0, 10), (10, 20)).parent.tolist() == [-1, -1]


def test_of_slices_that_begin_together_the_longer_is_outside_whatever_their_order() -> None:
    assert nested((0, 10), (0, 20)).parent.tolist() == [1, -1]
    assert nested((0, 20), (0, 10)).parent.tolist() == [-1, 0]


def test_equal_slices_nest_in_the_order_of_the_file() -> None:
    found = nested((0, 10), (0, 10), (0, 10))
    assert found.parent.tolist() == [-1, 0, 1] and found.self_time.tolist() == [0, 0, 10]


def test_a_slice_of_no_length_lies_in_what_surrounds_it() -> None:
    found = nested((0, 10), (5, 5), (10, 10))
    assert found.parent.tolist() == [-1, 0, 0] and found.self_time.tolist() == [10, 0, 0]


def test_an_excess_counts_for_neither_and_is_counted() -> None:
    found = nested((0, 10), (5, 15), (20, 30))
    assert found.parent.tolist() == [-1, 0, -1]
    assert found.self_time.tolist() == [5, 5, 10] and found.overlaps == 1


def test_an_excess_within_the_clock_s_rounding_is_none() -> None:
    assert nested((0, 10), (5, 12), tolerance=2).overlaps == 0
    assert nested((0, 10), (5, 13), tolerance=2).overlaps == 1


def test_self_times_sum_to_the_covered_time() -> None:
    chance = np.random.default_rng(3)
    start = chance.integers(0, 1000, 400)
    slices = [
        (int(first), int(first + length)) for first, length in zip(start, chance.integers(0, 60, 400), strict=True)
    ]
    found = nested(*slices, lane=[number % 3 for number in range(400)])
    assert (found.self_time >= 0).all()
    for number in range(400):
        parent = int(found.parent[number])
        assert parent < 0 or (parent % 3 == number % 3 and slices[parent][0] <= slices[number][0])


def test_walking_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(4)
    start = chance.integers(0, 300, 200)
    slices = [(int(at), int(at + length)) for at, length in zip(start, chance.integers(0, 60, 200), strict=True)]
    whole = nested(*slices)
    monkeypatch.setattr(nesting, "PART", 7)
    parts = nested(*slices)
    assert whole.parent.tolist() == parts.parent.tolist() and whole.depth.tolist() == parts.depth.tolist()
    assert whole.self_time.tolist() == parts.self_time.tolist() and whole.overlaps == parts.overlaps


def test_nothing_nests_in_nothing() -> None:
    assert nested().parent.size == 0
