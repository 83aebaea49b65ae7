from __future__ import annotations

from pathlib import Path

from suite.fingerprint.effective import placement
from tests.fingerprint.trees import write_tree

# Recorded in a worker on a machine with two nodes (addresses and files shortened), and a line of hugetlbfs as numa(7) has it.
NUMA_MAPS = """\
55d000000000 bind:0 file=/usr/bin/python3.11 mapped=310 N0=60 N1=250 kernelpagesize_kB=4
55d001c00000 bind:0 heap anon=5120 dirty=5120 active=0 N0=5120 kernelpagesize_kB=4
7f0000000000 bind:0 anon=26214 dirty=26214 active=0 N0=26000 N1=214 kernelpagesize_kB=4
7f1000000000 bind:0 file=/anon_hugepage\\040(deleted) huge anon=4 dirty=4 N1=4 kernelpagesize_kB=2048
7f2000000000 bind:0 file=/dev/shm/x mapped=2 N1=2 kernelpagesize_kB=4
7f3000000000 bind:0 file=/usr/lib/libc.so.6
7ffc85daf000 bind:0 stack anon=12 dirty=12 N0=12 kernelpagesize_kB=4
"""


def test_memory_is_summed_by_node_and_pages_of_files_apart() -> None:
    memory = placement.parse_numa_maps(NUMA_MAPS.splitlines())
    assert memory.policy == "bind:0"
    assert memory.private_bytes == {"0": (5120 + 26000 + 12) * 4096, "1": (214 + 2) * 4096 + 4 * (2 << 20)}
    assert memory.file_bytes == {"0": 60 * 4096, "1": 250 * 4096}
    assert memory.reason == ""


def test_a_numa_maps_without_nodes_says_so() -> None:
    memory = placement.parse_numa_maps(["55d0 default file=/usr/bin/python3.11"])
    assert (memory.policy, memory.private_bytes) == ("default", {})
    assert "names no node" in memory.reason


def test_a_missing_numa_maps_is_a_reason(tmp_path: Path) -> None:
    assert placement.memory(tmp_path).reason == "/proc/self/numa_maps: no such file or directory"


def test_only_the_policy_of_an_enormous_process_is_read(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/self/numa_maps": NUMA_MAPS})
    memory = placement.memory(root, resident_bytes=2 << 40)
    assert (memory.policy, memory.private_bytes) == ("bind:0", {})
    assert "2048 GiB" in memory.reason


def test_this_processs_memory_adds_up() -> None:
    memory = placement.memory(Path("/"))
    assert memory.reason or sum(memory.private_bytes.values()) > 1 << 20


def test_threads_are_counted_by_name_and_by_the_cpus_that_they_may_use(tmp_path: Path) -> None:
    threads = {
        10: ("python", "0-1"),
        11: ("openmp_worker", "1"),
        12: ("openmp_worker", "0-1"),
        13: ("jemalloc_bg_thd", "0-1"),
    }
    files = {
        f"/proc/self/task/{number}/status": f"Name:\t{name}\nCpus_allowed_list:\t{cpus}"
        for number, (name, cpus) in threads.items()
    }
    seen = placement.threads(write_tree(tmp_path, files))
    assert seen.counts == {"process_threads": 4, "openmp_workers": 2, "openmp_workers_bound": 1}
    assert seen.affinities == {"0-1": 3, "1": 1}


def test_without_proc_there_are_no_threads(tmp_path: Path) -> None:
    assert placement.threads(tmp_path).affinities == {}
