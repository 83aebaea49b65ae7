"""How a program of the suite begins and ends, on programs of a few lines that are started as ours are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.bundle import program

ROOT = Path(__file__).parents[2]
INTERRUPTED = "speedproof: interrupted before it was done.\n"


def start(folder: Path, body: str, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """Start a command line whose `app` is `body`, as `python -m suite` starts its own."""
    lines = "\n    ".join(body.splitlines())
    (folder / "tiny.py").write_text(
        f"import os, sys, time\nfrom suite.bundle import program\ndef app():\n    {lines}\n", "utf-8"
    )
    code = "from suite.bundle import program; program.run('tiny', quiet_libraries='QUIET' in __import__('os').environ)"
    (folder / "main.py").write_text(code)
    return subprocess.Popen(
        # Tests that run in the background have SIGINT ignored, and so would what they start.
        ["env", "--default-signal", *prefix, sys.executable, str(folder / "main.py")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", program.SIGNALS)
def test_a_signal_once_or_twice_ends_it_with_one_sentence_and_its_status(tmp_path: Path, number: int) -> None:
    kill = f"os.kill(os.getpid(), {int(number)})"
    body = f"class Last:\n    def __del__(self, os=os): {kill}\nglobals()['last'] = Last()"
    body += "\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nfinally:"
    body += f"\n    {kill}\n    time.sleep(0.01)\n    print('put in order', flush=True)"
    started = start(tmp_path, body)
    assert started.stdout and started.stdout.readline() == "ready\n"
    started.send_signal(number)
    os.killpg(started.pid, number)
    told, said = started.communicate(timeout=10)
    assert (started.returncode, told, said) == (128 + number, "put in order\n", INTERRUPTED)


def test_a_block_that_is_held_is_finished_first(tmp_path: Path) -> None:
    signalled = "os.kill(os.getpid(), 15)\n    time.sleep(0.01)"
    body = f"with program.held():\n    print('ready')\n    {signalled}\n    print('whole')\nprint('not any more')"
    started = start(tmp_path, body)
    told, said = started.communicate(timeout=10)
    assert (started.returncode, told, said) == (143, "ready\nwhole\n", INTERRUPTED)


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}]
)
def test_files_are_utf8_under_any_locale_and_the_terminal_gets_what_it_can_show(
    tmp_path: Path, locale: dict[str, str]
) -> None:
    (tmp_path / "µ.txt").write_text("2×", "utf-8")
    body = "os.chdir(os.path.dirname(__file__))\nname = [n for n in os.listdir() if n.endswith('.txt')][0]"
    body += "\nprint(name, open(name).read())"
    told, said = start(tmp_path, body, **locale).communicate(timeout=10)
    assert (told, said) == ("\\xb5.txt 2\\xd7\n", "")


def test_a_want_of_memory_is_told_as_that(tmp_path: Path) -> None:
    short = start(tmp_path, "pass", prefix=("prlimit", f"--as={350 << 20}"))
    _, said = short.communicate(timeout=10)
    assert (short.returncode, said.count("\n")) == (2, 1)
    assert "too little memory to work in: ulimit -v allows 350 MiB" in said
    failed = start(tmp_path, "raise ImportError('libx.so: failed to map segment from shared object')")
    _, said = failed.communicate(timeout=10)
    assert failed.returncode == 2 and "too little memory" in said and "Traceback" not in said


def test_any_other_error_keeps_its_traceback(tmp_path: Path) -> None:
    failed = start(tmp_path, "raise ValueError('a fault of ours')")
    _, said = failed.communicate(timeout=10)
    assert failed.returncode == 1 and "Traceback" in said


def test_libraries_own_words_stay_off_the_terminal_where_they_are_not_asked_for(tmp_path: Path) -> None:
    body = (
        "import logging, warnings\nos.write(2, b'Fontconfig error')\nlogging.getLogger('matplotlib').warning('a cache')"
    )
    body += "\nwarnings.warn('old')\nprogram.say('ours')"
    assert start(tmp_path, body, QUIET="1").communicate(timeout=10) == ("", "speedproof: ours\n")


def test_a_name_that_would_break_the_line_is_escaped() -> None:
    assert program.plain("a\nb\udcff\x1b[1m é") == "a\\nb\\udcff\\x1b[1m é"
    assert program.is_text("/tmp/é") and not program.is_text(b"/tmp/\xff")
