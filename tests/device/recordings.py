"""NVML recordings for tests: constructed from public documentation and published nvidia-smi output, not recorded on a machine.

`player(h200(), ...)` is a machine with one H200 at work under driver 580, and what a test changes about it.
"""

from __future__ import annotations

from typing import Any

from suite.fingerprint.gpu.nvml_recorder import Answer, Player

Calls = dict[str, Answer]

H200_BYTES = 150754820096
UNSUPPORTED = "NVML_ERROR_NOT_SUPPORTED"


def system(count: int, driver: str = "580.159.03", cuda: int = 13000) -> Calls:
    return {
        "nvmlDeviceGetCount()": Answer(value=count),
        "nvmlSystemGetDriverVersion()": Answer(value=driver),
        "nvmlSystemGetCudaDriverVersion_v2()": Answer(value=cuda),
    }


def h200(number: int = 0, name: str = "NVIDIA H200", memory: int = H200_BYTES, **changed: Any) -> Calls:
    """One GPU at work; `changed` replaces answers of functions (without "nvmlDeviceGet"), a text being the error raised."""
    gpu = f"gpu {number}"
    bus = f"00000000:{number + 1:02x}:00.0"
    answers: dict[str, Any] = {
        "Name": name,
        "UUID": f"GPU-00000000-0000-4000-8000-00000000020{number}",
        "PciInfo": {"busId": bus.upper()},
        "MemoryInfo": {"total": memory, "used": 2 << 30, "reserved": 600 << 20, "free": memory - (3 << 30)},
        "MigMode": [0, 0],
        "ClockSM": 1740,
        "ClockMemory": 3201,
        "MaxClock": 1980,
        "DefaultApplicationsClock": "NVML_ERROR_DEPRECATED",
        "ApplicationsClock": "NVML_ERROR_DEPRECATED",
        "PowerUsage": 612340,
        "EnforcedPowerLimit": 700000,
        "PowerManagementDefaultLimit": 700000,
        "Temperature": 61,
        "CurrentClocksEventReasons": 0,
        "UtilizationRates": {"gpu": 99, "memory": 40},
        "CurrPcieLinkGeneration": 5,
        "MaxPcieLinkGeneration": 5,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkWidth": 16,
        "EccMode": [1, 1],
        "TotalEccErrors": 0,
        "PersistenceMode": 1,
        "ComputeMode": 0,
        "ComputeRunningProcesses": [],
        **changed,
    }
    arguments = {
        "ClockSM": f"nvmlDeviceGetClockInfo({gpu}, 1)",
        "ClockMemory": f"nvmlDeviceGetClockInfo({gpu}, 2)",
        "MaxClock": f"nvmlDeviceGetMaxClockInfo({gpu}, 1)",
        "DefaultApplicationsClock": f"nvmlDeviceGetDefaultApplicationsClock({gpu}, 0)",
        "ApplicationsClock": f"nvmlDeviceGetApplicationsClock({gpu}, 0)",
        "MemoryInfo": f"nvmlDeviceGetMemoryInfo({gpu}, 33554472)",
        "Temperature": f"nvmlDeviceGetTemperature({gpu}, 0)",
        "TotalEccErrors": f"nvmlDeviceGetTotalEccErrors({gpu}, 1, 0)",
    }
    handle = Answer(value=gpu)
    calls = {f"nvmlDeviceGetHandleByIndex({number})": handle, f"nvmlDeviceGetHandleByPciBusId({bus})": handle}
    for function, value in answers.items():
        failed = isinstance(value, str) and value.startswith("NVML_ERROR_")
        key = arguments.get(function, f"nvmlDeviceGet{function}({gpu})")
        calls[key] = Answer(error=value) if failed else Answer(value=value)
    return calls


def instance(number: int, of: int, profile: str, memory: int) -> Calls:
    """A MIG instance of a GPU; its GPU has to be made with `MigMode=[1, 1]` and `MaxMigDeviceCount`."""
    handle = f"mig {number} of gpu {of}"
    return {
        f"nvmlDeviceGetMigDeviceHandleByIndex(gpu {of}, {number})": Answer(value=handle),
        f"nvmlDeviceGetName({handle})": Answer(value=f"NVIDIA H200 MIG {profile}"),
        f"nvmlDeviceGetUUID({handle})": Answer(value=f"MIG-00000000-0000-4000-8000-0000000000{of}{number}"),
        f"nvmlDeviceGetMemoryInfo({handle}, 33554472)": Answer(
            value={"total": memory, "used": 1 << 20, "reserved": 0, "free": memory}
        ),
    }


def process(pid: int) -> dict[str, int]:
    return {"pid": pid, "usedGpuMemory": 1 << 30}


def player(*calls: Calls, **system_facts: Any) -> Player:
    """A machine with these GPUs."""
    gpus = sum(any("HandleByIndex" in key for key in each) for each in calls)
    merged = system(gpus, **system_facts)
    for each in calls:
        merged |= each
    return Player(merged)
