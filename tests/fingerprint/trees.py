"""Small /proc and /sys trees for tests, written as {path: text}."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", encoding="utf-8")
    return root


def cpu_files(
    cores: Mapping[int, list[list[int]]],
    nodes: Mapping[int, str] | None = None,
) -> dict[str, str]:
    """Topology of a machine: `cores[package]` lists the CPUs of each core; `nodes` the CPU list of each NUMA node."""
    files = {}
    numbers = []
    for package, lists in cores.items():
        for core_id, cpus in enumerate(lists):
            for cpu in cpus:
                numbers.append(cpu)
                folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
                files[f"{folder}/physical_package_id"] = str(package)
                files[f"{folder}/core_id"] = str(core_id)
                files[f"{folder}/thread_siblings_list"] = ",".join(map(str, cpus))
    files["/sys/devices/system/cpu/online"] = ",".join(map(str, sorted(numbers)))
    for node, cpulist in (nodes or {}).items():
        files[f"/sys/devices/system/node/node{node}/cpulist"] = cpulist
        files[f"/sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal:  1024 kB"
    return files
