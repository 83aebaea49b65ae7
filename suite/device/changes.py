"""What changed of a GPU between a run's start and its end. Pure.

Rules: gpu.ecc-errors-during-run, gpu.setting-changed.
"""

from __future__ import annotations

from suite.bundle.schema import Fact, Finding
from suite.device.nvml import GpuSample

SETTINGS = ("power_limit_w", "application_clock_mhz", "persistence", "compute_mode", "ecc", "mig")


def changed(before: GpuSample, after: GpuSample, title: str) -> list[Finding]:
    """Findings about errors and settings; what either sample does not tell is not compared."""
    found = []
    errors = _both(before.ecc_uncorrected, after.ecc_uncorrected)
    if errors and errors[1] > errors[0]:
        count = errors[1] - errors[0]
        found.append(
            Finding(
                rule="gpu.ecc-errors-during-run",
                severity="wrong",
                claim=f"{title} had {count} memory error{'s' if count != 1 else ''} that ECC could not correct during the run.",
                evidence=[f"{after.ecc_uncorrected.source}: {errors[0]} before, {errors[1]} after"],
                advice="No result of this run is to be trusted. An administrator may have the GPU checked and reset.",
            )
        )
    lines = []
    for name in SETTINGS:
        values = _both(getattr(before, name), getattr(after, name))
        if values and values[0] != values[1]:
            source = getattr(after, name).source
            lines.append(f"{name.replace('_', ' ')}: {values[0]} before, {values[1]} after ({source})")
    if lines:
        found.append(
            Finding(
                rule="gpu.setting-changed",
                severity="wrong",
                claim=f"Somebody changed a setting of {title} during the run: {lines[0].partition(':')[0]}"
                f"{f' and {len(lines) - 1} more' if len(lines) > 1 else ''}.",
                evidence=lines,
                advice="Measure again while nobody changes settings. The suite changes none.",
            )
        )
    return found


def _both(before: Fact, after: Fact) -> tuple[int, int] | None:
    return None if before.value is None or after.value is None else (before.value, after.value)
