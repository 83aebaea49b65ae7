"""What a bundle says: every number of the report, computed from raw samples. Pure functions, no drawing and no words of layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.ratio import Ratio, block_time, ratio, typical_time
from suite.statistics.verdict import Verdict, noise_floor, verdict

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
    """One arm of one case. `typical_ns` is the time of a call; `reason` says why there is none."""

    arm: schema.Arm
    typical_ns: float | None
    ratio: Ratio | None
    verdict: Verdict | None
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
    unsettled: tuple[schema.ArmWarm, ...]

    @property
    def arms(self) -> tuple[ArmResult, ...]:
        """Baseline, noise arm and candidates, in the order of the plan."""
        return (self.baseline, *((self.noise,) if self.noise else ()), *self.candidates)

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

    @property
    def comparisons(self) -> list[tuple[CaseResult, ArmResult]]:
        """Every candidate in every case that it applies to."""
        return [(case, arm) for case in self.cases for arm in case.candidates]

    def count(self, word: str | None) -> int:
        """How many comparisons have this verdict (None: no verdict)."""
        return sum((arm.verdict.word if arm.verdict else None) == word for _, arm in self.comparisons)


def results(bundle: Loaded) -> Results:
    """Compute everything from the bundle's blocks and events."""
    cases = tuple(_case(bundle, case) for case in bundle.run.cases)
    last = next((case for case in reversed(cases) if case.candidates), None)
    return Results(cases, Headline(last, last.candidates[0]) if last else None)


def _case(bundle: Loaded, case: schema.Case) -> CaseResult:
    blocks: dict[str, list[schema.Block]] = defaultdict(list)
    for block in bundle.blocks:
        if block.case == case.name and block.phase == "measure":
            blocks[block.arm].append(block)
    arms = [arm for arm in bundle.run.arms if arm.name not in case.not_applicable]
    times = {arm.label: _times(blocks[arm.label]) for arm in arms}
    baseline = next(arm for arm in arms if arm.role == "baseline")
    again = next((arm for arm in arms if arm.role == "noise"), None)
    floor = noise_floor(ratio(times[baseline.label], times[again.label])) if again else noise_floor("no noise arm")

    def result(arm: schema.Arm) -> ArmResult:
        compared = ratio(times[baseline.label], times[arm.label]) if arm.role != "baseline" else None
        found = compared if isinstance(compared, Ratio) else None
        return ArmResult(
            arm=arm,
            typical_ns=typical_time(times[arm.label]) if times[arm.label] else None,
            ratio=found,
            verdict=verdict(found, floor) if found and arm.role == "candidate" else None,
            compilation=_compilation(bundle.events, case.name, arm.label),
            accuracy=bundle.accuracies.get((case.name, arm.name)),
            blocks=tuple(blocks[arm.label]),
            times=times[arm.label],
            reason="" if times[arm.label] else _why_not(bundle, case.name, arm.label),
        )

    return CaseResult(
        case=case,
        baseline=result(baseline),
        noise=result(again) if again else None,
        candidates=tuple(result(arm) for arm in arms if arm.role == "candidate"),
        noise_floor=floor,
        ended=tuple(e for e in bundle.events if isinstance(e, schema.ProcessEnded) and e.case == case.name),
        unsettled=tuple(
            e for e in bundle.events if isinstance(e, schema.ArmWarm) and e.case == case.name and not e.settled
        ),
    )


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
