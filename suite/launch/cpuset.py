"""Which CPUs and NUMA nodes a container is confined to from outside, and when it is left to the launcher inside.

Inside, the launcher pins workers by itself (numactl) and moves its own process and telemetry off the measured cores. A cpuset that held
the measured cores alone would push those back onto them. So it is given when somebody drew a line (CORES, NODES, or a process that
is confined itself, which an engine's daemon would not know of), and then holds the measured cores, their hardware threads and one
core more.
"""

from __future__ import annotations

from dataclasses import dataclass

from suite.bundle.schema import LaunchRequest
from suite.launch import placement as placements
from suite.launch.topology import Placement, Topology


@dataclass(frozen=True)
class Cpuset:
    """CPU and NUMA node numbers (no nodes: memory is not confined), and why these."""

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    reason: str


def choose(topology: Topology, request: LaunchRequest) -> Cpuset | None:
    """The cpuset for a run with this request; None when nobody drew a line.

    Raises:
        UserError: cores or nodes that this process may not use.
    """
    if request.cores or request.nodes:
        return _around(topology, placements.choose(topology, request))
    if set(topology.allowed) < set(topology.online):
        return Cpuset(topology.allowed, topology.nodes, "the CPUs that whoever starts the run may use")
    return None


def _around(topology: Topology, placement: Placement) -> Cpuset:
    """The measured cores with all of their hardware threads, which stay idle, and a core for whoever leads and samples."""
    measured = _threads(topology, placement.cores)
    apart = _core_apart(topology, measured, set(placement.nodes))
    reason = placement.reason
    if apart:
        reason += "; one core more for the leading process and telemetry"
    else:
        reason += "; no core is left for the leading process and telemetry"
    return Cpuset(tuple(sorted(measured | apart)), placement.nodes, reason)


def _core_apart(topology: Topology, measured: set[int], nodes: set[int]) -> set[int]:
    """All allowed threads of a core that is not measured: of another node where there is one, the last such core."""
    others = sorted(set(topology.allowed) - measured)
    if not others:
        return set()
    chosen = max(others, key=lambda number: (topology.cpus[number].node not in nodes, topology.cpus[number].core))
    return _threads(topology, (chosen,))


def _threads(topology: Topology, cores: tuple[int, ...]) -> set[int]:
    siblings = {sibling for number in cores for sibling in topology.cpus[number].siblings}
    return (siblings | set(cores)) & set(topology.allowed)
