"""Change points, warm-up classes, and the simulator that holds verdicts to their promises."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from suite.statistics.changes import segments
from suite.statistics.simulate import SCENARIOS, Scenario, simulate
from suite.statistics.warmup import agree, classify, set_aside

NORMAL = np.random.default_rng(11)


def level(mean: float, count: int, spread: float = 0.005) -> list[float]:
    """`count` samples around `mean` with a relative spread."""
    return (mean * (1 + NORMAL.normal(0, spread, count))).tolist()


def test_a_change_of_the_mean_is_found_where_it_is() -> None:
    found = segments(level(1.0, 60) + level(1.2, 40))
    assert [segment.end for segment in found] == [pytest.approx(60, abs=2), 100]
    assert found[0].mean == pytest.approx(1.0, rel=0.01) and found[1].mean == pytest.approx(1.2, rel=0.01)


def test_a_change_of_the_variance_alone_is_found() -> None:
    found = segments(level(1.0, 60, 0.001) + level(1.0, 60, 0.1))
    assert len(found) == 2 and found[0].end == pytest.approx(60, abs=4)


@pytest.mark.parametrize("series", [level(1.0, 100), [1.0] * 50, [1.0, 2.0, 3.0]])
def test_a_series_without_a_change_is_one_segment(series: list[float]) -> None:
    assert len(segments(series)) == 1
    assert segments([]) == []


def test_a_long_series_is_grouped_and_positions_still_refer_to_it() -> None:
    found = segments(level(1.0, 3000) + level(1.2, 3000))
    assert len(found) == 2 and found[0].end == pytest.approx(3000, abs=60)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: level(1.0, 100), "flat"),
        (lambda: level(2.0, 20) + level(1.0, 80), "warm-up"),
        (lambda: level(1.0, 40) + level(1.3, 60), "slowdown"),
        (lambda: level(1.0, 90) + level(1.5, 10), "no steady state"),
        (lambda: level(1.0, 4), "too short"),
        (lambda: level(1.0, 50) + level(1.005, 50, 0.0005), "flat"),
    ],
)
def test_a_process_is_classified_by_its_segments(make: Callable[[], list[float]], name: str) -> None:
    assert classify(make()).name == name


def test_single_spikes_are_set_aside_and_do_not_change_the_class() -> None:
    series = level(1.0, 100)
    series[30] = series[70] = 9.0
    found = classify(series)
    assert found.name == "flat" and found.outliers == 2
    assert len(set_aside(series)[0]) == 98


def test_an_arm_is_what_its_processes_agree_on() -> None:
    assert agree(["flat", "flat"]) == "flat"
    assert agree(["flat", "warm-up"]) == "warm-up"
    assert agree(["flat", "slowdown"]) == "inconsistent"
    assert agree(["slowdown", "slowdown"]) == "slowdown"
    assert agree(["warm-up", "no steady state"]) == "no steady state"
    assert agree(["flat", "flat", "no steady state"]) == "inconsistent"
    assert agree(["too short", "flat"]) == "flat" and agree([]) == "too short"


SESSIONS = 400


def shares(scenario: Scenario) -> dict[str, float]:
    """Shares of sessions by verdict, plus how many intervals covered the truth and how often the pooled test spoke."""
    judged = simulate(scenario, SESSIONS, seed=4)
    counts = Counter(item.word for item in judged)
    return {
        **{word: count / SESSIONS for word, count in counts.items()},
        "covered": sum(item.covered for item in judged) / SESSIONS,
        "pooled": sum(item.mann_whitney for item in judged) / SESSIONS,
    }


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.effect == 1.0], ids=lambda s: s.name)
def test_nothing_is_claimed_where_nothing_is(scenario: Scenario) -> None:
    found = shares(scenario)
    assert found.get("faster", 0) + found.get("slower", 0) <= 0.01
    assert 0.92 <= found["covered"] <= 0.98
    assert found["pooled"] > 0.4  # what taking iterations for independent would have claimed


def test_a_slowdown_of_two_percent_is_found_and_half_a_percent_is_never_called_faster() -> None:
    slower, small = (next(s for s in SCENARIOS if s.name.startswith(name)) for name in ("2 % slower", "0.5 % faster"))
    assert shares(slower).get("slower", 0) >= 0.93
    assert shares(small).get("faster", 0) == 0


def test_the_same_seed_gives_the_same_sessions() -> None:
    assert simulate(SCENARIOS[0], 3, 9) == simulate(SCENARIOS[0], 3, 9)
    assert simulate(SCENARIOS[0], 3, 9) != simulate(SCENARIOS[0], 3, 10)
