from __future__ import annotations

from pathlib import Path

from suite.fingerprint.container import mounts
from suite.fingerprint.facts import from_file
from tests.fingerprint.trees import write_tree

HOST = "proc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\ntmpfs /sys/fs/cgroup tmpfs ro 0 0\ntmpfs /run tmpfs rw 0 0"


def test_mount_points_with_blanks_are_read() -> None:
    (mount,) = mounts.parse_mounts(r"/dev/sda1 /mnt/my\040disk ext4 rw,noatime 0 0")
    assert (mount.point, mount.kind, mount.options) == ("/mnt/my disk", "ext4", ("rw", "noatime"))


def test_nothing_is_hidden_on_a_host(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/mounts": HOST})
    assert mounts.covers(root) == mounts.Covers((), frozenset())
    assert from_file(root, "/sys/firmware/dmi/tables/DMI").status == "absent"


def test_what_an_empty_file_system_covers_is_masked(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/mounts": f"{HOST}\ntmpfs /sys/firmware tmpfs ro 0 0"})
    fact = from_file(root, "/sys/firmware/dmi/tables/DMI")
    assert (fact.status, fact.note) == ("masked", "the container has an empty file system over /sys/firmware")
    assert from_file(root, "/sys/firmwares").status == "absent"


def test_a_link_under_a_cover_is_masked(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/mounts": f"{HOST}\ntmpfs /sys/devices/virtual/powercap tmpfs ro 0 0"})
    (root / "sys/class/powercap").mkdir(parents=True)
    (root / "sys/class/powercap/zone").symlink_to("../../devices/virtual/powercap/zone")
    assert from_file(root, "/sys/class/powercap/zone/name").status == "masked"


def test_a_file_of_lxcfs_is_masked_and_has_a_value(tmp_path: Path) -> None:
    files = {"/proc/mounts": f"{HOST}\nlxcfs /proc/uptime fuse.lxcfs rw 0 0", "/proc/uptime": "12.5 3"}
    fact = from_file(write_tree(tmp_path, files), "/proc/uptime")
    assert (fact.status, fact.value) == ("masked", "12.5 3")


def test_without_any_sysfs_all_of_it_is_masked(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/mounts": "proc /proc proc rw 0 0"})
    assert from_file(root, "/sys/devices/system/cpu/online").note == "the container has no /sys"
    assert from_file(root, "/proc/nothing").status == "absent"
