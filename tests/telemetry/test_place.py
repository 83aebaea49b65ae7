from __future__ import annotations

import os
from pathlib import Path

from suite.telemetry import place
from tests.fingerprint.trees import cpu_files, write_tree


def test_another_core_is_taken_rather_than_a_sibling() -> None:
    found = place.choose({0, 1}, {0, 1, 2, 4, 5}, siblings={0, 1, 4, 5})
    assert (found.cpus, found.apart) == ({2}, True)


def test_with_every_core_measured_its_other_threads_are_used_and_that_is_said() -> None:
    found = place.choose({0, 1}, {0, 1, 4, 5}, siblings={0, 1, 4, 5})
    assert (found.cpus, found.apart) == ({4, 5}, False)
    assert "hardware threads" in found.reason


def test_with_every_cpu_measured_all_are_allowed() -> None:
    found = place.choose({0, 1}, {0, 1}, siblings={0, 1})
    assert (found.cpus, found.apart, found.reason) == ({0, 1}, False, "every allowed CPU is measured")


def test_siblings_are_read_from_sysfs_and_are_the_cpu_itself_where_it_is_silent(tmp_path: Path) -> None:
    root = write_tree(tmp_path, cpu_files({0: [[0, 2], [1, 3]]}))
    assert place.siblings_of({0}, root) == {0, 2}
    assert place.siblings_of({7}, root) == {7}


def test_moving_nowhere_gives_the_reason() -> None:
    before = os.sched_getaffinity(0)
    assert place.move({1 << 14}) != ""
    assert place.move(before) == ""
    assert os.sched_getaffinity(0) == before
