"""Arithmetic of intervals against counting every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.trace import intervals
from reports.trace.columns import Ints

pairs = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 12)), max_size=12)


def arrays(found: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    start = np.array([first for first, _ in found], np.int64)
    return start, start + np.array([length for _, length in found], np.int64)


def times(start: Ints, end: Ints) -> set[int]:
    return {time for first, last in zip(start.tolist(), end.tolist(), strict=True) for time in range(first, last)}


@settings(derandomize=True, database=None)
@given(pairs)
def test_the_union_covers_the_same_time_in_order_and_apart(found: list[tuple[int, int]]) -> None:
    start, end = arrays(found)
    first, last = intervals.union(start, end)
    assert times(first, last) == times(start, end)
    assert (last > first).all() and (first[1:] > last[:-1]).all()
    assert intervals.length(start, end) == len(times(start, end))


@settings(derandomize=True, database=None)
@given(pairs, st.integers(-40, 40), st.integers(0, 60))
def test_gaps_are_what_the_union_leaves_of_a_window(found: list[tuple[int, int]], begin: int, length: int) -> None:
    start, end = arrays(found)
    before, after = intervals.gaps(*intervals.union(start, end), begin, begin + length)
    assert times(before, after) == set(range(begin, begin + length)) - times(start, end)
    assert (after > before).all()


@settings(derandomize=True, database=None)
@given(pairs, pairs)
def test_cover_of_windows(found: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    start, end = arrays(found)
    covered = intervals.covered(*intervals.union(start, end), *arrays(windows))
    expected = [len(times(start, end) & set(range(first, first + length))) for first, length in windows]
    assert covered.tolist() == expected
