from __future__ import annotations

from pathlib import Path

import pytest

from suite.doctor.load import Process, Snapshot, between, load_1min, parse_stat, snapshot
from tests.fingerprint.trees import write_tree

TICKS = 100


@pytest.fixture(autouse=True)
def _hundred_ticks_a_second(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("suite.doctor.load._ticks_per_second", lambda: TICKS)


def cpu(user: int = 0, idle: int = 0, steal: int = 0) -> tuple[int, ...]:
    return (user, 0, 0, idle, 0, 0, 0, steal, 0, 0)


def test_own_time_is_taken_off_what_the_machine_did():
    load = between(Snapshot(10.0, cpu(1000, 1000), 50.0), Snapshot(11.0, cpu(1150, 1050), 100.0))
    assert load.others_cpus == pytest.approx(1.0)


def test_a_doctor_that_used_more_than_the_kernel_counted_leaves_no_negative_load():
    load = between(Snapshot(10.0, cpu(1000, 1000), 0.0), Snapshot(11.0, cpu(1001, 1199), 5.0))
    assert load.others_cpus == 0.0


def test_steal_is_a_share_of_all_time_now_and_since_boot():
    load = between(Snapshot(10.0, cpu(0, 900, 100)), Snapshot(11.0, cpu(0, 1050, 150)))
    assert (load.steal_share, load.steal_share_since_boot) == (0.25, 0.125)


def test_counters_that_run_backwards_count_as_nothing():
    load = between(Snapshot(10.0, cpu(500, 900)), Snapshot(11.0, cpu(400, 1000)))
    assert load.others_cpus == 0.0


@pytest.mark.parametrize("after", [Snapshot(11.0, ()), Snapshot(10.0, cpu(1))])
def test_without_counters_or_without_a_window_nothing_is_claimed(after: Snapshot):
    load = between(Snapshot(10.0, cpu(1)), after)
    assert (load.others_cpus, load.steal_share) == (None, None)


def test_the_busiest_are_named_and_the_doctors_own_are_not():
    before = {7: Process("chrome", 1, 100, 5), 8: Process("idle", 1, 10, 5), 30: Process("python", 2, 0, 9)}
    after = {
        7: Process("chrome", 1, 160, 5),
        8: Process("idle", 1, 11, 5),
        30: Process("python", 2, 90, 9),
        31: Process("numactl", 30, 20, 9),
        40: Process("cc1plus", 1, 30, 99),
    }
    load = between(Snapshot(0.0, cpu(0, 0), processes=before), Snapshot(1.0, cpu(50, 50), processes=after), own=30)
    assert load.named == (("chrome", 0.6), ("cc1plus", 0.3))


def test_a_number_used_again_by_another_process_is_counted_from_its_start():
    before, after = {7: Process("old", 1, 500, 5)}, {7: Process("new", 1, 20, 80)}
    load = between(Snapshot(0.0, cpu(0, 0), processes=before), Snapshot(1.0, cpu(20, 80), processes=after), own=1000)
    assert load.named == (("new", 0.2),)


def test_parents_that_go_in_circles_end():
    circle = {5: Process("a", 6, 50, 1), 6: Process("b", 5, 0, 1)}
    load = between(Snapshot(0.0, cpu()), Snapshot(1.0, cpu(50, 50), processes=circle), own=99)
    assert load.named == (("a", 0.5),)


STAT = "1234 (tmux: a (b) c) S 1 1234 1234 0 -1 4194560 1 0 0 0 70 30 0 0 20 0 1 0 5500 123 45"


def test_a_process_name_may_hold_spaces_and_parentheses():
    assert parse_stat(STAT) == Process("tmux: a (b) c", 1, 100, 5500)


@pytest.mark.parametrize("text", ["", "1234 (sh) S 1", "no parenthesis at all", "1 (sh) S x 1 1 0 -1 4 1 0 0 0 a b"])
def test_a_line_of_another_form_is_no_process(text: str):
    assert parse_stat(text) is None


def test_a_snapshot_is_read_from_a_tree(tmp_path: Path):
    write_tree(
        tmp_path,
        {
            "proc/stat": "cpu  100 0 50 900 0 0 0 7 0 0\ncpu0 1 2 3",
            "proc/1234/stat": STAT,
            "proc/loadavg": "0.50 0.40 0.30 1/100 4321",
            "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 120\nnr_throttled 40\nthrottled_usec 9",
        },
    )
    seen = snapshot(tmp_path)
    assert seen.cpu == (100, 0, 50, 900, 0, 0, 0, 7, 0, 0)
    assert seen.processes == {1234: Process("tmux: a (b) c", 1, 100, 5500)}
    assert seen.throttled == (120, 40)
    assert load_1min(tmp_path) == 0.5


def test_an_empty_tree_gives_an_empty_snapshot(tmp_path: Path):
    seen = snapshot(tmp_path)
    assert (seen.cpu, seen.processes, seen.throttled, load_1min(tmp_path)) == ((), {}, None, None)
