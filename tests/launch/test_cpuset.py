"""Which CPUs a container is confined to: the measured cores, their threads, and a core apart."""

from __future__ import annotations

import pytest

from suite.bundle.schema import LaunchRequest
from suite.errors import UserError
from suite.launch import cpuset
from suite.launch.topology import Cpu, Topology


def machine(cores: int = 4, *, smt: bool = False, nodes: int = 1, allowed: tuple[int, ...] | None = None) -> Topology:
    """`cores` over `nodes`, one after the other; with `smt` the second threads are numbered after all first ones."""
    cpus: dict[int, Cpu] = {}
    for core in range(cores):
        siblings = (core, core + cores) if smt else (core,)
        node = core * nodes // cores
        cpus |= {number: Cpu(number, core, siblings, node, node) for number in siblings}
    return Topology(cpus, allowed or tuple(sorted(cpus)), tuple(range(nodes)), None)


def chosen(topology: Topology, **request: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = cpuset.choose(topology, LaunchRequest(**request))  # type: ignore[arg-type]
    assert found is not None
    return found.cpus, found.nodes


def test_nobody_drew_a_line():
    assert cpuset.choose(machine(), LaunchRequest()) is None
    assert cpuset.choose(machine(smt=True), LaunchRequest(smt=True)) is None


def test_the_measured_cores_get_a_core_beside_them():
    assert chosen(machine(), cores="0-1") == ((0, 1, 3), (0,))


def test_hardware_threads_of_measured_cores_stay_with_them_and_the_core_apart_is_whole():
    assert chosen(machine(smt=True), cores="0-1") == ((0, 1, 3, 4, 5, 7), (0,))


def test_the_core_apart_is_of_another_node_where_there_is_one():
    assert chosen(machine(8, nodes=2), cores="4-5") == ((3, 4, 5), (1,))


def test_nodes_alone_name_their_cores():
    assert chosen(machine(4, nodes=2), nodes="1") == ((1, 2, 3), (1,))


def test_without_another_core_the_reason_says_so():
    found = cpuset.choose(machine(2), LaunchRequest(cores="0-1"))
    assert found is not None
    assert found.cpus == (0, 1)
    assert "no core is left for the leading process and telemetry" in found.reason


def test_a_measured_cores_other_thread_is_no_core_apart():
    found = cpuset.choose(machine(1, smt=True), LaunchRequest(cores="0"))
    assert found is not None
    assert found.cpus == (0, 1)
    assert "no core is left" in found.reason


def test_a_process_that_is_confined_itself_hands_its_limits_on():
    assert chosen(machine(allowed=(1, 2))) == ((1, 2), (0,))


def test_nothing_outside_of_the_own_limits_is_taken():
    assert chosen(machine(4, smt=True, allowed=(0, 1, 2)), cores="0") == ((0, 2), (0,))


def test_cores_that_may_not_be_used_are_refused():
    with pytest.raises(UserError, match="CPU 3 may not be used here"):
        cpuset.choose(machine(allowed=(0, 1)), LaunchRequest(cores="3"))
