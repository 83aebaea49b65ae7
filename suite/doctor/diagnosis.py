"""The doctor's answer: every check's advice, in order of importance, beside what a run would do. One JSON document."""

from __future__ import annotations

from typing import Any

import msgspec

from suite.bundle import coverage
from suite.bundle.schema import Engine, FactStatus, Setting
from suite.doctor import checks
from suite.doctor.advice import SEVERITIES, Advice, Severity
from suite.doctor.survey import Survey
from suite.fingerprint.files import format_cpulist, without_home

FORMAT_VERSION = "1.0"
"""Fields are added under a new minor version; anything else needs a new major one."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine is, in the fewest words. None is unknown; sizes in bytes."""

    model: str | None
    cpus_online: int
    cpus_allowed: str
    physical_cores: int | None
    sockets: int | None
    threads_per_core: int | None
    numa_nodes: list[int]
    quota_cpus: float | None
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    memory_limit_bytes: int | None
    hypervisor: str | None
    container: str | None
    os: str | None
    kernel: str | None
    python: str | None
    torch: str | None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do. `cores` and `nodes` are lists as in "0-3,8"; `environment` is what the suite adds to what is `exported`.

    `libraries` are those found to be preloaded; `answering` those that answered in a rehearsed worker, by kind.
    """

    settings: str
    engine: Engine
    starts_container: bool
    builds_image: bool
    engines_slow: list[str]
    prefix: list[str]
    cores: str
    nodes: str
    reason: str
    threads: int | None
    environment: dict[str, str]
    exported: dict[str, str]
    libraries: dict[str, str | None]
    answering: dict[str, str]
    unavailable: dict[str, str]
    weights: str
    notes: list[str]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the fingerprint is read as the machine has it, the others by status, and both in the report's line."""

    fields: int
    read: int
    missing: dict[FactStatus, int]
    line: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `possible` says whether a run can be started, `publishable` whether anything seen here forbids to publish it."""

    format_version: str
    at: str
    possible: bool
    publishable: bool
    machine: Machine
    launch: Launch
    settings: list[Setting]
    findings: list[Advice]
    counts: dict[Severity, int]
    coverage: Coverage
    durations_s: dict[str, float]


def diagnose(survey: Survey) -> Diagnosis:
    """Judge a survey. Pure; never raises: a check that fails is one of the findings."""
    findings = checks.run(survey)
    return Diagnosis(
        format_version=FORMAT_VERSION,
        at=survey.at,
        possible=not any(finding.stops_run for finding in findings),
        publishable=not any(finding.unpublishable for finding in findings),
        machine=_machine(survey),
        launch=_launch(survey),
        settings=survey.settings,
        findings=findings,
        counts={severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES},
        coverage=_coverage(survey),
        durations_s={name: round(seconds, 3) for name, seconds in sorted(survey.durations_s.items())},
    )


def _machine(survey: Survey) -> Machine:
    def of(subject: str, name: str) -> Any:
        return survey.value(subject, name)

    return Machine(
        model=of("cpu", "model"),
        cpus_online=len(survey.topology.online),
        cpus_allowed=format_cpulist(survey.topology.allowed),
        physical_cores=of("cpu", "physical_cores"),
        sockets=of("cpu", "sockets"),
        threads_per_core=of("cpu", "threads_per_core"),
        numa_nodes=list(survey.topology.nodes),
        quota_cpus=survey.topology.quota_cpus,
        memory_total_bytes=of("memory", "total_bytes"),
        memory_available_bytes=survey.memory.available_bytes,
        memory_limit_bytes=survey.memory.limit_bytes,
        hypervisor=_unless_none(of("cpu", "hypervisor")),
        container=_unless_none(of("container", "container")),
        os=of("system", "os"),
        kernel=of("system", "kernel"),
        python=of("python", "version"),
        torch=survey.packages.get("torch"),
    )


def _unless_none(value: str | None) -> str | None:
    return None if value in (None, "none") else value


def _launch(survey: Survey) -> Launch:
    choice, launch = survey.engines.choice, survey.launch
    found = {"openmp": survey.libraries.openmp, "allocator": survey.libraries.jemalloc}
    return Launch(
        settings=launch.profile,
        engine=choice.engine,
        starts_container=choice.starts_container,
        builds_image=survey.engines.builds_image,
        engines_slow=list(survey.engines.slow),
        prefix=launch.prefix,
        cores=format_cpulist(survey.placement.cores),
        nodes=format_cpulist(survey.placement.nodes),
        reason=survey.placement.reason,
        threads=survey.threads,
        environment={name: without_home(value) for name, value in launch.environment.items()},
        exported={request.name: request.value for request in launch.requested if request.origin == "user"},
        answering=_answering(survey),
        libraries={kind: without_home(str(one.path)) if one.path else None for kind, one in found.items()},
        unavailable=launch.unavailable,
        weights=survey.weights[1] if survey.weights[0] else f"random: {survey.weights[1]}",
        notes=launch.notes,
    )


def _answering(survey: Survey) -> dict[str, str]:
    if isinstance(survey.effective, str):
        return {}
    mapped = survey.effective.mapped_libraries
    called = {kind: mapped.get(f"{kind}_called", []) for kind in ("openmp", "allocator")}
    return {kind: ", ".join(names) for kind, names in called.items() if names}


def _coverage(survey: Survey) -> Coverage:
    counted = coverage.coverage(survey.facts)
    return Coverage(fields=counted.total, read=counted.read, missing=counted.missing, line=coverage.line(survey.facts))
