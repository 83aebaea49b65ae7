from __future__ import annotations

from pathlib import Path

from suite.fingerprint.container import engine as container
from tests.fingerprint.trees import write_tree


def test_the_image_is_what_the_launcher_hands_in(tmp_path: Path) -> None:
    digest = "sha256:" + "ab" * 32
    facts = container.read(tmp_path, {"SPEEDPROOF_IMAGE_DIGEST": digest, "SPEEDPROOF_ENGINE": "podman"})
    assert facts["image_digest"].value == digest
    assert facts["engine"].value == "podman"
    assert facts["engine_version"].status == "absent"


def test_a_sandbox_that_answers_for_the_kernel_is_known_by_its_build(tmp_path: Path) -> None:
    version = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"
    assert container.detect(write_tree(tmp_path, {"/proc/version": version})).value == "gVisor"


def test_selinux_categories_which_are_a_containers_own_are_left_out(tmp_path: Path) -> None:
    files = {"/proc/self/attr/current": "system_u:system_r:container_t:s0:c12,c345"}
    fact = container.read(write_tree(tmp_path, files))["security_profile"]
    assert fact.value == "system_u:system_r:container_t"


def test_the_file_system_that_is_seen_at_the_root_is_the_last_mounted(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/mounts": "rootfs / rootfs rw 0 0\noverlay / overlay rw 0 0"})
    assert container.read(root)["root_file_system"].value == "overlay"


def test_the_groups_own_pressure_is_read(tmp_path: Path) -> None:
    files = {
        "/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        "/proc/self/cgroup": "0::/",
        "/sys/fs/cgroup/cpu.pressure": "some avg10=5.00 avg60=4.00 avg300=3.00 total=9",
    }
    facts = container.read(write_tree(tmp_path, files))
    assert facts["pressure_cpu"].value["some"]["avg10"] == 5
    assert facts["pressure_memory"].status == "absent"
