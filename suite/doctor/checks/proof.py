"""What cannot be proven here, and why: facts that the hypervisor, the container or the user's rights hide."""

from __future__ import annotations

from collections.abc import Iterator

from suite.bundle.schema import Fact
from suite.doctor.advice import Advice, advise
from suite.doctor.survey import Survey

# (rule, claim, subject, facts of which one is enough)
TOPICS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "clock",
        "The clock is hidden: whether it falls during a run shows only in the reference timings between the blocks.",
        "cpu",
        ("maximum_mhz", "governor", "boost"),
    ),
    (
        "memory-modules",
        "The memory modules are hidden: the peak memory bandwidth cannot be computed, only measured.",
        "memory",
        ("dimms", "memory_speed_mt_s", "memory_channels"),
    ),
    (
        "firmware",
        "Board and firmware are hidden: what they set (power profile, NUMA, SMT) stays unknown.",
        "system",
        ("product_name", "board_name", "bios_version"),
    ),
)
WAYS_OUT = {
    "denied": "make fingerprint-host as root tells it",
    "masked": "the container hides it: make fingerprint-host on the host tells it",
    "virtualised": "only the hypervisor's host knows",
}


def hidden_facts(survey: Survey) -> Iterator[Advice]:
    """One sentence a topic, with the reason of the fact that says most."""
    for rule, claim, subject, names in TOPICS:
        facts = [fact for name in names if (fact := survey.facts.get(subject, {}).get(name)) is not None]
        if facts and all(fact.value is None for fact in facts):
            yield _unproven(rule, claim, _telling(facts))


def presented_topology(survey: Survey) -> Iterator[Advice]:
    """A hypervisor shows the sockets, cores and caches that it likes."""
    fact = survey.fact("cpu", "physical_cores")
    if fact.status == "virtualised":
        claim = (
            "Which CPUs are whole cores is hidden: two of them may be hardware threads of one core, and caches may be shared "
            "with other machines."
        )
        yield _unproven("topology", claim, fact)


def placement_of_memory(survey: Survey) -> Iterator[Advice]:
    """Bound memory is proven from numa_maps, which some kernels and sandboxes do not have."""
    for setting in survey.settings:
        if setting.status == "unknown":
            yield advise(
                "unproven-setting",
                "note",
                f"Whether {setting.name}={setting.requested} is in force is not known.",
                f"{setting.proof}: {setting.note}" if setting.note else setting.proof,
            )


def _telling(facts: list[Fact]) -> Fact:
    """The fact whose reason says most: hidden before absent."""
    order = ("denied", "masked", "virtualised", "absent", "ok")
    return min(facts, key=lambda fact: order.index(fact.status))


def _unproven(rule: str, claim: str, fact: Fact) -> Advice:
    reason = f"{fact.source}: {fact.note}" if fact.note else fact.source
    return advise(f"unproven-{rule}", "note", claim, reason, advice=WAYS_OUT.get(fact.status, ""))


CHECKS = (placement_of_memory, presented_topology, hidden_facts)
