"""Workers beside the device that they measure on: the NUMA node of its PCI slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.bundle.schema import LaunchRequest
from suite.launch import topology
from suite.launch.command import Launch, plan
from suite.launch.libraries import Libraries, find
from suite.launch.near_device import far_from, node_of
from tests.fingerprint.trees import write_tree
from tests.launch.test_topology import TWO_SOCKETS

SLOT = "/sys/bus/pci/devices/0000:4a:00.0/numa_node"


def no_libraries() -> Libraries:
    return find({})


def planned(root: Path, near: int | None, **request: str) -> tuple[Launch, topology.Topology]:
    here = topology.read(write_tree(root, TWO_SOCKETS))
    asked = LaunchRequest(**request)  # type: ignore[arg-type]
    found = plan(
        here, no_libraries(), {}, asked, which=lambda name: f"/bin/{name}", probe=lambda command: (0, ""), near=near
    )
    return found, here


@pytest.mark.parametrize(
    ("text", "bus_id", "node"),
    [
        ("1\n", "00000000:4A:00.0", 1),
        ("1\n", "0000:4a:00.0", 1),
        ("-1\n", "00000000:4a:00.0", None),
        ("1\n", "00000000:4b:00.0", None),
        ("1\n", "", None),
        ("1\n", "../../etc", None),
    ],
)
def test_the_node_is_the_pci_slots_as_sysfs_says(tmp_path: Path, text: str, bus_id: str, node: int | None) -> None:
    assert node_of(bus_id, write_tree(tmp_path, {SLOT: text})) == node


def test_the_default_placement_is_on_the_devices_socket(tmp_path: Path) -> None:
    launch, here = planned(tmp_path, 1)
    assert launch.cpus == [2, 3]
    assert any("on whose node 1 the measured device is" in note for note in launch.notes)
    assert far_from(1, launch, here) == []


def test_without_a_device_it_is_the_first_socket(tmp_path: Path) -> None:
    assert planned(tmp_path, None)[0].cpus == [0, 1]


def test_cores_that_were_asked_for_are_kept_and_their_distance_is_found(tmp_path: Path) -> None:
    launch, here = planned(tmp_path, 1, cores="0-1")
    assert launch.cpus == [0, 1]
    (finding,) = far_from(1, launch, here)
    assert (finding.rule, finding.severity) == ("launch.far-from-device", "doubtful")
    assert "Workers run on NUMA node 0, and the measured device is on node 1" in finding.claim
    assert far_from(0, launch, here) == [] and far_from(None, launch, here) == []


def test_a_node_of_which_no_cpu_may_be_used_leaves_the_placement_as_it_is_and_is_found(tmp_path: Path) -> None:
    here = topology.read(write_tree(tmp_path, TWO_SOCKETS), allowed={0, 1, 4, 5})
    assert here.first_socket(1).cores == (0, 1)


def test_workers_that_nothing_keeps_are_not_called_far(tmp_path: Path) -> None:
    launch, here = planned(tmp_path, 1, settings="untuned")
    assert launch.cpus == [] and far_from(1, launch, here) == []
