"""What questions about an eager and a compiled recording have in common."""

from __future__ import annotations

from reports.findings.pair import Pair, findings
from reports.walkthrough.answer import Proof, proofs_of
from reports.walkthrough.recording import COMPILED, Recording, Recordings

Couple = tuple[Recording, Recording]

NEEDS_PAIR = "an eager and a compiled profile of one size, made alike"
NO_GPU_KERNEL = (
    "a GPU: on a CPU the product is a call into the processor's library, which leaves no kernel's name in the trace"
)
PAYS = 1.02
"""A step's GPU time, or a host's, that changes by less is called the same."""


def usual_couple(recordings: Recordings, arm: str = COMPILED) -> Couple | None:
    """The large size's couple, else the small one's."""
    small, large = recordings.sizes
    return recordings.couple(arm, large) or recordings.couple(arm, small)


def pair_proofs(couple: Couple, found: Pair, *rules: str) -> tuple[Proof, ...]:
    """What the rules of pairs say of this one, as evidence in its compiled recording."""
    told = {finding.rule.id: finding.outcome for finding in findings(found)}
    return tuple(proof for rule in rules for proof in proofs_of(couple[1], rule, told[rule]))
