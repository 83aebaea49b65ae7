"""Cases x arms x bundles: times with intervals, ratios to a baseline with verdicts, what is refused and why. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from reports.compare import parity
from reports.compare.align import align
from reports.compare.cells import Row, rows_of
from reports.compare.fields import Effect, Field, of_bundles
from reports.compare.judge import ModelRow, judged, means
from reports.compare.load import Gathered, Member
from reports.compare.machines import Group, groups
from reports.compare.parity import Allowed
from reports.compare.units import same_unit
from suite.bundle.errors import BundleError
from suite.statistics.aggregate import Aggregate


@dataclass(frozen=True)
class Comparison:
    """The whole page. `means[arm]` is the geometric mean over the cases that every ranked bundle completed, by letter."""

    baseline: Member
    members: tuple[Member, ...]
    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    models: tuple[ModelRow, ...]
    means: Mapping[str, Aggregate | str]
    ledger: tuple[Field, ...]
    allow: tuple[Allowed, ...]
    comparisons: int
    gathered: Gathered = field(repr=False)

    @property
    def marked(self) -> tuple[str, ...]:
        """The allowed fields that do differ in a ranked row: what the title has to say."""
        found = {each.field for row in self.rows for cell in row.cells for each in cell.allowed}
        return tuple(name for name in self.allow if name in found)

    def group(self, member: Member) -> Group:
        """The machine model of a member."""
        return next(group for group in self.groups if member in group.members)


def compare(gathered: Gathered, baseline: str | None = None, allow: Sequence[Allowed] = ()) -> Comparison:
    """Compare the members with the baseline that `baseline` names (a letter, a run id, its beginning); default: the first.

    Raises:
        BundleError: when fewer than two bundles are left, or when the baseline is none of them.
    """
    members = gathered.members
    if len(members) < 2:
        told = "; ".join(f"{one.name}: {one.reason}" for one in gathered.left_out)
        raise BundleError(f"{_left(len(members))} left to compare, two are needed{f' ({told})' if told else ''}.")
    base = chosen(members, baseline)
    fields = of_bundles(members)
    aligned = align(base, members)
    cases = [(each.case, each.sides) for each in aligned]
    ledger = sorted((*parity.of_cases(cases, members), *fields), key=lambda each: (each.effect, each.place))
    found_groups = groups(members)
    sessions = _sessions(found_groups, ledger)
    rows = [row for each in aligned for row in rows_of(base, members, each, allow, sessions)]
    rows, models, comparisons = judged(rows, base, found_groups)
    return Comparison(
        baseline=base,
        members=members,
        groups=found_groups,
        rows=tuple(rows),
        models=tuple(models),
        means=means(rows),
        ledger=tuple(ledger),
        allow=tuple(allow),
        comparisons=comparisons,
        gathered=gathered,
    )


def _left(count: int) -> str:
    return "no bundle is" if count == 0 else "only one bundle is"


def chosen(members: Sequence[Member], baseline: str | None) -> Member:
    """The member that is named by its letter, its run id, the beginning of that, or its folder's name.

    Raises:
        BundleError: when none or more than one fits.
    """
    if baseline is None:
        return members[0]
    exact = [
        one
        for one in members
        if baseline in (one.letter, one.bundle.run.run_id, one.bundle.path.name, str(one.bundle.path))
    ]
    found = exact or [one for one in members if one.bundle.run.run_id.startswith(baseline)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.letter} ({one.run_id})" for one in members)
    raise BundleError(
        f"the baseline {baseline} names {'more than one' if found else 'none'} of the runs; name one of {known}."
    )


def _sessions(found: Iterable[Group], ledger: Iterable[Field]) -> list[tuple[Member, Member]]:
    """Pairs of runs that are known to be of one unit, started alike, and between which nothing differs that can move a result much."""
    decisive = [each for each in ledger if each.effect <= Effect.LARGE and each.status == "differ"]

    def alike(one: Member, other: Member) -> bool:
        if _started(one) != _started(other):
            return False
        known = [(each.values.get(one.letter), each.values.get(other.letter)) for each in decisive]
        return not any(a and b and a.known and b.known and a.value != b.value for a, b in known)

    return [
        (one, other)
        for group in found
        for one, other in combinations(group.members, 2)
        if same_unit(one, other) and alike(one, other)
    ]


def _started(member: Member) -> tuple[object, ...]:
    """How a run's processes were started: the engine and its image, the settings, and the device or the part of it.

    Nothing tells the parts of one GPU apart but their number.
    """
    run = member.bundle.run
    part = run.device.index if run.device.partition else None
    launch = (run.launch.settings, run.launch.cores, run.launch.nodes, run.launch.smt, run.launch.threads)
    return run.engine.name, run.engine.containerised, run.engine.image_digest, launch, run.device.kind, part
