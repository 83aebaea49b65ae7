"""What a bundle says: every number of the report, computed from raw samples. Pure functions, no drawing and no words of layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reports.compilation import Compilation, compilation_of
from reports.evidence import unproved
from reports.state import Dependence, dependence
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.aggregate import Aggregate, geometric_means
from suite.statistics.discovery import adjusted
from suite.statistics.economics import BreakEven, break_even
from suite.statistics.family import minimum_detectable_effect
from suite.statistics.outliers import Outliers, tukey
from suite.statistics.pairs import whole_pairs
from suite.statistics.ratio import Ratio, block_time, p_value, ratio, typical_time
from suite.statistics.tails import PERCENTILES, Percentile, percentile
from suite.statistics.verdict import NoiseFloor, Verdict, noise_floor, verdict
from suite.statistics.warmup import Steady, agree, classify

BlockTimes = dict[int, list[float]]
"""Process index -> block times in ns, in the order in which they were measured."""


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
    """One case. `noise` is the baseline again, measured as an arm of its own."""

    case: schema.Case
    baseline: ArmResult
    noise: ArmResult | None
    candidates: tuple[ArmResult, ...]
    noise_floor: NoiseFloor
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
    """Everything that the report shows about measurements; `barred` says why no verdict may rest on any of it."""

    cases: tuple[CaseResult, ...]
    headline: Headline | None
    aggregate: Aggregate | str
    barred: str = ""

    @property
    def comparisons(self) -> list[tuple[CaseResult, ArmResult]]:
        """Every candidate in every case that it applies to."""
        return [(case, arm) for case in self.cases for arm in case.candidates]

    def count(self, word: str | None) -> int:
        """How many comparisons have this verdict (None: no verdict)."""
        return sum((arm.verdict.word if arm.verdict else None) == word for _, arm in self.comparisons)


def results(bundle: Loaded, barred: str = "") -> Results:
    """Compute everything from the bundle's blocks and events.

    Two passes: the verdicts need every comparison's p value, because they are adjusted over the report's family. `barred` is the
    clause that says why no verdict may rest on the bundle at all (`reports.seal`); then there is none, and no mean either.
    """
    measured = [_Measured(bundle, case) for case in bundle.run.cases]
    keys = [(one.case.name, label) for one in measured for label in one.p_values]
    p_values = dict(zip(keys, adjusted([p for one in measured for p in one.p_values.values()]), strict=True))
    cases = tuple(_case(bundle, one, p_values) for one in measured)
    if barred:
        cases = tuple(_without_verdicts(case, barred) for case in cases)
    last = next((case for case in reversed(cases) if case.candidates), None)
    ratios = {case.case.name: {arm.arm.label: _countable(arm) for arm in case.candidates} for case in cases}
    means = barred or geometric_means(ratios)
    return Results(cases, Headline(last, last.candidates[0]) if last else None, means, barred)


def _without_verdicts(case: CaseResult, reason: str) -> CaseResult:
    """The case with its numbers as they stand in the files, and no word on any of them."""
    withdrawn = [
        replace(arm, verdict=Verdict(None, reason), break_even=f"nothing is said: {reason}") if arm.verdict else arm
        for arm in case.candidates
    ]
    return replace(case, candidates=tuple(withdrawn))


def _countable(arm: ArmResult) -> Ratio | None:
    """The ratio as far as a mean may rest on it: not that of an arm that computes something else."""
    return None if arm.accuracy is not None and not arm.accuracy.passed else arm.ratio


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
        self.baseline = next(arm for arm in self.arms if arm.role == "baseline")
        self.noise = next((arm for arm in self.arms if arm.role == "noise"), None)
        self.procedure = bundle.run.procedure
        self.ratios = {arm.label: self._ratio(arm) for arm in self.arms if arm is not self.baseline}
        self.noise_floor = noise_floor(self.ratios[self.noise.label] if self.noise else "the run has no noise arm")

    def _ratio(self, arm: schema.Arm) -> Ratio | str:
        both = [*self.blocks[self.baseline.label], *self.blocks[arm.label]]
        paired = whole_pairs(both, self.baseline.label, arm.label, self.procedure.pairs_minimum)
        return ratio(*paired, pilot=self.procedure.processes)

    @property
    def p_values(self) -> dict[str, float]:
        """Unadjusted p by candidate, of those that have an interval."""
        candidates = {arm.label for arm in self.arms if arm.role == "candidate"}
        return {
            label: p_value(found)
            for label, found in self.ratios.items()
            if label in candidates and isinstance(found, Ratio) and found.interval is not None
        }


def _case(bundle: Loaded, one: _Measured, p_values: dict[tuple[str, str], float]) -> CaseResult:
    def result(arm: schema.Arm) -> ArmResult:
        return _arm(bundle, one, arm, p_values)

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


def _arm(bundle: Loaded, one: _Measured, arm: schema.Arm, p_values: dict[tuple[str, str], float]) -> ArmResult:
    case, baseline, blocks = one.case.name, one.baseline.label, one.blocks[arm.label]
    times = _times(blocks)
    candidate = arm.role == "candidate"
    compared = one.ratios.get(arm.label, "")
    found = compared if isinstance(compared, Ratio) else None
    steady = steady_series(one.warmups[arm.label], blocks)
    theirs = steady_series(one.warmups[baseline], one.blocks[baseline])
    compilation = compilation_of([] if (case, arm.label) in bundle.withheld else bundle.events, case, arm.label)
    accuracy = bundle.accuracies.get((case, arm.name))
    adjusted_p = p_values.get((case, arm.label))
    judged = None
    if found and candidate:
        judged = verdict(found, one.noise_floor.delta, 1.0 if adjusted_p is None else adjusted_p, len(p_values))
        judged = withheld(judged, accuracy, {baseline: steady_class(theirs), arm.label: steady_class(steady)})
        missing = unproved(bundle, case, baseline) or unproved(bundle, case, arm.label)
        judged = Verdict(None, missing) if missing else judged
    baseline_times = _times(one.blocks[baseline])
    cost_ns = compilation.cold_ns
    worth = found and candidate and cost_ns and baseline_times
    return ArmResult(
        arm=arm,
        typical_ns=typical_time(times) if times else None,
        ratio=found,
        verdict=judged,
        adjusted_p=adjusted_p,
        detectable=_detectable(found, one.noise_floor.delta, len(p_values)) if candidate else None,
        break_even=_break_even(cost_ns, typical_time(baseline_times), found, judged)
        if worth and found and cost_ns
        else None,
        percentiles=_percentiles(blocks),
        outliers=tukey([sample / block.calls_per_iteration for block in blocks for sample in block.iterations_ns]),
        steady=steady,
        steadiness=steady_class(steady),
        dependence=dependence(bundle, case, baseline, arm.label) if found and candidate else None,
        compilation=compilation,
        accuracy=accuracy,
        blocks=tuple(blocks),
        times=times,
        reason="" if found or (times and not candidate) else _why_not(bundle, case, arm.label, str(compared)),
    )


def _break_even(cost_ns: int, baseline_ns: float, found: Ratio, judged: Verdict | None) -> BreakEven | str:
    """When compiling has paid; nothing where no verdict may be given of a ratio with an interval."""
    word = judged.word if judged else None
    if found.interval and word is None:
        return "nothing is said: the ratio is not to be quoted"
    return break_even(cost_ns, baseline_ns, found, word)


NO_CLAIM = "no claim is made: "
"""How a withheld verdict's reason begins, which the headline has said by then."""


def withheld(judged: Verdict, accuracy: schema.Accuracy | None, classes: dict[str, str]) -> Verdict:
    """The verdict, unless the claim behind it may not be made: a failed accuracy check, or an arm without a steady state."""
    if accuracy is not None and not accuracy.passed:
        return Verdict(None, f"its accuracy check failed: {accuracy.message}")
    changing = [label for label, name in classes.items() if name == "no steady state"]
    if not judged.word or not changing:
        return judged
    unmet = f"{' and '.join(changing)} {'was' if len(changing) == 1 else 'were'} still changing when measuring ended"
    more = f"; {judged.reason.removeprefix(NO_CLAIM)}" if judged.word == "inconclusive" else ""
    return Verdict("inconclusive", f"{NO_CLAIM}{unmet}{more}", "a steadier run would settle it")


def steady_class(steady: dict[int, Steady]) -> str:
    """The warm-up class of an arm over its processes."""
    return agree([series.name for series in steady.values()])


def _percentiles(blocks: Iterable[schema.Block]) -> tuple[Percentile | str, ...]:
    """Percentiles of single calls; calls that were timed in groups have none, because a group's mean hides its tail."""
    calls = {block.calls_per_iteration for block in blocks}
    if not calls:
        return ()
    if calls != {1}:
        return tuple(f"calls are timed in groups of up to {max(calls)}" for _ in PERCENTILES)
    samples = [float(sample) for block in blocks for sample in block.iterations_ns]
    return tuple(percentile(samples, percent) for percent in PERCENTILES)


def _detectable(found: Ratio | None, delta: float, comparisons: int) -> float | None:
    if found is None or found.interval is None:
        return None
    return minimum_detectable_effect(
        found.deviation, found.degrees_of_freedom, len(found.per_process), delta, comparisons
    )


def steady_series(warmups: Iterable[schema.Block], blocks: Iterable[schema.Block]) -> dict[int, Steady]:
    """The warm-up class of every process: its warm-up and measured iterations in order, per call.

    Of a process that was continued, its last incarnation counts: a second warm-up in the middle is no change of the arm.
    """
    series: dict[tuple[int, int], list[float]] = defaultdict(list)
    for block in sorted([*warmups, *blocks], key=lambda block: block.started_at_ns):
        series[block.process, block.incarnation] += [
            sample / block.calls_per_iteration for sample in block.iterations_ns
        ]
    return {process: classify(samples) for (process, _), samples in sorted(series.items())}


def _times(blocks: Iterable[schema.Block]) -> BlockTimes:
    times: BlockTimes = defaultdict(list)
    for block in blocks:
        times[block.process].append(block_time(block.iterations_ns, block.calls_per_iteration))
    return dict(sorted(times.items()))


def _why_not(bundle: Loaded, case: str, label: str, otherwise: str) -> str:
    """Why an arm has no ratio: it was not run, its processes failed, or the run has not come to it."""
    if reason := bundle.withheld.get((case, label)):
        return reason
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
    return otherwise or ("not measured yet" if bundle.run.status != "complete" else "no sample")
