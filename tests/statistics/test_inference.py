"""Variance components, significance over a family, percentiles, outliers, economics, aggregates: against hand or published values."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from suite.statistics.aggregate import Aggregate, geometric_means
from suite.statistics.discovery import adjusted
from suite.statistics.economics import BreakEven, break_even
from suite.statistics.family import claims, minimum_detectable_effect, more_processes
from suite.statistics.hierarchy import components, repetitions
from suite.statistics.outliers import tukey
from suite.statistics.pairs import by_process, pair_ratios, whole_pairs
from suite.statistics.ratio import Interval, Ratio, p_value, ratio
from suite.statistics.tails import Percentile, percentile
from tests import samples


def test_variance_components_of_a_hand_computed_two_level_sample() -> None:
    # Level 1: variances of [1, 3] and [5, 7] are 2 and 2: S1^2 = 2. Level 2: means 2 and 6, variance 8: S2^2 = 8.
    found = components([[1.0, 3.0], [5.0, 7.0]])
    assert found.between == pytest.approx((2.0, 8.0))
    assert found.own == pytest.approx((2.0, 8.0 - 2.0 / 2))
    assert found.repetitions == (2, 2)


def test_variance_components_recover_what_three_levels_were_drawn_with() -> None:
    generator = np.random.default_rng(3)
    drawn = (
        generator.normal(0, 3, (400, 1, 1)) + generator.normal(0, 2, (400, 6, 1)) + generator.normal(0, 1, (400, 6, 8))
    )
    assert components(drawn).own == pytest.approx((1.0, 4.0, 9.0), rel=0.15)


def test_a_level_with_one_repetition_has_no_variance() -> None:
    with pytest.raises(ValueError, match="at least two"):
        components([[1.0], [2.0]])


def test_repetitions_are_those_of_the_formula() -> None:
    # sqrt(c2 / c1 * T1^2 / T2^2) = sqrt(100 / 4 * 9 / 1) = 15
    assert repetitions((9.0, 1.0), (4.0, 100.0), most=50) == [15]
    assert repetitions((9.0, 1.0), (4.0, 100.0), most=10) == [10]


def test_repetitions_at_the_edges() -> None:
    assert repetitions((0.0, 1.0), (1.0, 1.0), most=50) == [1]
    assert repetitions((1.0, -0.1), (1.0, 1.0), most=50) == [50]
    with pytest.raises(ValueError, match="above zero"):
        repetitions((1.0, 1.0), (0.0, 1.0), most=5)


def of_logs(*logs: float, pilot: int | None = None) -> Ratio:
    """The ratio of processes with these log ratios."""
    found = ratio({n: [math.exp(value)] for n, value in enumerate(logs)}, {n: [1.0] for n in range(len(logs))}, pilot)
    assert isinstance(found, Ratio)
    return found


def test_p_is_that_of_scipys_one_sample_t_test() -> None:
    logs = (0.1, 0.3, -0.05, 0.2)
    assert p_value(of_logs(*logs)) == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert p_value(of_logs(0.0, 0.0, 0.0)) == 1.0
    with pytest.raises(ValueError, match="2 processes"):
        p_value(of_logs(0.1, 0.2))


def test_steins_interval_takes_its_deviation_from_the_first_processes_alone() -> None:
    first, later = (0.0, 0.1, 0.2), (0.1, 0.1, 0.1)
    found = of_logs(*first, *later, pilot=3)
    assert found.interval is not None and found.degrees_of_freedom == 2
    half = 4.302653 * 0.1 / math.sqrt(6)
    assert math.log(found.interval.high) == pytest.approx(0.1 + half, rel=1e-5)
    without = of_logs(*first, pilot=3)
    assert without.interval == of_logs(*first).interval


def test_adjusted_p_values_are_those_of_benjamini_and_hochbergs_example() -> None:
    # The 15 p values of section 3.2 of their paper; at q = 0.05 exactly the four smallest are rejected.
    published = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1.0,
    ]
    shuffled = random.Random(1).sample(published, len(published))
    found = dict(zip(shuffled, adjusted(shuffled), strict=True))
    assert [p for p in published if found[p] <= 0.05] == published[:4]
    assert [found[p] for p in published] == pytest.approx(list(stats.false_discovery_control(published)))


def test_more_processes_is_the_least_number_that_clears_the_floor_and_is_significant() -> None:
    found = of_logs(0.02, 0.05, 0.08)
    more = more_processes(found, delta=0.01, comparisons=1)
    assert more is not None

    def claimed(n: int) -> bool:
        error = found.deviation / math.sqrt(n)
        return bool(stats.t.ppf(0.975, 2) * error < 0.05 - math.log1p(0.01) and stats.t.ppf(0.995, 2) * error < 0.05)

    assert claimed(3 + more) and not claimed(3 + more - 1)
    assert more_processes(of_logs(-0.1, 0.01, 0.14), delta=0.01, comparisons=1) is None
    many = more_processes(found, delta=0.01, comparisons=20)
    assert many is None or many > more


@pytest.mark.parametrize(("count", "comparisons"), [(3, 1), (3, 5), (10, 5)])
def test_the_detectable_effect_is_claimed_with_its_power(count: int, comparisons: int) -> None:
    effect = minimum_detectable_effect(0.01, count - 1, count, delta=0.01, comparisons=comparisons)
    generator = np.random.default_rng(5)
    drawn = generator.normal(math.log(effect), 0.01, (20_000, count))
    error = drawn.std(axis=1, ddof=1) / math.sqrt(count)
    interval_t, p_t = claims(count - 1, comparisons)
    claimed = (drawn.mean(axis=1) - interval_t * error > math.log1p(0.01)) & (drawn.mean(axis=1) > p_t * error)
    assert claimed.mean() == pytest.approx(0.8, abs=0.02)


def test_percentile_limits_are_conovers_order_statistics() -> None:
    # n = 16, upper quartile: P(B <= 7) = 0.0075 and P(B <= 8) = 0.0271; P(B <= 14) = 0.9365 and P(B <= 15) = 0.9900
    found = percentile([float(value) for value in range(1, 17)], 75, confidence=0.95)
    assert isinstance(found, Percentile)
    assert (found.low, found.high) == (8.0, 16.0)
    assert found.value == pytest.approx(np.percentile(range(1, 17), 75))


def test_a_percentile_without_enough_samples_is_not_given() -> None:
    assert percentile([1.0] * 50, 99) == "50 samples do not bound the 99th percentile"
    assert isinstance(percentile([float(value) for value in range(400)], 99), Percentile)


def test_percentile_limits_cover_the_true_quantile() -> None:
    generator = np.random.default_rng(2)
    hits = 0
    for _ in range(400):
        found = percentile(generator.exponential(size=60).tolist(), 90)
        assert isinstance(found, Percentile)
        hits += found.low <= math.log(10) <= found.high
    assert hits / 400 >= 0.93


def test_tukeys_fences_label_and_keep() -> None:
    # quartiles of 1..9 are 3 and 7: fences at -3, 13 (mild) and -9, 19 (severe); added outliers move them little
    found = tukey([*range(1, 10), 15, 40])
    assert (found.samples, found.high_mild, found.high_severe, found.low_mild, found.low_severe) == (11, 0, 1, 0, 0)
    assert tukey([*range(1, 10)]).total == 0
    assert tukey([]).samples == 0


def _ratio(estimate: float, low: float, high: float) -> Ratio:
    return Ratio(estimate, Interval(low, high, 0.95), (estimate,) * 3, (0, 1, 2))


def test_break_even_is_compile_time_over_time_saved() -> None:
    # 10 s of compiling, 100 ms a call, twice as fast: 50 ms saved a call, 200 calls
    found = break_even(10e9, 100e6, _ratio(2.0, 1.5, 4.0), "faster")
    assert isinstance(found, BreakEven)
    assert (found.calls, found.low, found.high) == (pytest.approx(200), pytest.approx(10 / 0.075), pytest.approx(300))


def test_without_a_verdict_there_are_bounds_and_no_break_even() -> None:
    found = break_even(10e9, 100e6, _ratio(1.1, 0.9, 1.25), "inconclusive")
    assert isinstance(found, BreakEven)
    assert (found.calls, found.low, found.high) == (None, pytest.approx(500), None)
    found = break_even(10e9, 100e6, _ratio(1.5, 1.25, 2.0), "inconclusive")
    assert isinstance(found, BreakEven)
    assert (found.calls, found.low, found.high) == (None, pytest.approx(200), pytest.approx(500))


def test_never_is_said_of_a_slower_arm_alone() -> None:
    assert break_even(10e9, 100e6, _ratio(0.9, 0.8, 0.95), "slower") == "never: a compiled call is slower"
    assert isinstance(break_even(10e9, 100e6, _ratio(0.9, 0.7, 1.2), "inconclusive"), BreakEven)
    below = break_even(10e9, 100e6, _ratio(0.9, 0.85, 0.99), "inconclusive")
    assert isinstance(below, str) and "never" not in below


def test_geometric_means_are_over_the_intersection_and_not_clipped() -> None:
    found = geometric_means(
        {
            "a": {"x": _ratio(0.25, 0.2, 0.3), "y": _ratio(1, 1, 1)},
            "b": {"x": _ratio(1, 1, 1), "y": _ratio(4, 4, 4)},
            "c": {"x": _ratio(100, 1, 1), "y": None},
        }
    )
    assert isinstance(found, Aggregate)
    assert (found.ratios["x"], found.ratios["y"]) == (pytest.approx(0.5), pytest.approx(2.0))
    assert (found.cases, found.total) == (("a", "b"), 3)
    assert geometric_means({"a": {"x": None}}) == "no case was completed by every arm"


def test_pair_ratios_cancel_a_drift_within_each_pair() -> None:
    blocks = [
        samples.block("c", arm, 0, number, time, pair=0)
        for number, (arm, time) in enumerate([("a", 200.0), ("b", 110.0), ("b", 121.0), ("a", 266.2)])
    ]
    (found,) = pair_ratios(blocks, "a", "b")
    assert math.exp(found.log_ratio) == pytest.approx(2.0, rel=1e-2)
    assert by_process([found]) == {0: [found.log_ratio]}
    assert pair_ratios(blocks[:3], "a", "b") == []


def test_a_process_that_died_within_its_first_pair_is_no_replicate() -> None:
    whole = [samples.block("c", arm, 0, number, 100.0) for number, arm in enumerate("abba")]
    half = [samples.block("c", arm, 1, number, 100.0) for number, arm in enumerate("ab")]
    paired = whole_pairs([*whole, *half], "a", "b")
    assert set(paired.baseline) == set(paired.arm) == {0} and len(paired.arm[0]) == 2
    assert whole_pairs(whole, "a", "b", minimum=2).arm == {}
