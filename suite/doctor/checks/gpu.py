"""The GPUs: whether there are any, whether this torch can use them, and what makes their clocks and memory unsteady."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from suite.doctor.advice import Advice, advise
from suite.doctor.survey import Survey
from suite.doctor.words import counted

# How the reader says that something of NVIDIA's is there although NVML tells nothing of it.
SIGNS = re.compile(r"\d GPUs? of NVIDIA's|a driver of NVIDIA's")


def present(survey: Survey) -> Iterator[Advice]:
    """Whether NVML tells of a GPU, and whether the installed torch could use it."""
    count = survey.fact("gpu", "count")
    if not count.value:
        reason = f"{count.source}: {count.note}" if count.note else count.source
        hidden = count.status in ("masked", "denied") or SIGNS.search(count.note) is not None
        claim = "A GPU is here and cannot be used" if hidden else "No GPU is seen here"
        yield advise(
            "gpu-hidden" if hidden else "no-gpu", "note", f"{claim}: only cases on the CPU can be measured.", reason
        )
        return
    torch = survey.packages.get("torch") or ""
    if torch.endswith("+cpu") and not survey.in_image:
        yield advise(
            "torch-without-cuda",
            "note",
            f"{counted(int(str(count.value)), 'GPU')} {'is' if count.value == 1 else 'are'} here, and the installed torch ({torch}) "
            "cannot use any.",
            f"{count.source}; importlib.metadata",
            advice="cases on the CPU are not touched by it",
        )


def _each(survey: Survey, name: str, matters: Callable[[Any], bool]) -> list[str]:
    """Numbers of the GPUs for which a fact was read and matters."""
    facts = survey.facts.get("gpu", {})
    suffix = f" {name}"
    return [
        key.removesuffix(suffix).removeprefix("gpu ")
        for key, fact in facts.items()
        if key.startswith("gpu ") and key.endswith(suffix) and fact.value is not None and matters(fact.value)
    ]


def _named(numbers: list[str]) -> str:
    return f"GPU{'s' if len(numbers) != 1 else ''} {', '.join(numbers)}"


def others_compute(survey: Survey) -> Iterator[Advice]:
    """Another process on a GPU takes its time and memory."""
    if numbers := _each(survey, "other_compute_processes", lambda count: count > 0):
        yield advise(
            "gpu-shared",
            "doubtful",
            f"Other processes compute on {_named(numbers)}.",
            "NVML nvmlDeviceGetComputeRunningProcesses",
            advice="end them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES",
        )


def slowed(survey: Survey) -> Iterator[Advice]:
    """Clocks held back by heat or power now."""

    def held(reasons: Any) -> bool:
        return any("slowdown" in str(reason) for reason in reasons) if isinstance(reasons, list) else False

    if numbers := _each(survey, "clock_event_reasons", held):
        yield advise(
            "gpu-slowed",
            "doubtful",
            f"{_named(numbers)} {'is' if len(numbers) == 1 else 'are'} slowed down by heat or power.",
            "NVML clock event reasons",
            advice="see to cooling and power (nvidia-smi -q -d PERFORMANCE)",
        )


def memory_errors(survey: Survey) -> Iterator[Advice]:
    """A GPU that repairs its memory is a GPU to be replaced or reset."""
    pending = _each(survey, "remapped_rows_pending", bool) + _each(survey, "retired_pages_pending", bool)
    uncorrected = _each(survey, "ecc_uncorrected_volatile", lambda count: count > 0)
    if numbers := sorted({*pending, *uncorrected}):
        yield advise(
            "gpu-memory-errors",
            "doubtful",
            f"{_named(numbers)}: uncorrected memory errors, or repairs that wait for a reset.",
            "NVML ECC counts, remapped rows, retired pages",
            advice="reset the GPU (nvidia-smi --gpu-reset) when nobody uses it",
        )


def partitioned(survey: Survey) -> Iterator[Advice]:
    """A MIG instance is a part of a GPU."""
    if numbers := _each(survey, "mig", bool):
        yield advise(
            "gpu-mig",
            "note",
            f"MIG is on for {_named(numbers)}: a run gets one instance, and compares only with runs on one of the same size.",
            "NVML nvmlDeviceGetMigMode",
            advice="as root, when nobody uses it: nvidia-smi -mig 0",
        )


def persistence(survey: Survey) -> Iterator[Advice]:
    """Without persistence the driver starts the GPU anew for each process."""
    if numbers := _each(survey, "persistence_mode", lambda on: not on):
        yield advise(
            "gpu-persistence",
            "note",
            f"Persistence is off for {_named(numbers)}: each process starts the GPU anew, and its settings are lost.",
            "NVML nvmlDeviceGetPersistenceMode",
            advice="start nvidia-persistenced, or as root: nvidia-smi -pm 1",
        )


def error_correction(survey: Survey) -> Iterator[Advice]:
    """Error correction in memory costs bandwidth on some GPUs; two runs must have it alike."""
    if numbers := _each(survey, "ecc", lambda on: not on):
        yield advise(
            "gpu-ecc-off",
            "note",
            f"Memory error correction is off for {_named(numbers)}: some GPUs are faster so, and none is as safe.",
            "NVML nvmlDeviceGetEccMode",
            advice="compare only with runs that have it off too",
        )


CHECKS = (others_compute, slowed, memory_errors, present, partitioned, persistence, error_correction)
