"""Rehearse a launch: start a process as a worker is started, without torch, and see what is in force before anything is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from suite.bundle.schema import Effective
from suite.fingerprint.effective import log
from suite.fingerprint.files import without_home
from suite.launch.command import Launch

ARGUMENTS = ("-m", "suite.fingerprint.effective.rehearsal")
MOST_OUTPUT_BYTES = 4 << 20


def rehearse(launch: Launch, environ: Mapping[str, str] = os.environ, timeout_s: float = 5.0) -> Effective | str:
    """What is in force in a process started by `launch`, or the reason in one sentence why no such process could be had.

    `case` is "" in what is returned, and torch's fields are empty; `messages` and `openmp_settings` come from its standard error.
    """
    command = launch.command([sys.executable, *ARGUMENTS])
    try:
        # A session of its own: a time-out must also end what a prefix has started.
        process = subprocess.Popen(
            command,
            env={**launch.environ(environ), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"`{_shown(command)}` could not be started: {without_home(str(error))}."
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return f"`{_shown(command)}` did not end within {timeout_s:g} s."
    except BaseException:
        _kill(process)
        raise
    written = errors[:MOST_OUTPUT_BYTES].decode(errors="replace")
    if process.returncode:
        return f"`{_shown(command)}` {_ended(process.returncode)}{_last_words(written)}."
    return _understood(output, written) or f"`{_shown(command)}` did not say what is in force{_last_words(written)}."


def _understood(output: bytes, written: str) -> Effective | None:
    # Libraries may print to standard output; ours is the last line.
    lines = [line for line in output[-MOST_OUTPUT_BYTES:].splitlines() if line.strip()]
    try:
        seen = msgspec.json.decode(lines[-1], type=Effective)
    except (IndexError, msgspec.DecodeError):
        return None
    return msgspec.structs.replace(seen, messages=log.complaints(written), openmp_settings=log.openmp_settings(written))


def _shown(command: list[str]) -> str:
    return without_home(" ".join(["python" if word == sys.executable else word for word in command]))


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with exit status {code}"
    try:
        return f"crashed with {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last_words(written: str) -> str:
    """A complaint, or else the last line: what a prefix or a crashing library has said."""
    lines = log.complaints(written) or [without_home(line.strip()) for line in written.splitlines() if line.strip()]
    return f" ({lines[-1][: log.LONGEST_MESSAGE].rstrip('.')})" if lines else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.communicate()
