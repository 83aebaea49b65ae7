"""Whether workers run near the measured device: on the NUMA node that its PCI slot belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from suite.bundle.schema import Finding
from suite.fingerprint.files import format_cpulist
from suite.launch.command import Launch
from suite.launch.topology import Topology

BUS_ID = re.compile(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])")
"""NVIDIA writes PCI domains with eight digits, Linux with four."""


def node_of(bus_id: str, root: Path = Path("/")) -> int | None:
    """The NUMA node of a device's PCI slot, as sysfs says; None where it names none."""
    place = BUS_ID.fullmatch(bus_id.lower())
    if place is None:
        return None
    try:
        node = int((root / "sys/bus/pci/devices" / place[1] / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def far_from(node: int | None, launch: Launch, topology: Topology) -> list[Finding]:
    """launch.far-from-device: workers are kept on CPUs of other NUMA nodes than the device's, which lengthens each launch of a kernel."""
    known = {topology.cpus[number].node for number in launch.cpus if number in topology.cpus} - {None}
    if node is None or not known or node in known:
        return []
    return [
        Finding(
            rule="launch.far-from-device",
            severity="doubtful",
            claim=f"Workers run on NUMA node {format_cpulist(sorted(number for number in known if number is not None))}, and the measured "
            f"device is on node {node}.",
            evidence=[f"numa_node of its PCI slot in sysfs: {node}; the workers' CPUs: {format_cpulist(launch.cpus)}"],
            advice=f"NODES={node} puts them on its node, if CPUs of it may be used; handing work over takes longer from another.",
        )
    ]
