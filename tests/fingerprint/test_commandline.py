from __future__ import annotations

import re
from pathlib import Path

import pytest

from suite.fingerprint.system import commandline
from suite.fingerprint.system import kernel as system
from tests.fingerprint.trees import write_tree

UUID = "4c4c4544-0051-3510-8051-b4c04f564432"


def test_performance_options_of_the_kernel_are_kept() -> None:
    line = "mitigations=off isolcpus=2-3 transparent_hugepage=never intel_pstate=disable quiet ro"
    assert commandline.redact(line) == line


@pytest.mark.parametrize(
    "token",
    [
        f"root=UUID={UUID}",
        f"root=PARTUUID={UUID}",
        "hostname=lab-7",
        "ip=10.0.0.7::10.0.0.1:255.255.255.0:lab-7",
        "BOOTIF=01-aa-bb-cc-dd-ee-ff",
        "systemd.machine_id=0123456789abcdef0123456789abcdef",
        "ifname=eth0:aa:bb:cc:dd:ee:ff",
        f"mitigations={UUID}",
        f"rd.lvm.{UUID}=1",
        "rd.lvm.0123456789abcdef",
        UUID,
    ],
)
def test_values_that_could_name_a_machine_are_removed(token: str) -> None:
    shown = commandline.redact(f"quiet {token}")
    assert shown.startswith("quiet ")
    assert "<removed>" in shown
    assert not re.search(r"4c4c|lab-7|10\.0|aa[:-]bb|0123456789", shown)


def test_arguments_of_init_are_dropped() -> None:
    assert commandline.redact("quiet -- --token abc") == "quiet -- <removed>"


def test_a_redacted_command_line_is_our_own_choice_and_no_mask(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/cmdline": f"root=UUID={UUID} quiet"})
    fact = system.read(root)["command_line"]
    assert (fact.status, fact.value, fact.note) == ("ok", "root=<removed> quiet", commandline.NOTE)
    assert system.read(write_tree(tmp_path / "b", {"/proc/cmdline": "quiet"}))["command_line"].note == ""
