from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from suite.fingerprint.software import compiler
from suite.fingerprint.software import torch as torch_facts
from suite.fingerprint.system import kernel as system
from suite.fingerprint.system import kernel_config
from tests.fingerprint.trees import write_tree

CONFIG = 'CONFIG_HZ=250\nCONFIG_NO_HZ_IDLE=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_LOCALVERSION="-lab7"\nCONFIG_PREEMPT_DYNAMIC=y'


def test_only_options_that_bear_on_timing_are_kept() -> None:
    assert kernel_config.parse(CONFIG) == {"HZ": "250", "NO_HZ_IDLE": "y", "PREEMPT_DYNAMIC": "y"}


def test_the_kernels_own_copy_comes_first(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"/proc/version": "Linux version 6.1.0 (x) #1", "/boot/config-6.1.0": "CONFIG_HZ=100"})
    assert kernel_config.read(root).value == {"HZ": "100"}
    (root / "proc/config.gz").write_bytes(gzip.compress(CONFIG.encode()))
    assert kernel_config.read(root).value["HZ"] == "250"
    (root / "proc/config.gz").write_bytes(b"no gzip")
    assert "not understood" in kernel_config.read(root).note


def test_the_choice_of_preemption_is_in_parentheses(tmp_path: Path) -> None:
    files = {
        "/sys/kernel/debug/sched/preempt": "none voluntary (full) lazy",
        "/sys/kernel/debug/sched/features": "A NO_B",
    }
    facts = system.read(write_tree(tmp_path, files))
    assert facts["scheduler_preemption"].value == "full"
    assert facts["scheduler_features"].value == ["A", "NO_B"]


def test_settings_of_the_scheduler_may_be_sysctls_or_in_debugfs(tmp_path: Path) -> None:
    files = {"/proc/sys/kernel/sched_rt_runtime_us": "-1", "/sys/kernel/debug/sched/base_slice_ns": "3000000"}
    assert system.read(write_tree(tmp_path, files))["scheduler_settings"].value == {
        "sched_base_slice_ns": 3000000,
        "sched_rt_runtime_us": -1,
    }


def test_debugfs_that_is_not_mounted_is_the_reason(tmp_path: Path) -> None:
    assert system.read(tmp_path)["scheduler_features"].note == "debugfs is not mounted"


def test_an_arm_board_is_named_by_its_device_tree(tmp_path: Path) -> None:
    facts = system.read(write_tree(tmp_path, {"/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0"}))
    assert facts["product_name"].value == "Raspberry Pi 5 Model B Rev 1.0"
    assert facts["firmware"].value == "device tree"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("g++ (Debian 12.2.0-14) 12.2.0\nCopyright (C)", "g++ (Debian 12.2.0-14) 12.2.0"),
        (
            "nvcc: NVIDIA (R)\nCopyright\nCuda compilation tools, release 12.4, V12.4.131",
            "Cuda compilation tools, release 12.4, V12.4.131",
        ),
        ("", None),
    ],
)
def test_the_line_that_tells_a_tools_version_is_found(text: str, line: str | None) -> None:
    assert compiler.version_line(text) == line


def test_the_native_architecture_is_what_the_compiler_says() -> None:
    text = "The following options are target specific:\n  -mabi=                      sysv\n  -march=                     \tznver3\n"
    assert compiler.native_architecture(text) == "-march=znver3"
    assert compiler.native_architecture("clang: error") is None


def test_torchs_parts_are_found_in_its_configuration() -> None:
    text = "PyTorch built with:\n  - GCC 13.3\n  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80af)\n  - Build settings: BLAS_INFO=mkl, X=1"
    assert torch_facts.built_with(text, r"GCC|clang") == "GCC 13.3"
    assert torch_facts.built_with(text, r"Intel\(R\) MKL-DNN|oneDNN") == "Intel(R) MKL-DNN v3.12.0 (Git Hash 80af)"
    assert torch_facts.built_with(text, "OpenMP") is None
