"""Idle states: driver, governor, and what waking up from each state costs. Times in µs.

Source: Linux, Documentation/admin-guide/pm/cpuidle.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, first, from_file, missing, ok
from suite.fingerprint.files import format_cpulist, list_names, read_text
from suite.fingerprint.percpu import CPU


def read(root: Path, online: Sequence[int], kinds: Sequence[int]) -> Facts:
    """Facts of idle states. `kinds` holds one CPU of each kind of core, whose states stand for the others'. Never raises."""
    return {
        "idle_driver": from_file(root, f"{CPU}/cpuidle/current_driver"),
        "idle_governor": first(
            from_file(root, f"{CPU}/cpuidle/current_governor"), from_file(root, f"{CPU}/cpuidle/current_governor_ro")
        ),
        "idle_maximum_state": first(
            from_file(root, "/sys/module/intel_idle/parameters/max_cstate", int, "intel_idle.max_cstate"),
            from_file(root, "/sys/module/processor/parameters/max_cstate", int, "processor.max_cstate"),
        ),
        "idle_states": _states(root, online, kinds),
    }


def _states(root: Path, online: Sequence[int], kinds: Sequence[int]) -> Fact:
    source = f"{CPU}/cpu*/cpuidle/state*"
    rows: list[dict[str, Any]] = []
    for number in kinds:
        folder = f"{CPU}/cpu{number}/cpuidle"
        for state in list_names(root, folder, r"state\d+"):
            row = _described(root, f"{folder}/{state}")
            if row not in rows:
                rows.append(row)
    if not rows:
        return missing(root, f"{CPU}/cpu{online[0]}/cpuidle", "the kernel offers no idle states", source)
    off = _disabled(root, online)
    # States are matched by name: on a hybrid part one number may mean two states.
    return ok([row | {"disabled_on": format_cpulist(off.get(str(row["name"]), ()))} for row in rows], source)


def _described(root: Path, folder: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": read_text(root, f"{folder}/name").text or folder.rsplit("/", 1)[-1]}
    for key, name in (("exit_latency_us", "latency"), ("target_residency_us", "residency")):
        text = read_text(root, f"{folder}/{name}").text or ""
        if text.isdigit():
            row[key] = int(text)
    return row


def _disabled(root: Path, online: Sequence[int]) -> dict[str, list[int]]:
    """CPUs on which a state is switched off, by the state's name."""
    off: dict[str, list[int]] = {}
    for number in online:
        folder = f"{CPU}/cpu{number}/cpuidle"
        for state in list_names(root, folder, r"state\d+"):
            if (read_text(root, f"{folder}/{state}/disable").text or "0") != "0":
                name = read_text(root, f"{folder}/{state}/name").text or state
                off.setdefault(name, []).append(number)
    return off
