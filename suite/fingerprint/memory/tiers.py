"""Kinds of memory besides ordinary DRAM: tiers, CXL, device-dax, and what the firmware says of each node's speed.

Source: Linux, Documentation/admin-guide/mm/numaperf.rst; Documentation/ABI/testing/sysfs-bus-cxl, sysfs-bus-dax.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, call, from_file, missing
from suite.fingerprint.files import list_names, parse_cpulist, read_text

NODES = "/sys/devices/system/node"
TIERS = "/sys/devices/virtual/memory_tiering"
CXL = "/sys/bus/cxl/devices"
DAX = "/sys/bus/dax/devices"


def read(root: Path) -> Facts:
    """Facts of memory tiers. Bandwidths in MB/s, latencies in ns, sizes in bytes. Never raises."""
    return {
        "memory_tiers": _listed(root, TIERS, _tiers, "the kernel has no memory tiers"),
        "tier_demotion": from_file(root, "/sys/kernel/mm/numa/demotion_enabled", lambda text: text in ("1", "true")),
        "node_performance": _listed(root, NODES, _performance, "the firmware describes none (ACPI HMAT)"),
        "nodes_without_memory": _listed(root, NODES, _without_memory, "the kernel describes no NUMA node"),
        "cxl_memory_devices": _listed(root, CXL, _cxl, "no CXL bus"),
        "dax_devices": _listed(root, DAX, _dax, "no device-dax"),
    }


def _listed(root: Path, folder: str, gather: Callable[[Path], object], none: str) -> Fact:
    fact = call(folder, lambda: gather(root), none)
    return missing(root, folder, fact.note) if fact.value is None else fact


def _tiers(root: Path) -> dict[str, str] | None:
    names = list_names(root, TIERS, r"memory_tier\d+")
    return {name: read_text(root, f"{TIERS}/{name}/nodelist").text or "" for name in names} or None


def _performance(root: Path) -> dict[str, dict[str, int]] | None:
    """As the best-placed CPUs (access class 0) see each node."""
    found = {}
    for name in list_names(root, NODES, r"node\d+"):
        folder = f"{NODES}/{name}/access0/initiators"
        texts = {
            f"{kind}_{what}": read_text(root, f"{folder}/{kind}_{what}").text or ""
            for kind in ("read", "write")
            for what in ("bandwidth", "latency")
        }
        values = {key: int(text) for key, text in texts.items() if text.isdigit() and int(text)}
        if values:
            found[name[4:]] = values
    return found or None


def _without_memory(root: Path) -> list[int] | None:
    """Nodes that have CPUs or devices but no ordinary memory (those of GPUs among them)."""
    names = [int(name[4:]) for name in list_names(root, NODES, r"node\d+")]
    text = read_text(root, f"{NODES}/has_normal_memory").text or read_text(root, f"{NODES}/has_memory").text
    return None if text is None or not names else [node for node in names if node not in parse_cpulist(text)]


def _cxl(root: Path) -> list[dict[str, int]] | None:
    if not list_names(root, "/sys/bus/cxl"):
        return None
    devices = []
    for name in list_names(root, CXL, r"mem\d+"):
        size = read_text(root, f"{CXL}/{name}/ram/size").text or ""
        node = read_text(root, f"{CXL}/{name}/numa_node").text or ""
        devices.append({"size_bytes": int(size, 0) if size else 0, "node": int(node) if node else -1})
    return devices


def _dax(root: Path) -> list[dict[str, int]] | None:
    """Sizes and nodes only: the folders beside them hold UUIDs."""
    devices = []
    for name in list_names(root, DAX, r"dax\d+\.\d+"):
        size = read_text(root, f"{DAX}/{name}/size").text or ""
        node = read_text(root, f"{DAX}/{name}/target_node").text or ""
        if size.isdigit():
            devices.append({"size_bytes": int(size), "target_node": int(node) if node.lstrip("-").isdigit() else -1})
    return devices or None
