from __future__ import annotations

from pathlib import Path

import pytest

from suite.fingerprint.system import load
from tests.fingerprint.trees import write_tree

STAT = "cpu  100 10 50 800 20 5 5 10 30 0\ncpu0 1 2 3"


def test_pressure_is_in_per_cent_and_microseconds() -> None:
    text = "some avg10=1.50 avg60=0.75 avg300=0.20 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
    assert load.parse_pressure(text)["some"] == {"avg10": 1.5, "avg60": 0.75, "avg300": 0.2, "total_us": 123}
    with pytest.raises(ValueError, match="no line"):
        load.parse_pressure("")


def test_guest_time_is_not_counted_twice() -> None:
    assert sum(load.parse_ticks(STAT).values()) == 1000


def test_old_kernels_count_fewer_kinds() -> None:
    assert load.parse_ticks("cpu 1 2 3 4") == {"user": 1, "nice": 2, "system": 3, "idle": 4}


def test_shares_are_of_all_time(tmp_path: Path) -> None:
    files = {"/proc/stat": STAT, "/proc/loadavg": "0.50 0.25 0.10 3/400 4242", "/proc/uptime": "7200.5 1.0"}
    facts = load.read(write_tree(tmp_path, files))
    assert facts["steal_share_since_boot"].value == 0.01
    assert facts["idle_share_since_boot"].value == 0.8
    assert (facts["load_average"].value, facts["runnable_threads"].value) == ([0.5, 0.25, 0.1], 3)
    assert facts["uptime_hours"].value == 2.0


def test_a_virtual_machine_without_stolen_time_proves_nothing(tmp_path: Path) -> None:
    files = {"/proc/stat": "cpu 1 0 1 98 0 0 0 0 0 0", "/proc/cpuinfo": "processor\t: 0\nflags\t: hypervisor"}
    fact = load.read(write_tree(tmp_path, files))["steal_share_since_boot"]
    assert (fact.value, fact.status) == (0.0, "virtualised")


def test_a_file_that_is_not_understood_is_absent(tmp_path: Path) -> None:
    fact = load.read(write_tree(tmp_path, {"/proc/stat": "intr 1", "/proc/loadavg": "x"}))
    assert fact["idle_share_since_boot"].status == fact["load_average"].status == "absent"
