"""GPUs as NVML shows them: which there are, and one of them sampled beside a run. Everything is read; no setting is ever changed.

Everything takes the library as an argument: `pynvml`, or a recording with its interface (`suite.fingerprint.gpu.nvml_recorder`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from suite.bundle.schema import Fact
from suite.device.slowing import slowing
from suite.fingerprint.facts import ok
from suite.fingerprint.gpu.nvml import Nvml, ask, value_of
from suite.fingerprint.gpu.nvml_calls import (
    COMPUTE_MODES,
    MEMORY_CALL,
    OLD_MEMORY_CALL,
    Call,
    clock_reasons,
    cuda_version,
    text_of,
)

Why = Literal["no library", "no driver", "driver too old", "no device", "no permission", "other"]

# --- which there are ------------------------------------------------------------------------------------------------


class Hidden:
    """A text for the driver that is printed and encoded nowhere: `reveal` is the only way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "<hidden>"


@dataclass(frozen=True)
class GpuDevice:
    """A GPU that can be chosen, or a MIG instance of one.

    `index` is NVML's number of the GPU (PCI order), `instance` that of the MIG instance within it. `uuid` selects it in
    CUDA_VISIBLE_DEVICES. `mig` is whether the GPU is divided; None where it cannot be.
    """

    index: int
    name: str
    memory_bytes: int | None
    bus_id: str
    mig: bool | None
    uuid: Hidden
    instance: int | None = None

    @property
    def title(self) -> str:
        """How it is named to a user: "0: NVIDIA H200", "1.2: NVIDIA H200 MIG 1g.18gb"."""
        number = str(self.index) if self.instance is None else f"{self.index}.{self.instance}"
        return f"{number}: {self.name}"


@dataclass(frozen=True)
class NoGpu:
    """Why there is none, for a program (`why`) and for a reader: a clause that says what to do."""

    why: Why
    clause: str


NO_LIBRARY = "libnvidia-ml.so.1 is not installed: install NVIDIA's driver, or start the container with --gpus all"
NO_BINDING = "the package nvidia-ml-py is not installed"
START: Mapping[int, tuple[Why, str]] = MappingProxyType(
    {
        4: (
            "no permission",
            "this user may not ask NVIDIA's driver: an administrator may give it the devices /dev/nvidia*",
        ),
        9: ("no driver", "NVIDIA's kernel driver is not loaded: an administrator may load it (modprobe nvidia)"),
        12: ("no library", NO_LIBRARY),
        13: ("driver too old", "NVIDIA's driver is too old to be asked: install a newer one"),
        18: (
            "other",
            "NVIDIA's library and kernel driver are of different versions: an administrator may restart the machine",
        ),
    }
)
# CUDA Toolkit release notes, "CUDA driver and minor version compatibility".
LEAST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580"}


def list_devices(library: Nvml | None = None, needs_cuda: str | None = None) -> list[GpuDevice] | NoGpu:
    """All visible GPUs in PCI order, each followed by its MIG instances; or why there is none. Never raises.

    `needs_cuda` is the CUDA version that torch is built for ("13.0"): a driver of an earlier major version cannot run it.
    """
    nvml = library or _binding()
    if nvml is None:
        return NoGpu("no library", NO_BINDING)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _not_started(error)
    try:
        return _too_old(nvml, needs_cuda) or _list(nvml)
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _binding() -> Nvml | None:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _not_started(error: Any) -> NoGpu:
    fallback: tuple[Why, str] = ("other", f"NVML cannot be started: {error}")
    return NoGpu(*START.get(int(error.value), fallback))


def _too_old(nvml: Nvml, needs_cuda: str | None) -> NoGpu | None:
    version = value_of(nvml, "nvmlSystemGetCudaDriverVersion_v2").value
    major = int(needs_cuda.split(".")[0]) if needs_cuda else 0
    if not version or version // 1000 >= major:
        return None
    driver = text_of(value_of(nvml, "nvmlSystemGetDriverVersion").value or "of unknown version")
    least = f" (at least {LEAST_DRIVER[major]})" if major in LEAST_DRIVER else ""
    return NoGpu(
        "driver too old",
        f"the driver {driver} is for CUDA {cuda_version(version)}, and torch is built for CUDA {needs_cuda}: install a newer "
        f"driver{least}, or a torch for CUDA {version // 1000}",
    )


def _list(nvml: Nvml) -> list[GpuDevice] | NoGpu:
    found: list[GpuDevice] = []
    refused: list[str] = []
    for index in range(value_of(nvml, "nvmlDeviceGetCount").value or 0):
        handle = value_of(nvml, "nvmlDeviceGetHandleByIndex", index)
        if handle.status == "ok":
            found += _device(nvml, handle.value, index)
        else:
            refused.append(f"GPU {index}: {handle.note}")
    if found:
        return found
    if refused:
        denied = any("permission" in each or "control group" in each for each in refused)
        return NoGpu("no permission" if denied else "other", "no GPU can be opened (" + "; ".join(refused) + ")")
    return NoGpu(
        "no device", "the driver shows no GPU: there is none, or it is hidden (NVIDIA_VISIBLE_DEVICES in a container)"
    )


def _device(nvml: Nvml, handle: Any, index: int) -> list[GpuDevice]:
    mode = value_of(nvml, "nvmlDeviceGetMigMode", handle)
    mig = bool(mode.value[0]) if mode.status == "ok" else None
    place = value_of(nvml, "nvmlDeviceGetPciInfo", handle)
    bus_id = text_of(place.value.busId).lower() if place.status == "ok" else ""
    whole = _shown(nvml, handle, index, bus_id, mig)
    instances = []
    for number in range(value_of(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle).value or 0) if mig else ():
        instance = value_of(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if instance.status == "ok":
            instances.append(_shown(nvml, instance.value, index, bus_id, mig, number))
    return [whole, *instances]


def _shown(
    nvml: Nvml, handle: Any, index: int, bus_id: str, mig: bool | None, instance: int | None = None
) -> GpuDevice:
    size = ask(nvml, MEMORY_CALL, handle)["memory_total_bytes"].value
    if size is None:
        size = ask(nvml, OLD_MEMORY_CALL, handle)["memory_total_bytes"].value
    if size is None and instance is not None:
        attributes = value_of(nvml, "nvmlDeviceGetAttributes", handle).value
        size = int(attributes.memorySizeMB) << 20 if attributes is not None else None
    name = text_of(value_of(nvml, "nvmlDeviceGetName", handle).value or "unnamed")
    uuid = Hidden(text_of(value_of(nvml, "nvmlDeviceGetUUID", handle).value or ""))
    return GpuDevice(index, name, size, bus_id, mig, uuid, instance)


# --- one of them, sampled -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuSample:
    """A GPU at one moment; each field is a fact: a value, or why there is none. `at_ns` is `time.monotonic_ns`.

    The second half changes only when somebody changes it, and is read once, when the sampler is opened. `default_clock_mhz` is the
    default application clock, or the highest clock where the driver has none any more (its note says so). Clocks are those of the
    multiprocessors. `other_processes` are those that compute. `ecc_uncorrected` counts since the driver was loaded.
    """

    at_ns: int
    clock_mhz: Fact
    memory_clock_mhz: Fact
    power_w: Fact
    temperature_c: Fact
    reasons: Fact
    busy_percent: Fact
    memory_used_bytes: Fact
    other_processes: Fact
    pcie_generation: Fact
    pcie_width: Fact
    default_clock_mhz: Fact
    maximum_clock_mhz: Fact
    application_clock_mhz: Fact
    power_limit_w: Fact
    power_limit_default_w: Fact
    ecc: Fact
    ecc_uncorrected: Fact
    pcie_generation_maximum: Fact
    pcie_width_maximum: Fact
    persistence: Fact
    compute_mode: Fact
    mig: Fact

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """The reasons in force that are not harmless."""
        return tuple(each for each in self.reasons.value or () if slowing(each) != "harmless")

    def values(self) -> dict[str, Any]:
        """What was told, without reasons: a field that was not is left out."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: fact.value for name, fact in facts.items() if isinstance(fact, Fact) and fact.value is not None}


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


MOMENT = (
    Call("nvmlDeviceGetClockInfo", ("NVML_CLOCK_SM",), {"clock_mhz": int}),
    Call("nvmlDeviceGetClockInfo", ("NVML_CLOCK_MEM",), {"memory_clock_mhz": int}),
    Call("nvmlDeviceGetPowerUsage", (), {"power_w": _watts}),
    Call("nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV", ("NVML_TEMPERATURE_GPU",), {"temperature_c": int}),
    Call(
        "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons",
        (),
        {"reasons": clock_reasons},
    ),
    Call("nvmlDeviceGetUtilizationRates", (), {"busy_percent": lambda rates: int(rates.gpu)}),
    Call("nvmlDeviceGetCurrPcieLinkGeneration", (), {"pcie_generation": int}),
    Call("nvmlDeviceGetCurrPcieLinkWidth", (), {"pcie_width": int}),
)
SETTINGS = (
    Call("nvmlDeviceGetDefaultApplicationsClock", ("NVML_CLOCK_GRAPHICS",), {"default_clock_mhz": int}),
    Call("nvmlDeviceGetMaxClockInfo", ("NVML_CLOCK_SM",), {"maximum_clock_mhz": int}),
    Call("nvmlDeviceGetApplicationsClock", ("NVML_CLOCK_GRAPHICS",), {"application_clock_mhz": int}),
    Call("nvmlDeviceGetEnforcedPowerLimit", (), {"power_limit_w": _watts}),
    Call("nvmlDeviceGetPowerManagementDefaultLimit", (), {"power_limit_default_w": _watts}),
    Call("nvmlDeviceGetEccMode", (), {"ecc": lambda modes: bool(modes[0])}),
    Call(
        "nvmlDeviceGetTotalEccErrors",
        ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC"),
        {"ecc_uncorrected": int},
    ),
    Call("nvmlDeviceGetMaxPcieLinkGeneration", (), {"pcie_generation_maximum": int}),
    Call("nvmlDeviceGetMaxPcieLinkWidth", (), {"pcie_width_maximum": int}),
    Call("nvmlDeviceGetPersistenceMode", (), {"persistence": bool}),
    Call("nvmlDeviceGetComputeMode", (), {"compute_mode": lambda code: COMPUTE_MODES.get(code, f"unknown ({code})")}),
    Call("nvmlDeviceGetMigMode", (), {"mig": lambda modes: bool(modes[0])}),
)


class GpuSampler:
    """One GPU, opened: by its PCI address where that is known, since CUDA counts GPUs in another order than NVML, else by its number.

    `index` is NVML's own number of it. `own` are the processes that belong to the run. In a container NVML names processes by the host's
    numbers: once this process uses the GPU (`uses_it`) and is not among those listed, one of them is taken for it.

    Raises:
        LookupError: NVML cannot be started, or has no such GPU; the text says why.
    """

    def __init__(
        self,
        index: int = 0,
        bus_id: str = "",
        library: Nvml | None = None,
        own: Collection[int] = (),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        nvml = library or _binding()
        if nvml is None:
            raise LookupError(NO_BINDING)
        self._nvml: Any = nvml
        self._clock = clock
        self.own = frozenset(own) or frozenset({os.getpid()})
        self.uses_it = False
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise LookupError(_not_started(error).clause) from error
        handle = (
            value_of(nvml, "nvmlDeviceGetHandleByPciBusId", bus_id)
            if bus_id
            else value_of(nvml, "nvmlDeviceGetHandleByIndex", index)
        )
        if handle.status != "ok":
            self.close()
            raise LookupError(f"NVML has no GPU {bus_id or index}: {handle.note}")
        self._handle = handle.value
        number = value_of(nvml, "nvmlDeviceGetIndex", handle.value).value
        self.index = index if number is None else int(number)
        self._settings = self._read_settings()

    def sample(self, *, settings: bool = False) -> GpuSample:
        """The GPU now. `settings` reads again what does not change by itself, error counts among it. Never raises."""
        at = self._clock()
        facts = self._ask(MOMENT)
        memory = ask(self._nvml, MEMORY_CALL, self._handle)["memory_used_bytes"]
        if memory.value is None:
            memory = ask(self._nvml, OLD_MEMORY_CALL, self._handle)["memory_used_bytes"]
        if settings:
            self._settings = self._read_settings()
        return GpuSample(at_ns=at, memory_used_bytes=memory, other_processes=self._others(), **facts, **self._settings)

    def close(self) -> None:
        """End NVML; the sampler is of no use afterwards."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _ask(self, calls: tuple[Call, ...]) -> dict[str, Fact]:
        return {name: fact for call in calls for name, fact in ask(self._nvml, call, self._handle).items()}

    def _read_settings(self) -> dict[str, Fact]:
        facts = self._ask(SETTINGS)
        default, highest = facts["default_clock_mhz"], facts["maximum_clock_mhz"]
        if default.value is None and highest.value is not None:
            note = f"the highest clock; there is no default application clock ({default.note})"
            facts["default_clock_mhz"] = msgspec.structs.replace(highest, note=note)
        return facts

    def _others(self) -> Fact:
        answer = value_of(self._nvml, "nvmlDeviceGetComputeRunningProcesses", self._handle)
        if answer.status != "ok":
            return answer
        return others([int(each.pid) for each in answer.value], self.own, uses_it=self.uses_it, source=answer.source)


def others(listed: Collection[int], own: Collection[int], *, uses_it: bool, source: str) -> Fact:
    """How many of the listed processes are others'; see `GpuSampler` for what a container makes of their numbers."""
    strangers = [pid for pid in listed if pid not in own]
    if uses_it and strangers and len(strangers) == len(listed):
        note = "none is listed under this process's number, as in a container: one of them is taken for it"
        return ok(len(strangers) - 1, source, note)
    return ok(len(strangers), source)
