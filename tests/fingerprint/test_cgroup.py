from __future__ import annotations

from pathlib import Path

from suite.fingerprint.container import cgroup
from tests.fingerprint.trees import write_tree

V2 = {"/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0"}
V1 = {
    "/proc/mounts": "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
    "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0"
}


def test_membership_is_by_controller() -> None:
    assert cgroup.parse_membership("4:cpu,cpuacct:/a\n0::/b:c\nnonsense") == {"cpu": "/a", "cpuacct": "/a", "": "/b:c"}


def test_the_version_is_what_is_mounted(tmp_path: Path) -> None:
    assert cgroup.version(tmp_path) is None
    assert cgroup.version(write_tree(tmp_path / "2", V2)) == "2"
    assert cgroup.version(write_tree(tmp_path / "1", V1)) == "1"


def test_version_2_takes_the_smallest_quota_on_the_way_up(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "0::/slice/job",
        "/sys/fs/cgroup/slice/job/cpu.max": "max 100000",
        "/sys/fs/cgroup/slice/cpu.max": "250000 100000",
        "/sys/fs/cgroup/cpu.max": "800000 100000",
    }
    quota = cgroup.cpu_quota(write_tree(tmp_path, V2 | files))
    assert quota == cgroup.Limit(2.5, "/sys/fs/cgroup/slice/cpu.max")


def test_version_1_divides_quota_by_period(tmp_path: Path) -> None:
    folder = "/sys/fs/cgroup/cpu,cpuacct/docker"
    files = {
        "/proc/self/cgroup": "4:cpu,cpuacct:/docker",
        f"{folder}/cpu.cfs_quota_us": "50000",
        f"{folder}/cpu.cfs_period_us": "100000",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
    }
    assert cgroup.cpu_quota(write_tree(tmp_path, V1 | files)).value == 0.5


def test_a_host_path_unknown_to_the_container_falls_back_to_its_mount(tmp_path: Path) -> None:
    files = {"/proc/self/cgroup": "0::/docker/0123", "/sys/fs/cgroup/cpu.max": "200000 100000"}
    assert cgroup.cpu_quota(write_tree(tmp_path, V2 | files)).value == 2


def test_a_path_outside_of_the_namespace_falls_back_to_the_mount(tmp_path: Path) -> None:
    outside = {"/proc/self/cgroup": "0::/../other", "/sys/fs/cpu.max": "100000 100000"}
    files = outside | {"/sys/fs/cgroup/cpu.max": "200000 100000"}
    assert cgroup.cpu_quota(write_tree(tmp_path, V2 | files)).value == 2


def test_no_limit_is_none(tmp_path: Path) -> None:
    assert cgroup.cpu_quota(tmp_path).value is None
    files = {"/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/memory.max": "max"}
    root = write_tree(tmp_path, V2 | files)
    assert cgroup.cpu_quota(root).value is None
    assert cgroup.memory_limit(root).value is None


def test_version_1s_largest_number_is_no_memory_limit(tmp_path: Path) -> None:
    limit = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    assert cgroup.memory_limit(write_tree(tmp_path, V1 | {limit: "9223372036854771712"})).value is None
    assert cgroup.memory_limit(write_tree(tmp_path, V1 | {limit: "1073741824"})).value == 1 << 30


def test_the_effective_cpuset_comes_before_the_asked_one(tmp_path: Path) -> None:
    folder = "/sys/fs/cgroup/cpuset"
    files = {f"{folder}/cpuset.cpus": "0-7", f"{folder}/cpuset.effective_cpus": "0-3"}
    assert cgroup.cpuset(write_tree(tmp_path, V1 | files), "cpus") == ([0, 1, 2, 3], f"{folder}/cpuset.effective_cpus")


def test_a_cpuset_mounted_without_prefix_is_read(tmp_path: Path) -> None:
    files = {
        "/proc/mounts": "none /dev/cpuset cpuset rw 0 0",
        "/proc/self/cpuset": "/job",
        "/dev/cpuset/job/mems": "1-2",
    }
    assert cgroup.cpuset(write_tree(tmp_path, files), "mems")[0] == [1, 2]


def test_version_1s_shares_are_told_as_version_2s_weight(tmp_path: Path) -> None:
    assert cgroup.weight(write_tree(tmp_path / "1", V1 | {"/sys/fs/cgroup/cpu,cpuacct/cpu.shares": "512"})).value == 50
    assert cgroup.weight(write_tree(tmp_path / "2", V2 | {"/sys/fs/cgroup/cpu.weight": "100"})).value == 100
    assert cgroup.weight(tmp_path / "3").value is None


def test_throttling_is_of_the_group_that_was_held_back_most(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "0::/slice/job",
        "/sys/fs/cgroup/slice/job/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
        "/sys/fs/cgroup/slice/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_usec 250",
        "/sys/fs/cgroup/cpu.stat": "usage_usec 5",
    }
    found = cgroup.throttling(write_tree(tmp_path / "2", V2 | files))
    assert found == cgroup.Throttling(10, 4, 250_000, "/sys/fs/cgroup/slice/cpu.stat")
    stat = "nr_periods 10\nnr_throttled 4\nthrottled_time 250"
    old = cgroup.throttling(write_tree(tmp_path / "1", V1 | {"/sys/fs/cgroup/cpu,cpuacct/cpu.stat": stat}))
    assert old is not None and old.throttled_ns == 250
    assert cgroup.throttling(tmp_path / "3") is None


def test_the_smallest_limit_on_the_way_up_holds(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "0::/slice",
        "/sys/fs/cgroup/slice/pids.max": "max",
        "/sys/fs/cgroup/pids.max": "100",
    }
    root = write_tree(tmp_path, V2 | files)
    assert cgroup.smallest(root, "pids", ("pids.max", "pids.max")).value == 100
    assert cgroup.smallest(root, "memory", ("", "memory.high")).source == "memory.high"
