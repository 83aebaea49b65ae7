"""Placements that were asked for, on machines of two sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.bundle.schema import LaunchRequest
from suite.errors import UserError
from suite.launch import topology
from suite.launch.placement import choose
from tests.fingerprint.trees import cpu_files, write_tree

# Two sockets of two cores with two threads; siblings are numbered as Linux does on most x86 servers.
TWO_SOCKETS = cpu_files({0: [[0, 4], [1, 5]], 1: [[2, 6], [3, 7]]}, {0: "0-1,4-5", 1: "2-3,6-7"})


def placed(root: Path, files: dict[str, str] | None = None, **asked: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    chosen = choose(topology.read(write_tree(root, files or TWO_SOCKETS)), LaunchRequest(**asked))  # type: ignore[arg-type]
    return chosen.cores, chosen.nodes


@pytest.mark.parametrize(
    ("asked", "cores", "nodes"),
    [
        ({}, (0, 1), (0,)),
        ({"smt": True}, (0, 1, 4, 5), (0,)),
        ({"nodes": "1"}, (2, 3), (1,)),
        ({"nodes": "1", "smt": True}, (2, 3, 6, 7), (1,)),
        ({"nodes": "0-1"}, (0, 1, 2, 3), (0, 1)),
        ({"cores": "1-2"}, (1, 2), (0, 1)),
        ({"cores": "7"}, (7,), (1,)),
        ({"cores": "0,4", "smt": True}, (0, 4), (0,)),
        ({"cores": "0-1", "nodes": "1"}, (0, 1), (1,)),
    ],
)
def test_what_was_asked_for_is_placed(
    tmp_path: Path, asked: dict[str, object], cores: tuple[int, ...], nodes: tuple[int, ...]
) -> None:
    assert placed(tmp_path, **asked) == (cores, nodes)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"cores": "0-31"}, "cores 0-31: CPU 8-31 may not be used here; the allowed CPUs are 0-7"),
        ({"cores": "a-b"}, "cores 'a-b' is not a list such as"),
        ({"cores": ","}, "cores ',' is not a list such as"),
        ({"nodes": "2"}, "nodes 2: the memory of node 2 may not be used here; the usable nodes are 0-1"),
        ({"nodes": "1-"}, "nodes '1-' is not a list such as"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path, asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        placed(tmp_path, **asked)
    assert sentence in str(refused.value)


def test_nodes_without_an_allowed_cpu_are_refused(tmp_path: Path) -> None:
    cpuset = {"/proc/self/status": "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t0-1"}
    with pytest.raises(UserError, match="the allowed CPUs 2-3 lie on node 1"):
        placed(tmp_path, TWO_SOCKETS | cpuset, nodes="0")


def test_cores_on_a_node_whose_memory_is_not_allowed_bind_no_memory(tmp_path: Path) -> None:
    cpuset = {"/proc/self/status": "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t1"}
    assert placed(tmp_path, TWO_SOCKETS | cpuset, cores="1-2") == ((1, 2), ())
