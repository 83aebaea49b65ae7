"""Which bundles come from one unit: the same machine and, of a run on a GPU, the same GPU in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reports.compare.load import Member
from suite.bundle.schema import Fact

SOURCES = ("id_by_product_uuid", "boot", "id_by_machine_id", "id_by_hardware", "machine_id")
"""Salted identities of a machine, the most certain first; those of different sources cannot be compared. Equal boots are one machine,
other boots say nothing. "machine_id" is the best of the others: all that an older bundle may have."""


def fact(member: Member, subject: str, name: str) -> Fact | None:
    """A fact of the member's fingerprint, None when it has none of that name."""
    fingerprint = member.bundle.fingerprint
    return fingerprint.facts.get(subject, {}).get(name) if fingerprint else None


def same_machine(one: Member, other: Member) -> bool | None:
    """Whether two runs are of one machine, by the surest identity that both tell; None when they tell none that can be compared."""
    for source in SOURCES:
        ours, theirs = _identity(one, source), _identity(other, source)
        if ours is None or theirs is None or ours.source != theirs.source:
            continue
        if ours.value == theirs.value:
            return True
        if source != "boot":
            return False
    return None


def same_unit(one: Member, other: Member) -> bool | None:
    """Whether two runs are of one unit; None when that is not known.

    For runs on GPUs it is the GPU: by its own salted identity where both tell it, with which it may move to another machine; else by its
    place on PCI in a known machine. Where neither is told, nobody can tell the GPUs of a machine apart.
    """
    if "cpu" in (one.bundle.run.device.kind, other.bundle.run.device.kind):
        return same_machine(one, other)
    ours, theirs = measured_gpu(one), measured_gpu(other)
    if ours and theirs:
        return ours == theirs
    machine = same_machine(one, other)
    if not machine:
        return machine
    places = [run.device.bus_id for run in (one.bundle.run, other.bundle.run)]
    return places[0] == places[1] if all(places) else None


def measured_gpu(member: Member) -> str | None:
    """The salted identity of the GPU that was measured, found by its place on PCI, or as the only one that there is."""
    run, fingerprint = member.bundle.run, member.bundle.fingerprint
    if run.device.kind == "cpu" or fingerprint is None:
        return None
    facts = fingerprint.facts.get("gpu", {})
    places = {
        match[1]: facts[name].value for name in facts if (match := re.fullmatch(r"(gpu \d{1,6}) pci_bus_id", name))
    }
    here = [gpu for gpu, place in places.items() if run.device.bus_id and place == run.device.bus_id]
    salted = [name for name in facts if re.fullmatch(r"gpu \d{1,6} uuid_salted", name)]
    name = f"{here[0]} uuid_salted" if len(here) == 1 else salted[0] if len(salted) == 1 and not here else ""
    found = facts.get(name)
    return str(found.value) if found and found.status == "ok" and found.value else None


def units(members: Sequence[Member]) -> tuple[tuple[Member, ...], ...]:
    """Members by unit. Those that cannot be told apart count as one: a guess must not make a product of a single machine.

    So one that names no machine may be any of the known ones, and counts as the first of them.
    """
    found: list[list[Member]] = []
    for one in members:
        own = [unit for unit in found if any(same_unit(one, each) for each in unit)]
        merged = [each for unit in own for each in unit]
        place = found.index(own[0]) if own else len(found)
        found = [unit for unit in found if unit not in own]
        found.insert(place, [*merged, one])
    apart: list[list[Member]] = []
    for unit in sorted(found, key=lambda unit: not any(_named(one) for one in unit)):
        like = next((other for other in apart if not _told_apart(unit, other)), None)
        if like is None:
            apart.append(unit)
        else:
            like.extend(unit)
    place_of = {one.letter: place for place, one in enumerate(members)}
    ordered = [sorted(unit, key=lambda one: place_of[one.letter]) for unit in apart]
    return tuple(tuple(unit) for unit in ordered)


def named(member: Member) -> str | None:
    """What a run calls its unit, for a machine that does not even name its processor; None where equal machines may share it."""
    found = _identity(member, "machine_id")
    return measured_gpu(member) or (str(found.value) if found else None)


def _identity(member: Member, source: str) -> Fact | None:
    """A salted identity that is this machine's own; None where it is not told, or where equal machines may share it."""
    found = fact(member, "identity", source)
    return found if found and found.value is not None and found.status in ("ok", "virtualised") else None


def _named(member: Member) -> bool:
    return named(member) is not None


def _told_apart(one: Sequence[Member], other: Sequence[Member]) -> bool:
    return any(same_unit(ours, theirs) is False for ours in one for theirs in other)
