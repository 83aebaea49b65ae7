"""The processor's clocks and who steers them: cpufreq, intel_pstate, amd_pstate, CPPC. Clocks in MHz.

Source: Linux, Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, amd-pstate.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, first, from_file
from suite.fingerprint.percpu import CPU, grouped, megahertz, per_cpu

CURRENT_STEP_MHZ = 10
"""Clocks of the moment are rounded to this, so that a hundred cores at one clock are one entry."""


def read(root: Path, records: Mapping[int, dict[str, str]], online: Sequence[int]) -> Facts:
    """Facts of the clocks, each by distinct value with the CPUs that have it. `records` is /proc/cpuinfo by CPU number."""

    def cpufreq(name: str, note: str = "") -> Fact:
        return per_cpu(root, online, f"cpufreq/{name}", megahertz if name.endswith("_freq") else str, note)

    return {
        "base_mhz": first(
            per_cpu(root, online, "cpufreq/base_frequency", megahertz),
            per_cpu(root, online, "acpi_cppc/nominal_freq", lambda text: str(int(text)), "CPPC's nominal clock"),
            _named(records, online),
        ),
        "maximum_mhz": cpufreq("cpuinfo_max_freq", "turbo included where the driver counts it"),
        "minimum_mhz": cpufreq("cpuinfo_min_freq"),
        "allowed_maximum_mhz": cpufreq("scaling_max_freq"),
        "allowed_minimum_mhz": cpufreq("scaling_min_freq"),
        # One read of /proc/cpuinfo; scaling_cur_freq may wait 10 ms for each idle CPU (arch/x86/kernel/cpu/aperfmperf.c).
        "current_mhz": first(_reported(records, online), cpufreq("scaling_cur_freq", "at the time of reading")),
        "governor": cpufreq("scaling_governor"),
        "frequency_driver": cpufreq("scaling_driver"),
        "frequency_driver_mode": first(
            from_file(root, f"{CPU}/intel_pstate/status"), from_file(root, f"{CPU}/amd_pstate/status")
        ),
        "energy_performance_preference": cpufreq("energy_performance_preference"),
        "energy_performance_bias": per_cpu(
            root, online, "power/energy_perf_bias", str, "0 is performance, 15 power save"
        ),
        "boost": first(
            from_file(root, f"{CPU}/intel_pstate/no_turbo", lambda text: text == "0"),
            from_file(root, f"{CPU}/cpufreq/boost", lambda text: text == "1"),
            call(f"{CPU}/cpu*/cpufreq/boost", lambda: _all_boost(cpufreq("boost")), "no switch for it"),
        ),
        "performance_percent": call(
            f"{CPU}/intel_pstate/min_perf_pct, max_perf_pct", lambda: _limits(root), "no intel_pstate"
        ),
        "preferred_cores": from_file(root, f"{CPU}/amd_pstate/prefcore"),
    }


def _limits(root: Path) -> dict[str, int] | None:
    limits = {name: from_file(root, f"{CPU}/intel_pstate/{name}_perf_pct", int).value for name in ("min", "max")}
    return limits if all(value is not None for value in limits.values()) else None


def _all_boost(fact: Fact) -> bool | None:
    return None if fact.value is None else set(fact.value) == {"1"}


def _reported(records: Mapping[int, dict[str, str]], online: Sequence[int]) -> Fact:
    values = {}
    for number in online:
        text = records.get(number, {}).get("cpu MHz") or records.get(number, {}).get("clock", "").removesuffix("MHz")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            values[number] = str(round(float(text) / CURRENT_STEP_MHZ) * CURRENT_STEP_MHZ)
    source = "/proc/cpuinfo cpu MHz"
    note = f"at the time of reading, to {CURRENT_STEP_MHZ} MHz"
    return (
        Fact(value=grouped(values), source=source, status="ok", note=note)
        if values
        else absent(source, "no such field")
    )


def _named(records: Mapping[int, dict[str, str]], online: Sequence[int]) -> Fact:
    """Intel writes the base clock into the model's name ("... @ 2.70GHz")."""
    values = {}
    for number in online:
        match = re.search(r"@\s*(\d+(?:\.\d+)?)GHz", records.get(number, {}).get("model name", ""))
        if match:
            values[number] = str(round(float(match[1]) * 1000))
    source = "/proc/cpuinfo model name"
    return Fact(value=grouped(values), source=source, status="ok") if values else absent(source, "no source names it")
