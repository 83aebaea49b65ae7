"""How much of a machine a fingerprint shows: how many fields were read as the machine has them, and why the others were not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from suite.bundle.schema import Fact, FactStatus

Facts = Mapping[str, Mapping[str, Fact]]

# In the order in which a reader can do something about them.
REASONS: dict[FactStatus, str] = {
    "masked": "masked by the container",
    "virtualised": "virtualised",
    "denied": "denied",
    "absent": "absent",
}


@dataclass(frozen=True)
class Coverage:
    """`read` fields are as the machine itself has them; `missing` counts the others by status, and adds up with it to `total`.

    A masked or virtualised field may have a value all the same: the container's, or the hypervisor's.
    """

    total: int
    read: int
    missing: dict[FactStatus, int]


@dataclass(frozen=True)
class Gap:
    """A field that was not read from the machine itself: whose value, if it has one, is another's, and why."""

    subject: str
    name: str
    fact: Fact


def coverage(facts: Facts) -> Coverage:
    """Count the fields of a fingerprint by status."""
    statuses = [fact.status for found in facts.values() for fact in found.values()]
    return Coverage(
        total=len(statuses),
        read=statuses.count("ok"),
        missing={status: count for status in REASONS if (count := statuses.count(status))},
    )


def line(facts: Facts) -> str:
    """The coverage in a line: "41 of 58 fields; 9 masked by the container, 5 virtualised, 3 denied"."""
    counted = coverage(facts)
    reasons = ", ".join(f"{count} {REASONS[status]}" for status, count in counted.missing.items())
    return f"{counted.read} of {counted.total} fields" + (f"; {reasons}" if reasons else "")


def gaps(facts: Facts) -> dict[FactStatus, list[Gap]]:
    """The fields behind each number of the line, in the fingerprint's order; statuses without any are left out."""
    found: dict[FactStatus, list[Gap]] = {status: [] for status in REASONS}
    for subject, names in facts.items():
        for name, fact in names.items():
            if fact.status in found:
                found[fact.status].append(Gap(subject, name, fact))
    return {status: listed for status, listed in found.items() if listed}
