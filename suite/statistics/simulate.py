"""Draws sessions whose truth is known and counts how often our verdicts and intervals are right.

`python -m suite.statistics.simulate` prints a table: every session goes through the very functions that judge a real run. Beside
them stands a pooled Mann-Whitney test, which takes every iteration for independent.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from suite.statistics.ratio import Ratio, block_time, p_value, ratio
from suite.statistics.verdict import noise_floor, verdict

ORDER = ("baseline", "again", "arm")


@dataclass(frozen=True)
class Scenario:
    """The truth of a session. `effect` is the true ratio; coefficients of variation and drift are fractions.

    `heavy_tails` is the share of iterations that take a multiple (1 + Pareto with shape 1.5, in tenths) of their time;
    `drift` is how much slower everything is at the end of a process than at its start; with `regime` every session is, from a random
    moment on, slower by that fraction. With `most` above `processes` a session goes on until its interval is narrower than 1 % on either
    side, or it has that many processes, as a run does.
    """

    name: str
    effect: float = 1.0
    processes: int = 5
    samples: int = 50
    between: float = 0.01
    within: float = 0.01
    heavy_tails: float = 0.0
    drift: float = 0.0
    regime: float = 0.0
    most: int = 0


SCENARIOS = (
    Scenario("A/A, CoV 1 %"),
    Scenario("A/A, CoV 1 %, heavy tails", heavy_tails=0.05),
    Scenario("A/A, CoV 1 %, 3 % drift", drift=0.03),
    Scenario("A/A, CoV 1 %, machine 20 % slower from some moment on", regime=0.2),
    Scenario("A/A, CoV 0.5 %, n = 10", between=0.005, within=0.005, processes=10),
    Scenario("2 % slower, CoV 0.5 %, n = 10", effect=1 / 1.02, between=0.005, within=0.005, processes=10),
    Scenario("0.5 % faster, CoV 0.5 %, n = 10", effect=1.005, between=0.005, within=0.005, processes=10),
    Scenario("twice as fast, CoV 1 %, n = 3", effect=2.0, processes=3),
    Scenario("A/A, CoV 0.7 %, stops at 1 % or n = 6", between=0.007, processes=3, most=6),
    Scenario("A/A, CoV 1 %, stops at 1 % or n = 15", processes=5, most=15),
)

TARGET = 0.01
"""Half width at which a session stops, as a run's default."""

BLOCK = 5
"""Iterations of a block."""

Session = dict[str, np.ndarray]
"""Arm -> times in ns of shape (processes, blocks, iterations)."""


def draw(scenario: Scenario, generator: np.random.Generator) -> Session:
    """One session: three arms in mirrored, rotated blocks, as `suite.measure.schedule` orders them."""
    blocks, processes = scenario.samples // BLOCK, max(scenario.processes, scenario.most)
    shape = (processes, blocks, BLOCK)
    moments = _moments(processes, blocks)
    change = generator.uniform(0, processes)
    session: Session = {}
    for index, arm in enumerate(ORDER):
        mean = 1e6 / (scenario.effect if arm == "arm" else 1.0)
        own = generator.normal(0, scenario.between, (processes, 1, 1))
        noise = generator.normal(0, scenario.within, shape)
        times = mean * np.exp(own + noise)
        if scenario.heavy_tails:
            hit = generator.random(shape) < scenario.heavy_tails
            times = times * np.where(hit, 1 + generator.pareto(1.5, shape) / 10, 1.0)
        within_process = moments[index]
        times = times * (1 + scenario.drift * within_process)[..., None]
        if scenario.regime:
            since_start = within_process + np.arange(processes)[:, None]
            times = times * np.where(since_start > change, 1 + scenario.regime, 1.0)[..., None]
        session[arm] = times
    return session


def _moments(processes: int, blocks: int) -> np.ndarray:
    """When each arm's blocks run within their process, from 0 to 1; shape (arms, processes, blocks)."""
    from suite.statistics.order import mirrored

    moments = np.empty((len(ORDER), processes, blocks))
    for process in range(processes):
        order = mirrored(ORDER, blocks // 2, process * (blocks // 2))
        for index, arm in enumerate(ORDER):
            moments[index, process] = [place / (len(order) - 1) for place, name in enumerate(order) if name == arm]
    return moments


@dataclass(frozen=True)
class Judged:
    """What became of one session."""

    word: str
    covered: bool
    mann_whitney: bool


def judge(scenario: Scenario, session: Session) -> Judged:
    """Judge a session with the functions that judge a run, and with the pooled test."""
    from scipy.stats import mannwhitneyu

    times = {
        arm: {
            process: [block_time([round(v) for v in block], 1) for block in blocks]
            for process, blocks in enumerate(array)
        }
        for arm, array in session.items()
    }
    count = scenario.processes
    while True:
        found, again = (_first(times, arm, count, scenario.processes) for arm in ("arm", "again"))
        assert found.interval is not None
        if count >= scenario.most or math.log(found.interval.high / found.interval.low) / 2 <= math.log1p(TARGET):
            break
        count += 1
    word = verdict(found, noise_floor(again).delta, p_value(found)).word or "none"
    pooled = mannwhitneyu(session["baseline"].ravel(), session["arm"].ravel()).pvalue < 0.05
    return Judged(word, found.interval.contains(scenario.effect), bool(pooled))


def _first(times: dict[str, dict[int, list[float]]], arm: str, count: int, pilot: int) -> Ratio:
    """The ratio of the first `count` processes."""
    baseline, other = ({process: times[label][process] for process in range(count)} for label in ("baseline", arm))
    found = ratio(baseline, other, pilot)
    assert isinstance(found, Ratio)
    return found


def simulate(scenario: Scenario, sessions: int, seed: int) -> list[Judged]:
    """Draw and judge `sessions` sessions; the same seed gives the same sessions."""
    generator = np.random.default_rng(seed)
    return [judge(scenario, draw(scenario, generator)) for _ in range(sessions)]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m suite.statistics.simulate", description=__doc__)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(f"{options.sessions} sessions a row, seed {options.seed}; percentages of sessions")
    columns = ("faster", "slower", "equivalent", "inconclusive")
    print(f"{'':54}{''.join(f'{name:>13}' for name in columns)}{'covered':>10}{'Mann-Whitney':>14}")
    for scenario in SCENARIOS:
        judged = simulate(scenario, options.sessions, options.seed)
        counts = Counter(item.word for item in judged)
        shares = "".join(f"{100 * counts[name] / len(judged):13.2f}" for name in columns)
        covered = 100 * sum(item.covered for item in judged) / len(judged)
        pooled = 100 * sum(item.mann_whitney for item in judged) / len(judged)
        print(f"{scenario.name:54}{shares}{covered:10.1f}{pooled:14.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
