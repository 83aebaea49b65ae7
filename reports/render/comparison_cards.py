"""A comparison's machine cards as text: what each run was, and what disqualifies it. No HTML here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.compare.ceilings import Ceiling, ceilings
from reports.compare.load import Member, without
from reports.compare.machines import Group
from reports.compare.matrix import Comparison
from reports.compare.parity import Side, torch_version
from reports.compare.parity import threads as threads_in_force
from reports.plain import one_line
from reports.render import container, facts, numbers, view

DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


@dataclass(frozen=True)
class Card:
    """One run on its machine's card: `lines` are (name, text); `wrong` is what disqualifies it."""

    letter: str
    run_id: str
    baseline: bool
    publishable: bool
    lines: list[tuple[str, str]]
    wrong: list[str]


def short(text: str) -> str:
    """A text whose digests are cut to as much as tells them apart."""
    return DIGEST.sub(r"\1…", text)


def cards(found: Comparison, group: Group) -> list[Card]:
    """The runs of a machine model."""
    return [_card(found, one) for one in group.members]


def _card(found: Comparison, member: Member) -> Card:
    run = member.bundle.run
    sides = [Side(member, case) for case in run.cases]
    limits = [_ceiling(each) for each in ceilings(member.bundle)]
    unit = next(number for number, unit in enumerate(found.group(member).units, 1) if member in unit)
    lines = [
        ("Unit", f"{unit} of {len(found.group(member).units)}"),
        ("When", f"{one_line(view.stretches(member.bundle), 120)}, preset {one_line(run.preset, 40)}"),
        ("Where", one_line(short(container.where(run.engine)), 200)),
        ("PyTorch", _joined(sides, torch_version) or _fact(member, "torch", "version")),
        ("Threads", _joined(sides, threads_in_force) or "the bundle does not tell"),
        ("Settings", f"{run.launch.settings}"),
        ("Memory", _fact(member, "memory", "total_bytes")),
        ("Best rates", "; ".join(limits) or "the run measured none"),
        ("Conditions", _conditions(member)),
    ]
    intact, sentence = view.integrity(member.check)
    wrong = [] if intact else [one_line(sentence)]
    wrong += [one_line(without(each, f"{member.bundle.path}/")) for each in member.bundle.notes]
    found_wrong = [each for each in view.findings(member.bundle) if each.severity == "wrong"]
    wrong += [one_line(each.claim) for each in found_wrong]
    if not run.publishable:
        # A reason that only names a finding, by its rule, is told by the finding itself.
        told = [f"({each.rule})" for each in found_wrong]
        reasons = [one_line(each, 120) for each in run.reasons if not any(each.endswith(rule) for rule in told)]
        also = "for what stands above" if told else "the run does not say why"
        wrong += [f"not publishable: {'; '.join(reasons) or also}"]
    return Card(member.letter, member.run_id, member is found.baseline, member.publishable, lines, wrong)


def _conditions(member: Member) -> str:
    """What may have slowed the run down: what its readings found, and the conditions of its timed blocks."""
    blocks = [block for block in member.bundle.blocks if block.phase == "measure"]
    told = [each.claim.rstrip(".") for each in view.findings(member.bundle) if each.rule.startswith("telemetry.")]
    told += [f"{condition} in {count} of {len(blocks)} timed blocks" for condition, count, _ in view.conditions(blocks)]
    return one_line("; ".join(told), 400) or "nothing that slows a run down was found"


def _joined(sides: list[Side], read: object) -> str:
    assert callable(read)
    return ", ".join(dict.fromkeys(one_line(text, 60) for side in sides if (text := read(side)) is not None))


def _fact(member: Member, name: str, field: str) -> str:
    fingerprint = member.bundle.fingerprint
    found = fingerprint.facts.get(name, {}).get(field) if fingerprint else None
    return one_line(facts.fact_text(field, found), 120) if found else "the bundle does not tell"


def _ceiling(found: Ceiling) -> str:
    return f"{numbers.rate(found.rate, 'B/s' if found.bound == 'memory' else 'FLOP/s')} ({found.source})"
