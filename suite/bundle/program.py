"""How a program of ours begins and ends: UTF-8 whatever the locale, and a signal or a want of memory told in one sentence.

Both of its sides, the one that writes bundles and the one that reads them, are started through `run`.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

REFUSED = 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10.0
"""For so long after a signal further ones say nothing new: Ctrl-C reaches a program from the terminal and from make, and people press it
twice. Later ones count again, so that nothing can hang for good."""

LEAST_BYTES = 1 << 30
"""With less address space linear algebra libraries were seen to end a process with words of their own, or never to come back."""

WANT_OF_MEMORY = re.compile(
    r"MemoryError|[Cc]annot allocate memory|can't allocate memory|out of memory|bad_alloc|failed to map segment"
    r"|unable to allocate necessary resources|memory exhausted|Unable to allocate|can't start new thread"
)
"""What programs, libraries and the loader say when they get no memory (or, under a limit of memory, no thread)."""


class Stopped(BaseException):
    """A signal asked this program to end. No Exception, and no KeyboardInterrupt, which libraries answer in ways of their own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status that shells give a program that a signal ended."""
        return 128 + self.number


class _Signals:
    """What has been received; `held` counts the blocks that must not be broken off."""

    number = 0
    at = -PATIENCE_S
    held = 0
    waiting = False


def _receive(number: int, _frame: FrameType | None) -> None:
    if time.monotonic() - _Signals.at < PATIENCE_S:
        return
    _Signals.number, _Signals.at = number, time.monotonic()
    if _Signals.held:
        _Signals.waiting = True
        return
    raise Stopped(number)


@contextmanager
def held() -> Iterator[None]:
    """Finish this block before a signal is answered: what it writes belongs together. Raises Stopped at its end."""
    _Signals.held += 1
    try:
        yield
    finally:
        _Signals.held -= 1
        if _Signals.waiting and not _Signals.held:
            _Signals.waiting = False
            raise Stopped(_Signals.number)


def listen() -> None:
    """From now on each of `SIGNALS` raises Stopped in the main thread; one that is ignored (nohup) stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)


def run(commands: str, *, quiet_libraries: bool = False) -> NoReturn:
    """Run the command line `app` of the module `commands` to the process's end."""
    listen()
    try:
        _speak_utf8()
        if limit := memory_limit(LEAST_BYTES):
            _end(
                REFUSED,
                f"there is too little memory to work in: {limit}, and this starts with {LEAST_BYTES >> 20} MiB or more.",
            )
        if quiet_libraries:
            _quieten()
        importlib.import_module(commands).app()
    except Stopped as stopped:
        _end(stopped.status, "interrupted before it was done.")
    except Exception as error:
        if _Signals.number:
            # The terminal is gone, for example: what was being said when the signal came cannot be said any more.
            _end(128 + _Signals.number, "interrupted before it was done.")
        if not short_of_memory(error):
            raise
        _end(REFUSED, f"there is too little memory to work in ({memory_limit() or plain(error)}); allow more.")
    finally:
        if _Signals.number:
            # The interpreter puts the default back while it ends, and a repeated signal would change the exit status.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def say(sentence: object) -> None:
    """Print one sentence to standard error, on one line whatever a name in it holds; a terminal that is gone is no error."""
    with suppress(OSError):
        print(f"speedproof: {plain(sentence)}", file=sys.stderr, flush=True)


def plain(text: object) -> str:
    """A text on one line: what is no printable character (a name's newline, a byte that is no text) as its escape."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(text))


def is_text(name: str | bytes) -> bool:
    """Whether a name is UTF-8. Others cannot stand in a bundle, which is JSON."""
    try:
        os.fsencode(name).decode()
    except UnicodeDecodeError:
        return False
    return True


def short_of_memory(error: BaseException) -> bool:
    """Whether an error came of a failed allocation."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, ImportError | RuntimeError | OSError) and bool(WANT_OF_MEMORY.search(str(error)))


def memory_limit(below: float = float("inf")) -> str:
    """This process's own limit of memory in words; empty when it has none `below` so many bytes. (A control group's is told elsewhere.)"""
    import resource

    limits = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}
    found = {name: resource.getrlimit(kind)[0] for name, kind in limits.items()}
    given = {name: value for name, value in found.items() if 0 <= value < below}
    if not given:
        return ""
    name = min(given, key=lambda each: given[each])
    return f"{name} allows {given[name] / 2**20:.0f} MiB"


def _speak_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale's encoding is another: files and other programs' words are UTF-8 there too.

    The terminal gets what it can show.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if sys.flags.utf8_mode or sys.getfilesystemencoding().lower() == "utf-8":
        return
    encoding = os.environ.get("PYTHONIOENCODING") or f"{sys.stdout.encoding}:backslashreplace"
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": encoding}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _quieten() -> None:
    """Keep other libraries' words off the terminal: those in C write to descriptor 2, those in Python log or warn."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.basicConfig(handlers=[logging.NullHandler()])
    with suppress(OSError):
        ours = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        sys.stderr = os.fdopen(ours, "w", encoding=sys.stderr.encoding, errors="backslashreplace", buffering=1)


def _end(status: int, sentence: str) -> NoReturn:
    say(sentence)
    try:
        sys.stdout.flush()
    except OSError:
        # The interpreter would try again, and end with a status of its own.
        os._exit(status)
    raise SystemExit(status)
