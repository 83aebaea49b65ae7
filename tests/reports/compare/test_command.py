"""The command: what it prints, and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from reports.commands import app
from suite.bundle.writer import RUN
from tests.reports.compare.bundles import POINTWISE, arms, bundle

TIMES = {POINTWISE: arms(100e3, 50e3, processes=3)}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reports", "compare", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def within(*arguments: object) -> Result:
    """The command in this process: it starts faster."""
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_runs_that_remain_are_compared_and_the_others_named(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name) for name in "abc"]
    (paths[1] / RUN).write_text('{"schema_version": "7\\u001b]0;owned\\u0007"}')
    done = run("a", paths[1], "c", "gone", "--output", tmp_path, "--baseline", "c")
    assert done.returncode == 0, done.stderr
    written = [Path(line) for line in done.stdout.splitlines()]
    assert [path.name for path in written] == ["comparison.html", "comparison.pdf", "comparison.csv"]
    assert all(path.is_file() and path.parent.parent == tmp_path for path in written)
    told = done.stderr.splitlines()
    assert len(told) == 2
    assert "left out" in told[0] and "schema 7" in told[0] and "gone" in told[1]
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_one_run_alone_is_refused_in_a_sentence(tmp_path: Path) -> None:
    bundle(tmp_path / "a", TIMES)
    done = run("a", "gone", "--output", tmp_path)
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("speedproof: only one bundle is left to compare, two are needed (gone: ")
    assert done.stdout == ""


def test_words_that_name_nothing_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        bundle(tmp_path / name, TIMES, unit=name)
    for wrong, sentence in (
        (("--baseline", "Z"), "the baseline Z names none of the runs; name one of A ("),
        (("--allow", "dtype"), "dtype cannot be allowed"),
        (("--allow", "cpu"), "there is no field cpu to allow; known: torch, threads."),
    ):
        done = within("a", "b", "--output", tmp_path, *wrong)
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert sentence in line


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name) for name in "ab"]
    (tmp_path / "file").write_text("")
    done = within(*paths, "--output", tmp_path / "file")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1 and "cannot be made" in done.stderr
