"""The kinds of device. A new one is a line in `MODULES`, one in `TRAITS`, and the file that the first names."""

from __future__ import annotations

import importlib
from collections.abc import MutableMapping, Sequence
from typing import cast

from suite.bundle import schema
from suite.device.contract import Device, Traits, Watch
from suite.launch.variables import Told, take_out

MODULES = {"cpu": "suite.device.cpu", "cuda": "suite.device.cuda"}
"""Kind -> the module whose `open_device(description)` makes one; imported in workers only."""

WATCHES = {"cuda": "suite.device.watch"}
"""Kind -> the module whose `open_watch(description)` watches one from the leading process."""

TRAITS = {
    "cpu": Traits(
        kind="cpu",
        target="bench-cpu",
        caches=("",),
        default_arms=("inductor", "inductor-freezing"),
        not_for={"inductor-reduce-overhead": "CUDA graphs are a GPU's; on a CPU the mode compiles what inductor does"},
    ),
    "cuda": Traits(
        kind="cuda",
        target="bench-gpu",
        caches=("hot", "cold"),
        default_arms=("inductor", "inductor-reduce-overhead", "inductor-max-autotune"),
        precisions={"highest": "highest: float32 as it is", "high": "high: float32 rounded to TF32"},
        # One numbering of several devices, which NVML has too.
        further_passes=True,
        no_container="a run on a GPU is started in its container by hand: docker run --gpus all ... speedproof:cuda bench-gpu",
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        cleared={
            "NVIDIA_TF32_OVERRIDE": "cuBLAS and cuDNN obey it whatever precision torch asks for",
            "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "torch takes it for a wish for TF32",
            "CUBLAS_EMULATE_SINGLE_PRECISION": "cuBLAS puts float32 together from bfloat16",
            "CUBLAS_EMULATION_STRATEGY": "cuBLAS puts float32 together from bfloat16",
            "CUDA_LAUNCH_BLOCKING": "each launch waits for its kernel",
            "CUBLAS_WORKSPACE_CONFIG": "cuBLAS chooses among other algorithms",
            "CUBLAS_LOGINFO_DBG": "writing logs costs time",
            "CUBLASLT_LOG_LEVEL": "writing logs costs time",
            "CUDNN_LOGINFO_DBG": "writing logs costs time",
            "CUDNN_LOGLEVEL_DBG": "writing logs costs time",
        },
    ),
}
"""Kind -> what planning knows of it."""


def traits(device: schema.Device) -> Traits:
    """What planning knows of a bundle's device.

    Raises:
        KeyError: an unknown kind.
    """
    return TRAITS[device.kind]


def clear(device: schema.Device, environ: MutableMapping[str, str]) -> list[Told]:
    """Take out of the environment what would change an arm, or what is measured on the device; tells of everything that was set."""
    return take_out(environ, traits(device).cleared)


def precisions(device: schema.Device, cases: Sequence[schema.Case]) -> dict[str, list[str]]:
    """The matmul precision that workers set, in words, and the cases it is set for; empty on a device where it makes no difference."""
    named = traits(device).precisions
    found: dict[str, list[str]] = {}
    for case in cases if named else ():
        found.setdefault(named.get(case.matmul_precision, case.matmul_precision), []).append(case.name)
    return found


def open_device(description: schema.Device) -> Device:
    """The device in this worker.

    Raises:
        DeviceUnavailableError: it cannot be measured on, and why.
    """
    return cast(Device, importlib.import_module(MODULES[description.kind]).open_device(description))


def open_watch(description: schema.Device) -> Watch:
    """The watch of a device for the leading process; one that sees nothing where the kind has none. Never raises."""
    module = WATCHES.get(description.kind)
    return cast(Watch, importlib.import_module(module).open_watch(description)) if module else Watch()
