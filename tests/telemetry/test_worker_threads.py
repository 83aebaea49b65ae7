from __future__ import annotations

import os
import shutil
from pathlib import Path

from suite.telemetry.worker import Threads, Worker, family, resident_bytes
from tests.fingerprint.trees import write_tree
from tests.telemetry.machines import SCHED, STATUS, process_files

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_counts_are_summed_over_threads(tmp_path: Path) -> None:
    threads = {10: {"sched": SCHED, "schedstat": "5 100 2"}, 11: {"sched": SCHED, "schedstat": "5 23 2"}}
    assert Worker(10, write_tree(tmp_path, process_files(10, threads))).read() == Threads(2, 123, 220, 40, 34)


def test_a_thread_that_has_ended_keeps_counting(tmp_path: Path) -> None:
    root = write_tree(tmp_path, process_files(10, {10: {"status": STATUS}, 11: {"status": STATUS}}))
    worker = Worker(10, root)
    worker.read()
    shutil.rmtree(root / "proc/10/task/11")
    assert worker.read() == Threads(1, None, 16, 10, None)


def test_a_kernel_without_sched_counts_no_migrations(tmp_path: Path) -> None:
    found = Worker(10, write_tree(tmp_path, process_files(10, {10: {"status": STATUS}}))).read()
    assert found == Threads(1, None, 8, 5, None)


def test_a_process_that_is_gone_is_nothing(tmp_path: Path) -> None:
    assert Worker(10, tmp_path).read() is None
    assert family(10, tmp_path) is None


def test_a_family_holds_the_children_of_every_thread_and_theirs(tmp_path: Path) -> None:
    files = process_files(10, {10: {"children": "20 "}, 11: {"children": "30 31"}}, ticks=100, pages=5)
    files |= process_files(20, {20: {"children": "40"}}, ticks=10, pages=1)
    files |= process_files(30, {30: {}}, ticks=1, pages=1) | process_files(40, {40: {}}, ticks=7, pages=1)
    found = family(10, write_tree(tmp_path, files))
    assert found is not None
    assert (found.processes, found.cpu_ns, found.complete) == (4, 118 * TICK_NS, True)
    assert found.rss_bytes == 8 * os.sysconf("SC_PAGE_SIZE")


def test_a_kernel_that_does_not_name_children_gives_an_incomplete_family(tmp_path: Path) -> None:
    root = write_tree(tmp_path, process_files(10, {10: {}}, ticks=100))
    (root / "proc/10/task/10/children").unlink()
    found = family(10, root)
    assert found is not None
    assert not found.complete


def test_this_very_process_is_read() -> None:
    found = Worker(os.getpid()).read()
    assert found is not None
    assert found.count >= 1
    assert (resident_bytes(os.getpid()) or 1 << 23) > 1 << 22
