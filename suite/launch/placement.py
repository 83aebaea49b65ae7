"""Which CPUs and NUMA nodes a worker is given: the default placement, or what the user asked for, checked against the machine."""

from __future__ import annotations

from collections.abc import Iterable

from suite.bundle.schema import LaunchRequest
from suite.errors import UserError
from suite.fingerprint.files import format_cpulist, parse_cpulist
from suite.launch.topology import Placement, Topology


def choose(topology: Topology, request: LaunchRequest, near: int | None = None) -> Placement:
    """The placement for `request`: its cores as named, else the physical cores of its nodes, else those of the first socket.

    The first socket is the one with node `near`, where that is given.

    `smt` takes all allowed hardware threads of the chosen cores. CPUs that the user named are taken as they are.

    Raises:
        UserError: a list that is none, or CPUs and nodes that this process may not use, each named.
    """
    nodes = _nodes(topology, request.nodes)
    if request.cores:
        cores = _cores(topology, request.cores)
        chosen = Placement(cores, _memory(topology, cores) if nodes is None else nodes, "the cores that were asked for")
    elif nodes is not None:
        cores = tuple(number for number in topology.physical_cores() if topology.cpus[number].node in nodes)
        if not cores:
            raise UserError(
                f"nodes {request.nodes}: no CPU of these nodes may be used; the allowed CPUs {format_cpulist(topology.allowed)} "
                f"lie on node {format_cpulist(_memory(topology, topology.allowed)) or 'unknown'}: name that one, or cores beside the nodes."
            )
        chosen = Placement(cores, nodes, f"physical cores of node {format_cpulist(nodes)}, as asked for")
    else:
        chosen = topology.first_socket(near)
    if not request.smt or request.cores:
        return chosen
    threads = {number for core in chosen.cores for number in topology.cpus[core].siblings} & set(topology.allowed)
    return Placement(tuple(sorted(threads)), chosen.nodes, f"all hardware threads of the {chosen.reason}")


def _parse(what: str, text: str) -> list[int]:
    try:
        numbers = parse_cpulist(text)
    except ValueError:
        numbers = []
    if not numbers:
        raise UserError(f"{what} '{text}' is not a list such as 0-3 or 0,2,4.")
    return numbers


def _cores(topology: Topology, text: str) -> tuple[int, ...]:
    numbers = _parse("cores", text)
    if refused := [number for number in numbers if number not in topology.allowed]:
        raise UserError(
            f"cores {text}: CPU {format_cpulist(refused)} may not be used here; the allowed CPUs are {format_cpulist(topology.allowed)}."
        )
    return tuple(numbers)


def _nodes(topology: Topology, text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    numbers = _parse("nodes", text)
    if refused := [number for number in numbers if number not in topology.nodes]:
        usable = format_cpulist(topology.nodes)
        raise UserError(
            f"nodes {text}: the memory of node {format_cpulist(refused)} may not be used here; "
            f"{f'the usable nodes are {usable}' if usable else 'this machine names no usable node'}."
        )
    return tuple(numbers)


def _memory(topology: Topology, cores: Iterable[int]) -> tuple[int, ...]:
    """The usable nodes of these CPUs; none when one of them lies on a node that may not be used, or on no known one."""
    nodes = {topology.cpus[number].node for number in cores}
    usable = {node for node in nodes if node is not None and node in topology.nodes}
    return tuple(sorted(usable)) if usable == nodes else ()
