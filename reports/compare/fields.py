"""Every field in which two runs may differ, with how far it can move a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Any

from reports.compare.load import Member
from suite.bundle import schema

PRECISION = re.compile(r"precision|tf32|autocast|default_dtype")
"""Of torch's modes in force, those that decide in which precision a case computes."""


NOT_THERE = "there is no such GPU"
"""Why a field is not known where nothing is missing."""


class Effect(IntEnum):
    """How far a field can move the result, the most first."""

    REFUSES = 0
    ASKS = 1
    LARGE = 2
    SOME = 3
    SMALL = 4
    MOMENT = 5


EFFECTS = {
    Effect.REFUSES: "another measurement: the row is refused",
    Effect.ASKS: "another program: ranked only when allowed",
    Effect.LARGE: "can move a result by tens of percent",
    Effect.SOME: "can move a result by a few percent",
    Effect.SMALL: "moves a result little, or tells what others tell",
    Effect.MOMENT: "which machine, and the moment at which it was looked at",
}

# In the order of their effect; what is named nowhere is SMALL. Facts are "<subject>.<name>", settings "setting.<name>"
# (as in force), and what the measuring processes saw "in force.<kind>.<name>".
_LARGE = (
    "run.device", "gpu.gpu * name", "gpu.gpu * mig*", "gpu.gpu * power_limit*", "gpu.gpu * clock_*maximum*", "gpu.count", "cpu.model",
    "cpu.sockets", "cpu.physical_cores", "cpu.allowed_cpus", "cpu.quota_cpus", "container.cpu_quota_cpus", "container.cpuset_cpus",
    "in force.library.*", "in force.affinity", "in force.torch.cpu_capability", "in force.torch.blas",
    "in force.torch.grad_enabled", "in force.torch.inference_mode", "in force.torch.mkldnn_enabled",
    "in force.torch.deterministic_algorithms", "in force.torch.anomaly_mode", "in force.memory.policy", "setting.*", "run.settings",
    "run.threads", "run.smt", "memory.memory_type", "memory.memory_speed_mt_s", "memory.memory_channels", "memory.dimms",
    "cpu.caches", "cpu.governor", "cpu.boost", "cpu.maximum_mhz", "cpu.instruction_sets", "cpu.threads_per_core", "torch.version",
    "torch.cuda", "torch.cudnn", "torch.triton", "torch.onednn", "torch.mkl", "torch.config", "torch.debug_build", "gpu.driver",
    "gpu.gpu * ecc*", "gpu.gpu * pcie*", "gpu.gpu * compute_mode", "system.architecture",
)  # fmt: skip
_SOME = (
    "run.engine", "run.image_digest", "cpu.smt_active", "cpu.numa_cpus", "cpu.base_mhz", "cpu.mitigations", "cpu.microcode",
    "cpu.hypervisor", "cpu.stepping", "cpu.isolated", "cpu.nohz_full", "cpu.energy_*", "cpu.frequency_driver*", "cpu.idle_*",
    "memory.total_bytes", "memory.transparent_huge_pages*", "memory.huge_page*", "system.kernel", "system.numa_balancing",
    "system.clocksource", "system.scheduler_*", "compiler.cxx_version", "compiler.cxx_native_architecture", "compiler.nvcc_version",
    "compiler.ptxas_version", "run.preset", "run.procedure", "run.seed", "run.suite", "in force.threads.*", "in force.runtime.*",
    "in force.torch.*", "python.version", "python.implementation", "process.environment", "process.niceness",
    "process.scheduling_policy", "container.memory_limit_bytes", "container.cpu_weight", "torch.*", "gpu.*",
)  # fmt: skip
_MOMENT = (
    "load.*", "identity.*", "memory.available_bytes", "memory.node_free_bytes", "memory.*_used_bytes", "memory.memory_errors",
    "cpu.current_mhz", "container.pressure_*", "container.cpu_throttling", "gpu.gpu * id*", "gpu.gpu * uuid", "gpu.gpu * temperature*",
    "gpu.gpu * clock_*current*", "gpu.gpu * processes", "gpu.gpu * *used*", "gpu.gpu * power_draw*", "gpu.gpu * utili*",
    "torch.parallel_info", "in force.runtime.memory.file_bytes_*", "in force.threads.process_threads", "ceilings.*",
    "in force.runtime.cuda.peak_*",
)  # fmt: skip
_RANKED = ((Effect.MOMENT, _MOMENT), (Effect.LARGE, _LARGE), (Effect.SOME, _SOME))


@dataclass(frozen=True)
class Known:
    """A field's value in one bundle; `known` is False when the bundle does not tell, and `note` says why."""

    known: bool
    value: Any = None
    note: str = "the bundle does not tell"


@dataclass(frozen=True)
class Field:
    """One field over all bundles: `values` by letter. `place` orders the fields of one effect."""

    name: str
    effect: Effect
    place: int
    values: Mapping[str, Known]

    @property
    def status(self) -> str:
        """differ when two known values do, match when all are known and equal, else unknown."""
        known = [each.value for each in self.values.values() if each.known]
        if any(value != known[0] for value in known):
            return "differ"
        return "match" if len(known) == len(self.values) else "unknown"


def effect_of(name: str) -> tuple[Effect, int]:
    """A field's effect and its place within it, from its name."""
    for effect, patterns in _RANKED:
        for place, pattern in enumerate(patterns):
            if fnmatchcase(name, pattern):
                return effect, place
    return Effect.SMALL, 0


def of_bundles(members: Sequence[Member]) -> list[Field]:
    """Every field that does not belong to a case: of the plan, of the fingerprint, and of the measuring processes.

    Processes of different cases map different libraries, so only those of the cases that all bundles have count, if there are any.
    """
    names = [{case.name for case in one.bundle.run.cases} for one in members]
    shared = set.intersection(*names) or set.union(*names)
    told = {
        one.letter: {**_plan(one.bundle.run), **_facts(one), **_settings(one), **_in_force(one, shared)}
        for one in members
    }
    fields = []
    for name in dict.fromkeys(name for one in told.values() for name in one):
        values = {letter: one.get(name, _untold(name, one)) for letter, one in told.items()}
        fields.append(Field(name, *effect_of(name), values))
    return fields


def _untold(name: str, told: Mapping[str, Known]) -> Known:
    """A setting that a run does not list was not asked for in it; of anything else, nothing is known."""
    if not_there(name, told):
        return Known(False, note=NOT_THERE)
    lists_settings = any(each.startswith("setting.") for each in told)
    return Known(True, "not asked for") if name.startswith("setting.") and lists_settings else Known(False)


def not_there(name: str, told: Mapping[str, Known]) -> bool:
    """Whether a field is of a GPU that the bundle says the machine does not have."""
    found, count = re.match(r"gpu\.gpu (\d{1,6}) ", name), told.get("gpu.count")
    return bool(found and count and isinstance(count.value, int) and int(found[1]) >= count.value)


def _plan(run: schema.Run) -> dict[str, Known]:
    engine = run.engine
    device = run.device
    on = {"kind": device.kind, "name": device.name, "partition": device.partition}
    return {
        "run.device": Known(True, {name: text for name, text in on.items() if text}),
        "run.settings": Known(True, run.launch.settings),
        "run.threads": Known(True, run.launch.threads or "one a core"),
        "run.smt": Known(True, run.launch.smt),
        "run.engine": Known(
            True, f"{engine.name}, {'' if engine.containerised else 'not '}in a container of the suite's"
        ),
        "run.image_digest": Known(
            engine.image_digest is not None or not engine.containerised, engine.image_digest or "none"
        ),
        "run.preset": Known(True, run.preset),
        "run.procedure": Known(True, {name: getattr(run.procedure, name) for name in run.procedure.__struct_fields__}),
        "run.seed": Known(True, run.seed),
        "run.suite": Known(True, f"{run.source.version}, revision {(run.source.revision or 'unknown')[:12]}"),
        "run.schema": Known(True, run.schema_version),
    }


def _facts(member: Member) -> dict[str, Known]:
    fingerprint = member.bundle.fingerprint
    if fingerprint is None:
        return {}
    return {
        f"{subject}.{name}": _fact(fact) for subject, found in fingerprint.facts.items() for name, fact in found.items()
    }


def _fact(fact: schema.Fact) -> Known:
    """A fact's value. "absent" is known, too: the machine does not have it."""
    if fact.value is None and fact.status != "absent":
        return Known(False, note=f"{fact.status}: {fact.note}" if fact.note else fact.status)
    return Known(True, fact.value)


def _settings(member: Member) -> dict[str, Known]:
    rows = member.bundle.fingerprint.settings if member.bundle.fingerprint else []
    return {
        f"setting.{row.name}": Known(row.status != "unknown", row.effective if row.effective is not None else "not set")
        for row in rows
    }


def effectives(member: Member, case: str | None = None) -> list[schema.Effective]:
    """What the measuring processes (of a case) saw in force."""
    return [
        event
        for event in member.bundle.events
        if isinstance(event, schema.Effective) and event.case and case in (None, event.case)
    ]


class Several(list[Any]):
    """What the processes of one run saw, where they do not agree."""


def agreed(events: Iterable[schema.Effective], read: Callable[[schema.Effective], Mapping[str, Any]]) -> dict[str, Any]:
    """What `read` gives, over processes: the value where all agree, else `Several` of them, in order."""
    seen: dict[str, list[Any]] = {}
    for event in events:
        for name, value in read(event).items():
            values = seen.setdefault(name, [])
            if value not in values:
                values.append(value)
    return {name: values[0] if len(values) == 1 else Several(sorted(values, key=str)) for name, values in seen.items()}


def _in_force(member: Member, cases: set[str]) -> dict[str, Known]:
    events = [event for event in effectives(member) if event.case in cases]

    def libraries(event: schema.Effective) -> dict[str, Any]:
        mapped = event.mapped_libraries
        return {kind: mapped.get(f"{kind}_called", mapped.get(kind, [])) for kind in ("openmp", "allocator", "blas")}

    readings: tuple[tuple[str, Callable[[schema.Effective], Mapping[str, Any]]], ...] = (
        ("in force.library.", libraries),
        ("in force.", lambda event: {"affinity": event.affinity, "memory.nodes": event.memory_nodes}),
        (
            "in force.torch.",
            lambda event: {k: v for k, v in event.torch.items() if k != "version" and not PRECISION.search(k)},
        ),
        ("in force.threads.", lambda event: {k: v for k, v in event.threads.items() if k != "torch_intra_op"}),
        ("in force.runtime.", lambda event: event.runtime),
    )
    found = {
        f"{prefix}{name}": Known(True, value)
        for prefix, read in readings
        for name, value in agreed(events, read).items()
    }
    if "in force.runtime.memory.policy" in found:
        found["in force.memory.policy"] = found.pop("in force.runtime.memory.policy")
    return found
