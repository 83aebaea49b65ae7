"""What is wrong with a launch, as the measuring processes saw it: named findings with their proofs. Pure.

Each rule is one function with a stable id; what no rule explains of the settings that are not in force becomes a finding of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.bundle.schema import Effective, Finding
from suite.launch import library_rules, placement_rules
from suite.launch.command import Launch
from suite.launch.settings import compare_all
from suite.launch.sighting import Rule, Sighting

RULES: tuple[Rule, ...] = (
    library_rules.preload_ignored,
    library_rules.malloc_conf_invalid,
    library_rules.malloc_conf_without_jemalloc,
    library_rules.kmp_without_libiomp5,
    library_rules.two_openmp,
    library_rules.two_allocators,
    placement_rules.affinity_shrunk,
    placement_rules.not_pinned,
    placement_rules.memory_elsewhere,
    placement_rules.threads_differ,
    library_rules.capability_lower,
    library_rules.torch_modes,
    library_rules.openmp_warning,
    library_rules.complaint,
)


def findings(launch: Launch, effectives: Sequence[Effective]) -> list[Finding]:
    """The findings in the order of the rules, without `launch.findings`; empty when no process was seen. Never raises."""
    if not effectives:
        return []
    sighting = Sighting(launch, list(effectives), {row.name: row for row in compare_all(launch, effectives)})
    found, explained = [], set[str]()
    for rule in RULES:
        for finding, names in rule(sighting):
            found.append(finding)
            explained |= names
    return found + _unexplained(sighting, explained)


def _unexplained(sighting: Sighting, explained: set[str]) -> list[Finding]:
    # What could not even be tried was found, with its reason, when the launch was planned.
    planned = set(sighting.launch.unavailable) if sighting.launch.findings else set()
    found = []
    for row in sighting.settings.values():
        if row.status == "not in force" and row.name not in explained | planned:
            shown = row.effective if row.effective is not None else "nothing"
            found.append(
                Finding(
                    rule="launch.setting-not-in-force",
                    severity="wrong",
                    claim=f"{row.name} was requested as {row.requested} and is not in force.",
                    evidence=[f"{row.proof}: {shown}{f' ({row.note})' if row.note else ''}"],
                    advice=f"Find out what changes {row.name} on the way to the worker, or do not request it.",
                )
            )
    return found
