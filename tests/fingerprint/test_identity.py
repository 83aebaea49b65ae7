"""Salted identities: stable, different for different machines, and of nothing that can be read back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from suite.fingerprint import identity
from tests.fingerprint.trees import write_tree

UUID = "9a3f1c52-7d64-4b0e-8a11-5c2e9f7d3b60"
MACHINE_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
BOOT_ID = "b1530660-e49e-4660-b706-3b4ba6643fa0"
MAC = "3c:ec:ef:12:34:56"
SERIAL = "S4EWNX0R123456"
HOST = {"/proc/mounts": "/dev/sda1 / ext4 rw 0 0"}
MACHINE = HOST | {
    "/proc/cpuinfo": "processor: 0\nmodel name: Xeon",
    "/proc/meminfo": "MemTotal: 131072000 kB",
    "/proc/sys/kernel/random/boot_id": BOOT_ID,
    "/sys/class/net/eth0/address": MAC,
    "/sys/class/net/eth0/addr_assign_type": "0",
    "/sys/class/net/eth0/device/vendor": "0x8086",
    "/sys/class/nvme/nvme0/serial": SERIAL,
}
DMI = {"/sys/class/dmi/id/product_uuid": UUID}
SYSTEMD = {"/etc/machine-id": MACHINE_ID}
VIRTUAL = {"/sys/class/dmi/id/sys_vendor": "QEMU"}
DOCKER = {"/.dockerenv": ""}


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity.ROUNDS >= 100_000
    monkeypatch.setattr(identity, "ROUNDS", 10)


def read(root: Path, *files: dict[str, str]) -> dict[str, tuple[str | None, str, str]]:
    everything = {path: text for each in files for path, text in each.items()}
    facts = identity.read(write_tree(root, everything))
    return {name: (fact.value, fact.status, fact.source) for name, fact in facts.items()}


@pytest.mark.parametrize(
    ("files", "status", "source"),
    [
        (DMI | SYSTEMD, "ok", identity.PRODUCT_UUID),
        (SYSTEMD, "ok", identity.MACHINE_ID),
        ({}, "ok", identity.HARDWARE),
        (DMI | VIRTUAL, "virtualised", identity.PRODUCT_UUID),
        (SYSTEMD | VIRTUAL, "virtualised", identity.MACHINE_ID),
        (VIRTUAL, "virtualised", identity.HARDWARE),
        (SYSTEMD | DOCKER, "ok", identity.HARDWARE),
        (DMI | SYSTEMD | DOCKER, "ok", identity.PRODUCT_UUID),
    ],
)
def test_the_best_source_is_taken_and_named(tmp_path: Path, files: dict[str, str], status: str, source: str) -> None:
    value, *rest = read(tmp_path, MACHINE, files)["machine_id"]
    assert rest == [status, source]
    assert value is not None and re.fullmatch(r"[0-9a-f]{16}", value)


def test_a_container_without_the_hosts_hardware_says_that_the_identity_is_shared(tmp_path: Path) -> None:
    hidden = {path: text for path, text in MACHINE.items() if "/class/" not in path}
    facts = identity.read(write_tree(tmp_path, hidden | SYSTEMD | DOCKER))
    assert facts["machine_id"].status == "masked"
    assert "equal machines share this identity" in facts["machine_id"].note
    assert facts["id_by_machine_id"].value is None
    assert "in a container (docker) it is not the host's" in facts["id_by_machine_id"].note


@pytest.mark.parametrize(
    ("mounted_from", "trusted"),
    [
        ("/etc/machine-id", True),
        ("/@rootfs/etc/machine-id", True),
        ("/var/lib/containers/storage/overlay-containers/f00/userdata/run/machine-id", False),
    ],
)
def test_in_a_container_only_the_hosts_own_file_counts(tmp_path: Path, mounted_from: str, trusted: bool) -> None:
    mount = f"612 598 254:0 {mounted_from} /etc/machine-id ro,relatime - ext4 /dev/vda rw"
    facts = read(tmp_path, MACHINE, SYSTEMD, DOCKER, {"/proc/self/mountinfo": mount})
    assert (facts["id_by_machine_id"][0] is not None) is trusted


def test_the_host_and_a_container_that_sees_its_file_agree(tmp_path: Path) -> None:
    mount = {"/proc/self/mountinfo": "612 598 254:0 /etc/machine-id /etc/machine-id ro - ext4 /dev/vda rw"}
    host = read(tmp_path / "host", MACHINE, SYSTEMD)
    inside = read(tmp_path / "inside", SYSTEMD, DOCKER, mount)
    assert host["machine_id"] == inside["machine_id"]


@pytest.mark.parametrize("files", [DMI, SYSTEMD, {}])
def test_machines_differ_and_stay_the_same(tmp_path: Path, files: dict[str, str]) -> None:
    first = read(tmp_path / "a", MACHINE, files)["machine_id"][0]
    again = read(tmp_path / "b", MACHINE, files)["machine_id"][0]
    changed = {path: text.translate(str.maketrans("123456", "234561")) for path, text in (MACHINE | files).items()}
    other = read(tmp_path / "c", changed)["machine_id"][0]
    assert first == again != other


def test_a_new_kernel_does_not_make_another_machine(tmp_path: Path) -> None:
    before = read(tmp_path / "a", MACHINE)["machine_id"]
    after = read(tmp_path / "b", MACHINE, {"/proc/meminfo": "MemTotal: 131000000 kB"})["machine_id"]
    assert before == after


def test_the_same_text_in_another_source_is_another_identity(tmp_path: Path) -> None:
    same = {"/etc/machine-id": UUID.replace("-", "")}
    facts = read(tmp_path, MACHINE, DMI, same)
    assert len({facts[name][0] for name in ("id_by_product_uuid", "id_by_machine_id", "boot")}) == 3
    assert len({identity.salted(kind, UUID) for kind in ("machine-id", "boot", "gpu")}) == 3


def test_nothing_that_identifies_reaches_a_fact(tmp_path: Path) -> None:
    for files in (DMI | SYSTEMD, SYSTEMD, {}):
        text = str(read(tmp_path / str(len(files)), MACHINE, files)).lower()
        for secret in (UUID, MACHINE_ID, BOOT_ID, MAC, SERIAL):
            assert secret.lower() not in text
            assert secret.lower().replace("-", "").replace(":", "") not in text


def test_the_hardwares_identity_is_given_only_when_there_is_no_better(tmp_path: Path) -> None:
    facts = read(tmp_path, MACHINE, SYSTEMD)
    assert facts["id_by_hardware"][:2] == (None, "absent")


def test_addresses_are_folded_until_they_cannot_be_found_out() -> None:
    """With 16^5 values for 2^48 addresses, each value belongs to some 2^28 of them, whatever a guess costs."""
    folded = {identity.folded([f"3c:ec:ef:00:{high:02x}:{low:02x}"]) for high in range(16) for low in range(256)}
    assert {len(value) for value in folded} == {5}
    assert len(folded) > 4000  # of 4,096: neighbours still differ


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("Not Settable", "not a UUID"),
        ("00000000-0000-0000-0000-000000000000", "placeholder"),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "placeholder"),
        ("03000200-0400-0500-0006-000700080009", "placeholder"),
        ("4C4C4544-0000-2010-8020-80C04F202020", "placeholder"),
    ],
)
def test_a_placeholder_is_no_identity(tmp_path: Path, text: str, note: str) -> None:
    facts = identity.read(write_tree(tmp_path, MACHINE | {"/sys/class/dmi/id/product_uuid": text}))
    assert facts["id_by_product_uuid"].value is None and note in facts["id_by_product_uuid"].note
    assert facts["machine_id"].source == identity.HARDWARE


@pytest.mark.parametrize("text", ["", "uninitialized", "0" * 32, MACHINE_ID[:-1]])
def test_a_machine_id_that_is_none_is_not_used(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, MACHINE, {"/etc/machine-id": text})["id_by_machine_id"][0] is None


def test_made_up_addresses_do_not_count(tmp_path: Path) -> None:
    random = {"/sys/class/net/eth0/addr_assign_type": "1", "/sys/class/nvme/nvme0/serial": ""}
    bridge = {"/sys/class/net/docker0/address": "02:42:aa:bb:cc:dd", "/sys/class/net/docker0/addr_assign_type": "0"}
    assert read(tmp_path, MACHINE, random, bridge)["machine_id"][1] == "masked"


def test_a_link_out_of_a_recorded_tree_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "live-machine-id"
    secret.write_text(MACHINE_ID)
    root = write_tree(tmp_path / "tree", MACHINE)
    (root / "etc").mkdir()
    (root / "etc/machine-id").symlink_to(secret)
    fact = identity.read(root)["id_by_machine_id"]
    assert fact.value is None and "out of the recorded tree" in fact.note


def test_an_empty_tree_has_no_identity_and_does_not_show_the_live_machine(tmp_path: Path) -> None:
    facts = identity.read(tmp_path)
    assert {fact.value for fact in facts.values()} == {None}
    assert all(fact.note for fact in facts.values())


def test_the_live_machine_has_an_identity_and_a_boot() -> None:
    assert identity.read() == identity.read()
    assert identity.read()["boot"].status in ("ok", "absent", "masked", "denied")


@pytest.mark.parametrize("text", [f"GPU-{UUID}", f"0,MIG-{UUID.upper()},2", f"MIG-GPU-{UUID}/1/0", UUID])
def test_uuids_in_a_text_are_salted(text: str) -> None:
    shown = identity.redact_uuids(text)
    assert UUID[:8] not in shown.lower()
    assert f"salted-{identity.gpu_identity(UUID)}" in shown
    assert identity.redact_uuids("0,1") == "0,1"
