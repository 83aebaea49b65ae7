"""What a plan measures, and on what: cases, their inputs and profiles, and the device."""

from __future__ import annotations

from typing import Any, Literal

from suite.bundle.row import ArmName, CaseName, Count, Positive, Row, Text


class Tensor(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One disclosed input of a case: `shape` in elements, `distribution` in words ("normal(0, 1)", "integers [0, 30522)")."""

    name: str
    shape: list[int]
    dtype: str
    distribution: str


class Weights(Row, frozen=True, kw_only=True, omit_defaults=True):
    """Where a model's weights came from: `source` is "random", "MODEL_DIR" or "cache"; hashes are SHA-256 of the files."""

    source: Literal["random", "MODEL_DIR", "cache"]
    description: str
    model_id: str | None = None
    revision: str | None = None
    sha256: dict[str, str] = {}


class ProfilerSchedule(Row, frozen=True, kw_only=True, omit_defaults=True):
    """`torch.profiler.schedule` arguments, in steps."""

    skip_first: Count = 0
    wait: Count = 1
    warmup: Count = 1
    active: Positive = 3
    repeat: Positive = 1

    @property
    def steps(self) -> int:
        """Steps that must be run so that every cycle completes (the last one included)."""
        return self.skip_first + self.repeat * (self.wait + self.warmup + self.active)


class Pass(Row, frozen=True, kw_only=True, omit_defaults=True):
    """A further profiling pass of a case, each in a process of its own; it lies in cases/<case>/<arm>/passes/<name>.

    `calls_before` calls are made before the profiler starts: none is the walkthrough's "cold", a loop of them its "warm".
    `arms` are the registered arms that are profiled so.
    """

    name: ArmName
    schedule: ProfilerSchedule
    calls_before: Count = 0
    arms: list[ArmName] = []


class Device(Row, frozen=True, kw_only=True, omit_defaults=True):
    """What a run measures on. `kind` is the registered device ("cpu", "cuda"), `index` the one of several that is measured.

    `visible` names each that could have been chosen ("0: NVIDIA H200"); `partition` is the MIG instance's profile when it is a part of a
    GPU. `clock_mhz` is the highest clock of its multiprocessors that the driver names, `l2_bytes` the cache that a cold iteration finds
    flushed. `bus_id` is where it sits on PCI, by which it is found in other libraries. None: not told.
    """

    kind: Text = "cpu"
    index: Count = 0
    name: str = ""
    visible: list[str] = []
    partition: str = ""
    capability: str = ""
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    multiprocessors: int | None = None
    clock_mhz: int | None = None
    bus_id: str = ""


class Case(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One case of the plan. `name` is "<workload>/<variant>"; `floating_point_operations` and `minimum_bytes` are per call.

    `warmup_iterations` and `measured_iterations` (per arm and process) replace the preset's own choice where a published
    procedure fixes them. `not_applicable` maps an arm's name to the reason why the case does not run it.

    `cache` says in which state an iteration finds the device's last cache: "cold" flushed before each, "hot" as the one before left it;
    empty where it is not steered (on a CPU). `matmul_precision` is torch's setting for products of float32 ("high" lets a GPU use TF32);
    it is always set, never inherited. `passes` are further profiling passes.
    """

    name: CaseName
    workload: str
    variant: str
    title: str
    parameters: dict[str, Any]
    inputs: list[Tensor]
    dtype: str
    annotation: str
    schedule: ProfilerSchedule
    weights: Weights | None = None
    floating_point_operations: int | None = None
    minimum_bytes: int | None = None
    warmup_iterations: int | None = None
    measured_iterations: int | None = None
    not_applicable: dict[str, str] = {}
    notes: list[Text] = []
    cache: Literal["", "cold", "hot"] = ""
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    passes: list[Pass] = []
