"""The machine's topology from sysfs: which CPUs the process may use, their cores, sockets and NUMA nodes.

Source: Linux, Documentation/admin-guide/cputopology.rst and Documentation/ABI/stable/sysfs-devices-node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from suite.fingerprint.container import cgroup
from suite.fingerprint.files import format_cpulist, list_names, parse_cpulist, parse_cpumask, parse_fields, read_text

CPU_FOLDER = "/sys/devices/system/cpu"
NODE_FOLDER = "/sys/devices/system/node"
# Below this share of the largest cpu_capacity (else maximum clock) a core is of another kind: favoured cores of one
# kind differ by a few per cent, efficiency cores are at 0.78 or less (hwloc's recorded Arm and Intel hybrid trees).
PERFORMANCE_CAPACITY_SHARE = 0.8

CoreKind = Literal["performance", "efficiency", "unknown"]


@dataclass(frozen=True)
class Cpu:
    """One online CPU. `core` is the lowest CPU number of its core, `siblings` the core's online CPUs, itself included.

    `package` and `node` are None where sysfs does not say.
    """

    number: int
    core: int
    siblings: tuple[int, ...]
    package: int | None
    node: int | None
    kind: CoreKind = "unknown"


@dataclass(frozen=True)
class Placement:
    """Where a worker is to run: CPU numbers, NUMA node numbers (empty: do not bind memory), and why these."""

    cores: tuple[int, ...]
    nodes: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Topology:
    """What sysfs says. `nodes` are the NUMA nodes whose memory the process may use; `quota_cpus` is in CPUs."""

    cpus: dict[int, Cpu]
    allowed: tuple[int, ...]
    nodes: tuple[int, ...]
    quota_cpus: float | None
    notes: tuple[str, ...] = field(default=())

    @property
    def online(self) -> tuple[int, ...]:
        """Numbers of the online CPUs."""
        return tuple(sorted(self.cpus))

    @property
    def hybrid(self) -> bool:
        """Whether the allowed CPUs are of more than one kind of core."""
        return len({self.cpus[number].kind for number in self.allowed}) > 1

    def physical_cores(self) -> list[int]:
        """One CPU per core among the allowed ones, the lowest-numbered sibling, sorted."""
        lowest: dict[int, int] = {}
        for number in sorted(self.allowed):
            lowest.setdefault(self.cpus[number].core, number)
        return sorted(lowest.values())

    def first_socket(self, near: int | None = None) -> Placement:
        """The default placement: physical cores of the socket that holds the lowest-numbered allowed CPU.

        Of the NUMA node `near`, where an allowed CPU is on it: a device is handed its work from its own socket.
        On a hybrid part only its performance cores are taken, since OpenMP's static schedule gives every thread equal
        work. Nodes are those of the cores, as far as the process may use their memory.
        """
        cores = [self.cpus[number] for number in self.physical_cores()]
        beside = [cpu for cpu in cores if near is not None and cpu.node == near]
        package = (beside or cores)[0].package
        if package is None:
            reason = "sysfs does not name sockets, so all allowed physical cores are taken"
        else:
            # A CPU without a package beside CPUs that have one is taken too rather than silently lost.
            cores = [cpu for cpu in cores if cpu.package in (package, None)]
            why = f"on whose node {near} the measured device is" if beside else "the first among the allowed CPUs"
            reason = f"physical cores of socket {package}, {why}"
        if len({cpu.kind for cpu in cores}) > 1:
            fastest = [cpu for cpu in cores if cpu.kind == "performance"]
            reason += f"; {len(cores) - len(fastest)} efficiency cores of this hybrid part are left out"
            cores = fastest
        numbers = tuple(cpu.number for cpu in cores)
        nodes = {cpu.node for cpu in cores}
        usable = tuple(sorted(node for node in nodes if node is not None and node in self.nodes))
        if not usable:
            reason += "; memory is not bound, since no usable NUMA node is known for these cores"
        elif len(usable) < len(nodes):
            # Binding to fewer nodes than the cores have would make some cores' memory remote by our own doing.
            usable = ()
            reason += "; memory is not bound, since the process may not use the memory of all of these cores' nodes"
        return Placement(numbers, usable, reason)


def read(root: Path = Path("/"), allowed: set[int] | None = None) -> Topology:
    """Read the topology below `root`; never raises.

    `allowed` overrides the process's own CPU set, which otherwise is `os.sched_getaffinity` on the live machine, and in
    a recorded tree what /proc/self/status, else the cpuset, says.
    """
    notes: list[str] = []
    online = _online(root, notes)
    kinds = _kinds(root, online)
    node_of = _node_of_cpus(root)
    cpus = {number: _cpu(root, number, set(online), node_of.get(number), kinds) for number in online}
    permitted = allowed if allowed is not None else _allowed(root, online)
    usable = sorted(permitted & cpus.keys())
    if not usable:
        notes.append(f"none of the allowed CPUs {format_cpulist(permitted)} is online; all online CPUs are assumed")
        usable = sorted(cpus)
    return Topology(cpus, tuple(usable), tuple(_nodes(root)), cgroup.cpu_quota(root).value, tuple(notes))


def _numbers(root: Path, path: str, parse: Callable[[str], list[int]] = parse_cpulist) -> list[int] | None:
    text = read_text(root, path).text
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def _integer(root: Path, path: str) -> int | None:
    text = read_text(root, path).text or ""
    return int(text) if re.fullmatch(r"\d+", text) else None  # -1 is the kernel's "not known"


def _online(root: Path, notes: list[str]) -> list[int]:
    listed = _numbers(root, f"{CPU_FOLDER}/online")
    folders = [int(name[3:]) for name in list_names(root, CPU_FOLDER, r"cpu\d+")]
    if listed:
        return listed
    # Kernels before 2.6.26 have no such list: an offline CPU then has `online` at 0 and no topology.
    present = [n for n in folders if _integer(root, f"{CPU_FOLDER}/cpu{n}/online") != 0]
    described = [n for n in present if list_names(root, f"{CPU_FOLDER}/cpu{n}/topology")]
    if described or present:
        return described or present
    processors = re.findall(r"^processor\s*:\s*(\d+)", read_text(root, "/proc/cpuinfo").text or "", re.MULTILINE)
    if processors:
        return sorted({int(number) for number in processors})
    notes.append("sysfs and /proc/cpuinfo name no CPU; the scheduler's own count is used")
    return list(range(os.cpu_count() or 1)) if root == Path("/") else [0]


def _allowed(root: Path, online: list[int]) -> set[int]:
    if root == Path("/") and hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    status = parse_fields(read_text(root, "/proc/self/status").text or "").get("Cpus_allowed_list", "")
    try:
        numbers: list[int] | None = parse_cpulist(status)
    except ValueError:
        numbers = None
    return set(numbers or cgroup.cpuset(root, "cpus")[0] or online)


def _cpu(root: Path, number: int, online: set[int], node: int | None, kinds: dict[int, CoreKind]) -> Cpu:
    folder = f"{CPU_FOLDER}/cpu{number}/topology"
    siblings = (
        _numbers(root, f"{folder}/core_cpus_list")
        or _numbers(root, f"{folder}/thread_siblings_list")
        or _numbers(root, f"{folder}/core_cpus", parse_cpumask)
        or _numbers(root, f"{folder}/thread_siblings", parse_cpumask)
        or [number]
    )
    together = tuple(sorted({*siblings, number} & online))
    package = _integer(root, f"{folder}/physical_package_id")
    return Cpu(number, together[0], together, package, node, kinds.get(number, "unknown"))


def _node_of_cpus(root: Path) -> dict[int, int]:
    nodes: dict[int, int] = {}
    for name in list_names(root, NODE_FOLDER, r"node\d+"):
        folder = f"{NODE_FOLDER}/{name}"
        linked = [int(link[3:]) for link in list_names(root, folder, r"cpu\d+")]
        cpus = _numbers(root, f"{folder}/cpulist") or _numbers(root, f"{folder}/cpumap", parse_cpumask) or linked
        nodes.update({number: int(name[4:]) for number in cpus})
    return nodes


def _nodes(root: Path) -> list[int]:
    """NUMA nodes with ordinary memory (a GPU's or other device's memory node is not) that the process may use."""
    folders = [int(name[4:]) for name in list_names(root, NODE_FOLDER, r"node\d+")]
    ordinary = _numbers(root, f"{NODE_FOLDER}/has_normal_memory") or _numbers(root, f"{NODE_FOLDER}/has_memory")
    status = parse_fields(read_text(root, "/proc/self/status").text or "").get("Mems_allowed_list", "")
    try:
        permitted: list[int] | None = parse_cpulist(status)
    except ValueError:
        permitted = None
    permitted = permitted or cgroup.cpuset(root, "mems")[0]
    nodes = [node for node in folders if ordinary is None or node in ordinary]
    return [node for node in nodes if permitted is None or node in permitted]


def _kinds(root: Path, online: list[int]) -> dict[int, CoreKind]:
    """Kinds of cores: Intel's hybrid PMU devices name them; elsewhere cpu_capacity tells them apart."""
    performance = _numbers(root, "/sys/devices/cpu_core/cpus")
    efficiency = _numbers(root, "/sys/devices/cpu_atom/cpus")
    if performance and efficiency:
        named: dict[int, CoreKind] = dict.fromkeys(performance, "performance")
        return named | dict.fromkeys(efficiency, "efficiency")
    # A maximum clock is the last resort: it tells the kinds of a hybrid part apart on kernels that do not name them.
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        read_values = {n: _integer(root, f"{CPU_FOLDER}/cpu{n}/{name}") for n in online}
        known = {number: value for number, value in read_values.items() if value}
        if known and len(known) == len(online):
            floor = PERFORMANCE_CAPACITY_SHARE * max(known.values())
            kinds: dict[int, CoreKind] = {n: "performance" if v >= floor else "efficiency" for n, v in known.items()}
            return kinds if len(set(kinds.values())) > 1 else {}
    return {}
