"""Which case of a bundle stands in which row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.compare import parity
from reports.compare.load import Member
from reports.compare.parity import Side
from suite.bundle import schema


@dataclass(frozen=True)
class Aligned:
    """One case over the bundles: its name and title, and its side in every bundle that has it (or has it in another dtype)."""

    case: str
    title: str
    sides: tuple[Side, ...]


def align(base: Member, members: Sequence[Member]) -> list[Aligned]:
    """One entry a case, the baseline's cases first.

    A bundle that lacks a case but has it in another dtype is shown in that row, to be refused there with the reason, unless the other
    dtype has a row of its own: because the baseline has it, or two bundles have.
    """
    rows: list[Aligned] = []
    own_rows = _own_rows(base, members)
    stand_ins: set[tuple[str, str]] = set()
    for name in _names(base, members):
        cases = {one.letter: case for one in members for case in one.bundle.run.cases if case.name == name}
        if all((letter, name) in stand_ins for letter in cases):
            continue
        first = cases.get(base.letter) or next(iter(cases.values()))
        sides = []
        for one in members:
            case = cases.get(one.letter)
            if case is None and name in own_rows:
                case = _in_another_dtype(one, first, own_rows)
                stand_ins |= {(one.letter, case.name)} if case else set()
            if case is not None:
                sides.append(Side(one, case))
        rows.append(Aligned(name, first.title, tuple(sides)))
    return rows


def _names(base: Member, members: Sequence[Member]) -> list[str]:
    ordered = (base, *(each for each in members if each is not base))
    return list(dict.fromkeys(case.name for one in ordered for case in one.bundle.run.cases))


def _own_rows(base: Member, members: Sequence[Member]) -> set[str]:
    names = [case.name for one in members for case in one.bundle.run.cases]
    return {case.name for case in base.bundle.run.cases} | {name for name in names if names.count(name) > 1}


def _in_another_dtype(member: Member, like: schema.Case, own_rows: set[str]) -> schema.Case | None:
    wanted = parity.definition(like, with_dtype=False)
    return next(
        (
            case
            for case in member.bundle.run.cases
            if case.name not in own_rows
            and case.dtype != like.dtype
            and parity.definition(case, with_dtype=False) == wanted
        ),
        None,
    )
