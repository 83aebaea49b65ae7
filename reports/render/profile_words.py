"""How far profiles may be read as the timed calls: against their times, and by what disturbed their process. No HTML here."""

from __future__ import annotations

from collections.abc import Callable

from reports.render import numbers
from reports.results import ArmResult, CaseResult
from suite.bundle import readings, schema
from suite.bundle.reader import Loaded
from suite.bundle.readings import Span

APART = 1.25
"""A step under the profiler that takes a quarter more, or less, than a timed call is said to: recording costs some microseconds a slice."""

DISTURBED: tuple[tuple[str, Callable[[Span], float | None], float], ...] = (
    ("other programs took {} of the measured CPUs", lambda span: span.neighbours, readings.NEIGHBOUR_SHARE),
    ("the hypervisor took {} of the CPU time", lambda span: span.stolen, readings.STEAL_SHARE),
    ("the CPU quota stopped it in {} of its periods", lambda span: span.throttled, 0.0),
)
"""What disturbs a profile as it would a timed call: sentence, share, and the threshold above which it is said."""


def doubts(bundle: Loaded, case: CaseResult) -> list[str]:
    """Sentences on profiles that are not like the timed calls, and on profiling processes that were disturbed; empty where all is well."""
    shown = [
        (arm, profile)
        for arm in (case.baseline, *case.candidates)
        if (profile := bundle.profiles.get((case.case.name, arm.arm.name))) is not None
    ]
    steps = [(arm, step_ns) for arm, profile in shown if (step_ns := _host_step_ns(profile)) and arm.typical_ns]
    told = _disturbed(bundle, case) if shown else []
    if apart := _apart(steps):
        told.append(apart)
    return told + _other_ratios(case, steps)


def _host_step_ns(profile: schema.Profile) -> float | None:
    """The host's time a step; None where a device works beside the host, whose time a call is not the host's."""
    cycle = profile.cycles[-1]
    if any(row.self_device_ns for row in cycle.rows):
        return None
    return sum(row.self_cpu_ns for row in cycle.rows) / cycle.active_steps


def _apart(steps: list[tuple[ArmResult, float]]) -> str:
    """Which arms took another time under the profiler than in timed calls, and how far apart the two are."""
    told = []
    for arm, step_ns in steps:
        times = step_ns / (arm.typical_ns or 1.0)
        if not 1 / APART < times < APART:
            told.append(
                f"{arm.arm.label} {numbers.time(step_ns)} a step against {numbers.time(arm.typical_ns)} a timed call"
                f" ({numbers.significant(times, 2)}{numbers.TIMES})"
            )
    if not told:
        return ""
    return (
        f"Under the profiler the calls took another time than the timed ones: {'; '.join(told)}."
        " Its rows tell where time went while it was recorded, not what a timed call takes."
    )


def _other_ratios(case: CaseResult, steps: list[tuple[ArmResult, float]]) -> list[str]:
    """Candidates whose ratio to eager is another under the profiler than in the timed calls, or even on the other side of one."""
    eager = next((step_ns for arm, step_ns in steps if arm is case.baseline), None)
    told = []
    for arm, step_ns in steps:
        if eager is None or arm.ratio is None or arm is case.baseline:
            continue
        profiled, timed = eager / step_ns, arm.ratio.estimate
        turned = (profiled - 1) * (timed - 1) < 0
        if 1 / APART < profiled / timed < APART and not (turned and _apart_from_one(profiled, timed)):
            continue
        word = (arm.verdict.word if arm.verdict else None) or "no verdict"
        text = (
            f"{arm.arm.label} against eager: {profiled:.2f}{numbers.TIMES} under the profiler,"
            f" {numbers.ratio(arm.ratio)} in the timed calls ({word})"
        )
        text += ", so the two arms change their order" if turned else ""
        told.append(f"{text}. The difference of the two profiles does not explain the timed ratio.")
    return told


def _apart_from_one(*ratios: float) -> bool:
    """Whether each ratio is far enough from one for its side to mean something."""
    return all(not 1 / 1.05 < ratio < 1.05 for ratio in ratios)


def _disturbed(bundle: Loaded, case: CaseResult) -> list[str]:
    spans = [span for span in readings.spans(bundle.telemetry, bundle.events) if span.role == "profile"]
    own = [span for span in spans if span.case == case.case.name]
    told = []
    for span in own:
        what = disturbances(span)
        if what:
            told.append(
                f"The profiles were made while the machine was disturbed: over the whole profiling process {' and '.join(what)}."
                " What waited then stands in the times of the rows."
            )
    return list(dict.fromkeys(told))


def disturbances(span: Span) -> list[str]:
    """What disturbed a process, with its share, in clauses."""
    return [
        text.format(numbers.percent(share))
        for text, value, least in DISTURBED
        if (share := value(span)) and share > least
    ]
