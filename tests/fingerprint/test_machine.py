"""Memory, system, container, tools, and the whole."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.bundle.schema import Fact
from suite.fingerprint import collect as collecting
from suite.fingerprint.collect import collect
from suite.fingerprint.container import engine as container
from suite.fingerprint.memory import sizes as memory
from suite.fingerprint.software import compiler
from suite.fingerprint.system import kernel as system
from tests.fingerprint.trees import write_tree

MEMINFO = "MemTotal:       24684084 kB\nMemAvailable:   24235540 kB\nHugePages_Total:       3\nHugepagesize:  2048 kB"


def test_memory_is_in_bytes(tmp_path: Path) -> None:
    nodes = {f"/sys/devices/system/node/node{n}/meminfo": f"Node {n} MemTotal:  12342042 kB" for n in (0, 10)}
    thp = {"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"}
    facts = memory.read(write_tree(tmp_path, {"/proc/meminfo": MEMINFO} | nodes | thp))
    assert facts["total_bytes"].value == 24684084 * 1024
    assert facts["huge_pages"].value == 3
    assert facts["node_total_bytes"].value == {"0": 12342042 * 1024, "10": 12342042 * 1024}
    assert facts["transparent_huge_pages"].value == "madvise"
    assert facts["swap_total_bytes"].status == "absent"


def test_nodes_that_do_not_add_up_to_the_memory_are_no_facts_but_against_a_containers_own_total(tmp_path: Path) -> None:
    node = {"/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 6252316 kB\nNode 0 MemFree: 4533340 kB"}
    facts = memory.read(write_tree(tmp_path / "balloon", {"/proc/meminfo": MEMINFO} | node))
    for name in ("node_total_bytes", "node_free_bytes"):
        assert facts[name].value is None
        assert "the nodes add up to 5.96 GiB and /proc/meminfo MemTotal is 23.54 GiB" in facts[name].note
    lxcfs = {"/proc/mounts": "lxcfs /proc/meminfo fuse.lxcfs rw 0 0"}
    facts = memory.read(write_tree(tmp_path / "lxc", {"/proc/meminfo": "MemTotal: 1048576 kB"} | node | lxcfs))
    assert facts["node_total_bytes"].value == {"0": 6252316 * 1024}


def test_the_board_is_named_without_its_serial_numbers(tmp_path: Path) -> None:
    dmi = "/sys/class/dmi/id"
    secret = {
        f"{dmi}/{name}": "S3CR3T" for name in ("product_serial", "product_uuid", "board_serial", "board_asset_tag")
    }
    facts = system.read(write_tree(tmp_path, secret | {f"{dmi}/board_name": "X11DPU", f"{dmi}/bios_version": "3.4 "}))
    assert facts["board_name"].value == "X11DPU"
    assert "S3CR3T" not in str(facts)


def test_the_system_is_named_by_os_release(tmp_path: Path) -> None:
    files = {"/etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"'}
    files |= {"/proc/version": "Linux version 6.1.0-18-amd64 (builder@host) (gcc 12) #1 SMP"}
    facts = system.read(write_tree(tmp_path, files))
    assert facts["os"].value == "Debian GNU/Linux 12 (bookworm)"
    assert facts["kernel"].value == "6.1.0-18-amd64"
    assert "builder@host" not in str(facts)


@pytest.mark.parametrize(
    ("files", "engine", "source"),
    [
        ({"/.dockerenv": ""}, "docker", "/.dockerenv"),
        ({"/run/.containerenv": ""}, "podman", "/run/.containerenv"),
        ({"/proc/self/cgroup": "0::/kubepods/besteffort/pod1"}, "kubepods", "/proc/self/cgroup"),
        ({"/run/systemd/container": "systemd-nspawn"}, "systemd-nspawn", "/run/systemd/container"),
        ({"/proc/mounts": "overlay / overlay rw 0 0"}, "an engine that does not give its name", "/proc/mounts"),
        ({"/proc/mounts": "/dev/sda1 / ext4 rw 0 0"}, "none", "/.dockerenv"),
    ],
)
def test_containers_are_known_by_what_they_leave(
    tmp_path: Path, files: dict[str, str], engine: str, source: str
) -> None:
    fact = container.detect(write_tree(tmp_path, files))
    assert fact.value == engine
    assert fact.source.startswith(source)


def test_limits_and_rights_of_a_container_are_read_without_its_id(tmp_path: Path) -> None:
    identity = "7b1530660e49ee660670b3074ba6643f"
    files = {
        "/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        "/proc/self/cgroup": f"0::/docker/{identity}",
        f"/sys/fs/cgroup/docker/{identity}/cpu.max": "200000 100000",
        f"/sys/fs/cgroup/docker/{identity}/memory.max": "1073741824",
        f"/sys/fs/cgroup/docker/{identity}/cpuset.mems.effective": "0-1",
        "/proc/self/status": "CapEff:\t0000000000800000\nSeccomp:\t2",
    }
    facts = container.read(write_tree(tmp_path, files))
    assert facts["cpu_quota_cpus"].value == 2
    assert facts["memory_limit_bytes"].value == 1 << 30
    assert facts["cpuset_mems"].value == "0-1"
    assert facts["seccomp"].value == "filter"
    assert facts["capability_sys_nice"].value is True
    assert identity not in str(facts)


def test_a_missing_tool_is_absent_with_its_effect() -> None:
    facts = compiler.read({}, which=lambda _: None)
    assert facts["cxx"].status == "absent"
    assert "C++ kernels" in facts["openssl"].note
    assert facts["cxx_version"].note == "not in PATH"


def test_the_compiler_is_the_one_that_inductor_takes() -> None:
    commands: list[list[str]] = []

    def run(command: object) -> str:
        commands.append(list(command))  # type: ignore[call-overload]
        return "clang version 17.0.6\nTarget: x86_64"

    facts = compiler.read({"CXX": "/home/ada/bin/clang++"}, which=lambda name: name, run=run)
    assert ["/home/ada/bin/clang++", "--version"] in commands
    assert facts["cxx_version"].value == "clang version 17.0.6"
    assert facts["cxx"].value == "~/bin/clang++"
    assert "ada" not in str(facts)


def test_a_compiler_that_hangs_or_fails_is_absent() -> None:
    def run(command: object) -> str:
        raise subprocess.TimeoutExpired(str(command), 5)

    fact = compiler.read({"CXX": "/home/ada/g++"}, which=lambda name: name, run=run)["cxx_version"]
    assert "TimeoutExpired" in fact.note
    assert "ada" not in str(fact)


def test_a_reader_that_fails_costs_only_its_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> dict[str, Fact]:
        raise RuntimeError("odd machine")

    monkeypatch.setitem(collecting.SUBJECTS, "cpu", fail)
    facts = collect(tmp_path)
    assert "odd machine" in facts["cpu"]["error"].note
    assert facts["memory"]


def test_this_machines_facts_can_be_stored_and_name_nobody() -> None:
    facts = collect()
    assert set(facts) == set(collecting.SUBJECTS) | set(collecting.LIVE_SUBJECTS)
    stored = msgspec.json.encode(facts)
    assert msgspec.json.decode(stored, type=dict[str, dict[str, Fact]]) == facts
    text = stored.decode()
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-|([0-9a-f]{2}:){5}", text)
    assert os.environ.get("HOME", "/root") not in text
    assert socket.gethostname() not in text.split('"')
    for found in facts.values():
        assert "error" not in found
        for fact in found.values():
            assert fact.source
            assert fact.value is not None or (fact.status != "ok" and fact.note)


def test_collecting_imports_no_torch() -> None:
    code = "import sys; from suite.fingerprint.collect import collect; import suite.launch.command; collect()"
    check = f"{code}; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", check], cwd=root, check=False).returncode == 0
