from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from suite.telemetry import kernel
from suite.telemetry.kernel import KernelFile
from tests.fingerprint.trees import write_tree
from tests.telemetry.machines import CONTAINER_1, CONTAINER_2, GUEST, SCHED, STATUS, XEON


def test_ticks_are_busy_idle_and_stolen() -> None:
    ticks = kernel.parse_stat(GUEST["/proc/stat"], {1})
    assert ticks.whole == (25958 + 6576 + 594, 97837 + 1411, 814)
    assert ticks.cpus == {1: (23006 + 4925 + 481, 36575 + 1197, 395)}
    assert ticks.context_switches == 408128


def test_a_cpu_is_told_from_others_whose_number_begins_alike() -> None:
    text = "cpu  1 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0\ncpu10 2 0 0 0 0 0 0 0\nctxt 5\n"
    assert kernel.parse_stat(text, {1}).cpus == {1: (1, 0, 0)}


def test_a_bare_machine_counts_no_stolen_time() -> None:
    assert kernel.parse_stat(XEON["/proc/stat"], {8}).cpus[8][2] == 0


def test_odd_text_is_nothing() -> None:
    assert kernel.parse_stat("", {0}) == kernel.Ticks()
    assert kernel.parse_stat("cpu  1 2 3\ncpux 1\nctxt x\n", {0}) == kernel.Ticks()
    assert kernel.parse_pressure("nonsense") is None
    assert kernel.parse_throttling("usage_usec 5") is None
    assert kernel.parse_process("") is None
    assert kernel.parse_thread("nr_switches 5") == {}
    assert kernel.parse_clocks("clock : 3450.000000MHz") == {}


def test_pressure_is_that_of_some_task_not_of_all() -> None:
    assert kernel.parse_pressure(GUEST["/proc/pressure/io"]) == 11422915


def test_both_versions_of_control_groups_give_the_same_throttling() -> None:
    old = kernel.parse_throttling(CONTAINER_1["/sys/fs/cgroup/cpu,cpuacct/cpu.stat"])
    new = kernel.parse_throttling(CONTAINER_2["/sys/fs/cgroup/cpu.stat"])
    assert old == new == kernel.Throttling(58112334, 1187, 1203)


def test_a_process_name_may_hold_parentheses_and_blanks() -> None:
    fields = ["S", "1", *["0"] * 9, "7", "2", "1", "1", "20", "0", "3", "0", "99", "1000", "55", "0"]
    assert kernel.parse_process(f"12 (a) b (c) {' '.join(fields)}") == kernel.ProcessTimes(11, 55)


def test_sched_gives_migrations_and_status_gives_switches_only() -> None:
    assert kernel.parse_thread(SCHED) == {"migrations": 17, "voluntary_switches": 110, "involuntary_switches": 20}
    assert kernel.parse_thread(STATUS) == {"voluntary_switches": 8, "involuntary_switches": 5}


def test_waiting_is_the_second_number_and_nothing_where_the_kernel_does_not_count() -> None:
    assert kernel.parse_schedstat("93118201 6585906 130\n") == 6585906
    assert kernel.parse_schedstat("0 0 0\n") is None


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = KernelFile(write_tree(tmp_path, {"/proc/x": "1"}), "/proc/x")
    assert file.number() == 1
    (tmp_path / "proc/x").write_text("22")
    assert file.number() == 22


def test_a_list_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KernelFile(write_tree(tmp_path, {"/proc/cpuinfo": "x" * 9000}), "/proc/cpuinfo")
    real = os.pread
    monkeypatch.setattr(kernel.os, "pread", lambda descriptor, size, offset: real(descriptor, min(size, 4096), offset))
    assert len(file.read()) == 9001


def test_a_file_whose_cpu_went_away_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KernelFile(write_tree(tmp_path, {"/sys/x": "1"}), "/sys/x")
    assert file.number() == 1

    def gone(*_arguments: int) -> bytes:
        raise OSError(errno.ENODEV, "No such device")

    with monkeypatch.context() as patch:
        patch.setattr(kernel.os, "pread", gone)
        assert (file.read(), file.reason) == ("", "absent")
    (tmp_path / "sys/x").unlink()
    write_tree(tmp_path, {"/sys/x": "2"})
    assert file.number() == 2


def test_a_missing_file_says_why_and_comes_back(tmp_path: Path) -> None:
    file = KernelFile(tmp_path, "/sys/x")
    assert (file.read(), file.reason) == ("", "absent")
    write_tree(tmp_path, {"/sys/x": "5"})
    assert (file.number(), file.reason) == (5, "")


def test_a_pipe_in_a_files_place_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    file = KernelFile(tmp_path, "/x")
    assert (file.read(), file.reason) == ("", "masked")
