"""The ratio, its interval and the verdict, on plain numbers with answers from hand or from published tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.statistics.ratio import Ratio, block_time, log_time, ratio, t_quantile, typical_time
from suite.statistics.verdict import noise_floor, verdict


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_t_quantiles_are_those_of_the_nist_table(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees, 0.95) == pytest.approx(quantile, abs=5e-4)


def test_a_block_is_the_median_of_its_iterations_per_call() -> None:
    assert block_time([900, 100, 200], 2) == 100


@pytest.mark.parametrize(
    ("iterations", "calls", "message"),
    [([], 1, "at least one iteration"), ([0, 5], 1, "resolution"), ([5], 0, "at least 1")],
)
def test_a_block_that_cannot_be_a_time_is_refused(iterations: list[int], calls: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        block_time(iterations, calls)


def test_ratio_is_the_geometric_mean_of_the_processes_ratios() -> None:
    found = ratio({0: [200.0], 1: [400.0], 2: [800.0]}, {0: [100.0], 1: [100.0], 2: [100.0]})
    assert isinstance(found, Ratio)
    assert found.estimate == pytest.approx(4.0)
    assert found.per_process == pytest.approx((2.0, 4.0, 8.0))


def test_interval_is_student_t_on_the_log_scale() -> None:
    found = ratio({0: [200.0], 1: [400.0], 2: [800.0]}, {0: [100.0], 1: [100.0], 2: [100.0]})
    assert isinstance(found, Ratio) and found.interval is not None
    half = 4.302653 * math.log(2) / math.sqrt(3)  # logs are ln 2, 2 ln 2, 3 ln 2: s = ln 2
    assert found.interval.low == pytest.approx(4 * math.exp(-half), rel=1e-5)
    assert found.interval.high == pytest.approx(4 * math.exp(half), rel=1e-5)


def test_a_linear_drift_of_the_log_time_cancels_in_mirrored_blocks() -> None:
    drift = [1.0, 1.1, 1.21, 1.331]  # A B B A
    found = ratio({0: [200 * drift[0], 200 * drift[3]]}, {0: [100 * drift[1], 100 * drift[2]]})
    assert isinstance(found, Ratio)
    assert found.estimate == pytest.approx(2.0)


def test_many_blocks_in_one_process_are_one_replicate() -> None:
    found = ratio({0: [2.0] * 500, 1: [2.0] * 500}, {0: [1.0] * 500, 1: [1.0] * 500})
    assert isinstance(found, Ratio)
    assert found.interval is None
    assert "2 processes" in found.reason


def test_only_processes_that_measured_both_arms_count() -> None:
    found = ratio({0: [200.0], 1: [200.0], 2: [999.0]}, {0: [100.0], 1: [100.0], 2: []})
    assert isinstance(found, Ratio)
    assert len(found.per_process) == 2
    assert ratio({0: [1.0]}, {1: [1.0]}) == "no process measured both arms"


@given(st.lists(st.tuples(st.floats(1, 1e9), st.floats(1, 1e9)), min_size=1, max_size=8))
def test_typical_times_divide_to_the_ratio(pairs: list[tuple[float, float]]) -> None:
    baseline = {number: [pair[0]] for number, pair in enumerate(pairs)}
    arm = {number: [pair[1]] for number, pair in enumerate(pairs)}
    found = ratio(baseline, arm)
    assert isinstance(found, Ratio)
    assert typical_time(baseline) / typical_time(arm) == pytest.approx(found.estimate, rel=1e-9)


def test_log_time_is_the_mean_of_logs() -> None:
    assert log_time([1.0, math.e**2]) == pytest.approx(1.0)


def _ratio(*values: float) -> Ratio:
    found = ratio(dict(enumerate([value] for value in values)), {number: [1.0] for number in range(len(values))})
    assert isinstance(found, Ratio)
    return found


@pytest.mark.parametrize(
    ("values", "delta", "word"),
    [
        ((2.0, 2.01, 1.99), 0.02, "faster"),
        ((0.5, 0.501, 0.499), 0.02, "slower"),
        ((1.001, 0.999, 1.0), 0.02, "equivalent"),
        ((1.0, 1.2, 1.4), 0.02, "inconclusive"),
        ((1.015, 1.016, 1.014), 0.02, "equivalent"),
        ((1.019, 1.021, 1.023), 0.02, "inconclusive"),
        ((1.001, 0.999, 1.0), 0.3, "inconclusive"),
    ],
)
def test_verdict_follows_the_whole_interval(values: tuple[float, ...], delta: float, word: str) -> None:
    assert verdict(_ratio(*values), delta, adjusted_p=1e-9).word == word


def test_no_verdict_below_three_processes() -> None:
    found = verdict(_ratio(3.0, 3.0), 0.01, 1.0)
    assert found.word is None
    assert "at least 3" in found.reason


def test_noise_floor_is_never_below_one_percent_and_says_where_it_comes_from() -> None:
    quiet = noise_floor(_ratio(1.0001, 1.0, 0.9999))
    assert quiet.delta == 0.01 and "least" in quiet.source
    missing = noise_floor("no noise arm")
    assert missing.delta == 0.01 and "not measured against itself" in missing.source


def test_noise_floor_is_the_farthest_edge_in_either_direction() -> None:
    assert noise_floor(_ratio(0.9, 0.9, 0.9)).delta == pytest.approx(1 / 0.9 - 1)
    assert noise_floor(_ratio(1.2, 1.0)).delta == pytest.approx(0.2)


def test_a_claim_needs_its_adjusted_p() -> None:
    found = verdict(_ratio(2.0, 2.01, 1.99), 0.02, adjusted_p=0.02)
    assert found.word == "inconclusive" and "0.02 is not below 0.01" in found.reason and "settle" in found.advice


def test_within_a_floor_too_wide_only_a_quieter_machine_helps() -> None:
    found = verdict(_ratio(0.93, 1.02, 1.13), 0.08, adjusted_p=0.5)
    assert found.word == "inconclusive" and found.advice == "a quieter machine would settle it"


def test_an_inconclusive_verdict_names_every_condition_that_was_not_met() -> None:
    across = verdict(_ratio(1.0, 1.1, 1.3), 0.08, adjusted_p=0.2)
    for unmet in (
        "across both edges of the noise floor (0.926 to 1.08)",
        "p of 0.2 is not below 0.01",
        "8 % is above 5 %",
    ):
        assert unmet in across.reason
    assert "above 5 %" not in verdict(_ratio(1.0, 1.1, 1.3), 0.03, adjusted_p=0.2).reason
    assert "not below" not in verdict(_ratio(1.0, 1.1, 1.3), 0.03, adjusted_p=0.001).reason


def test_equal_code_whose_interval_leaves_one_out_puts_the_measurement_in_doubt() -> None:
    assert "excludes 1" in noise_floor(_ratio(1.05, 1.06, 1.055)).doubt
    assert "excludes 1" in noise_floor(_ratio(1.004, 1.005, 1.0045)).doubt
    assert noise_floor(_ratio(1.05, 0.96, 1.0)).doubt == ""
