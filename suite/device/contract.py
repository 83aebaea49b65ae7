"""What a device is to the suite. A new kind is a file beside this one with an `open_device`, and a line in `suite.device.registry`.

`Traits` is what planning may know, without torch; `Device` lives in a worker and does the timing there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from suite.bundle import schema

T = TypeVar("T")
Call = Callable[[], Any]
Cache = Literal["", "cold", "hot"]


class DeviceUnavailableError(Exception):
    """The device cannot be measured on. The text is a clause that says why and what to do."""


class RefusedMeasurementError(Exception):
    """A time that cannot be true, as of work that was not waited for: nothing of its block is kept."""


@dataclass(frozen=True)
class Timed:
    """A block as a device timed it.

    `iterations_ns` are durations of iterations. On a device beside its host: `enqueue_ns` is the host's time to hand over one call, taken
    apart from the iterations; `host_ns` the host's time over all of them; `clock_mhz` its clock while it still worked, `conditions`
    what slowed it down and what of that could not be judged, and `disturbed` whether that may pass, so that the block should be measured
    again.
    """

    iterations_ns: list[int]
    enqueue_ns: int | None = None
    host_ns: int | None = None
    clock_mhz: int | None = None
    conditions: tuple[str, ...] = ()
    disturbed: bool = False


@dataclass(frozen=True)
class Reference:
    """Sizes of the machine-state reference on a device: elements of each of the triad's arrays, and the square product."""

    triad_elements: int
    gemm_size: int
    gemm_dtype: str


@dataclass(frozen=True)
class Traits:
    """What planning knows of a kind of device.

    `caches` are the states of the last cache that a case can be measured in, the default first. `default_arms` stand in for arms that
    nobody named; `not_for` maps an arm's name to the reason why it makes no sense here, `precisions` the matmul precisions that make a
    difference here to their names in words. `target` is the Makefile's, `environment` what workers are given, `cleared` maps variables
    that no worker may inherit to what they would do. `further_passes`: whether cases get their further profiles (`schema.Pass`).
    `no_container` says why a run starts no container of its own; empty when it may.
    """

    kind: str
    target: str
    caches: tuple[Cache, ...]
    default_arms: tuple[str, ...]
    not_for: Mapping[str, str] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    cleared: Mapping[str, str] = field(default_factory=dict)
    further_passes: bool = False
    no_container: str = ""


class Watch:
    """What the leading process sees of a device beside its workers. This one sees nothing, and is enough for a processor: its telemetry is
    the machine's own.
    """

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def refusals(self) -> list[schema.Finding]:
        """What forbids the run, seen before anything is measured."""
        return []

    def follow(self, pid: int) -> None:
        """A worker was started."""

    def leave(self) -> None:
        """The worker has ended."""

    def fields(self) -> dict[str, Any]:
        """Fields of a telemetry reading."""
        return {}

    def findings(self) -> list[schema.Finding]:
        """What was seen of the conditions of the run."""
        return []

    def facts(self) -> dict[str, schema.Fact]:
        """What only a device at work shows, for the fingerprint's subject of the device."""
        return {}


class Device(Protocol):
    """A device in the worker that measures on it. Durations are in nanoseconds."""

    description: schema.Device
    beside_host: bool
    """Whether it works beside its host: a call returns before its work is done, and a call may replay what an earlier one recorded."""
    profiler_activities: tuple[str, ...]
    """Names of torch.profiler.ProfilerActivity."""
    sort_key: str
    """The key by which the profiler's table is sorted; a CPU has no device time to sort by."""
    reference: Reference

    def prepare(self, case: schema.Case) -> None:
        """Set torch's modes for a case: nothing that changes arithmetic is inherited."""

    def ready_toolchain(self) -> None:
        """Let the compiler find out what it asks once a machine, before any compilation is timed."""

    def place(self, movable: T) -> T:
        """A tensor or a module, where the device computes on it."""

    def synchronise(self) -> None:
        """Return when everything that was asked of the device is done."""

    def flush_cache(self) -> None:
        """Push everything out of the device's last cache (asynchronously, in order with the work)."""

    def time(self, call: Call, iterations: int, calls: int, cache: Cache = "") -> list[int]:
        """Durations of iterations of `calls` calls each, as for warming up: nothing but the times, with the cache in that state."""

    def time_block(self, call: Call, iterations: int, calls: int, cache: Cache) -> Timed:
        """A measured block, with the cache in the state `cache`.

        Raises:
            RefusedMeasurementError: the device's own times contradict the host's clock.
        """

    def load(self, call: Call, iterations: int, calls: int, cache: Cache) -> int | None:
        """Work as a block does, untimed; the device's clock meanwhile in MHz, None where it was not told."""

    def resolution_ns(self) -> float:
        """The smallest step of the clock that times iterations."""

    def overhead_ns(self) -> float:
        """What timing an empty iteration shows."""

    def in_force(self) -> dict[str, str]:
        """The device's modes in force that torch's own list does not name."""

    def ceilings(self) -> dict[str, schema.Fact]:
        """What the device can really do now, in FLOP/s and bytes/s, by name; empty where the state reference tells it. Never raises."""

    def usage(self) -> dict[str, str]:
        """What the process has used of the device ("cuda.peak_allocated_bytes")."""
