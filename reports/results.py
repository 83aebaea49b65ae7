"""What a bundle says: every number of the report, computed from raw samples. Pure functions, no drawing and no words of layout."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from reports.state import Dependence, dependence
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.aggregate import Aggregate, geometric_means
from suite.statistics.economics import BreakEven, break_even
from suite.statistics.family import adjusted, minimum_detectable_effect, p_value
from suite.statistics.outliers import Outliers, tukey
from suite.statistics.ratio import Ratio, block_time, ratio, typical_time
from suite.statistics.tails import PERCENTILES, Percentile, percentile
from suite.statistics.verdict import Verdict, noise_floor, verdict
from suite.statistics.warmup import Steady, agree, classify

BlockTimes = dict[int, list[float]]
"""Process index -> block times in ns, in the order in which they were measured."""


@dataclass(frozen=True)
class Compilation:
    """Seconds-free compile economics of an arm in a case; durations in ns, None where it was not seen.

    `cold_ns` comes from the process that found the run's compiler cache empty, `warm_ns` is the median over the others.
    """

    cold_ns: int | None
    warm_ns: float | None
    warm_count: int
    bypassed: bool
    first_call_ns: int | None


@dataclass(frozen=True)
class ArmResult:
    """One arm of one case. `typical_ns` is the time of a call; `reason` says why there is none.

    `adjusted_p` is the ratio's p value over the report's family (None without an interval), `detectable` the least ratio above one that
    the run could have told from the noise floor, `steady` the warm-up class of each process and `steadiness` theirs together.
    """

    arm: schema.Arm
    typical_ns: float | None
    ratio: Ratio | None
    verdict: Verdict | None
    adjusted_p: float | None
    detectable: float | None
    break_even: BreakEven | str | None
    percentiles: tuple[Percentile | str, ...]
    outliers: Outliers
    steady: dict[int, Steady]
    steadiness: str
    dependence: Dependence | str | None
    compilation: Compilation
    accuracy: schema.Accuracy | None
    blocks: tuple[schema.Block, ...]
    times: BlockTimes
    reason: str = ""

    @property
    def iterations(self) -> int:
        """How many iterations were timed, over all processes."""
        return sum(len(block.iterations_ns) for block in self.blocks)


@dataclass(frozen=True)
class CaseResult:
    """One case. `noise_floor` is a fraction; `noise` is the baseline's ratio to itself, or the reason why there is none."""

    case: schema.Case
    baseline: ArmResult
    noise: ArmResult | None
    candidates: tuple[ArmResult, ...]
    noise_floor: float
    ended: tuple[schema.ProcessEnded, ...]
    stopped: schema.Stopped | None

    @property
    def arms(self) -> tuple[ArmResult, ...]:
        """Baseline, noise arm and candidates, in the order of the plan."""
        return (self.baseline, *((self.noise,) if self.noise else ()), *self.candidates)

    @property
    def processes(self) -> list[int]:
        """Indices of the processes that measured any arm."""
        return sorted({process for arm in self.arms for process in arm.times})

    @property
    def troubles(self) -> tuple[schema.ProcessEnded, ...]:
        """Processes that did not end well and were not made good by a later incarnation."""
        good = {(end.role, end.process) for end in self.ended if end.outcome == "ok"}
        return tuple(end for end in self.ended if end.outcome != "ok" and (end.role, end.process) not in good)


@dataclass(frozen=True)
class Headline:
    """The comparison that opens the report: fixed by the plan (last case, first candidate), never chosen by its result."""

    case: CaseResult
    arm: ArmResult


@dataclass(frozen=True)
class Results:
    """Everything that the report shows about measurements."""

    cases: tuple[CaseResult, ...]
    headline: Headline | None
    aggregate: Aggregate | str

    @property
    def comparisons(self) -> list[tuple[CaseResult, ArmResult]]:
        """Every candidate in every case that it applies to."""
        return [(case, arm) for case in self.cases for arm in case.candidates]

    def count(self, word: str | None) -> int:
        """How many comparisons have this verdict (None: no verdict)."""
        return sum((arm.verdict.word if arm.verdict else None) == word for _, arm in self.comparisons)


def results(bundle: Loaded) -> Results:
    """Compute everything from the bundle's blocks and events.

    Two passes: the verdicts need every comparison's p value, because they are adjusted over the report's family.
    """
    measured = [_Measured(bundle, case) for case in bundle.run.cases]
    keys = [(one.case.name, label) for one in measured for label in one.p_values]
    p_values = dict(zip(keys, adjusted([p for one in measured for p in one.p_values.values()]), strict=True))
    cases = tuple(_case(bundle, one, p_values) for one in measured)
    last = next((case for case in reversed(cases) if case.candidates), None)
    ratios = {case.case.name: {arm.arm.label: arm.ratio for arm in case.candidates} for case in cases}
    return Results(cases, Headline(last, last.candidates[0]) if last else None, geometric_means(ratios))


class _Measured:
    """A case's blocks, times and ratios: the first pass."""

    def __init__(self, bundle: Loaded, case: schema.Case) -> None:
        self.case = case
        self.arms = [arm for arm in bundle.run.arms if arm.name not in case.not_applicable]
        self.blocks: dict[str, list[schema.Block]] = defaultdict(list)
        self.warmups: dict[str, list[schema.Block]] = defaultdict(list)
        for block in bundle.blocks:
            if block.case == case.name:
                (self.blocks if block.phase == "measure" else self.warmups)[block.arm].append(block)
        self.times = {arm.label: _times(self.blocks[arm.label]) for arm in self.arms}
        self.baseline = next(arm for arm in self.arms if arm.role == "baseline")
        self.noise = next((arm for arm in self.arms if arm.role == "noise"), None)
        self.ratios: dict[str, Ratio] = {}
        for arm in self.arms:
            found = ratio(self.times[self.baseline.label], self.times[arm.label]) if arm is not self.baseline else ""
            if isinstance(found, Ratio):
                self.ratios[arm.label] = found
        again = self.ratios.get(self.noise.label) if self.noise else None
        self.noise_floor = noise_floor(again or "no noise arm")

    @property
    def p_values(self) -> dict[str, float]:
        """Unadjusted p by candidate, of those that have an interval."""
        return {
            arm.label: p_value([math.log(value) for value in self.ratios[arm.label].per_process])
            for arm in self.arms
            if arm.role == "candidate" and arm.label in self.ratios and self.ratios[arm.label].interval is not None
        }


def _case(bundle: Loaded, one: _Measured, p_values: dict[tuple[str, str], float]) -> CaseResult:
    def result(arm: schema.Arm) -> ArmResult:
        return _arm(bundle, one, arm, p_values.get((one.case.name, arm.label)))

    return CaseResult(
        case=one.case,
        baseline=result(one.baseline),
        noise=result(one.noise) if one.noise else None,
        candidates=tuple(result(arm) for arm in one.arms if arm.role == "candidate"),
        noise_floor=one.noise_floor,
        ended=tuple(e for e in bundle.events if isinstance(e, schema.ProcessEnded) and e.case == one.case.name),
        stopped=next(
            (e for e in reversed(bundle.events) if isinstance(e, schema.Stopped) and e.case == one.case.name), None
        ),
    )


def _arm(bundle: Loaded, one: _Measured, arm: schema.Arm, adjusted_p: float | None) -> ArmResult:
    times, found = one.times[arm.label], one.ratios.get(arm.label)
    compilation = _compilation(bundle.events, one.case.name, arm.label)
    steady = _steady(one.warmups[arm.label], one.blocks[arm.label])
    steadiness = agree([series.name for series in steady.values()])
    samples = [sample / block.calls_per_iteration for block in one.blocks[arm.label] for sample in block.iterations_ns]
    candidate = arm.role == "candidate"
    judged = None
    if found and candidate:
        judged = verdict(found, one.noise_floor, 1.0 if adjusted_p is None else adjusted_p)
        if judged.word and steadiness == "no steady state":
            judged = Verdict("inconclusive", f"{arm.label} reached no steady state", "a longer warm-up would settle it")
    baseline_ns = typical_time(one.times[one.baseline.label]) if one.times[one.baseline.label] else None
    cost_ns = compilation.cold_ns
    return ArmResult(
        arm=arm,
        typical_ns=typical_time(times) if times else None,
        ratio=found,
        verdict=judged,
        adjusted_p=adjusted_p,
        detectable=_detectable(found, one.noise_floor) if candidate else None,
        break_even=break_even(cost_ns, baseline_ns, found) if found and candidate and cost_ns and baseline_ns else None,
        percentiles=tuple(percentile(samples, percent) for percent in PERCENTILES) if samples else (),
        outliers=tukey(samples),
        steady=steady,
        steadiness=steadiness,
        dependence=dependence(bundle, one.case.name, one.baseline.label, arm.label) if found and candidate else None,
        compilation=compilation,
        accuracy=bundle.accuracies.get((one.case.name, arm.name)),
        blocks=tuple(one.blocks[arm.label]),
        times=times,
        reason="" if times else _why_not(bundle, one.case.name, arm.label),
    )


def _detectable(found: Ratio | None, delta: float) -> float | None:
    if found is None or found.interval is None:
        return None
    logs = [math.log(value) for value in found.per_process]
    return minimum_detectable_effect(statistics.stdev(logs), len(logs), delta)


def _steady(warmups: Iterable[schema.Block], blocks: Iterable[schema.Block]) -> dict[int, Steady]:
    """The warm-up class of every process: its warm-up and measured iterations in order, per call."""
    series: dict[int, list[float]] = defaultdict(list)
    for block in sorted([*warmups, *blocks], key=lambda block: block.started_at_ns):
        series[block.process] += [sample / block.calls_per_iteration for sample in block.iterations_ns]
    return {process: classify(samples) for process, samples in sorted(series.items())}


def _times(blocks: Iterable[schema.Block]) -> BlockTimes:
    times: BlockTimes = defaultdict(list)
    for block in blocks:
        times[block.process].append(block_time(block.iterations_ns, block.calls_per_iteration))
    return dict(sorted(times.items()))


def _compilation(events: Iterable[schema.AnyEvent], case: str, label: str) -> Compilation:
    ready = [
        e for e in events if isinstance(e, schema.ArmReady) and (e.case, e.arm, e.role) == (case, label, "measure")
    ]
    first = [e for e in ready if e.process == 0 and e.incarnation == 0]
    later = sorted(e.compile_ns for e in ready if e.compile_ns is not None and (e.process, e.incarnation) != (0, 0))
    middle = len(later) // 2
    return Compilation(
        cold_ns=first[0].compile_ns if first else None,
        warm_ns=(later[middle] if len(later) % 2 else (later[middle - 1] + later[middle]) / 2) if later else None,
        warm_count=len(later),
        bypassed=any(e.cache == "bypassed" for e in ready),
        first_call_ns=first[0].first_call_ns if first else (ready[0].first_call_ns if ready else None),
    )


def _why_not(bundle: Loaded, case: str, label: str) -> str:
    """Why an arm has no sample: it was not run, its processes failed, or the run has not come to it."""
    for event in bundle.events:
        if isinstance(event, schema.ArmNotRun) and (event.case, event.arm) == (case, label):
            return event.reason
    for event in bundle.events:
        if (
            isinstance(event, schema.ProcessEnded)
            and (event.case, event.role) == (case, "measure")
            and event.outcome != "ok"
        ):
            return f"{event.outcome.replace('_', ' ')}: {event.message}"
    return "not measured yet" if bundle.run.status != "complete" else "no sample"
