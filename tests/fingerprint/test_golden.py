from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from suite.launch import topology
from tests.fingerprint import golden

TREES = golden.machines()
# Serials, asset tags, UUIDs and container ids that stand in the trees.
IDENTIFIERS = re.compile(r"S3R14L|ASSET|18e645be|230102030405060|7b1530660e49|100000000abcdef0|job_17|4242")


def read(name: str, folder: Path) -> tuple[golden.Tree, dict[str, Any]]:
    tree = golden.write((golden.FOLDER / f"{name}.tree").read_text(encoding="utf-8"), folder)
    return tree, golden.fingerprint(tree)


@pytest.mark.parametrize("name", TREES)
def test_a_machines_fingerprint_is_as_expected(name: str, tmp_path: Path) -> None:
    _, found = read(name, tmp_path)
    expected = golden.expected(name)
    differing = [
        f"{subject}.{field}"
        for subject in found.keys() | expected.keys()
        for field in found.get(subject, {}).keys() | expected.get(subject, {}).keys()
        if found.get(subject, {}).get(field) != expected.get(subject, {}).get(field)
    ]
    assert not differing, f"{', '.join(sorted(differing))}; if that is meant: {golden.RENEW}"


@pytest.mark.parametrize("name", TREES)
def test_no_identifier_of_a_machine_is_in_its_fingerprint(name: str, tmp_path: Path) -> None:
    _, found = read(name, tmp_path)
    assert not IDENTIFIERS.search(json.dumps(found))


@pytest.mark.parametrize("name", TREES)
def test_every_field_without_a_value_has_a_reason(name: str, tmp_path: Path) -> None:
    _, found = read(name, tmp_path)
    for facts in found.values():
        for field, fact in facts.items():
            assert fact["source"]
            assert fact.get("note") or fact["value"] is not None, field
    assert all("error" not in facts for facts in found.values())


# What each tree is there to show, by value: a renewal that loses it must not pass unseen.
SHOWN = [
    ("two-sockets-snc", "cpu", "sockets", 2, "ok"),
    ("two-sockets-snc", "cpu", "threads_per_core", 2, "ok"),
    (
        "two-sockets-snc",
        "cpu",
        "numa_cpus",
        {"0": "0-1,8-9", "1": "2-3,10-11", "2": "4-5,12-13", "3": "6-7,14-15"},
        "ok",
    ),
    (
        "two-sockets-snc",
        "cpu",
        "microarchitecture",
        {"name": "Sapphire Rapids", "archspec_by_flags": "sapphirerapids", "generic_level": "x86_64_v4"},
        "ok",
    ),
    ("two-sockets-snc", "memory", "dimms", None, "denied"),
    ("virtual-machine", "cpu", "hypervisor", "KVM (Google Compute Engine)", "ok"),
    ("virtual-machine", "cpu", "governor", None, "virtualised"),
    ("virtual-machine", "load", "steal_share_since_boot", 0.025, "ok"),
    ("docker-cgroup1", "container", "cpu_quota_cpus", 0.5, "ok"),
    ("docker-cgroup1", "container", "memory_limit_bytes", 2 << 30, "ok"),
    ("docker-cgroup1", "container", "swap_limit_bytes", 2 << 30, "ok"),
    ("docker-cgroup1", "cpu", "allowed_cpus", [1], "ok"),
    ("docker-cgroup1", "memory", "dimms", None, "masked"),
    ("docker-cgroup2", "container", "image_digest", f"sha256:{'ab' * 32}", "ok"),
    ("docker-cgroup2", "container", "swap_limit_bytes", 0, "ok"),
    ("docker-cgroup2", "cpu", "model", "Neoverse N1", "ok"),
    ("docker-cgroup2", "memory", "total_bytes", 8192000 << 10, "masked"),
    ("rootless-podman", "container", "rootless", True, "ok"),
    ("rootless-podman", "container", "security_profile", "system_u:system_r:container_t", "ok"),
    ("rootless-podman", "system", "command_line", None, "masked"),
    ("cpuset-node1", "container", "cpuset_mems", "1", "ok"),
    ("cpuset-node1", "cpu", "allowed_cpus", [5, 6, 7], "ok"),
    ("desktop-no-gpu", "memory", "dimm_slots", 4, "ok"),
    ("desktop-no-gpu", "memory", "memory_channels", 2, "ok"),
    ("desktop-no-gpu", "cpu", "core_kinds", {"performance": 4, "efficiency": 2}, "ok"),
]


@pytest.mark.parametrize(("name", "subject", "field", "value", "status"), SHOWN)
def test_a_tree_shows_what_it_is_there_for(name: str, subject: str, field: str, value: object, status: str) -> None:
    fact = golden.expected(name)[subject][field]
    assert (fact["value"], fact["status"]) == (value, status)


@pytest.mark.parametrize(
    ("name", "cores", "nodes"),
    [
        ("two-sockets-snc", (0, 1, 2, 3), (0, 1)),
        ("virtual-machine", (0, 1, 2, 3), (0,)),
        ("docker-cgroup1", (1,), (0,)),
        ("docker-cgroup2", (0, 1), (0,)),
        ("rootless-podman", (0,), ()),
        ("cpuset-node1", (5, 6, 7), (1,)),
        ("desktop-no-gpu", (0, 2), (0,)),
    ],
)
def test_the_default_placement_of_each_machine(
    name: str, cores: tuple[int, ...], nodes: tuple[int, ...], tmp_path: Path
) -> None:
    tree, _ = read(name, tmp_path)
    placement = topology.read(tree.root).first_socket()
    assert (placement.cores, placement.nodes) == (cores, nodes)
