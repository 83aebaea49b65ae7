"""Ratios of processes that share nothing, held against published numbers and against simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from suite.statistics.family import more_processes
from suite.statistics.ratio import p_value
from suite.statistics.unpaired import UnpairedRatio, mean_interval, welch


def found(baseline: list[float], other: list[float]) -> UnpairedRatio:
    ratio = welch(baseline, other)
    assert isinstance(ratio, UnpairedRatio)
    return ratio


def test_the_ratio_is_that_of_the_geometric_means() -> None:
    ratio = found([math.log(t) for t in (100, 400)], [math.log(t) for t in (50, 50)])
    assert ratio.estimate == pytest.approx(4.0)
    assert ratio.per_process == pytest.approx((4.0, 4.0))


@pytest.mark.parametrize(
    ("spreads", "counts"), [((0.01, 0.05), (5, 5)), ((0.02, 0.02), (3, 12)), ((0.1, 0.001), (4, 9))]
)
def test_interval_and_p_are_those_of_scipys_welch_test(spreads: tuple[float, float], counts: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    baseline, other = (
        list(random.normal(mean, s, n)) for mean, s, n in zip((16.0, 15.9), spreads, counts, strict=True)
    )
    ratio = found(baseline, other)
    reference = stats.ttest_ind(baseline, other, equal_var=False)
    interval = reference.confidence_interval(0.95)
    assert ratio.interval is not None
    assert (math.log(ratio.interval.low), math.log(ratio.interval.high)) == pytest.approx((interval.low, interval.high))
    assert ratio.degrees_of_freedom == pytest.approx(reference.df)
    assert p_value(ratio) == pytest.approx(reference.pvalue)


def test_the_interval_covers_the_truth_although_the_machines_spread_differently() -> None:
    random = np.random.default_rng(1)
    hits = 0
    for _ in range(1500):
        ratio = found(list(random.normal(1.0, 0.01, 4)), list(random.normal(0.5, 0.08, 7)))
        assert ratio.interval is not None
        hits += ratio.interval.contains(math.exp(0.5))
    assert 0.93 <= hits / 1500 <= 0.97


def test_too_few_processes_on_either_side_give_a_ratio_and_no_interval() -> None:
    ratio = found([1.0, 1.1], [1.0, 1.0, 1.0])
    assert ratio.interval is None
    assert ratio.reason == "2 against 3 processes: an interval needs at least 3 on either side"
    assert welch([], [1.0]) == "one side has no processes"


def test_processes_that_agree_to_the_last_digit_give_a_point() -> None:
    ratio = found([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert ratio.interval is not None and ratio.interval.low == ratio.interval.high == pytest.approx(math.e)
    assert p_value(ratio) == 0.0


def test_more_processes_are_counted_on_both_sides() -> None:
    baseline, other = [0.0, 0.04, -0.04, 0.01], [-0.08, -0.03, -0.12, -0.05]
    ratio = found(baseline, other)
    assert ratio.error_after(0) == pytest.approx(ratio.standard_error) == pytest.approx(ratio.deviation / 2)
    assert ratio.error_after(4) == pytest.approx(ratio.standard_error / math.sqrt(2))
    assert more_processes(ratio, 0.01, 1) is not None


def test_a_time_has_students_interval_on_the_log_scale() -> None:
    interval = mean_interval([math.log(t) for t in (100, 200, 400)])
    assert not isinstance(interval, str)
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx((200 * math.exp(-half), 200 * math.exp(half)), rel=1e-5)
    assert mean_interval([1.0]) == "1 process: an interval needs at least 3"
