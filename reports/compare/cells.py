"""The cells of the comparison: what each bundle says of an arm of a case, and whether it takes part."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reports.compare import ceilings, parity
from reports.compare.align import Aligned
from reports.compare.load import Member
from reports.compare.parity import Allowed, Difference, Side
from reports.evidence import unproved
from reports.results import ArmResult, CaseResult
from suite.statistics.pairs import whole_pairs
from suite.statistics.ratio import Interval, log_time
from suite.statistics.unpaired import UnpairedRatio, mean_interval, welch
from suite.statistics.verdict import NoiseFloor, Verdict, noise_floor

Status = Literal["baseline", "ranked", "refused", "asked", "unmeasured", "no baseline"]


@dataclass(frozen=True)
class Cell:
    """One arm of one case in one bundle. `status` tells whether it takes part: "ranked" alone does, against the "baseline".

    `reasons` say why not (refused, asked, unmeasured); `allowed` what differs and was allowed. `log_times` holds the log of a call's time
    in ns for each process; `typical_ns` is their geometric mean and `interval_ns` Student's over processes, or the reason. `floor` is
    the noise floor that the ratio has to leave. `session` tells that the run is the baseline's unit under the same conditions again.
    """

    member: Member
    status: Status
    case: CaseResult | None = None
    arm: ArmResult | None = None
    log_times: tuple[float, ...] = ()
    typical_ns: float | None = None
    interval_ns: Interval | str = ""
    share: ceilings.Share | str = ""
    reasons: tuple[Difference, ...] = ()
    allowed: tuple[Difference, ...] = ()
    ratio: UnpairedRatio | None = None
    floor: NoiseFloor | None = None
    verdict: Verdict | None = None
    adjusted_p: float | None = None
    session: bool = False


@dataclass(frozen=True)
class Row:
    """One arm of one case over all bundles."""

    case: str
    title: str
    arm: str
    cells: tuple[Cell, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.case, self.arm


def rows_of(
    base: Member,
    members: Sequence[Member],
    aligned: Aligned,
    allow: Sequence[Allowed],
    sessions: Sequence[tuple[Member, Member]],
) -> list[Row]:
    """The rows of a case, one an arm. `sessions`: pairs of runs of one unit with the same settings, for the noise floors of others."""
    by_letter = {side.member.letter: side for side in aligned.sides}
    against = by_letter.get(base.letter)
    baseline_first = sorted(aligned.sides, key=lambda side: side.member is not base)
    labels = dict.fromkeys(arm.arm.label for side in baseline_first for arm in _compared(_case(side)))
    rows = []
    for label in labels:
        cells = [_cell(one, by_letter.get(one.letter), against, label, allow) for one in members]
        baseline_cell = next(cell for cell in cells if cell.member is base)
        cells = [_with_ratio(cell, baseline_cell) for cell in cells]
        again = _between_sessions(cells, sessions)
        cells = [_with_floor(cell, baseline_cell, again, sessions) if cell.ratio else cell for cell in cells]
        rows.append(Row(aligned.case, aligned.title, label, tuple(cells)))
    return rows


def _compared(case: CaseResult) -> list[ArmResult]:
    """The arms that have a row: all but eager again, which is the noise floor."""
    return [arm for arm in case.arms if arm is not case.noise]


def _case(side: Side) -> CaseResult:
    return next(case for case in side.member.results.cases if case.case.name == side.case.name)


def _cell(member: Member, side: Side | None, against: Side | None, label: str, allow: Sequence[Allowed]) -> Cell:
    if side is None:
        return Cell(member, "unmeasured", reasons=(Difference("", "the run does not have this case"),))
    case = _case(side)
    arm = next((arm for arm in case.arms if arm.arm.label == label), None)
    if arm is None:
        why = side.case.not_applicable.get(label, "the run does not have this arm")
        return Cell(member, "unmeasured", case, reasons=(Difference("", why),))
    blocks = [block for block in member.bundle.blocks if (block.case, block.phase) == (side.case.name, "measure")]
    paired = whole_pairs(blocks, label, label, member.bundle.run.procedure.pairs_minimum)
    logs = tuple(log_time(times) for times in paired.baseline.values())
    if not logs:
        return Cell(member, "unmeasured", case, arm, reasons=(Difference("", arm.reason or "no process measured it"),))
    typical = math.exp(statistics.fmean(logs))
    found = ceilings.share(side.case, ceilings.ceilings(member.bundle), typical)
    cell = Cell(member, "baseline", case, arm, logs, typical, mean_interval(logs), found)
    if against is None:
        return replace(cell, status="no baseline", reasons=(Difference("", "the baseline does not have this case"),))
    if against.member is member:
        return cell
    if changed := _changed(against.member, member):
        return replace(cell, status="refused", reasons=changed)
    if missing := _unproved(against, side, label):
        return replace(cell, status="refused", reasons=missing)
    if refused := parity.refusals(against, side):
        return replace(cell, status="refused", reasons=tuple(refused))
    differing = parity.asked(against, side)
    if unasked := [each for each in differing if each.field not in allow]:
        return replace(cell, status="asked", reasons=tuple(unasked))
    return replace(cell, status="ranked", allowed=tuple(differing))


def _changed(base: Member, member: Member) -> tuple[Difference, ...]:
    """What bars a verdict on either side: files that are not what was measured."""
    told = [Difference("", member.barred)] if member.barred else []
    return (*told, *([Difference("", f"of the baseline {base.letter}: {base.barred}")] if base.barred else []))


def _unproved(base: Side, side: Side, label: str) -> tuple[Difference, ...]:
    """Why nothing proves that the arm is what it says, of this run's and of the baseline's."""
    own = unproved(side.member.bundle, side.case.name, label)
    its = unproved(base.member.bundle, base.case.name, label)
    told = [Difference("", own)] if own else []
    return (*told, *([Difference("", f"of the baseline {base.member.letter}: {its}")] if its else []))


def _with_ratio(cell: Cell, baseline: Cell) -> Cell:
    if cell.status != "ranked":
        return cell
    if baseline.status != "baseline":
        return replace(
            cell, status="no baseline", reasons=(Difference("", "the baseline did not measure this arm"),), allowed=()
        )
    found = welch(baseline.log_times, cell.log_times)
    assert isinstance(found, UnpairedRatio)  # both sides have processes
    return replace(cell, ratio=found)


def _between_sessions(
    cells: Sequence[Cell], sessions: Sequence[tuple[Member, Member]]
) -> list[tuple[set[str], NoiseFloor]]:
    """What units show against themselves in another session, with the letters of the two runs.

    Without an interval that would be the noise of single processes, which says nothing about sessions.
    """
    by_letter = {cell.member.letter: cell for cell in cells if cell.status in ("baseline", "ranked")}
    found = []
    for one, other in sessions:
        first, second = by_letter.get(one.letter), by_letter.get(other.letter)
        again = welch(first.log_times, second.log_times) if first and second else ""
        if not isinstance(again, str) and again.interval is not None:
            source = f"{other.letter} against {one.letter}: one unit with the same settings, in two sessions"
            found.append(({one.letter, other.letter}, NoiseFloor(noise_floor(again).delta, source)))
    return found


def _with_floor(
    cell: Cell,
    baseline: Cell,
    again: Sequence[tuple[set[str], NoiseFloor]],
    sessions: Sequence[tuple[Member, Member]],
) -> Cell:
    pair = {baseline.member.letter, cell.member.letter}
    session = any({one.letter, other.letter} == pair for one, other in sessions)
    return replace(cell, floor=_floor(cell, baseline, again, session), session=session)


def _floor(cell: Cell, baseline: Cell, again: Sequence[tuple[set[str], NoiseFloor]], session: bool) -> NoiseFloor:
    """The widest of what eager shows against itself in either run, and of what either's unit shows against itself in another session.

    What is judged never judges itself: not the two runs as a pair of sessions, nor, where they are one, the run and a third that is like
    the baseline, which would show the same difference.
    """
    sides = (baseline, cell)
    floors = [
        replace(side.case.noise_floor, source=f"{side.member.letter}: {side.case.noise_floor.source}")
        for side in sides
        if side.case
    ]
    pair = {side.member.letter for side in sides}
    judging = {baseline.member.letter} if session else pair
    floors += [floor for letters, floor in again if letters & judging and letters != pair]
    doubts = {s.member.letter: s.case.noise_floor.doubt for s in sides if s.case and s.case.noise_floor.doubt}
    widest = max(floors, key=lambda each: each.delta)
    return replace(widest, doubt="; ".join(f"in {letter} {doubt}" for letter, doubt in doubts.items()))
