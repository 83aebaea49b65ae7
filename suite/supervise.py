"""Starts one worker and watches it to its end: time-out, memory ceiling, crash, kill. Never raises for what a worker does."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from suite.bundle.schema import Outcome
from suite.protocol import Failure, Progress, decode
from suite.telemetry import worker

TICK_S = 0.5
GRACE_S = 3.0
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS}


@dataclass(frozen=True)
class Limits:
    """A worker's limits: wall time in seconds, resident memory of its whole process tree in bytes."""

    timeout_s: float
    memory_bytes: int | None


@dataclass(frozen=True)
class Ended:
    """How a worker ended. `unwritable` means that the bundle takes no more results, so the run must stop."""

    outcome: Outcome
    message: str
    exit_code: int | None
    signal: str | None
    duration_ns: int
    peak_rss_bytes: int | None
    unwritable: bool = False


class Supervisor:
    """One worker's life. `on_progress` gets its reports, `on_tick` is called about twice a second with its resident bytes."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        limits: Limits,
        on_progress: Callable[[Progress], None],
        on_tick: Callable[[int | None], None],
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._log = log
        self._limits = limits
        self._on_progress = on_progress
        self._on_tick = on_tick
        self._failure: Failure | None = None
        self._peak: int | None = None
        self._buffer = b""

    def run(self, assignment: Callable[[int], bytes], started: Callable[[int], None] = lambda _pid: None) -> Ended:
        """Start the worker, hand it `assignment(progress descriptor)`, watch it and say how it ended.

        Raises:
            Stopped: after the worker's whole process group was stopped.
        """
        read, write = os.pipe()
        begin = time.monotonic_ns()
        kills_before = oom_kills()
        try:
            with self._log.open("ab") as log:
                try:
                    process = subprocess.Popen(
                        self._command,
                        env=self._environment,
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        pass_fds=[write],
                        start_new_session=True,
                    )
                except OSError as error:
                    return Ended("failed", f"the worker could not be started: {error}", None, None, 0, None)
                try:
                    started(process.pid)
                    self._hand_over(process, assignment(write))
                    os.close(write)
                    write = -1
                    verdict = self._watch(process, read, begin)
                finally:
                    stop(process)
        finally:
            os.close(read)
            if write >= 0:
                os.close(write)
        return self._judge(process.returncode, verdict, time.monotonic_ns() - begin, oom_kills() - kills_before)

    @staticmethod
    def _hand_over(process: subprocess.Popen[bytes], assignment: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(assignment)
            process.stdin.close()
        except BrokenPipeError:
            pass  # It died before it could listen; its exit status tells.

    def _watch(self, process: subprocess.Popen[bytes], read: int, begin: int) -> tuple[Outcome, str] | None:
        """Until the worker ends: None; or the reason for which it has to be stopped."""
        with selectors.DefaultSelector() as selector:
            selector.register(read, selectors.EVENT_READ)
            next_tick, open_pipe = 0.0, True
            while process.poll() is None:
                if open_pipe and selector.select(TICK_S):
                    open_pipe = self._read(read)
                elif not open_pipe:
                    time.sleep(TICK_S / 5)
                if time.monotonic() < next_tick:
                    continue
                next_tick = time.monotonic() + TICK_S
                resident = resident_bytes(process.pid)
                self._peak = max(self._peak or 0, resident or 0) or None
                self._on_tick(resident)
                if time.monotonic_ns() - begin > self._limits.timeout_s * 1e9:
                    return "timed_out", f"stopped after its time limit of {self._limits.timeout_s:g} s"
                ceiling = self._limits.memory_bytes
                if ceiling is not None and resident is not None and resident > ceiling:
                    return (
                        "memory_ceiling",
                        f"stopped at {resident / 2**30:.2f} GiB: the ceiling is {ceiling / 2**30:.2f} GiB",
                    )
            while open_pipe and selector.select(0):
                open_pipe = self._read(read)
        return None

    def _read(self, descriptor: int) -> bool:
        content = os.read(descriptor, 65536)
        *lines, self._buffer = (self._buffer + content).split(b"\n")
        for line in lines:
            try:
                report = decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(report, Failure):
                self._failure = report
            else:
                self._on_progress(report)
        return bool(content)

    def _judge(self, code: int, verdict: tuple[Outcome, str] | None, duration: int, kills: int) -> Ended:
        name = signal_name(-code) if code < 0 else None
        exit_code = code if code >= 0 else None

        def ended(outcome: Outcome, message: str, unwritable: bool = False) -> Ended:
            return Ended(outcome, message, exit_code, name, duration, self._peak, unwritable)

        if verdict is not None:
            return ended(*verdict)
        if code == 0:
            return ended("ok", "")
        if self._failure is not None:
            if self._failure.kind == "bundle":
                return ended("failed", self._failure.message, unwritable=True)
            return ended(self._failure.kind, self._failure.message)
        if code < 0:
            if -code == signal.SIGKILL and kills > 0:
                return ended("out_of_memory", "killed by the kernel for want of memory")
            if -code in CRASHES:
                return ended("crashed", f"crashed with {name}; its output is in {self._log.name}")
            return ended("killed", f"killed from outside with {name}")
        return ended("failed", f"ended with exit status {code}; its output is in {self._log.name}")


def signal_name(number: int) -> str:
    """SIGKILL for 9; the number for a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process and its descendants in bytes (shared pages count in each); None when it is gone."""
    quickly = worker.resident_bytes(pid)
    if quickly is not None:
        return quickly
    # A kernel that does not list children, or a process that is gone.
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    total = 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.Error:
            continue
    return total


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since boot."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a worker's whole process group, gently first, and reap it. Compile workers live in the same group."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is not None and number == signal.SIGTERM:
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
