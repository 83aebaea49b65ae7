"""Verdicts on every ratio of the page, machine models against each other, and geometric means."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reports.compare.cells import Cell, Row
from reports.compare.load import Member
from reports.compare.machines import Group
from reports.results import withheld
from suite.statistics.aggregate import Aggregate, geometric_means
from suite.statistics.discovery import adjusted
from suite.statistics.ratio import Ratio, p_value
from suite.statistics.unpaired import UnpairedRatio, welch
from suite.statistics.verdict import MINIMUM_NOISE_FLOOR, Verdict, verdict


@dataclass(frozen=True)
class ModelRow:
    """Two machine models held against each other, units as replicates: only where both have enough of them. `cells`: their runs."""

    case: str
    arm: str
    baseline: Group
    group: Group
    ratio: UnpairedRatio
    floor: float
    verdict: Verdict
    adjusted_p: float | None
    cells: tuple[Cell, ...]


def judged(rows: Sequence[Row], base: Member, found: Sequence[Group]) -> tuple[list[Row], list[ModelRow], int]:
    """Verdicts on every ratio, with p adjusted over all of the page; rows of models come from the units' own means."""
    models = [each for row in rows for each in _models(row, base, found)]
    tested: list[tuple[object, Ratio]] = [
        ((row.key, cell.member.letter), cell.ratio)
        for row in rows
        for cell in row.cells
        if cell.ratio and cell.ratio.interval
    ]
    tested += [(number, each.ratio) for number, each in enumerate(models) if each.ratio.interval]
    p_values = dict(zip([key for key, _ in tested], adjusted([p_value(r) for _, r in tested]), strict=True))
    done = []
    for row in rows:
        baseline = next(cell for cell in row.cells if cell.member is base)
        cells = [
            _cell_judged(cell, baseline, p_values.get((row.key, cell.member.letter)), len(tested)) for cell in row.cells
        ]
        done.append(replace(row, cells=tuple(cells)))
    judged_models = []
    for number, each in enumerate(models):
        p = p_values.get(number)
        word = verdict(each.ratio, each.floor, 1.0 if p is None else p, len(tested))
        judged_models.append(replace(each, verdict=_withheld(word, each.cells), adjusted_p=p))
    return done, judged_models, len(tested)


def _cell_judged(cell: Cell, baseline: Cell, p: float | None, comparisons: int) -> Cell:
    if cell.ratio is None or cell.floor is None:
        return cell
    word = verdict(cell.ratio, cell.floor.delta, 1.0 if p is None else p, comparisons)
    return replace(cell, verdict=_withheld(word, (baseline, cell)), adjusted_p=p)


def _withheld(found: Verdict, cells: Sequence[Cell]) -> Verdict:
    """The verdict, unless an arm that it rests on computes something else, or never came to rest."""
    for cell in cells:
        if cell.arm:
            name = f"{cell.arm.arm.label} in {cell.member.letter}"
            found = withheld(found, cell.arm.accuracy, {name: cell.arm.steadiness})
    return found


def _models(row: Row, base: Member, found: Sequence[Group]) -> list[ModelRow]:
    """Models against the baseline's, where both are products by the units that take part, and all of them compute the same.

    The noise floor is the widest of their runs.
    """
    by_letter = {cell.member.letter: cell for cell in row.cells if cell.status in ("baseline", "ranked")}

    def unit_logs(group: Group) -> list[float]:
        per_unit = [
            [statistics.fmean(by_letter[one.letter].log_times) for one in unit if one.letter in by_letter]
            for unit in group.units
        ]
        return [statistics.fmean(logs) for logs in per_unit if logs]

    own = next(group for group in found if base in group.members)
    rows = []
    for group in found:
        if group is own or not (group.is_product and own.is_product):
            continue
        cells = [by_letter[one.letter] for one in (*own.members, *group.members) if one.letter in by_letter]
        ratio = welch(unit_logs(own), unit_logs(group), "units")
        if isinstance(ratio, UnpairedRatio) and ratio.interval and not any(_failed(cell) for cell in cells):
            floor = max((cell.floor.delta for cell in cells if cell.floor), default=MINIMUM_NOISE_FLOOR)
            rows.append(ModelRow(row.case, row.arm, own, group, ratio, floor, Verdict(None, ""), None, tuple(cells)))
    return rows


def _failed(cell: Cell) -> bool:
    """Whether the arm computes something else than eager."""
    return bool(cell.arm and cell.arm.accuracy and not cell.arm.accuracy.passed)


def means(rows: Sequence[Row]) -> dict[str, Aggregate | str]:
    """Geometric means of the ratios to the baseline, by arm and letter: over the cases that all who take part in any completed."""
    found: dict[str, Aggregate | str] = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        own = [row for row in rows if row.arm == arm]
        taking_part = dict.fromkeys(cell.member.letter for row in own for cell in row.cells if cell.ratio)
        table = {row.case: {letter: _countable(row, letter) for letter in taking_part} for row in own}
        found[arm] = geometric_means(table) if taking_part else "no run is compared with the baseline in any case"
    return found


def _countable(row: Row, letter: str) -> Ratio | None:
    """A ratio as far as a mean may rest on it: not where either side computes something else."""
    cell = next(cell for cell in row.cells if cell.member.letter == letter)
    sides = [each for each in row.cells if each.status == "baseline" or each is cell]
    if any(_failed(side) for side in sides):
        return None
    return cell.ratio
