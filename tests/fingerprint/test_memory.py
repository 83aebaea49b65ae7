from __future__ import annotations

from pathlib import Path

from suite.fingerprint.memory import sizes as memory
from tests.fingerprint.trees import write_tree

NODES = "/sys/devices/system/node"
THP = "/sys/kernel/mm/transparent_hugepage"


def test_swap_areas_are_told_without_their_names() -> None:
    text = (
        "Filename\tType\tSize\tUsed\tPriority\n/dev/mapper/lab7-swap partition 2048 1024 -2\n"
        "/my\\040file file 8 0 -3\n/dev/zram0 partition 4 0 100"
    )
    areas = memory.parse_swaps(text)
    assert areas[0] == {"kind": "partition", "size_bytes": 2 << 20, "used_bytes": 1 << 20}
    assert [area["kind"] for area in areas] == ["partition", "file", "zram"]
    assert "lab7" not in str(areas)


def test_huge_page_pools_are_told_by_size_and_node(tmp_path: Path) -> None:
    pool = "/sys/kernel/mm/hugepages/hugepages-1048576kB"
    node = f"{NODES}/node1/hugepages/hugepages-1048576kB"
    files = {f"{pool}/nr_hugepages": "4", f"{pool}/free_hugepages": "1"}
    files |= {f"{node}/nr_hugepages": "4", f"{node}/free_hugepages": "1"}
    facts = memory.read(write_tree(tmp_path, files))
    assert facts["huge_page_pools"].value == {"1048576": {"pages": 4, "free": 1}}
    assert facts["huge_page_pools_by_node"].value == {"1": {"1048576": 4}}


def test_transparent_pages_have_a_policy_for_each_size(tmp_path: Path) -> None:
    files = {f"{THP}/hugepages-{size}kB/enabled": "always [inherit] madvise never" for size in (64, 2048)}
    files |= {f"{THP}/hugepages-16kB/enabled": "always inherit madvise [never]"}
    facts = memory.read(write_tree(tmp_path, files | {f"{THP}/khugepaged/pages_to_scan": "4096"}))
    assert facts["transparent_huge_pages_by_size"].value == {"never": [16], "inherit": [64, 2048]}
    assert facts["transparent_huge_pages_daemon"].value == {"pages_to_scan": 4096}


def test_the_firmwares_figures_of_a_node_are_told(tmp_path: Path) -> None:
    folder = f"{NODES}/node2/access0/initiators"
    files = {f"{folder}/read_bandwidth": "38400", f"{folder}/read_latency": "230", f"{folder}/write_latency": "0"}
    files |= {f"{NODES}/has_normal_memory": "0", f"{NODES}/node0/distance": "10 20", f"{NODES}/node2/distance": "20 10"}
    facts = memory.read(write_tree(tmp_path, files))
    assert facts["node_performance"].value == {"2": {"read_bandwidth": 38400, "read_latency": 230}}
    assert facts["nodes_without_memory"].value == [2]
    assert facts["node_distances"].value == {"0": [10, 20], "2": [20, 10]}


def test_other_memory_is_told_without_its_uuids(tmp_path: Path) -> None:
    dax = "/sys/bus/dax/devices/dax0.0"
    files = {f"{dax}/size": "1024", f"{dax}/target_node": "4", f"{dax}/uuid": "18e645be-29c9-445c-9958-2a641ab0cd99"}
    files |= {"/sys/bus/cxl/devices/mem0/ram/size": "0x40000000", "/sys/bus/cxl/devices/mem0/numa_node": "-1"}
    files |= {"/sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0-1"}
    facts = memory.read(write_tree(tmp_path, files))
    assert facts["dax_devices"].value == [{"size_bytes": 1024, "target_node": 4}]
    assert facts["cxl_memory_devices"].value == [{"size_bytes": 1 << 30, "node": -1}]
    assert facts["memory_tiers"].value == {"memory_tier4": "0-1"}
    assert "18e645be" not in str(facts)
