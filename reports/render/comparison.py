"""A comparison's sentences and tables. No HTML here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from reports.compare.cells import Cell, Row
from reports.compare.load import Member
from reports.compare.machines import Group
from reports.compare.matrix import Comparison
from reports.plain import one_line
from reports.render import numbers, view
from reports.render.comparison_table import CLAIMS, STATUS_WORDS, planned, status_word
from reports.results import NO_CLAIM
from suite.statistics.unpaired import UnpairedRatio
from suite.statistics.verdict import Verdict

HEADLINE_RUNS = 3
"""Up to so many runs are told one by one in the headline; more are counted."""

ALLOWED_WORDS = {"torch": "torch versions", "threads": "thread counts"}

COUNTED = {"no verdict": "without a verdict", "no baseline": "without a baseline"}
"""Words of a cell that read otherwise behind a number."""


def mark(found: Comparison) -> str:
    """What the title has to say of differences that were allowed; empty without any."""
    return f"{_and([ALLOWED_WORDS[name] for name in found.marked])} differ, allowed" if found.marked else ""


def machine_line(found: Comparison) -> str:
    """Which runs are of which machine, in a line."""
    marks = {one.letter: tag(found, one) for one in found.members}
    listed = {letter: f"{letter} ({words})" if words else letter for letter, words in marks.items()}
    return "; ".join(
        f"{', '.join(listed[one.letter] for one in group.members)}: {_group_subject(group)}" for group in found.groups
    )


def tag(found: Comparison, member: Member) -> str:
    """What a run is, of that in which the runs of the page differ: engine, settings, dtype."""
    told = [_tags(one) for one in found.members]
    own = _tags(member)
    return ", ".join(word for place, word in enumerate(own) if word and len({each[place] for each in told}) > 1)


def _tags(member: Member) -> tuple[str, str, str]:
    run = member.bundle.run
    dtypes = {one_line(case.dtype, 20) for case in run.cases}
    engine = f"in {run.engine.name}" if run.engine.containerised else "native"
    return engine, run.launch.settings, dtypes.pop() if len(dtypes) == 1 else ""


def _group_subject(group: Group) -> str:
    return _product(group) if group.is_product else group.subject


def _product(group: Group) -> str:
    return f"{group.model.name} ({len(group.units)} units)"


def subject(found: Comparison, member: Member) -> str:
    """A run as a sentence names it: with its machine where the page has several, else with what it is unlike the baseline."""
    own, base = _tags(member), _tags(found.baseline)
    unlike = ", ".join(word for word, other in zip(own, base, strict=True) if word and word != other)
    told = found.group(member).subject if len(found.groups) > 1 else unlike
    return f"{member.letter} ({told})" if told else member.letter


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
        claimed = {status_word(cell) for row in found.rows for cell in row.cells} & CLAIMS
        nothing = "" if claimed else ", and nothing can be claimed"
        return f"{len(found.members)} runs of {models} against {found.baseline.letter}{nothing}: {tally(found)}."
    cells = {cell.member.letter: cell for cell in row.cells}
    phrases = [_phrase(found, cells[one.letter]) for one in others]
    arm = next((cell.arm.arm for cell in row.cells if cell.arm), None)
    who = view.arm_in_words(arm) if arm else row.arm
    return f"{one_line(row.title)}, {who}: {'; '.join(phrases)}."


def _phrase(found: Comparison, cell: Cell) -> str:
    who, base = subject(found, cell.member), found.baseline.letter
    if cell.status in ("refused", "asked", "no baseline"):
        told = "is refused" if cell.status == "refused" else "is not ranked"
        return (
            f"{who} {told}; {cell.reasons[0].text}" if cell.member.barred else f"{who} {told} ({cell.reasons[0].text})"
        )
    if cell.ratio is None or cell.verdict is None:
        return f"{who} {_elsewhere(found, cell.member) or 'did not measure it'}"
    rate, word = numbers.ratio(cell.ratio), cell.verdict.word
    again = ", the same unit with the same settings" if cell.session else ""
    if word is None and cell.ratio.interval is not None:
        return f"the speed of {who} is not to be quoted ({cell.verdict.reason})"
    return {
        "faster": f"{who} is {rate} as fast as {base}{again}",
        "slower": f"{who} is slower than {base}{again}, at {rate} its speed",
        "equivalent": f"{who} and {base} are equally fast, within {numbers.percent(cell.floor.delta if cell.floor else None)}",
        "inconclusive": f"nothing is claimed about {who} ({one_line(cell.verdict.reason.removeprefix(NO_CLAIM), 300)})",
        None: f"{who} ran at {rate} the speed of {base}, without a verdict",
    }[word]


def tally(found: Comparison) -> str:
    """All cells beside the baseline's counted by verdict or by why they have none, in words."""
    words: dict[str, int] = {}
    for row in found.rows:
        for cell in row.cells:
            if cell.status != "baseline" and planned(cell):
                word = status_word(cell)
                words[word] = words.get(word, 0) + 1
    order = ("faster", "slower", "equivalent", "inconclusive", "no verdict", *STATUS_WORDS.values())
    return (
        ", ".join(f"{words[word]} {COUNTED.get(word, word)}" for word in order if word in words) or "nothing to compare"
    )


def what_would_help(found: Comparison) -> str:
    """Where no run has measured anything that the baseline has: the baseline with which most could be compared; empty otherwise."""
    usable = {one.letter for one in found.members if not one.barred}
    measured = [
        (row.case, {cell.member.letter for cell in row.cells if cell.typical_ns is not None}) for row in found.rows
    ]
    if any(found.baseline.letter in letters and len(letters) > 1 for _, letters in measured):
        return ""
    none = f"No other run has measured what {found.baseline.letter} has"
    best: tuple[int, int] = (0, 0)
    name = ""
    measured = [(case, letters & usable) for case, letters in measured]
    for one in found.members:
        shared = [(case, letters) for case, letters in measured if one.letter in letters and len(letters) > 1]
        reach = (len({letter for _, letters in shared for letter in letters}), len({case for case, _ in shared}))
        if reach > best:
            best, name = reach, one.letter
    if not name:
        return f"{none}, nor have any two that can be compared a case in common: measure them with the same PRESET or the same CASES."
    return f"{none}. BASELINE={name} could compare {best[0]} runs in {numbers.counted(best[1], 'case')}."


def without_case(found: Comparison) -> str:
    """Which runs do not have which cases: an empty cell for each arm of each would hide the rest."""
    told: dict[str, list[str]] = {}
    for case in dict.fromkeys(row.case for row in found.rows):
        row = next(row for row in found.rows if row.case == case)
        letters = [cell.member.letter for cell in row.cells if not planned(cell)]
        if letters:
            told.setdefault(", ".join(letters), []).append(one_line(case, 120))
    return "; ".join(f"{letters}: {', '.join(cases)}" for letters, cases in told.items())


def _and(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _elsewhere(found: Comparison, member: Member) -> str:
    """What became of all that a run did measure, where none of it is ranked; empty where some is."""
    cells = [cell for row in found.rows for cell in row.cells if cell.member is member and planned(cell)]
    refused = [cell for cell in cells if cell.status == "refused"]
    if not refused or len(refused) < len(cells):
        return ""
    reasons = dict.fromkeys(cell.reasons[0].text for cell in refused)
    return f"is refused in every row that it has ({_and(list(reasons))})"


def means(found: Comparison) -> list[str]:
    """The geometric means, one sentence an arm, each over the cases that all who take part completed, with their number."""
    told = []
    for arm, mean in found.means.items():
        if isinstance(mean, str):
            told.append(f"{arm}: {mean}, so there is no mean.")
        elif len(mean.cases) > 1:
            ratios = ", ".join(
                f"{letter} {numbers.significant(value)}{numbers.TIMES}{_unclaimed(found, arm, letter, mean.cases)}"
                for letter, value in mean.ratios.items()
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


def _unclaimed(found: Comparison, arm: str, letter: str, cases: Sequence[str]) -> str:
    """In how many of a mean's cases nothing is claimed of the run."""
    own = [row for row in found.rows if row.arm == arm and row.case in cases]
    words = [status_word(cell) for row in own for cell in row.cells if cell.member.letter == letter]
    open_ = sum(word not in CLAIMS for word in words)
    return f" (nothing is claimed in {open_} of {len(words)})" if open_ else ""


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
    if found.word in (None, "inconclusive"):
        return found.word or "no verdict", "; ".join(part for part in (found.reason or ratio.reason, advice) if part)
    return found.word, ""


def clocks(found: Comparison) -> str:
    """Between what a call's time is taken, where GPUs take part; empty where none does."""
    kinds: dict[bool, list[str]] = {}
    for one in found.members:
        kinds.setdefault(one.bundle.run.device.kind != "cpu", []).append(one.letter)
    if True not in kinds:
        return ""
    on_gpu = f"The time of a call on a GPU ({_and(kinds[True])}) is taken between two events on the GPU, inputs and outputs staying there"
    if False in kinds:
        on_gpu += f"; on a processor ({_and(kinds[False])}) by its clock. No copy between the two is in either time"
    return f"{on_gpu}."


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


def where_runs_lie(found: Comparison) -> str:
    """What has to be done before the command finds its runs; empty where it finds them as they lie."""
    away = [one.letter for one in found.members if one.elsewhere]
    if not away:
        return ""
    return f"With the folders of the runs below OUTPUT; {_and(away)} lay elsewhere."


def command(found: Comparison) -> str:
    """What makes this page again."""
    runs = " ".join(one.word for one in found.members)
    parts = ["make compare", f"RUNS={shlex.quote(one_line(runs, 2000))}"]
    if found.baseline is not found.members[0]:
        parts.append(f"BASELINE={found.baseline.letter}")
    if found.allow:
        parts.append(f"ALLOW={shlex.quote(' '.join(found.allow))}")
    return " ".join(parts)
