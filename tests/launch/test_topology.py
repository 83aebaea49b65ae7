from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.launch import topology
from tests.fingerprint.trees import cpu_files, write_tree

# Two sockets of two cores with two threads; siblings are numbered as Linux does on most x86 servers.
TWO_SOCKETS = cpu_files({0: [[0, 4], [1, 5]], 1: [[2, 6], [3, 7]]}, {0: "0-1,4-5", 1: "2-3,6-7"})
CPU = "/sys/devices/system/cpu"


def test_physical_cores_are_the_lowest_sibling_of_each_core(tmp_path: Path) -> None:
    machine = topology.read(write_tree(tmp_path, TWO_SOCKETS))
    assert machine.physical_cores() == [0, 1, 2, 3]
    assert machine.cpus[5].siblings == (1, 5)
    assert machine.cpus[6].package == 1
    assert machine.cpus[6].node == 1


def test_first_socket_takes_its_cores_and_their_node(tmp_path: Path) -> None:
    placement = topology.read(write_tree(tmp_path, TWO_SOCKETS)).first_socket()
    assert (placement.cores, placement.nodes) == ((0, 1), (0,))
    assert "socket 0" in placement.reason


def test_a_cpuset_on_the_second_node_moves_the_placement_there(tmp_path: Path) -> None:
    machine = topology.read(write_tree(tmp_path, TWO_SOCKETS), allowed={2, 3, 6, 7})
    placement = machine.first_socket()
    assert (placement.cores, placement.nodes) == ((2, 3), (1,))
    assert "socket 1" in placement.reason


def test_the_lowest_allowed_sibling_stands_for_its_core(tmp_path: Path) -> None:
    assert topology.read(write_tree(tmp_path, TWO_SOCKETS), allowed={4, 1, 5}).physical_cores() == [1, 4]


def test_a_recorded_tree_gives_its_own_allowed_cpus_and_nodes(tmp_path: Path) -> None:
    status = {"/proc/self/status": "Name:\tx\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t1"}
    machine = topology.read(write_tree(tmp_path, TWO_SOCKETS | status))
    assert (machine.allowed, machine.nodes) == ((2, 3), (1,))


def test_memory_is_not_bound_to_a_node_that_the_process_may_not_use(tmp_path: Path) -> None:
    status = {"/proc/self/status": "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t1"}
    placement = topology.read(write_tree(tmp_path, TWO_SOCKETS | status)).first_socket()
    assert placement.nodes == ()
    assert "memory is not bound" in placement.reason


def test_memory_is_not_bound_to_some_of_the_cores_nodes(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1]]}, {0: "0", 1: "1"}) | {"/proc/self/status": "Mems_allowed_list:\t0"}
    assert topology.read(write_tree(tmp_path, files)).first_socket().nodes == ()


def test_a_node_without_ordinary_memory_is_no_node(tmp_path: Path) -> None:
    gpu = {"/sys/devices/system/node/node8/cpulist": "", "/sys/devices/system/node/has_normal_memory": "0-1"}
    assert topology.read(write_tree(tmp_path, TWO_SOCKETS | gpu)).nodes == (0, 1)


def test_offline_cpus_are_left_out_of_cores_and_siblings(tmp_path: Path) -> None:
    machine = topology.read(write_tree(tmp_path, TWO_SOCKETS | {f"{CPU}/online": "1-5"}))
    assert machine.online == (1, 2, 3, 4, 5)
    assert machine.cpus[4].siblings == (4,)
    assert machine.physical_cores() == [1, 2, 3, 4]


def test_without_a_list_of_online_cpus_the_described_ones_count(tmp_path: Path) -> None:
    files = {path: text for path, text in TWO_SOCKETS.items() if path != f"{CPU}/online"}
    machine = topology.read(write_tree(tmp_path, files | {f"{CPU}/cpu8/online": "0", f"{CPU}/cpu3/online": "0"}))
    assert machine.online == (0, 1, 2, 4, 5, 6, 7)


def test_sibling_masks_of_old_kernels_are_read(tmp_path: Path) -> None:
    folder = f"{CPU}/cpu9/topology"
    files = {f"{CPU}/online": "1,9", f"{folder}/thread_siblings": "00000000,00000202"}
    assert topology.read(write_tree(tmp_path, files)).cpus[9].siblings == (1, 9)


def test_a_machine_without_topology_files_has_one_core_a_cpu(tmp_path: Path) -> None:
    machine = topology.read(write_tree(tmp_path, {f"{CPU}/online": "0-1"}))
    placement = machine.first_socket()
    assert (placement.cores, placement.nodes) == ((0, 1), ())
    assert "does not name sockets" in placement.reason


def test_an_unknown_package_id_is_not_a_socket(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0", f"{CPU}/cpu0/topology/physical_package_id": "-1"}
    assert topology.read(write_tree(tmp_path, files)).cpus[0].package is None


def test_an_empty_tree_still_has_one_cpu(tmp_path: Path) -> None:
    machine = topology.read(tmp_path)
    assert machine.physical_cores() == [0]
    assert machine.notes


def test_one_cpu_is_placed(tmp_path: Path) -> None:
    placement = topology.read(write_tree(tmp_path, cpu_files({0: [[0]]}, {0: "0"}))).first_socket()
    assert (placement.cores, placement.nodes) == ((0,), (0,))


def test_allowed_cpus_that_are_all_offline_are_noted(tmp_path: Path) -> None:
    machine = topology.read(write_tree(tmp_path, TWO_SOCKETS), allowed={64})
    assert machine.allowed == tuple(range(8))
    assert "none of the allowed CPUs 64 is online" in machine.notes[0]


@pytest.mark.parametrize(
    "kinds",
    [
        {"/sys/devices/cpu_core/cpus": "0-3", "/sys/devices/cpu_atom/cpus": "4-5"},
        {f"{CPU}/cpu{n}/cpu_capacity": "1024" if n < 4 else "718" for n in range(6)},
        {f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": "5000000" if n < 4 else "3900000" for n in range(6)},
    ],
    ids=["named by Intel's PMU", "by capacity", "by clock"],
)
def test_a_hybrid_part_is_placed_on_its_performance_cores(tmp_path: Path, kinds: dict[str, str]) -> None:
    files = cpu_files({0: [[0, 1], [2, 3], [4], [5]]}, {0: "0-5"})
    machine = topology.read(write_tree(tmp_path, files | kinds))
    assert machine.hybrid
    assert machine.first_socket().cores == (0, 2)
    assert "2 efficiency cores" in machine.first_socket().reason


def test_favoured_cores_do_not_make_a_hybrid_part(tmp_path: Path) -> None:
    clocks = {f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": "5100000" if n else "4800000" for n in range(2)}
    assert not topology.read(write_tree(tmp_path, cpu_files({0: [[0], [1]]}) | clocks)).hybrid


def test_the_quota_is_in_cpus(tmp_path: Path) -> None:
    files = {
        "/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        "/proc/self/cgroup": "0::/",
        "/sys/fs/cgroup/cpu.max": "150000 100000",
    }
    assert topology.read(write_tree(tmp_path, TWO_SOCKETS | files)).quota_cpus == 1.5


def test_this_machine_is_read() -> None:
    machine = topology.read()
    assert set(machine.allowed) == os.sched_getaffinity(0) & set(machine.online)
    assert machine.first_socket().cores
