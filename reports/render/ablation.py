"""An ablation's sentences and tables. No HTML here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from reports.ablation import SPEEDUP, Ablated, CaseAblation, Effect, LevelResult, Quantity
from reports.render import numbers
from reports.render.view import arm_in_words
from reports.results import NO_CLAIM
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.ratio import Ratio
from suite.statistics.verdict import Verdict

SPEEDUP_WORDS = {"faster": "larger", "slower": "smaller", "equivalent": "the same", "inconclusive": "inconclusive"}
"""Of a speedup, verdicts say larger and smaller: it is no time."""


COMPARED = {
    "steps": "all launch settings against none",
    "alone": "all launch settings against none",
    "container": "in a container against the host",
}
"""What the headline compares, by design."""


def word(effect: Effect) -> str:
    """The verdict on an effect, in the words of its quantity; "no verdict" without one."""
    if effect.verdict is None or effect.verdict.word is None:
        return "no verdict"
    return SPEEDUP_WORDS[effect.verdict.word] if effect.quantity == SPEEDUP else effect.verdict.word


def headline(found: Ablated) -> str:
    """The ablation in a sentence: what all settings together do to the plan's first case."""
    case = found.cases[0]
    last = case.levels[-1]
    if not last.whole or not last.times_ns:
        return f"{case.case.title}: the last level of settings was not measured ({last.trouble or 'the run has not come to it'})."
    times = [_phrase(case, last, (arm.label, "time"), arm) for arm in case.arms if (arm.label, "time") in last.whole]
    return f"{case.case.title}, {COMPARED[found.design]}: {'; '.join([*times, *speedup_change(case)])}."


def tally(found: Ablated) -> str:
    """All effects of the tables that have an interval and are judged, each once, counted by verdict."""
    words: Counter[str] = Counter()
    for case in found.cases:
        for level in case.levels:
            same = level.step == level.whole
            for effects in (level.whole,) if same else (level.whole, level.step):
                words.update(
                    (effect.verdict.word if effect.verdict else None) or "without a verdict"
                    for effect in effects.values()
                    if effect.verdict and isinstance(effect.ratio, Ratio) and effect.ratio.interval
                )
    told = {"faster": "faster (of a speedup: larger)", "slower": "slower (smaller)"}
    order = ("faster", "slower", "equivalent", "inconclusive", "without a verdict")
    return ", ".join(f"{words[word]} {told.get(word, word)}" for word in order if words[word]) or "none"


def _phrase(case: CaseAblation, level: LevelResult, quantity: Quantity, arm: schema.Arm) -> str:
    effect, who = level.whole[quantity], arm_in_words(arm)
    if isinstance(effect.ratio, str):
        return f"{who} was not measured ({effect.ratio})"
    rate = numbers.ratio(effect.ratio)
    claimed = effect.verdict.word if effect.verdict else None
    reason = effect.verdict.reason.removeprefix(NO_CLAIM) if effect.verdict else ""
    return {
        "faster": f"{who} is {rate} as fast",
        "slower": f"{who} is slower, at {rate} its speed",
        "equivalent": f"{who} is as fast, within {numbers.percent(case.floors[quantity].delta)}",
        "inconclusive": f"nothing is claimed about {who} ({reason})",
        None: f"{who} ran at {rate} its speed, without a verdict{f' ({reason})' if reason else ''}",
    }[claimed]


def speedup_change(case: CaseAblation) -> list[str]:
    """How every candidate's speedup over eager changes from the first level to the last, where that is known."""
    first, last = case.levels[0], case.levels[-1]
    told = []
    for arm in case.arms:
        before, after = first.speedups.get(arm.label), last.speedups.get(arm.label)
        effect = last.whole.get((arm.label, SPEEDUP))
        if not isinstance(before, Ratio) or not isinstance(after, Ratio) or effect is None:
            continue
        how = {"larger": "grows", "smaller": "shrinks", "the same": "stays"}.get(word(effect))
        who = arm_in_words(arm)
        span = f"from {numbers.ratio(before)} to {numbers.ratio(after)}"
        told.append(
            f"the speedup of {who} {how} {span}" if how else f"the speedup of {who} goes {span} ({word(effect)})"
        )
    return told


@dataclass(frozen=True)
class Cell:
    """One effect as text: the ratio, its interval, and the verdict, whose `kind` chooses the colour."""

    ratio: str = numbers.NO_NUMBER
    interval: str = ""
    word: str = ""
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class LevelRow:
    """One level: `times` by arm, `speedup` and its change by candidate; the effects are against nothing set, `steps` against the last."""

    label: str
    description: str
    times: list[tuple[str, Cell]]
    speedups: list[tuple[str, str, Cell]]
    steps: list[Cell]
    in_force: str
    rounds: int
    trouble: str


def cell(effect: Effect | None) -> Cell:
    """An effect as text."""
    if effect is None:
        return Cell()
    if isinstance(effect.ratio, str):
        return Cell(note=effect.ratio)
    judged = effect.verdict
    return Cell(
        ratio=numbers.ratio(effect.ratio),
        interval=numbers.interval(effect.ratio) if effect.ratio.interval else "",
        word=word(effect) if judged else "",
        kind=(judged.word or "none") if judged else "",
        note=_unmet(judged) if judged else "",
    )


def _unmet(judged: Verdict) -> str:
    """Of an effect about which nothing is claimed: every condition that was not met, and what would settle it."""
    if judged.word not in (None, "inconclusive"):
        return ""
    return "; ".join(part for part in (judged.reason, judged.advice) if part)


def level_rows(case: CaseAblation) -> list[LevelRow]:
    """The table of a case: a row a level."""
    rows = []
    for level in case.levels:
        times = [
            (numbers.time(level.times_ns.get(arm.label)), cell(level.whole.get((arm.label, "time"))))
            for arm in case.arms
        ]
        speedups = [
            (*_speedup(level.speedups.get(arm.label)), cell(level.whole.get((arm.label, SPEEDUP))))
            for arm in case.arms
            if arm.role == "candidate"
        ]
        steps = [cell(level.step.get(quantity)) for quantity in case.quantities]
        rows.append(
            LevelRow(
                level.level.label,
                level.level.description,
                times,
                speedups,
                steps,
                in_force(level),
                level.rounds,
                level.trouble,
            )
        )
    return rows


def _speedup(found: Ratio | str | None) -> tuple[str, str]:
    if not isinstance(found, Ratio):
        return numbers.NO_NUMBER, found or ""
    return numbers.ratio(found), numbers.interval(found) if found.interval else ""


def quantity_names(case: CaseAblation) -> list[str]:
    """What the columns of effects are called."""
    return [f"speedup of {label}" if kind == SPEEDUP else label for label, kind in case.quantities]


def floors(case: CaseAblation) -> str:
    """The noise floor of every quantity, and where the measurement itself is in doubt."""
    each = [
        f"{name} {numbers.percent(case.floors[quantity].delta)} ({case.floors[quantity].source})"
        for name, quantity in zip(quantity_names(case), case.quantities, strict=True)
    ]
    doubts = [
        f"{name}: {doubt}."
        for name, quantity in zip(quantity_names(case), case.quantities, strict=True)
        if (doubt := case.floors[quantity].doubt)
    ]
    return " ".join([f"Noise floor: {'; '.join(each)}.", *doubts])


def doubts(case: CaseAblation, bundle: Loaded) -> list[str]:
    """Sentences on accuracy: which arm computes something else, or was not checked."""
    told = []
    for arm in case.arms:
        if arm.role != "candidate":
            continue
        found = bundle.accuracies.get((case.case.name, arm.name))
        if found is None:
            told.append(f"The accuracy of {arm.label} was not checked.")
        elif not found.passed:
            told.append(f"{arm.label} fails its accuracy check: {found.message}. Its speed is not to be quoted.")
    return told


def in_force(level: LevelResult) -> str:
    """What the level's processes saw in force, in a line; says so when they differ."""
    seen = {_summary(effective) for effective in level.effectives}
    if not seen:
        return "no process recorded it"
    return next(iter(seen)) if len(seen) == 1 else f"the processes differ: {' | '.join(sorted(seen))}"


def _summary(effective: schema.Effective) -> str:
    libraries = effective.mapped_libraries
    openmp = next(iter(libraries.get("openmp_called", []) or libraries.get("openmp", [])), "no OpenMP run-time")
    allocator = next(iter(libraries.get("allocator_called", [])), "the C library's")
    threads = effective.threads.get("torch_intra_op")
    parts = [
        f"OpenMP {openmp}",
        f"allocator {allocator}",
        f"{numbers.counted(threads, 'thread')}" if threads else "",
        f"CPUs {_cpulist(effective.affinity)}",
        f"memory {effective.runtime.get('memory.policy', 'policy unknown')}",
        f"blocktime {effective.runtime['openmp.kmp_blocktime_ms']} ms"
        if "openmp.kmp_blocktime_ms" in effective.runtime
        else "",
    ]
    return ", ".join(part for part in parts if part)


def _cpulist(numbers_: list[int]) -> str:
    """CPU numbers as ranges: 0-3,8."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers_)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
