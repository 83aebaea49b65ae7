"""The readers on recorded /sys and /proc trees of real machines, which this repository does not hold.

MACHINE_TREES names a folder of <tree>.tar.bz2 (hwloc's test data) with topologies.tsv: what hwloc sees in each.
Run with `-s` to see each machine's default placement.
"""

from __future__ import annotations

import csv
import os
import re
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from suite.bundle.coverage import line
from suite.fingerprint.collect import collect
from suite.fingerprint.files import format_cpulist
from suite.fingerprint.memory import smbios
from suite.launch import topology

CORPUS = os.environ.get("MACHINE_TREES", "")
pytestmark = pytest.mark.skipif(not CORPUS, reason="MACHINE_TREES names no folder of recorded trees")

# Default placement: cores, and the nodes that memory is bound to ("" is not bound).
PLACEMENTS = {
    "16amd64-4n4c-cgroup-distance-merge": ("0-3", ""),
    "16amd64-8n2c-cpusets": ("0-1", ""),
    "16em64t-4s2c2t-offlines": ("0,4", "0"),
    "16em64t-4s2c2t": ("0,4", "0"),
    "20em64t-hybrid-1p6c2t+2ca4co1t": ("0,2,4,6,8,10", "0"),
    "32amd64-4s2n4c-cgroup2": ("0-5", "0-1"),
    "32em64t-2n8c+dax+nvme+mic+dimms": ("0-7", "0"),
    "40intel64-2g2n4c+pcilocality": ("0,4,8,12,16,20,24,28,32,36", "0"),
    "fakecpuid1f-64intel64-2p4d2n2c2t": ("0,2,4,6,8,10,12,14", "0-3"),
    "nvidia-dgx-gb10": ("5-9,15-19", "0"),
    "nvidiagpunumanodes": ("0,4,8,12", "0"),
    "offline-cpu0-node0": ("4,6,8,10,12,14,16,18,20", ""),
}
# hwloc reads version 1's cpuset.cpus (0-175) and cpuset.mems, which the job asked for. In force is what the kernel made
# of them, cpuset.effective_cpus (0-87) and effective_mems (0): of 32 online CPUs those of the first package, and its node.
EFFECTIVE_CPUSET = {"nvidiagpunumanodes": {"packages": 1, "numanodes": 1, "cores": 4, "allowed_cpus": 16}}
# Values that firmware makers leave in identifying fields and that identify nothing.
PLACEHOLDER = re.compile(
    r"|none|n/?a|unknown|not specified|default string|0+|to be filled by o\.?e\.?m\.?", re.IGNORECASE
)
SERIAL, ASSET_TAG = 0x18, 0x19  # offsets in SMBIOS type 17


def rows() -> list[dict[str, str]]:
    if not CORPUS:
        return []
    with (Path(CORPUS) / "topologies.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


TREES = [row["tree"] for row in rows()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def unpacked(name: str) -> Path:
        folder = tmp_path_factory.mktemp("tree")
        with tarfile.open(Path(CORPUS) / f"{name}.tar.bz2") as archive:
            archive.extractall(folder, filter="tar")
        (root,) = folder.iterdir()
        return root

    return unpacked


def counted(machine: topology.Topology) -> dict[str, int]:
    # hwloc also counts packages of which only the memory may be used.
    used = [cpu for cpu in machine.cpus.values() if cpu.number in machine.allowed or cpu.node in machine.nodes]
    return {
        "packages": len({cpu.package for cpu in used}),
        "numanodes": len(machine.nodes),
        "cores": len(machine.physical_cores()),
        "allowed_cpus": len(machine.allowed),
    }


def test_all_recorded_machines_are_there() -> None:
    assert sorted(TREES) == sorted(PLACEMENTS)


@pytest.mark.parametrize("row", rows(), ids=TREES)
def test_a_machine_is_counted_as_hwloc_counts_it(row: dict[str, str], tree: Callable[[str], Path]) -> None:
    machine = topology.read(tree(row["tree"]))
    assert len(machine.online) == int(row["all_cpus"])
    seen_by_hwloc = {name: int(row[name]) for name in ("packages", "numanodes", "cores", "allowed_cpus")}
    assert counted(machine) == EFFECTIVE_CPUSET.get(row["tree"], seen_by_hwloc)


@pytest.mark.parametrize("name", TREES)
def test_the_default_placement_of_a_machine(name: str, tree: Callable[[str], Path]) -> None:
    placement = topology.read(tree(name)).first_socket()
    cores, nodes = format_cpulist(placement.cores), format_cpulist(placement.nodes)
    print(f"\n{name}: cores {cores}; memory {f'on nodes {nodes}' if nodes else 'not bound'}: {placement.reason}")
    assert (cores, nodes) == PLACEMENTS[name]


@pytest.mark.parametrize("name", TREES)
def test_no_identifier_of_a_machine_is_in_its_fingerprint(name: str, tree: Callable[[str], Path]) -> None:
    root = tree(name)
    facts = collect(root)
    text = msgspec.json.encode(facts).decode()
    print(f"\n{name}: {line(facts)}")
    assert all("error" not in found for found in facts.values())
    known = identifiers(root)
    if name == "32em64t-2n8c+dax+nvme+mic+dimms":
        assert len(known) > 10  # serial numbers of its modules, UUIDs and a MAC address: the search finds something
    assert [one for one in known if one.lower() in text.lower()] == []


def identifiers(root: Path) -> set[str]:
    """Serial numbers, UUIDs, asset tags and MAC addresses that stand in a tree."""
    found = set()
    for pattern in ("*_serial", "*_uuid", "*asset_tag"):
        for folder in ("sys/class/dmi/id", "sys/devices/virtual/dmi/id"):
            found |= {_text(path) for path in (root / folder).glob(pattern)}
    for raw in root.glob("sys/firmware/dmi/entries/17-*/raw"):
        for structure in smbios.structures(raw.read_bytes()):
            found |= {structure.text(SERIAL), structure.text(ASSET_TAG)}
    for path in (root / "sys/devices").rglob("*"):
        if path.name in ("uuid", "address", "serial") and path.is_file():
            found.add(_text(path))
    found |= set(re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", _text(root / "proc/cmdline")))
    # PCI addresses and the like are too short to identify anything.
    return {text for text in found if len(text) >= 8 and not PLACEHOLDER.fullmatch(text)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""
