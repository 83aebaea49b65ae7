"""The bundle's format, schema 1.3: what each file of one run's directory holds.

Every struct here is a row or a document of the bundle; `reader` and `writer` are the only modules that touch the files.
Units stand in field names. A newer minor version may add fields and event kinds (both are skipped by this reader); a
newer major version is refused by `reader`. Events and telemetry stand in `suite.bundle.events`,
cases and devices in `suite.bundle.workloads`; they are named here too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from suite.bundle.events import (
    AnyEvent,
    ArmEvidence,
    ArmNotRun,
    ArmReady,
    ArmWarm,
    Conditioned,
    Effective,
    Event,
    Gpu,
    Noted,
    Outcome,
    Planned,
    ProcessEnded,
    ProcessStarted,
    Stopped,
    Telemetry,
)
from suite.bundle.row import ArmLabel, ArmName, Count, Moment, Positive, Row, Text
from suite.bundle.workloads import Case, Device, Pass, ProfilerSchedule, Tensor, Weights

__all__ = [
    "AnyEvent",
    "ArmEvidence",
    "ArmNotRun",
    "ArmReady",
    "ArmWarm",
    "Case",
    "Conditioned",
    "Device",
    "Effective",
    "Event",
    "Gpu",
    "Noted",
    "Outcome",
    "Pass",
    "Planned",
    "ProcessEnded",
    "ProcessStarted",
    "ProfilerSchedule",
    "Row",
    "Stopped",
    "Telemetry",
    "Tensor",
    "Weights",
]

SCHEMA_VERSION = "1.3"

FactStatus = Literal["ok", "masked", "absent", "denied", "virtualised"]
RunStatus = Literal["running", "complete", "incomplete", "interrupted"]
ArmRole = Literal["baseline", "noise", "candidate"]


# --- run.json -------------------------------------------------------------------------------------------------------


class Arm(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One arm of the plan. `label` is unique in the run ("eager#2"); `name` is the registered arm ("eager")."""

    label: ArmLabel
    name: ArmName
    role: ArmRole
    description: str


class Procedure(Row, frozen=True, kw_only=True, omit_defaults=True):
    """How the run measures: the preset's numbers. Durations in nanoseconds.

    Every case gets `processes` processes. More follow, up to `processes_maximum`, while a candidate's interval is wider than
    `target_half_width` (a fraction) on either side and measuring has taken less than `budget_ns`. `arm_minimum_ns` is the least
    time for which every arm is measured in every process.
    """

    processes: Positive
    processes_maximum: int = 0
    target_half_width: float = 0.01
    budget_ns: int = 0
    block_duration_ns: Count
    block_minimum_iterations: Positive
    sample_minimum_ns: int
    arm_minimum_ns: int = 0
    pairs_minimum: Positive
    pairs_maximum: Positive
    measure_budget_ns: int
    warmup_budget_ns: int
    process_timeout_s: int
    memory_ceiling_bytes: int | None = None


class Engine(Row, frozen=True, kw_only=True, omit_defaults=True):
    """Where the run ran: natively or in a container, and why.

    `runtime` is the engine's OCI run-time ("runc 1.1.5"). `flags` are the options that the container was started with; `mounts` names the
    folders ("<results>:/results"), not where they lie. `losses` says what the engine could not give. `sbom_sha256` is the digest of the
    image's software bill of materials, which stands in the bundle as sbom.cdx.json.
    """

    name: Literal["native", "docker", "podman"]
    containerised: bool
    reason: str
    version: str | None = None
    rootless: bool | None = None
    runtime: str | None = None
    image: str | None = None
    image_digest: str | None = None
    sbom_sha256: str | None = None
    flags: list[str] = []
    mounts: list[str] = []
    losses: list[str] = []


class Source(Row, frozen=True, kw_only=True, omit_defaults=True):
    """The suite's own revision; `dirty` is None when git could not say."""

    version: str
    revision: str | None = None
    dirty: bool | None = None


class Stretch(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One stretch of a run, from a start (or a continuation) to its end; ISO 8601, UTC."""

    started_at: Moment
    ended_at: Moment | None = None


class LaunchRequest(Row, frozen=True, kw_only=True, omit_defaults=True):
    """How workers were asked to be started. `settings` is the launch profile; empty and None mean the default placement.

    `cores` and `nodes` are CPU and NUMA node lists ("0-3,8"); `smt` asks for all hardware threads of the cores, not one a core; `strict`
    refuses to run when a setting that was requested is not in force.
    """

    settings: Literal["tutorial", "tuned", "untuned"] = "tuned"
    cores: str = ""
    nodes: str = ""
    smt: bool = False
    threads: Positive | None = None
    strict: bool = False


class Level(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One set of launch settings of an ablation: `knobs` are those that are switched on."""

    label: Text
    knobs: list[str]
    description: str


class Ablation(Row, frozen=True, kw_only=True, omit_defaults=True):
    """What a run varies from process to process instead of replicating one launch.

    Process p of a case belongs to round p // len(levels) and was started with the settings of `levels[order[p]]`; the first level is
    what the others are compared with, and a level of the same knobs is its own rival, for the noise floor. In the design "steps" each
    level adds to the one before it; in "alone" each stands alone; in "container" the last level's workers each run in a container of
    `engine`, the others on the host.
    """

    design: Literal["steps", "alone", "container"]
    levels: Annotated[list[Level], Meta(min_length=2)]
    order: list[Count]
    engine: Engine | None = None


class Run(Row, frozen=True, kw_only=True, omit_defaults=True):
    """run.json: what was asked for, where it ran, and whether it may be published. `profile`: whether profiling passes belong to it."""

    schema_version: str
    run_id: str
    preset: str
    status: RunStatus
    cases: Annotated[list[Case], Meta(min_length=1)]
    arms: Annotated[list[Arm], Meta(min_length=1)]
    procedure: Procedure
    argv: list[str]
    command: str
    seed: int
    stretches: Annotated[list[Stretch], Meta(min_length=1)]
    engine: Engine
    source: Source
    profile: bool = True
    launch: LaunchRequest = LaunchRequest()
    ablation: Ablation | None = None
    device: Device = Device()
    publishable: bool = False
    reasons: list[str] = []


# --- fingerprint.json -----------------------------------------------------------------------------------------------


class Fact(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One fact of the machine. `value` is None unless `status` is ok, masked or virtualised; `source` names file or call."""

    value: Any
    source: str
    status: FactStatus
    note: str = ""


class Setting(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One setting, requested against effective; `proof` says where the effective value was seen."""

    name: str
    requested: str | None
    effective: str | None
    status: Literal["in force", "not in force", "not requested", "unknown"]
    proof: str
    note: str = ""


Severity = Literal["wrong", "doubtful", "note"]


class Finding(Row, frozen=True, kw_only=True, omit_defaults=True):
    """A claim about how the machine and the launch bear on the result.

    `rule` is the finding's stable name ("launch.preload-ignored"). wrong: the run is not what it says it is, and not publishable;
    doubtful: read the numbers with it in mind; note: worth knowing. `evidence` holds what was seen and where, one sentence each, and
    `advice` what to do.
    """

    rule: Text
    severity: Severity
    claim: Text
    evidence: Annotated[list[str], Meta(min_length=1)]
    advice: str = ""


class Fingerprint(Row, frozen=True, kw_only=True, omit_defaults=True):
    """fingerprint.json: `facts[subject][name]`, the settings of the measuring processes, and what was found wrong with either.

    `settings_of` is the level that the settings are of, in an ablation.
    """

    schema_version: str
    facts: dict[Text, dict[Text, Fact]]
    settings: list[Setting] = []
    settings_of: str = ""
    findings: list[Finding] = []


# --- samples.jsonl --------------------------------------------------------------------------------------------------


class Block(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One block of timed calls of one arm in one process.

    `iterations_ns[i]` is the duration of iteration i, which makes `calls_per_iteration` calls back to back. `block` is the
    block's number in the process's schedule and `(case, process, phase, block)` its identity. `position` is its place in the round,
    `pair` the number of the forward-and-mirrored pair it belongs to. `incarnation` counts the operating-system
    processes that served this process index (above 0 only after a run was continued).

    On a device that works beside its host, iterations are the device's own times (events), `enqueue_ns` is the host's time to hand over
    one call (the median of a burst beside the timed iterations, into an empty queue) and `host_ns` the host's time over the whole block,
    to the end of the device's work. `conditions` says what slowed the device down meanwhile (or "not judged: " and what), and `disturbed`
    whether that may pass. A disturbed block is measured again while the budget lasts, and stands in retaken.jsonl and never in
    samples.jsonl; `retake` counts the tries before. A disturbed one in samples.jsonl could not be had otherwise. `clock_mhz` is the
    device's clock while it worked.
    """

    case: str
    arm: str
    process: Count
    phase: Literal["warmup", "measure"]
    block: Count
    pair: Count
    position: Count
    incarnation: Count
    started_at_ns: Count
    calls_per_iteration: Positive
    iterations_ns: Annotated[list[Positive], Meta(min_length=1)]
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    major_faults: int = 0
    minor_faults: int = 0
    enqueue_ns: Count | None = None
    host_ns: Count | None = None
    conditions: list[Text] = []
    disturbed: bool = False
    retake: Count = 0
    clock_mhz: int | None = None


# --- state.jsonl ----------------------------------------------------------------------------------------------------


class State(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One reading of the machine-state reference, taken in the worker between blocks, before block number `before_block`.

    `triad_ns` is the fastest of a few runs of a = b + s * c over arrays far larger than the caches, moving `triad_bytes`;
    `gemm_ns` that of a matrix product of `gemm_operations` floating-point operations in `gemm_dtype`, on a CPU so small that it fits into
    them. On a GPU both are large, and so ceilings that this very device reached in this run.
    """

    case: str
    process: Count
    incarnation: Count
    before_block: Count
    at_ns: Count
    triad_ns: Positive
    triad_bytes: Positive
    gemm_ns: Positive
    gemm_operations: Positive
    gemm_dtype: str = "float32"


# --- cases/<case>/<arm>/*.json --------------------------------------------------------------------------------------


class ProfileRow(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One row of `key_averages()` over the active steps of a cycle; totals are nested, so only self times add up."""

    name: str
    calls: int
    self_cpu_ns: int
    cpu_ns: int
    self_device_ns: int = 0
    device_ns: int = 0


class ProfileCycle(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One cycle of the profiler's schedule: `last_step` is the step at which it was handed over."""

    last_step: int
    active_steps: Positive
    trace: str
    rows: list[ProfileRow]


class Profile(Row, frozen=True, kw_only=True, omit_defaults=True):
    """profile.json: every row as numbers; `sort_key` is the key of profile.txt and of the reports."""

    case: str
    arm: str
    schedule: ProfilerSchedule
    sort_key: str
    activities: list[str]
    kernel_profile: bool
    cycles: Annotated[list[ProfileCycle], Meta(min_length=1)]
    code: list[str] = []


class OutputError(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One output of the arm against the baseline and against a float64 reference.

    `root_mean_square_error` and the baseline's are taken against the reference, relative to its root mean square.
    """

    name: str
    shape: list[int]
    dtype: str
    identical: bool
    max_absolute_error: float
    max_relative_error: float
    root_mean_square_error: float
    baseline_root_mean_square_error: float


class Accuracy(Row, frozen=True, kw_only=True, omit_defaults=True):
    """accuracy.json: whether an arm computes what the baseline computes; `rule` states the criterion in words."""

    case: str
    arm: str
    passed: bool
    rule: str
    tolerance: float
    outputs: list[OutputError]
    message: str = ""
