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
    """One entry a case, the baseline's cases first; each case of a bundle stands in one row.

    A bundle that lacks a case may have it under another name (a GPU's names end in the state of its cache), or in another dtype, to be
    refused with that reason: then it stands in the row as well, unless it is a case of the baseline's own.
    """
    rows: list[Aligned] = []
    placed: set[tuple[str, str]] = set()
    own = {case.name for case in base.bundle.run.cases}
    for name in _names(base, members):
        cases = {one.letter: case for one in members for case in one.bundle.run.cases if case.name == name}
        cases = {letter: case for letter, case in cases.items() if (letter, name) not in placed}
        if not cases:
            continue
        first = cases.get(base.letter) or next(iter(cases.values()))
        for one in members:
            if one.letter not in cases and name in own:
                free = [c for c in one.bundle.run.cases if c.name not in own and (one.letter, c.name) not in placed]
                found = _like(first, free)
                if found is not None:
                    cases[one.letter] = found
        placed |= {(letter, case.name) for letter, case in cases.items()}
        sides = tuple(Side(one, cases[one.letter]) for one in members if one.letter in cases)
        rows.append(Aligned(name, first.title, sides))
    return rows


def _names(base: Member, members: Sequence[Member]) -> list[str]:
    ordered = (base, *(each for each in members if each is not base))
    return list(dict.fromkeys(case.name for one in ordered for case in one.bundle.run.cases))


def _like(wanted: schema.Case, free: Sequence[schema.Case]) -> schema.Case | None:
    """The case among `free` that is `wanted` by its definition: best in its precision too, else in its dtype, else in another."""
    whole, bare = parity.definition(wanted), parity.definition(wanted, with_dtype=False)
    same = [case for case in free if case.dtype == wanted.dtype and parity.definition(case) == whole]
    same.sort(key=lambda case: case.matmul_precision != wanted.matmul_precision)
    other = [case for case in free if case.dtype != wanted.dtype and parity.definition(case, with_dtype=False) == bare]
    return next(iter([*same, *other]), None)
