"""The questions that are put to NVML: functions, arguments, and the facts that their answers hold, as tables.

Source of functions, units and codes: NVIDIA, NVML API Reference Guide. Serial numbers are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from suite.fingerprint.files import format_cpulist
from suite.fingerprint.identity import gpu_identity

Decode = Callable[[Any], Any]

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
VIRTUALISATION = {0: "none", 1: "passed through", 2: "virtual GPU", 3: "host of virtual GPUs", 4: "host of vSGA"}
ADDRESSING = {0: "none", 1: "HMM", 2: "ATS"}
# Bits of nvmlClocksEventReasons, formerly nvmlClocksThrottleReasons.
CLOCK_REASONS = (
    "GPU idle",
    "applications clocks setting",
    "software power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake slowdown",
    "display clock setting",
    "board limit",
    "reliability",
)
CPU_WORDS = 16  # 1,024 CPUs: NVML fills as many 64-bit words as it is given


@dataclass(frozen=True)
class Call:
    """One question to NVML: function names in order of preference, arguments (constants by name), facts of the answer."""

    functions: str
    arguments: tuple[str | int, ...]
    facts: dict[str, Decode]


def _enabled(value: int) -> bool:
    return bool(value)


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def text_of(value: str | bytes) -> str:
    """NVML's text, which nvidia-ml-py leaves as bytes in places."""
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()


def _choice(names: dict[int, str]) -> Decode:
    return lambda code: names.get(code, f"unknown ({code})")


def _attribute(name: str) -> Decode:
    return lambda struct: int(getattr(struct, name))


def _item(index: int, decode: Decode = int) -> Decode:
    return lambda values: decode(values[index])


def clock_reasons(mask: int) -> list[str]:
    """The names of the reasons in a mask, lowest bit first; ["none"] when no bit is set."""
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return [CLOCK_REASONS[bit] if bit < len(CLOCK_REASONS) else f"bit {bit}" for bit in bits] or ["none"]


def cpu_list(words: Any) -> str | None:
    """CPUs of an affinity mask of 64-bit words, least significant first, as a list ("0-31,64-95"); None when empty."""
    mask = sum(int(word) << 64 * place for place, word in enumerate(words))
    return format_cpulist(bit for bit in range(mask.bit_length()) if mask >> bit & 1) or None


def cuda_version(number: int) -> str:
    """12040 is "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _pci_id(combined: int) -> str:
    return f"{combined & 0xFFFF:04x}:{combined >> 16 & 0xFFFF:04x}"


def _clocks() -> Iterator[Call]:
    for name, kind in (("graphics", "NVML_CLOCK_GRAPHICS"), ("sm", "NVML_CLOCK_SM"), ("memory", "NVML_CLOCK_MEM")):
        yield Call("nvmlDeviceGetClockInfo", (kind,), {f"clock_{name}_mhz": int})
        yield Call("nvmlDeviceGetMaxClockInfo", (kind,), {f"clock_{name}_maximum_mhz": int})
    for name, kind in (("graphics", "NVML_CLOCK_GRAPHICS"), ("memory", "NVML_CLOCK_MEM")):
        yield Call("nvmlDeviceGetApplicationsClock", (kind,), {f"clock_{name}_application_mhz": int})
        yield Call("nvmlDeviceGetDefaultApplicationsClock", (kind,), {f"clock_{name}_application_default_mhz": int})


def _ecc_counts() -> Iterator[Call]:
    for error in ("corrected", "uncorrected"):
        for counter in ("volatile", "aggregate"):
            constants = (f"NVML_MEMORY_ERROR_TYPE_{error.upper()}", f"NVML_{counter.upper()}_ECC")
            yield Call("nvmlDeviceGetTotalEccErrors", constants, {f"ecc_{error}_{counter}": int})


def _temperatures() -> Iterator[Call]:
    yield Call("nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV", ("NVML_TEMPERATURE_GPU",), {"temperature_c": int})
    yield Call("nvmlDeviceGetMarginTemperature", (), {"temperature_margin_c": int})
    for name in ("slowdown", "shutdown", "gpu_max", "mem_max"):
        threshold = (f"NVML_TEMPERATURE_THRESHOLD_{name.upper()}",)
        yield Call("nvmlDeviceGetTemperatureThreshold", threshold, {f"temperature_{name}_c": int})


# The second version tells what the driver reserves for itself from what processes use.
MEMORY_CALL = Call(
    "nvmlDeviceGetMemoryInfo",
    ("nvmlMemory_v2",),
    {
        "memory_total_bytes": _attribute("total"),
        "memory_used_bytes": _attribute("used"),
        "memory_reserved_bytes": _attribute("reserved"),
    },
)
OLD_MEMORY_CALL = Call(
    "nvmlDeviceGetMemoryInfo",
    (),
    {"memory_total_bytes": _attribute("total"), "memory_used_bytes": _attribute("used")},
)

SYSTEM_CALLS = (
    Call("nvmlSystemGetDriverVersion", (), {"driver": text_of}),
    Call("nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetCudaDriverVersion", (), {"cuda_driver": cuda_version}),
    Call("nvmlSystemGetNVMLVersion", (), {"nvml": text_of}),
)

DEVICE_CALLS = (
    Call("nvmlDeviceGetName", (), {"name": text_of}),
    Call("nvmlDeviceGetUUID", (), {"uuid_salted": lambda value: gpu_identity(text_of(value))}),
    Call("nvmlDeviceGetArchitecture", (), {"architecture": _choice(ARCHITECTURES)}),
    Call("nvmlDeviceGetCudaComputeCapability", (), {"compute_capability": lambda pair: f"{pair[0]}.{pair[1]}"}),
    Call("nvmlDeviceGetNumGpuCores", (), {"cuda_cores": int}),
    Call("nvmlDeviceGetVbiosVersion", (), {"vbios": text_of}),
    Call("nvmlDeviceGetInforomImageVersion", (), {"inforom_image": text_of}),
    Call("nvmlDeviceGetGspFirmwareVersion", (), {"gsp_firmware": text_of}),
    Call("nvmlDeviceGetBoardPartNumber", (), {"board_part_number": lambda value: text_of(value) or None}),
    Call(
        "nvmlDeviceGetPciInfo",
        (),
        {
            "pci_bus_id": lambda info: text_of(info.busId).lower(),
            "pci_device": lambda info: _pci_id(info.pciDeviceId),
            "pci_subsystem": lambda info: _pci_id(info.pciSubSystemId),
        },
    ),
    Call("nvmlDeviceGetVirtualizationMode", (), {"virtualisation": _choice(VIRTUALISATION)}),
    Call("nvmlDeviceGetMemoryBusWidth", (), {"memory_bus_bits": int}),
    Call(
        "nvmlDeviceGetBAR1MemoryInfo",
        (),
        {"bar1_total_bytes": _attribute("bar1Total"), "bar1_used_bytes": _attribute("bar1Used")},
    ),
    Call("nvmlDeviceGetEccMode", (), {"ecc": _item(0, _enabled), "ecc_pending": _item(1, _enabled)}),
    *_ecc_counts(),
    Call(
        "nvmlDeviceGetRemappedRows",
        (),
        {
            "remapped_rows_corrected": _item(0),
            "remapped_rows_uncorrected": _item(1),
            "remapped_rows_pending": _item(2, _enabled),
            "remapped_rows_failed": _item(3, _enabled),
        },
    ),
    Call("nvmlDeviceGetRetiredPagesPendingStatus", (), {"retired_pages_pending": _enabled}),
    Call("nvmlDeviceGetPowerManagementDefaultLimit", (), {"power_limit_default_w": _watts}),
    Call("nvmlDeviceGetPowerManagementLimit", (), {"power_limit_w": _watts}),
    Call("nvmlDeviceGetEnforcedPowerLimit", (), {"power_limit_enforced_w": _watts}),
    Call(
        "nvmlDeviceGetPowerManagementLimitConstraints",
        (),
        {"power_limit_minimum_w": _item(0, _watts), "power_limit_maximum_w": _item(1, _watts)},
    ),
    Call("nvmlDeviceGetPowerUsage", (), {"power_draw_w": _watts}),
    Call("nvmlDeviceGetPerformanceState", (), {"performance_state": lambda state: f"P{state}" if state < 32 else None}),
    *_clocks(),
    Call(
        "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons",
        (),
        {"clock_event_reasons": clock_reasons},
    ),
    Call(
        "nvmlDeviceGetSupportedClocksEventReasons nvmlDeviceGetSupportedClocksThrottleReasons",
        (),
        {"clock_event_reasons_supported": clock_reasons},
    ),
    *_temperatures(),
    Call("nvmlDeviceGetCurrPcieLinkGeneration", (), {"pcie_generation": int}),
    Call("nvmlDeviceGetMaxPcieLinkGeneration", (), {"pcie_generation_maximum": int}),
    Call("nvmlDeviceGetGpuMaxPcieLinkGeneration", (), {"pcie_generation_of_the_gpu": int}),
    Call("nvmlDeviceGetCurrPcieLinkWidth", (), {"pcie_width": int}),
    Call("nvmlDeviceGetMaxPcieLinkWidth", (), {"pcie_width_maximum": int}),
    Call("nvmlDeviceGetPcieReplayCounter", (), {"pcie_replays": int}),
    Call("nvmlDeviceGetMigMode", (), {"mig": _item(0, _enabled), "mig_pending": _item(1, _enabled)}),
    Call("nvmlDeviceGetPersistenceMode", (), {"persistence_mode": _enabled}),
    Call("nvmlDeviceGetComputeMode", (), {"compute_mode": _choice(COMPUTE_MODES)}),
    Call("nvmlDeviceGetDisplayActive", (), {"display_active": _enabled}),
    Call("nvmlDeviceGetUtilizationRates", (), {"utilisation_percent": _attribute("gpu")}),
    Call("nvmlDeviceGetAddressingMode", (), {"addressing_mode": _choice(ADDRESSING)}),
    Call("nvmlDeviceGetNumaNodeId", (), {"numa_node_of_its_memory": int}),
    Call("nvmlDeviceGetCpuAffinity", (CPU_WORDS,), {"cpu_affinity": cpu_list}),
    Call("nvmlDeviceGetMemoryAffinity", (CPU_WORDS, "NVML_AFFINITY_SCOPE_NODE"), {"memory_affinity": cpu_list}),
)
