"""A comparison's sentences and tables. No HTML here."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from reports.compare.ceilings import Share, ceilings
from reports.compare.cells import Cell, Row
from reports.compare.load import Member, without
from reports.compare.machines import Group
from reports.compare.matrix import Comparison
from reports.compare.parity import Side, torch_version
from reports.compare.parity import threads as threads_in_force
from reports.plain import one_line
from reports.render import container, facts, numbers, view
from reports.results import ArmResult
from suite.statistics.ratio import Interval
from suite.statistics.unpaired import UnpairedRatio
from suite.statistics.verdict import MINIMUM_NOISE_FLOOR, Verdict

HEADLINE_RUNS = 3
"""Up to so many runs are told one by one in the headline; more are counted."""

ALLOWED_WORDS = {"torch": "torch versions differ", "threads": "thread counts differ"}

STATUS_WORDS = {
    "baseline": "baseline",
    "refused": "refused",
    "asked": "not ranked",
    "unmeasured": "not measured",
    "no baseline": "no baseline",
}


def mark(found: Comparison) -> str:
    """What the title has to say of differences that were allowed; empty without any."""
    return ", ".join(f"{ALLOWED_WORDS[name]}, allowed" for name in found.marked)


def machine_line(found: Comparison) -> str:
    """Which runs are of which machine, in a line."""
    return "; ".join(f"{_listed(group)}: {_group_subject(group)}" for group in found.groups)


def _listed(group: Group) -> str:
    return ", ".join(one.letter for one in group.members)


def _group_subject(group: Group) -> str:
    return _product(group) if group.is_product else group.subject


def _product(group: Group) -> str:
    return f"{group.model.name} ({len(group.units)} units)"


def subject(found: Comparison, member: Member) -> str:
    """A run as a sentence names it: with its machine where the page has several."""
    return f"{member.letter} ({found.group(member).subject})" if len(found.groups) > 1 else member.letter


def headline_row(found: Comparison) -> Row | None:
    """The row that opens the page, fixed by the baseline's plan and by what was measured at all, never by what came out.

    It is the plan's last case, and in it the first candidate, that another run has measured too; None when none has any.
    """
    plan = found.baseline.bundle.run
    labels = [arm.label for arm in plan.arms if arm.role == "candidate"] + [arm.label for arm in plan.arms]
    by_key = {row.key: row for row in found.rows if _is_shared(row, found.baseline)}
    keys = ((case.name, label) for case in reversed(plan.cases) for label in labels)
    return next((by_key[key] for key in keys if key in by_key), None)


def _is_shared(row: Row, baseline: Member) -> bool:
    return any(cell.typical_ns is not None for cell in row.cells if cell.member is not baseline)


def headline(found: Comparison) -> str:
    """The comparison in a sentence."""
    others = [one for one in found.members if one is not found.baseline]
    row = headline_row(found)
    if row is None or len(others) > HEADLINE_RUNS:
        models = numbers.counted(len(found.groups), "machine model")
        return f"{len(found.members)} runs of {models} against {found.baseline.letter}: {tally(found)}."
    cells = {cell.member.letter: cell for cell in row.cells}
    phrases = [_phrase(found, cells[one.letter]) for one in others]
    arm = next((cell.arm.arm for cell in row.cells if cell.arm), None)
    who = view.arm_in_words(arm) if arm else row.arm
    return f"{one_line(row.title)}, {who}: {'; '.join(phrases)}."


def _phrase(found: Comparison, cell: Cell) -> str:
    who, base = subject(found, cell.member), found.baseline.letter
    if cell.status in ("refused", "asked", "no baseline"):
        told = "is refused" if cell.status == "refused" else "is not ranked"
        return f"{who} {told} ({cell.reasons[0].text})"
    if cell.ratio is None or cell.verdict is None:
        return f"{who} did not measure it"
    rate, word = numbers.ratio(cell.ratio), cell.verdict.word
    if word is None and cell.ratio.interval is not None:
        return f"the speed of {who} is not to be quoted ({cell.verdict.reason})"
    return {
        "faster": f"{who} is {rate} as fast as {base}",
        "slower": f"{who} is slower than {base}, at {rate} its speed",
        "equivalent": f"{who} and {base} are equally fast, within {numbers.percent(cell.floor.delta if cell.floor else None)}",
        "inconclusive": f"nothing is claimed about {who}",
        None: f"{who} ran at {rate} the speed of {base}, without a verdict",
    }[word]


def tally(found: Comparison) -> str:
    """All cells beside the baseline's counted by verdict or by why they have none, in words."""
    words: dict[str, int] = {}
    for row in found.rows:
        for cell in row.cells:
            if cell.status != "baseline":
                word = status_word(cell)
                words[word] = words.get(word, 0) + 1
    order = ("faster", "slower", "equivalent", "inconclusive", "no verdict", *STATUS_WORDS.values())
    return ", ".join(f"{words[word]} {word}" for word in order if word in words) or "nothing to compare"


def status_word(cell: Cell) -> str:
    """A cell's verdict, or why it has none, in a word or two."""
    if cell.status == "ranked":
        return (cell.verdict.word if cell.verdict else None) or "no verdict"
    return STATUS_WORDS[cell.status]


@dataclass(frozen=True)
class TableRow:
    """One cell as text. `kind` chooses colour and hatching; the `by_*` are sort keys, empty where a cell is never ranked."""

    case: str
    arm: str
    letter: str
    run: str
    time: str
    time_interval: str
    ratio: str
    interval: str
    word: str
    kind: str
    speedup: str
    speedup_interval: str
    speedup_word: str
    share: str
    share_note: str
    note: str
    by_time: str
    by_ratio: str
    by_speedup: str
    by_share: str


def table(found: Comparison) -> list[TableRow]:
    """The table: case by case, arm by arm, in the order of the runs; without the cells of `without_case`."""
    return [_table_row(found, row, cell) for row in found.rows for cell in row.cells if cell.case is not None]


def without_case(found: Comparison) -> str:
    """Which runs do not have which cases: an empty cell for each arm of each would hide the rest."""
    told: dict[str, list[str]] = {}
    for case in dict.fromkeys(row.case for row in found.rows):
        row = next(row for row in found.rows if row.case == case)
        letters = [cell.member.letter for cell in row.cells if cell.case is None]
        if letters:
            told.setdefault(", ".join(letters), []).append(one_line(case, 120))
    return "; ".join(f"{letters}: {', '.join(cases)}" for letters, cases in told.items())


def _table_row(found: Comparison, row: Row, cell: Cell) -> TableRow:
    share = cell.share if isinstance(cell.share, Share) else None
    speedup = cell.arm.ratio if cell.arm and cell.arm.arm.role == "candidate" else None
    measured = cell.typical_ns is not None
    ranked = cell.status in ("ranked", "baseline")
    interval = cell.interval_ns if isinstance(cell.interval_ns, Interval) else None
    return TableRow(
        case=one_line(row.case, 120),
        arm=one_line(row.arm, 60),
        letter=cell.member.letter,
        run=f"{cell.member.letter}{'' if cell.member.publishable else '*'}",
        time=numbers.time(cell.typical_ns),
        time_interval=_times(interval) if interval else "",
        ratio="1" if cell.status == "baseline" else numbers.ratio(cell.ratio),
        interval=numbers.interval(cell.ratio) if cell.ratio and cell.ratio.interval else "",
        word=status_word(cell),
        kind=status_word(cell).replace(" ", "-"),
        speedup=numbers.ratio(speedup) if measured else numbers.NO_NUMBER,
        speedup_interval=numbers.interval(speedup) if speedup and speedup.interval and measured else "",
        speedup_word=_speedup_word(cell.arm) if measured else "",
        share=numbers.percent(share.fraction) if share else numbers.NO_NUMBER,
        share_note=share.ceiling.bound if share else "",
        note=note(row, cell),
        by_time=f"{cell.typical_ns:.6e}" if cell.typical_ns is not None and ranked else "",
        by_ratio=f"{cell.ratio.estimate:.6e}" if cell.ratio else "1" if cell.status == "baseline" else "",
        by_speedup=f"{speedup.estimate:.6e}" if speedup and ranked else "",
        by_share=f"{share.fraction:.6e}" if share and ranked else "",
    )


def _times(interval: Interval) -> str:
    scale, unit = numbers.time_unit(interval.low)
    low, high = (numbers.significant(edge / scale) for edge in (interval.low, interval.high))
    return f"{low} to {high} {unit}"


def _speedup_word(arm: ArmResult | None) -> str:
    if arm is None or arm.verdict is None:
        return ""
    return arm.verdict.word or "no verdict"


def note(row: Row, cell: Cell) -> str:
    """Why a cell is refused, not ranked or without a verdict; what was allowed; what would settle it."""
    parts = [each.text for each in cell.reasons] + [f"{each.text} (allowed)" for each in cell.allowed]
    if cell.case and cell.case.case.name != row.case:
        parts.append(f"measured as {cell.case.case.name}")
    if cell.verdict and cell.verdict.word in (None, "inconclusive"):
        parts += [cell.verdict.reason, *([on_each(cell.verdict.advice)] if cell.verdict.advice else [])]
    return "; ".join(one_line(part, 200) for part in parts)


def on_each(advice: str) -> str:
    """An advice of more processes, which between machines means on either."""
    return re.sub(r"(more process(es)?) would", r"\1 on either machine would", advice)


def floors(row: Row) -> str:
    """The noise floor of every comparison of a row, with where it comes from; those that share one together."""
    told: dict[str, list[str]] = {}
    for cell in row.cells:
        if cell.floor:
            least = cell.floor.delta <= MINIMUM_NOISE_FLOOR
            source = "the least that is ever assumed" if least else cell.floor.source
            told.setdefault(f"{numbers.percent(cell.floor.delta)} ({source})", []).append(cell.member.letter)
    listed = "; ".join(f"{', '.join(letters)} {text}" for text, letters in told.items())
    return f"{one_line(row.arm, 60)}: {listed}" if listed else ""


@dataclass(frozen=True)
class Card:
    """One run on its machine's card: `lines` are (name, text); `wrong` is what disqualifies it."""

    letter: str
    run_id: str
    baseline: bool
    publishable: bool
    lines: list[tuple[str, str]]
    wrong: list[str]


def cards(found: Comparison, group: Group) -> list[Card]:
    """The runs of a machine model."""
    return [_card(found, one) for one in group.members]


def _card(found: Comparison, member: Member) -> Card:
    run = member.bundle.run
    sides = [Side(member, case) for case in run.cases]
    limits = [_ceiling(each.bound, each.rate, each.source) for each in ceilings(member.bundle)]
    unit = next(number for number, unit in enumerate(found.group(member).units, 1) if member in unit)
    lines = [
        ("Unit", f"{unit} of {len(found.group(member).units)}"),
        ("When", f"{one_line(view.stretches(member.bundle), 120)}, preset {one_line(run.preset, 40)}"),
        ("Where", one_line(container.where(run.engine), 200)),
        ("PyTorch", _joined(sides, torch_version) or _fact(member, "torch", "version")),
        ("Threads", _joined(sides, threads_in_force) or "the bundle does not tell"),
        ("Settings", f"{run.launch.settings}"),
        ("Memory", _fact(member, "memory", "total_bytes")),
        ("Best rates", "; ".join(limits) or "the run measured none"),
    ]
    intact, sentence = view.integrity(member.check)
    wrong = [] if intact else [one_line(sentence)]
    wrong += [one_line(without(each, f"{member.bundle.path}/")) for each in member.bundle.notes]
    wrong += [one_line(each.claim) for each in view.findings(member.bundle) if each.severity == "wrong"]
    if not run.publishable:
        wrong += [
            f"not publishable: {'; '.join(one_line(reason, 120) for reason in run.reasons) or 'the run does not say why'}"
        ]
    return Card(member.letter, member.run_id, member is found.baseline, member.publishable, lines, wrong)


def _joined(sides: list[Side], read: object) -> str:
    assert callable(read)
    return ", ".join(dict.fromkeys(one_line(text, 60) for side in sides if (text := read(side)) is not None))


def _fact(member: Member, name: str, field: str) -> str:
    fingerprint = member.bundle.fingerprint
    found = fingerprint.facts.get(name, {}).get(field) if fingerprint else None
    return one_line(facts.fact_text(field, found), 120) if found else "the bundle does not tell"


def _ceiling(bound: str, rate: float, source: str) -> str:
    return f"{numbers.rate(rate, 'B/s' if bound == 'memory' else 'FLOP/s')} ({source})"


def means(found: Comparison) -> list[str]:
    """The geometric means, one sentence an arm, each over the cases that all who take part completed, with their number."""
    told = []
    for arm, mean in found.means.items():
        if isinstance(mean, str):
            told.append(f"{arm}: {mean}, so there is no mean.")
        elif len(mean.cases) > 1:
            ratios = ", ".join(
                f"{letter} {numbers.significant(value)}{numbers.TIMES}" for letter, value in mean.ratios.items()
            )
            unsure = any(
                cell.ratio and cell.ratio.interval is None
                for row in found.rows
                if row.arm == arm and row.case in mean.cases
                for cell in row.cells
            )
            doubt = ", of ratios without an interval" if unsure else ""
            told.append(f"{arm}, {len(mean.cases)}/{mean.total} cases{doubt}: {ratios}.")
        else:
            told.append(f"{arm}, {len(mean.cases)}/{mean.total} cases: no mean of a single one.")
    return told


@dataclass(frozen=True)
class ModelText:
    """One machine model against the baseline's, as text."""

    case: str
    arm: str
    models: str
    ratio: str
    interval: str
    word: str
    note: str


def model_rows(found: Comparison) -> list[ModelText]:
    """Machine models held against each other: only where both have units enough to speak of the model."""
    return [
        ModelText(
            each.case,
            each.arm,
            f"{_product(each.group)} against {_product(each.baseline)}",
            numbers.ratio(each.ratio),
            numbers.interval(each.ratio),
            *_word(each.ratio, each.verdict),
        )
        for each in found.models
    ]


def _word(ratio: UnpairedRatio, found: Verdict) -> tuple[str, str]:
    advice = found.advice.replace("processes", "units of each").replace("process", "unit of each")
    return found.word or "no verdict", advice or (ratio.reason if found.word is None else "")


def unit_words(found: Comparison) -> str:
    """What may be said of a machine model, given how many units were measured."""
    few = [group.model.name for group in found.groups if not group.is_product]
    if not few:
        return "Every machine model was measured on three units or more."
    named = "; ".join(few)
    return (
        f"One unit is not a product: of {named} fewer than three units were measured, so what is said holds for "
        f"{'this unit' if len(few) == 1 else 'these units'}, not for the model."
    )


def command(found: Comparison) -> str:
    """What makes this page again."""
    runs = " ".join(one.bundle.run.run_id for one in found.members)
    parts = ["make compare", f"RUNS={shlex.quote(one_line(runs, 2000))}"]
    if found.baseline is not found.members[0]:
        parts.append(f"BASELINE={shlex.quote(found.baseline.run_id)}")
    if found.allow:
        parts.append(f"ALLOW={shlex.quote(' '.join(found.allow))}")
    return " ".join(parts)
