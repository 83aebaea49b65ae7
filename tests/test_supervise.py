"""What becomes of workers that misbehave, with real processes."""

import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from suite import supervise
from suite.protocol import Progress
from suite.supervise import Ended, Limits, Supervisor

PREAMBLE = """
import os, signal, sys, time, json
descriptor = int(sys.stdin.readline())
def tell(**fields): os.write(descriptor, json.dumps(fields).encode() + b"\\n")
"""


class Outcome:
    """A supervised script: how it ended and what it reported."""

    def __init__(self, tmp_path: Path, script: str, timeout_s: float = 30, memory_bytes: int | None = None) -> None:
        self.reports: list[Progress] = []
        self.pids: list[int] = []
        path = tmp_path / "worker.py"
        path.write_text(PREAMBLE + textwrap.dedent(script))
        supervisor = Supervisor(
            [sys.executable, str(path)],
            dict(os.environ),
            tmp_path / "log",
            Limits(timeout_s, memory_bytes),
            self.reports.append,
            lambda _resident: None,
        )
        self.ended: Ended = supervisor.run(lambda descriptor: f"{descriptor}\n".encode(), self.pids.append)
        self.log = (tmp_path / "log").read_text()


def _alive(pid: int) -> bool:
    """Whether a process runs; one that was killed and not yet reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_worker_that_does_its_work(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "tell(phase='measure', arm='eager', fraction=0.5); print('hello')")
    assert (found.ended.outcome, found.ended.exit_code, found.ended.message) == ("ok", 0, "")
    assert found.reports == [Progress(phase="measure", arm="eager", fraction=0.5)]
    assert "hello" in found.log


def test_reports_made_just_before_the_end_are_not_lost(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "[tell(phase='measure', fraction=n / 1000) for n in range(1000)]")
    assert len(found.reports) == 1000


@pytest.mark.parametrize(
    ("number", "outcome"), [(signal.SIGSEGV, "crashed"), (signal.SIGABRT, "crashed"), (signal.SIGKILL, "killed")]
)
def test_a_signal_is_named(tmp_path: Path, number: signal.Signals, outcome: str) -> None:
    found = Outcome(tmp_path, f"os.kill(os.getpid(), {int(number)}); time.sleep(10)")
    assert found.ended.outcome == outcome
    assert found.ended.signal == number.name and number.name in found.ended.message


def test_a_kill_by_the_kernel_for_want_of_memory_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = iter([3, 4])
    monkeypatch.setattr(supervise, "oom_kills", lambda: next(kills))
    found = Outcome(tmp_path, "os.kill(os.getpid(), 9); time.sleep(10)")
    assert found.ended.outcome == "out_of_memory" and "want of memory" in found.ended.message


def test_a_failure_ends_with_the_workers_own_sentence(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "tell(type='Failure', kind='failed', message='ValueError: no'); sys.exit(1)")
    assert (found.ended.outcome, found.ended.message) == ("failed", "ValueError: no")


def test_a_failed_allocation_is_out_of_memory(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "tell(type='Failure', kind='out_of_memory', message='MemoryError'); sys.exit(1)")
    assert found.ended.outcome == "out_of_memory" and not found.ended.unwritable


def test_a_bundle_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "tell(type='Failure', kind='bundle', message='disk full'); sys.exit(1)")
    assert found.ended.unwritable and found.ended.message == "disk full"


def test_a_silent_exit_status_is_told_with_the_log(tmp_path: Path) -> None:
    found = Outcome(tmp_path, "sys.exit(7)")
    assert found.ended.outcome == "failed" and "exit status 7" in found.ended.message and "log" in found.ended.message


def test_a_worker_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    script = """
        import subprocess
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "60"])
        tell(phase=str(child.pid))
        time.sleep(60)
    """
    start = time.monotonic()
    found = Outcome(tmp_path, script, timeout_s=1)
    assert found.ended.outcome == "timed_out" and time.monotonic() - start < 20
    child = int(found.reports[0].phase)
    deadline = time.monotonic() + 10
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def test_a_worker_that_eats_memory_is_stopped_at_the_ceiling(tmp_path: Path) -> None:
    found = Outcome(
        tmp_path,
        "x = bytearray(400 * 2**20); x[::4096] = b'x' * len(x[::4096]); time.sleep(30)",
        memory_bytes=200 * 2**20,
    )
    assert found.ended.outcome == "memory_ceiling"
    assert found.ended.peak_rss_bytes is not None and found.ended.peak_rss_bytes > 200 * 2**20


def test_a_worker_that_does_not_listen_is_no_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text("import sys; sys.exit(3)")
    supervisor = Supervisor(
        [sys.executable, str(tmp_path / "deaf.py")], dict(os.environ), tmp_path / "log", Limits(30, None), print, print
    )
    assert supervisor.run(lambda _descriptor: b"x" * 2**20).exit_code == 3


def test_a_command_that_does_not_exist_is_an_outcome(tmp_path: Path) -> None:
    supervisor = Supervisor([str(tmp_path / "nothing")], {}, tmp_path / "log", Limits(30, None), print, print)
    ended = supervisor.run(lambda _descriptor: b"")
    assert ended.outcome == "failed" and "could not be started" in ended.message
