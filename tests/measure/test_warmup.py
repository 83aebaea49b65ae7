"""Warm-up on calls whose clock is faked."""

from collections.abc import Callable, Iterator

import pytest

from suite.measure import clock, warmup
from suite.measure.clock import overhead_ns, resolution_ns, time_iterations
from suite.measure.warmup import calls_for, halves_agree, warm_up

MS = 1_000_000


class FakeTime:
    """A clock that moves only when the call under test runs."""

    def __init__(self, durations: Iterator[int]) -> None:
        self.now = 0
        self.calls = 0
        self._durations = durations

    def __call__(self) -> int:
        return self.now

    def work(self) -> None:
        """One call."""
        self.calls += 1
        self.now += next(self._durations)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[int]], FakeTime]:
    def make(durations: Iterator[int]) -> FakeTime:
        time = FakeTime(durations)
        monkeypatch.setattr(clock, "perf_counter_ns", time)
        monkeypatch.setattr(warmup, "perf_counter_ns", time)
        return time

    return make


def falling_to(level: int) -> Iterator[int]:
    """Starts at ten times the level and falls by a tenth each call."""
    value = 10 * level
    while True:
        yield max(level, int(value))
        value *= 0.9


def test_a_falling_time_is_waited_for(fake: Callable[[Iterator[int]], FakeTime]) -> None:
    time = fake(falling_to(10 * MS))
    found = warm_up(time.work, minimum_ns=0, budget_ns=60_000 * MS, sample_minimum_ns=0, now=time)
    assert found.settled
    assert found.typical_ns == pytest.approx(10 * MS, rel=0.02)


def test_a_time_that_never_settles_ends_with_the_budget(fake: Callable[[Iterator[int]], FakeTime]) -> None:
    def rising() -> Iterator[int]:
        value = 1.0 * MS
        while True:
            value *= 1.05
            yield int(value)

    time = fake(rising())
    found = warm_up(time.work, minimum_ns=0, budget_ns=1000 * MS, sample_minimum_ns=0, now=time)
    assert not found.settled
    assert found.duration_ns >= 1000 * MS


def test_a_steady_call_is_still_warmed_for_the_minimum(fake: Callable[[Iterator[int]], FakeTime]) -> None:
    time = fake(iter(lambda: MS, 0))
    found = warm_up(time.work, minimum_ns=100 * MS, budget_ns=1000 * MS, sample_minimum_ns=0, now=time)
    assert found.settled and found.duration_ns >= 100 * MS


def test_calls_per_iteration_follow_the_settled_time_not_the_cold_one(
    fake: Callable[[Iterator[int]], FakeTime],
) -> None:
    time = fake(falling_to(10_000))
    found = warm_up(time.work, minimum_ns=10 * MS, budget_ns=1000 * MS, sample_minimum_ns=100_000, now=time)
    assert found.calls_per_iteration == 10


def test_a_fixed_number_of_warm_ups_is_exactly_that(fake: Callable[[Iterator[int]], FakeTime]) -> None:
    time = fake(iter(lambda: MS, 0))
    found = warm_up(time.work, minimum_ns=10**12, budget_ns=1, sample_minimum_ns=10**12, iterations=10, now=time)
    assert time.calls == 10 and len(found.iterations_ns) == 10 and found.calls_per_iteration == 1


def test_halves_that_differ_by_three_percent_do_not_agree() -> None:
    assert not halves_agree([1] * 8 + [1000] * 4 + [1030] * 4)
    assert halves_agree([1] * 8 + [1000] * 4 + [1010] * 4)
    assert not halves_agree([1000] * 6)


def test_calls_for_rounds_up() -> None:
    assert [calls_for(single, 100) for single in (1000, 100, 99, 34, 0.2)] == [1, 1, 2, 3, 100]


def test_an_iteration_makes_its_calls_and_its_time_is_of_all_of_them(fake: Callable[[Iterator[int]], FakeTime]) -> None:
    time = fake(iter(lambda: 7, 0))
    assert time_iterations(time.work, 3, 4) == [28, 28, 28]
    assert time.calls == 12


def test_the_real_clock_resolves_and_costs_less_than_a_tenth_of_the_shortest_sample() -> None:
    assert 0 < resolution_ns() < 10_000
    assert 0 < overhead_ns() < 10_000
