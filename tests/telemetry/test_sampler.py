from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from suite import telemetry
from suite.bundle.schema import Telemetry
from suite.telemetry import Sampler, Subject
from suite.telemetry.sampler import INTERVAL_S, SHARED_INTERVAL_S
from tests.fingerprint.trees import write_tree
from tests.telemetry.machines import CONTAINER_1, CONTAINER_2, GUEST, SCHED, XEON, process_files

SUBJECT = Subject("matmul_add/64-fp32", "measure", 2)


class Machine:
    """A clock that stands still between readings, and a CPU that needs `cost_s` for each look at the time."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.now_s, self.cpu_ns, self.cost_s = 100.0, 0, cost_s
        self.moves: list[set[int]] = []

    def cpu_time(self) -> int:
        self.cpu_ns += round(self.cost_s * 1e9)
        return self.cpu_ns

    def move(self, cpus: Collection[int]) -> str:
        self.moves.append(set(cpus))
        return ""

    def sampler(self, measured: Collection[int], allowed: Collection[int], root: Path) -> Sampler:
        return Sampler(measured, allowed, root, clock=lambda: self.now_s, cpu_time=self.cpu_time, mover=self.move)


def reading(root: Path, cpus: Collection[int] = (0, 1), moment: telemetry.Moment = "before") -> Telemetry:
    return Sampler(cpus, {*cpus, 99}, root, mover=lambda _: "").read(moment, SUBJECT)


def test_a_bare_machine_shows_everything(tmp_path: Path) -> None:
    row = reading(write_tree(tmp_path, GUEST | XEON), (0, 8))
    assert (row.cpus, row.clock_source, row.clocks_mhz, row.cpu_frequency_mhz) == (
        "0,8",
        "cpufreq",
        [2701.0, 1200.0],
        1950.5,
    )
    assert (row.cpu_busy_ticks[0], row.cpu_steal_ticks) == (36604340 + 209 + 700700 + 30784, [0, 0])
    assert (row.core_throttles, row.package_throttles, row.temperature_c) == (4, 9, 64.0)
    assert row.temperatures_c == {"coretemp Physical id 0": 64.0, "coretemp Physical id 1": 58.0}
    assert row.energy_uj == {"package-0": 65532999000, "package-0/dram": 1000}
    assert (row.load_1min, row.context_switches) == (13.05, 6089541237)
    assert row.unreadable == {}


def test_a_guest_says_what_it_cannot_show_and_why(tmp_path: Path) -> None:
    row = reading(write_tree(tmp_path, GUEST))
    assert set(row.unreadable) == {"clock", "heat throttling", "temperature", "power"}
    assert (row.cpu_steal_ticks, row.steal_ticks) == ([419, 395], 814)
    assert (row.memory_available_bytes, row.major_faults) == (24256888 * 1024, 1199)
    assert row.swap_in_bytes == 3 * 4096
    assert (row.pressure_io_us, row.group_pressure_memory_us, row.group_pressure_io_us) == (11422915, 12, None)


@pytest.mark.parametrize("container", [CONTAINER_1, CONTAINER_2])
def test_a_containers_own_quota_is_read_whatever_the_version(tmp_path: Path, container: dict[str, str]) -> None:
    row = reading(write_tree(tmp_path, container))
    assert (row.throttled_us, row.throttled_periods, row.quota_periods) == (58112334, 1187, 1203)


def test_an_empty_machine_gives_an_empty_row_with_reasons(tmp_path: Path) -> None:
    row = reading(tmp_path)
    assert (row.busy_ticks, row.clocks_mhz, row.throttled_us, row.pressure_cpu_us) == (None, [], None, None)
    assert set(row.unreadable) >= {"steal", "pressure", "quota throttling", "clock", "temperature", "power"}


def test_what_is_missing_is_told_once(tmp_path: Path) -> None:
    sampler = Machine().sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    rows: list[Telemetry] = []
    sampler.take(rows.append, "before", SUBJECT)
    sampler.take(rows.append, "after", SUBJECT)
    assert (rows[0].sampled_on, rows[0].sampled_apart) == ("1", True)
    assert rows[0].unreadable
    assert (rows[1].unreadable, rows[1].sampled_on, rows[1].sampled_apart) == ({}, "", None)
    assert len(msgspec.json.encode(rows[1])) < 1000


def test_a_constant_clock_is_given_once_a_process(tmp_path: Path) -> None:
    sampler = Machine().sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    assert sampler.read("before", SUBJECT).clock_source == "hypervisor"
    assert sampler.read("during", SUBJECT).clock_source is None


def test_the_workers_threads_and_family_are_read_while_it_runs(tmp_path: Path) -> None:
    worker = process_files(10, {10: {"sched": SCHED, "schedstat": "5 100 2"}}, ticks=300, pages=2)
    sampler = Machine().sampler({0}, {0, 1}, write_tree(tmp_path, GUEST | worker))
    assert sampler.read("before", SUBJECT).worker_threads is None
    sampler.follow(10)
    row = sampler.read("during", SUBJECT)
    assert (row.worker_threads, row.worker_waiting_ns, row.worker_migrations) == (1, 100, 17)
    assert (row.worker_processes, row.worker_rss_bytes) == (1, 8192)
    sampler.leave()
    assert sampler.read("after", SUBJECT).worker_threads is None


def test_memory_of_a_worker_whose_children_are_unknown_is_not_told(tmp_path: Path) -> None:
    root = write_tree(tmp_path, GUEST | process_files(10, {10: {"sched": SCHED}}, ticks=300, pages=2))
    (root / "proc/10/task/10/children").unlink()
    sampler = Machine().sampler({0}, {0, 1}, root)
    sampler.follow(10)
    row = sampler.read("during", SUBJECT)
    assert (row.worker_cpu_ns, row.worker_rss_bytes) == (None, None)
    assert {"the worker's children", "waiting for a CPU"} <= set(row.unreadable)


def test_it_moves_off_the_measured_core_after_the_start_and_back_before_the_next(tmp_path: Path) -> None:
    machine = Machine()
    sampler = machine.sampler({0}, {0, 1, 2}, write_tree(tmp_path, GUEST))
    assert machine.moves == []
    sampler.follow(10)
    sampler.leave()
    assert machine.moves == [{1, 2}, {0, 1, 2}]


def test_with_every_core_measured_it_stays_says_so_and_reads_less_often(tmp_path: Path) -> None:
    machine = Machine()
    sampler = machine.sampler({0, 1}, {0, 1}, write_tree(tmp_path, GUEST))
    sampler.follow(10)
    sampler.leave()
    assert machine.moves == []
    row = sampler.read("before", SUBJECT)
    assert row.sampled_apart is False
    assert row.unreadable["a core apart for telemetry"] == "absent: every allowed CPU is measured"
    assert sampler.interval_s == SHARED_INTERVAL_S > INTERVAL_S


def test_a_kernel_that_refuses_the_move_is_told(tmp_path: Path) -> None:
    sampler = Sampler({0}, {0, 1}, write_tree(tmp_path, GUEST), mover=lambda _: "the kernel refused")
    sampler.follow(10)
    row = sampler.read("during", SUBJECT)
    assert (row.sampled_apart, row.unreadable["a core apart for telemetry"]) == (False, "absent: the kernel refused")


def test_workers_on_other_cpus_are_read_there(tmp_path: Path) -> None:
    sampler = Machine().sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    sampler.aim({0, 1})
    row = sampler.read("before", SUBJECT)
    assert (row.cpus, row.cpu_steal_ticks, row.sampled_apart) == ("0-1", [419, 395], False)


@pytest.mark.parametrize("cost_s", [0.0001, 0.002, 0.05, 1.0])
def test_readings_stay_under_half_a_per_cent_of_a_core_however_dear(tmp_path: Path, cost_s: float) -> None:
    machine = Machine(cost_s)
    sampler = machine.sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    rows: list[Telemetry] = []
    machine.now_s += 1000 * cost_s  # the first reading is dear before anybody knows it
    for _ in range(200):
        if sampler.due():
            sampler.take(rows.append, "during", SUBJECT)
        machine.now_s += sampler.interval_s / 3
    assert len(rows) > 20
    assert sampler.cost_share() < 0.005
    assert all(row.cost_ns for row in rows)


def test_one_dear_reading_slows_the_next_down_but_not_for_ever(tmp_path: Path) -> None:
    machine = Machine(0.1)
    sampler = machine.sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    sampler.take(lambda _: None, "during", SUBJECT)
    assert sampler.interval_s > 50
    machine.cost_s = 0.0
    for _ in range(5):
        sampler.take(lambda _: None, "during", SUBJECT)
    assert sampler.interval_s == INTERVAL_S


def test_a_worker_that_an_engine_starts_is_no_child_and_so_not_told_from_others(tmp_path: Path) -> None:
    machine = Machine()
    sampler = machine.sampler({0}, {0, 1}, write_tree(tmp_path, GUEST))
    sampler.follow(None)
    row = sampler.read("during", SUBJECT)
    assert (row.worker_threads, row.worker_cpu_ns, row.worker_rss_bytes) == (None, None, None)
    assert machine.moves == [{1}]


def test_this_very_machine_is_read() -> None:
    cpus = os.sched_getaffinity(0)
    row = Sampler(cpus, cpus).read("before", SUBJECT)
    assert row.busy_ticks is None or row.busy_ticks > 0
    assert row.cpus
