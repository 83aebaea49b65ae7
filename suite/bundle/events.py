"""What is written while a run lasts: events.jsonl (what happened and why) and telemetry.jsonl (the machine's state)."""

from __future__ import annotations

from typing import Literal

from suite.bundle.row import Row

Outcome = Literal["ok", "failed", "crashed", "killed", "out_of_memory", "memory_ceiling", "timed_out", "interrupted"]

# --- events.jsonl ---------------------------------------------------------------------------------------------------


class Event(Row, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=True):
    """Base of the events; `at` is ISO 8601 in UTC. The tag stands in the field `kind`."""

    at: str


class Noted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Something worth telling that has no struct of its own."""

    message: str
    case: str | None = None
    arm: str | None = None


class ProcessStarted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A worker was started. `role` is measure or profile; `command` is the whole argument vector."""

    case: str
    role: Literal["measure", "profile"]
    process: int
    incarnation: int
    pid: int
    command: list[str]
    environment: dict[str, str]


class ArmReady(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An arm made its first call. `cache` tells how the compiler's caches answered; all durations in nanoseconds.

    `first_call_ns` is wall time of the first call including compilation; `compile_ns` is what Dynamo accounts to
    compilation within it (None for an arm that is not compiled).
    """

    case: str
    arm: str
    process: int
    incarnation: int
    role: Literal["measure", "profile"]
    first_call_ns: int
    compile_ns: int | None = None
    cache: Literal["none", "cold", "warm", "bypassed"] = "none"
    counters: dict[str, int] = {}


class ArmNotRun(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An arm did not run in this process, and why.

    `withheld`: it ran, or could have, and is not what it says: nothing that any process measured of it in this case is shown.
    """

    case: str
    arm: str
    process: int
    incarnation: int
    reason: str
    withheld: bool = False


class ArmEvidence(Event, frozen=True, kw_only=True, omit_defaults=True):
    """What an arm was seen to be, outside of timed code: after its first calls (`moment` before), and after the last block.

    `graphs` that Inductor compiled for it (or took from its cache) have `kernels` of their own and `frozen` weights folded into them;
    `cuda_graphs` of them are replayed as CUDA graphs, `cuda_graphs_refused` says why the others are not, and `cpp_wrapper` and
    `max_autotune` what was in force while they were compiled. `attention` counts the places where Inductor put fused attention for plain
    one. `graph_breaks` and `frames_skipped` are Dynamo's counts, `break_reason` its words and the line of the first. All of these are of
    moment before.

    Of one call that was looked at with torch's profiler: `regions` are the compiled frames that it went through ("0/0", Dynamo's own
    numbers), `graph_calls` its calls of compiled graphs, and `operators` those that it ran outside of them, of `eager_operators` that
    the eager arm's call runs (0: not known). `settings` of the compiler are not their defaults, though nobody asked for it. `faults` are
    clauses that say why the arm is not what it says.
    """

    case: str
    arm: str
    process: int
    incarnation: int
    role: Literal["measure", "profile"]
    moment: Literal["before", "after"]
    graphs: int = 0
    kernels: int = 0
    frozen: int = 0
    cuda_graphs: int = 0
    cuda_graphs_refused: str = ""
    cpp_wrapper: bool = False
    max_autotune: bool = False
    attention: int = 0
    graph_breaks: int = 0
    break_reason: str = ""
    frames_skipped: int = 0
    regions: list[str] = []
    graph_calls: int = 0
    operators: int = 0
    eager_operators: int = 0
    settings: dict[str, str] = {}
    faults: list[str] = []


class ArmWarm(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An arm's warm-up ended. `settled` is whether the medians of its last halves agreed."""

    case: str
    arm: str
    process: int
    incarnation: int
    settled: bool
    iterations: int
    duration_ns: int
    typical_ns: float


class Conditioned(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A device beside its host was brought to the clock that it keeps under the arms' load, before block number `before_block`.

    `clocks_mhz` is the mean clock of each cycle over the arms, `flat` whether it had stopped moving when `duration_ns` were over.
    """

    case: str
    process: int
    incarnation: int
    before_block: int
    clocks_mhz: list[int]
    flat: bool
    duration_ns: int


class Planned(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A process fixed its schedule after warm-up; a continuation keeps it. Keys of the dictionaries are arm labels."""

    case: str
    process: int
    pairs: int
    order: list[str]
    iterations: dict[str, int]
    calls_per_iteration: dict[str, int]


class Effective(Event, frozen=True, kw_only=True, omit_defaults=True):
    """What a measuring process saw in force after warm-up.

    `mapped_libraries` holds file names under "openmp", "allocator" and "blas", and under "openmp_called" and "allocator_called"
    the one that answers the calls. `torch` holds torch's modes; `runtime` what the run-time libraries and the kernel report
    ("openmp.*", "jemalloc.*", "memory.policy").

    `affinities` counts the process's threads by the CPUs that they may use ("0-1": 3); `memory_bytes_by_node` says where its private
    memory is (heap, stacks, anonymous and shared mappings; not the pages of files, which are the kernel's), by NUMA node as text;
    `openmp_settings` is what the run-time printed for KMP_SETTINGS; `openmp_symbols` maps each OpenMP run-time to the symbols that it
    answers of those which torch's and other mapped libraries import; `messages` are the lines in which the loader, the C library, the
    allocator or the OpenMP run-time complained in the worker's log. A rehearsal (`suite.launch.rehearsal`) has no case and no torch.
    """

    case: str
    process: int
    mapped_libraries: dict[str, list[str]]
    affinity: list[int]
    memory_nodes: str
    threads: dict[str, int]
    environment: dict[str, str]
    torch: dict[str, str]
    runtime: dict[str, str]
    timer_resolution_ns: float
    timer_overhead_ns: float
    peak_rss_bytes: int
    affinities: dict[str, int] = {}
    memory_bytes_by_node: dict[str, int] = {}
    openmp_settings: dict[str, str] = {}
    openmp_symbols: dict[str, list[str]] = {}
    messages: list[str] = []


class Stopped(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Why a case got no further process. `half_width` is the widest of its candidates', a fraction; None without an interval."""

    case: str
    reason: Literal["target reached", "budget spent", "most processes reached", "failures"]
    processes: int
    half_width: float | None = None


class ProcessEnded(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A worker ended; `message` is one sentence when the outcome is not ok."""

    case: str
    role: Literal["measure", "profile"]
    process: int
    incarnation: int
    outcome: Outcome
    message: str
    exit_code: int | None
    signal: str | None
    duration_ns: int
    peak_rss_bytes: int | None


AnyEvent = (
    Noted
    | ProcessStarted
    | ArmReady
    | ArmNotRun
    | ArmEvidence
    | ArmWarm
    | Conditioned
    | Planned
    | Effective
    | Stopped
    | ProcessEnded
)

# --- telemetry.jsonl ------------------------------------------------------------------------------------------------


class Gpu(Row, frozen=True, kw_only=True, omit_defaults=True):
    """The measured GPU at one moment, as NVML tells it. None or empty: not told.

    `reasons` are the clock-event reasons in force, those that slow it down among them; `busy_percent` is of the time in which a kernel ran.
    `others` counts processes that are not this run's own. PCIe's generation and width are those of the moment: idle links train down.
    """

    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    reasons: list[str] = []
    busy_percent: int | None = None
    memory_used_bytes: int | None = None
    others: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    ecc_uncorrected: int | None = None


class Telemetry(Row, frozen=True, kw_only=True, omit_defaults=True):
    """One reading of the machine's state; counters are cumulative, so readers take differences. None or empty: not readable.

    Of the measured CPUs, `cpus` ("0-3,8"), in that order: `clocks_mhz` (0 where unreadable) and busy, idle and stolen time in ticks
    of `tick_ns`; `steal_ticks`, `busy_ticks` and `idle_ticks` are sums over every CPU of the machine. `clock_source` is "cpufreq" or
    "cpuinfo" where the clock is live; "hypervisor" and "nominal" are constants, given once a process. `cpu_frequency_mhz` is the mean of
    `clocks_mhz`.

    `quota_periods` counts the periods of the CPU quota, `throttled_periods` those in which it held this control group back. Pressure
    is the time in which some task waited for the resource, of the machine and of this control group. `core_throttles` and
    `package_throttles` count how often the processor slowed down because of heat. `energy_uj` does not wrap around within a run.

    `worker_cpu_ns`, `worker_rss_bytes` and `worker_processes` are of the worker and its descendants; the other `worker_*` of its own
    threads, those that have ended included: `worker_waiting_ns` is how long they were ready to run and had no CPU.

    `cost_ns` is the CPU time of the reading. `unreadable` maps what this machine does not show to the reason, `sampled_on` is where
    readings were taken and `sampled_apart` whether no measured core is there; all three are given once, by the first that knows.
    """

    at: str
    moment: Literal["before", "during", "after"]
    case: str
    role: Literal["measure", "profile"]
    process: int
    incarnation: int = 0
    monotonic_ns: int
    cost_ns: int | None = None
    cpus: str = ""
    clock_source: Literal["cpufreq", "cpuinfo", "hypervisor", "nominal"] | None = None
    clocks_mhz: list[float] = []
    cpu_busy_ticks: list[int] = []
    cpu_idle_ticks: list[int] = []
    cpu_steal_ticks: list[int] = []
    tick_ns: int = 10_000_000
    cpu_frequency_mhz: float | None = None
    load_1min: float | None = None
    steal_ticks: int | None = None
    busy_ticks: int | None = None
    idle_ticks: int | None = None
    context_switches: int | None = None
    pressure_cpu_us: int | None = None
    pressure_memory_us: int | None = None
    pressure_io_us: int | None = None
    group_pressure_cpu_us: int | None = None
    group_pressure_memory_us: int | None = None
    group_pressure_io_us: int | None = None
    throttled_us: int | None = None
    throttled_periods: int | None = None
    quota_periods: int | None = None
    core_throttles: int | None = None
    package_throttles: int | None = None
    temperature_c: float | None = None
    temperatures_c: dict[str, float] = {}
    energy_uj: dict[str, int] = {}
    memory_available_bytes: int | None = None
    major_faults: int | None = None
    swap_in_bytes: int | None = None
    swap_out_bytes: int | None = None
    worker_rss_bytes: int | None = None
    worker_processes: int | None = None
    worker_threads: int | None = None
    worker_cpu_ns: int | None = None
    worker_waiting_ns: int | None = None
    worker_voluntary_switches: int | None = None
    worker_involuntary_switches: int | None = None
    worker_migrations: int | None = None
    gpu: Gpu | None = None
    unreadable: dict[str, str] = {}
    sampled_on: str = ""
    sampled_apart: bool | None = None
