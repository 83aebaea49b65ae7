"""What the orchestrator tells a worker, and what a worker reports while it runs. JSON on pipes; results go into the bundle."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Literal, NoReturn

import msgspec

from suite.bundle.schema import Arm, Case, Device, Pass, Planned, Procedure

Role = Literal["measure", "profile"]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's work, read from its standard input.

    `done` holds the numbers of blocks that earlier incarnations finished, `plan` the schedule they fixed; `check_accuracy` asks for
    accuracy.json; `pairs` is what a pilot found worth measuring (None: as many as the budget of a process allows);
    `not_run` maps an arm's name to the reason why it must not be tried. `log_offset` is the size in bytes that the worker's log had
    before this incarnation was started: what stands behind it is this incarnation's own. `parent` is the process to die with (0: none
    that the worker could see). `profile_pass` is the further pass that a profiling worker makes, in place of the case's own schedule.
    """

    bundle: str
    role: Role
    case: Case
    arms: list[Arm]
    procedure: Procedure
    process: int
    incarnation: int
    seed: int
    progress_descriptor: int
    parent: int
    check_accuracy: bool = False
    plan: Planned | None = None
    pairs: int | None = None
    done: list[int] = []
    not_run: dict[str, str] = {}
    log_offset: int = 0
    device: Device = Device()
    profile_pass: Pass | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's report: which phase it is in and which part of its work is done, from 0 to 1."""

    phase: str
    arm: str = ""
    fraction: float = 0.0


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker's last words when it fails: `kind` bundle means that results cannot be written any more."""

    kind: Literal["failed", "out_of_memory", "bundle"]
    message: str


class Reporter:
    """Writes progress to the orchestrator's pipe; a pipe that nobody reads is no reason to stop measuring."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, phase: str, arm: str = "", fraction: float = 0.0) -> None:
        self._send(msgspec.json.encode(Progress(phase=phase, arm=arm, fraction=fraction)))

    def failure(self, failure: Failure) -> None:
        """Report why the worker ends."""
        self._send(msgspec.json.encode(failure))

    def _send(self, line: bytes) -> None:
        try:
            os.write(self._descriptor, line + b"\n")
        except OSError:
            self._descriptor = -1


class _Line(msgspec.Struct):
    type: str = ""


def decode(line: bytes) -> Progress | Failure:
    """A line of the pipe."""
    if msgspec.json.decode(line, type=_Line).type == Failure.__name__:
        return msgspec.json.decode(line, type=Failure)
    return msgspec.json.decode(line, type=Progress)


def leave(status: int) -> NoReturn:
    """End this process now, with everything that was printed written out.

    An orderly end waits until Inductor's pool of compiling processes has started, only to stop it: ten seconds with 16 cores.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # What libraries of C wrote (MKL_VERBOSE, the allocator's statistics) stands in a buffer of its own.
    ctypes.CDLL(None).fflush(None)
    os._exit(status)
