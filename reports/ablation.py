"""What each launch setting buys: levels of settings against none, and each step against the one before it.

Only a new process can change a setting, so levels are compared between processes: a round holds one process of each level, in an
order that is mirrored from round to round, and gives one log ratio. Inference is over rounds. The noise floor is what "nothing set"
shows against "nothing set" in processes of its own. Pure functions, no drawing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reports.results import steady_class, steady_series, withheld
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.discovery import adjusted
from suite.statistics.pairs import whole_pairs
from suite.statistics.ratio import Ratio, log_time, p_value, ratio, typical_time
from suite.statistics.verdict import MINIMUM_NOISE_FLOOR, NoiseFloor, Verdict, noise_floor, verdict

SPEEDUP = "speedup"
"""The quantity "how many times as fast as the baseline", beside the arms' times."""

ByRound = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class Effect:
    """What a level does to a quantity, against another level: for times a ratio above one means less time, for the speedup a larger one.

    `ratio` is the reason in words when there is none; `verdict` is None without an interval.
    """

    quantity: str
    ratio: Ratio | str
    verdict: Verdict | None = None
    adjusted_p: float | None = None


@dataclass(frozen=True)
class LevelResult:
    """One level in one case. `times_ns` is the time of a call by arm label; `speedups` the arms' ratios to the baseline at this level.

    `whole` and `step` hold the effects against nothing set, and against the level before it, by quantity: an arm's label for its time,
    (label, SPEEDUP) for its speedup.
    """

    level: schema.Level
    rounds: int
    times_ns: Mapping[str, float]
    speedups: Mapping[str, Ratio | str]
    whole: Mapping[Quantity, Effect]
    step: Mapping[Quantity, Effect]
    effectives: tuple[schema.Effective, ...]
    trouble: str = ""


Quantity = tuple[str, str]
"""(arm label, "time" or SPEEDUP)."""


@dataclass(frozen=True)
class CaseAblation:
    """One case over all levels; `floors` is the noise floor of each quantity."""

    case: schema.Case
    arms: tuple[schema.Arm, ...]
    levels: tuple[LevelResult, ...]
    floors: Mapping[Quantity, NoiseFloor]

    @property
    def quantities(self) -> list[Quantity]:
        """Every arm's time, and every candidate's speedup."""
        return _quantities(self.arms)


@dataclass(frozen=True)
class Ablated:
    """The whole ablation; `reference` is the label of the level that the others are compared with."""

    design: str
    reference: str
    cases: tuple[CaseAblation, ...]
    comparisons: int


def ablated(bundle: Loaded, barred: str = "") -> Ablated:
    """Compute everything from the bundle's blocks. Two passes: verdicts need the p values of the whole family.

    `barred` says why no verdict may rest on the bundle at all (`reports.seal`); then there is none.

    Raises:
        ValueError: when the bundle's run is no ablation.
    """
    plan = bundle.run.ablation
    if plan is None:
        raise ValueError(f"{bundle.run.run_id} is no ablation")
    measured = [_Measured(bundle, case, plan) for case in bundle.run.cases]
    effects = [(one, key, effect) for one in measured for key, effect in one.effects.items()]
    tested = [
        (one, key, p_value(effect))
        for one, key, effect in effects
        if isinstance(effect, Ratio) and effect.interval and key[0] != one.again
    ]
    p_values = {
        (one.case.name, key): p for (one, key, _), p in zip(tested, adjusted([p for *_, p in tested]), strict=True)
    }
    cases = tuple(_case(one, p_values, barred) for one in measured)
    return Ablated(plan.design, plan.levels[0].label, cases, len(tested))


# (level, the level it is compared with, quantity)
_Key = tuple[int, int, Quantity]


class _Measured:
    """A case's block times by level, round and arm, and all of its comparisons: the first pass."""

    def __init__(self, bundle: Loaded, case: schema.Case, plan: schema.Ablation) -> None:
        self.case, self.plan = case, plan
        self.arms = tuple(arm for arm in bundle.run.arms if arm.name not in case.not_applicable)
        self.baseline = next(arm.label for arm in self.arms if arm.role == "baseline")
        self.effectives: dict[int, list[schema.Effective]] = defaultdict(list)
        for event in bundle.events:
            if isinstance(event, schema.Effective) and event.case == case.name:
                self.effectives[plan.order[event.process]].append(event)
        self.troubles = _troubles(bundle, case, plan)
        self.accuracies = {arm.label: bundle.accuracies.get((case.name, arm.name)) for arm in self.arms}
        self.steadiness = self._steadiness(bundle)
        self.times: dict[int, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(dict))
        # For speedups only pairs in which both arms were measured count: they alone cancel a drift within the process.
        self.pairs: dict[int, dict[str, dict[int, tuple[list[float], list[float]]]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        blocks = [block for block in bundle.blocks if (block.case, block.phase) == (case.name, "measure")]
        minimum, size = bundle.run.procedure.pairs_minimum, len(plan.levels)
        for arm in self.arms:
            for process, times in whole_pairs(blocks, arm.label, arm.label, minimum).baseline.items():
                self.times[plan.order[process]][arm.label][process // size] = times
            both = whole_pairs(blocks, self.baseline, arm.label, minimum)
            for process, times in both.arm.items():
                self.pairs[plan.order[process]][arm.label][process // size] = (both.baseline[process], times)
        self.effects: dict[_Key, Ratio | str] = {}
        for level in range(1, len(plan.levels)):
            for quantity in _quantities(self.arms):
                for other_level in {0, self.previous(level)}:
                    self.effects[level, other_level, quantity] = self._effect(level, other_level, quantity)

    def previous(self, level: int) -> int:
        """The level whose settings this one adds to: the last before it that is not a repetition of nothing."""
        if self.plan.design != "steps":
            return 0
        return next((n for n in range(level - 1, 0, -1) if n != self.again), 0)

    def by_round(self, level: int, quantity: Quantity) -> ByRound:
        """Block times in ns by round; for the speedup one number a round, the ratio of the baseline's time to the arm's."""
        label, kind = quantity
        if kind != SPEEDUP:
            return self.times[level][label]
        pairs = self.pairs[level][label]
        return {number: [math.exp(log_time(eager) - log_time(own))] for number, (eager, own) in pairs.items()}

    def speedup(self, level: int, label: str) -> Ratio | str:
        """The arm against the baseline within the processes of a level."""
        pairs = self.pairs[level][label]
        found = ratio({n: eager for n, (eager, _) in pairs.items()}, {n: own for n, (_, own) in pairs.items()})
        return self.troubles.get(level) or found if isinstance(found, str) else found

    def _steadiness(self, bundle: Loaded) -> dict[tuple[int, str], str]:
        """The warm-up class of every arm at every level, over its processes."""
        series: dict[tuple[int, str], list[schema.Block]] = defaultdict(list)
        for block in bundle.blocks:
            if block.case == self.case.name:
                series[self.plan.order[block.process], block.arm].append(block)
        return {key: steady_class(steady_series([], blocks)) for key, blocks in series.items()}

    def judged(self, found: Verdict, level: int, other: int, quantity: Quantity) -> Verdict:
        """The verdict, withheld where the arm computes something else or was still changing when measuring ended."""
        label, kind = quantity
        labels = {label, self.baseline} if kind == SPEEDUP else {label}
        classes = {
            f"{name} with {self.plan.levels[n].label}": self.steadiness.get((n, name), "")
            for name in sorted(labels)
            for n in (level, other)
        }
        return withheld(found, self.accuracies.get(label), classes)

    def _effect(self, level: int, other: int, quantity: Quantity) -> Ratio | str:
        mine, theirs = self.by_round(level, quantity), self.by_round(other, quantity)
        found = ratio(mine, theirs) if quantity[1] == SPEEDUP else ratio(theirs, mine)
        if isinstance(found, str):
            return self.troubles.get(level) or "no round measured both levels"
        return replace(found, reason=in_rounds(found.reason))

    @property
    def again(self) -> int | None:
        """The level that repeats the first one; None when the plan has none."""
        first = self.plan.levels[0].knobs
        return next((n for n, level in enumerate(self.plan.levels) if n and level.knobs == first), None)

    def floor(self, quantity: Quantity) -> NoiseFloor:
        """The noise floor: what the level that repeats the first one shows against it."""
        name = self.plan.levels[0].label
        found = self.effects[self.again, 0, quantity] if self.again else "no level repeats it"
        if isinstance(found, str):
            return NoiseFloor(
                MINIMUM_NOISE_FLOOR, f"assumed: {name} was not measured against itself ({found})", assumed=True
            )
        measured = noise_floor(found)
        source = (
            f"the least that is ever assumed; {name} against itself showed no more"
            if measured.delta <= MINIMUM_NOISE_FLOOR
            else f"from processes with {name} against others with {name}"
        )
        return replace(measured, source=source, doubt=measured.doubt.replace("equal code", name))


def in_rounds(text: str) -> str:
    """A sentence about replicates, which are rounds in an ablation."""
    return text.replace("processes", "rounds").replace("process", "round")


def _troubles(bundle: Loaded, case: schema.Case, plan: schema.Ablation) -> dict[int, str]:
    """Why a level lacks something: processes that did not end well and were not made good later, and arms that did not run."""
    good = {
        event.process
        for event in bundle.events
        if isinstance(event, schema.ProcessEnded) and (event.case, event.outcome) == (case.name, "ok")
    }
    found = {}
    for event in bundle.events:
        if isinstance(event, schema.ArmNotRun) and event.case == case.name:
            found[plan.order[event.process]] = f"{event.arm} did not run: {event.reason}"
        if isinstance(event, schema.ProcessEnded) and event.case == case.name and event.process not in good:
            found[plan.order[event.process]] = f"{event.outcome.replace('_', ' ')}: {event.message}"
    return found


def _quantities(arms: Sequence[schema.Arm]) -> list[Quantity]:
    times = [(arm.label, "time") for arm in arms]
    return times + [(arm.label, SPEEDUP) for arm in arms if arm.role == "candidate"]


def _case(one: _Measured, p_values: Mapping[tuple[str, _Key], float], barred: str) -> CaseAblation:
    floors = {quantity: one.floor(quantity) for quantity in _quantities(one.arms)}

    def effect(level: int, other: int, quantity: Quantity) -> Effect:
        found = one.effects[level, other, quantity]
        if isinstance(found, str):
            return Effect(quantity[1], found)
        p = p_values.get((one.case.name, (level, other, quantity)))
        judged = verdict(found, floors[quantity].delta, 1.0 if p is None else p, len(p_values))
        judged = Verdict(None, barred) if barred else one.judged(judged, level, other, quantity)
        told = replace(judged, reason=in_rounds(judged.reason), advice=in_rounds(judged.advice))
        return Effect(quantity[1], found, None if level == one.again else told, p)

    levels = []
    for number, level in enumerate(one.plan.levels):
        times = {label: by_round for label, by_round in one.times[number].items() if by_round}
        candidates = [arm.label for arm in one.arms if arm.role == "candidate"]
        compared = range(1, len(one.plan.levels))
        levels.append(
            LevelResult(
                level=level,
                rounds=len(times.get(one.baseline, {})),
                times_ns={label: typical_time(by_round) for label, by_round in times.items()},
                speedups={label: one.speedup(number, label) for label in candidates},
                whole={q: effect(number, 0, q) for q in floors} if number in compared else {},
                step={q: effect(number, one.previous(number), q) for q in floors} if number in compared else {},
                effectives=tuple(one.effectives.get(number, ())),
                trouble=one.troubles.get(number, ""),
            )
        )
    return CaseAblation(one.case, one.arms, tuple(levels), floors)
