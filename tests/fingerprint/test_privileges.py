from __future__ import annotations

from pathlib import Path

import pytest

from suite.fingerprint.container import privileges
from tests.fingerprint.trees import write_tree


def test_capabilities_have_names() -> None:
    assert privileges.names(0) == []
    assert privileges.names(1 << 23 | 1 << 21) == ["sys_admin", "sys_nice"]
    assert privileges.names(1 << 40 | 1 << 50) == ["checkpoint_restore", "capability_50"]


@pytest.mark.parametrize(
    ("text", "own", "rootless"),
    [
        ("         0          0 4294967295", False, False),
        ("         0       1000          1\n         1     100000      65536", True, True),
        ("         0     165536      65536", True, True),
        ("      1000       1000          1", True, False),
    ],
    ids=["host", "rootless", "remapped by a root daemon", "an unmapped root"],
)
def test_user_namespaces_are_told(text: str, own: bool, rootless: bool, tmp_path: Path) -> None:
    facts = privileges.read(write_tree(tmp_path, {"/proc/self/uid_map": text}))
    assert (facts["user_namespace"].value, facts["rootless"].value) == (own, rootless)


def test_limits_are_soft_and_hard() -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              unlimited            bytes     \n"
        "Max msgqueue size         819200               819200               bytes     \n"
        "Max nice priority         0                    0                    \n"
    )
    assert privileges.parse_limits(text) == {"locked_memory": [8388608, "unlimited"], "nice_priority": [0, 0]}
    with pytest.raises(ValueError, match="no limit"):
        privileges.parse_limits("")


def test_a_status_without_capabilities_is_absent(tmp_path: Path) -> None:
    facts = privileges.read(tmp_path)
    assert {fact.status for fact in facts.values()} == {"absent"}
    assert all(fact.note for fact in facts.values())


def test_a_label_that_names_the_host_is_not_kept() -> None:
    assert privileges._profile("lxd-mybox_</var/snap/lxd>") == "lxd-<removed>"
    assert privileges._profile("docker-default (enforce)") == "docker-default (enforce)"
