"""The command itself, on this machine: in a process of its own, whatever this machine is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.bundle.schema import LaunchRequest
from suite.doctor import survey
from suite.doctor.survey import Options
from suite.errors import UserError

HEAVY = ("torch", "transformers", "matplotlib", "scipy", "numpy", "weasyprint")


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys\n"
        "from suite.commands import app\n"
        "try:\n"
        "    app(sys.argv[1:])\n"
        "finally:\n"
        f"    print('imported:', sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "doctor", "--engine", "native", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_the_document_is_whole_and_nothing_heavy_is_imported():
    ended = doctor("--json")
    assert "imported: []" in ended.stderr
    document = json.loads(ended.stdout)
    assert ended.returncode == (0 if document["possible"] else 1)
    assert [
        finding for finding in document["findings"] if finding["rule"] in ("doctor.look-failed", "doctor.check-failed")
    ] == []


def test_text_is_printed_and_nothing_heavy_is_imported():
    ended = doctor()
    assert "imported: []" in ended.stderr
    assert "What a run would do" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 100


def test_a_preload_that_is_not_there_is_named():
    document = json.loads(doctor("--json", LD_PRELOAD="/nope/libiomp5.so").stdout)
    wrong = [finding["rule"] for finding in document["findings"] if finding["severity"] == "wrong"]
    assert "launch.preload-ignored" in wrong


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "dokcer"], "unknown engine 'dokcer'"),
        (["--settings", "tunde"], "unknown settings 'tunde', did you mean 'tuned'?"),
        (["--cores", "9999"], "CPU 9999 may not be used here"),
        (["--threads", "0"], "threads must be at least one"),
    ],
)
def test_bad_usage_is_refused_in_a_sentence(arguments: list[str], complaint: str):
    ended = doctor(*arguments)
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert ended.stdout == ""


def test_a_folder_that_cannot_be_written_ends_with_status_one(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ended = doctor("--output", str(tmp_path / "file" / "results"))
    assert ended.returncode == 1
    assert "No run is possible here" in ended.stdout


def test_a_look_that_fails_costs_only_itself(monkeypatch: pytest.MonkeyPatch):
    def failing(*_: object, **__: object) -> object:
        raise ZeroDivisionError("no machine has this")

    monkeypatch.setattr("suite.fingerprint.gpu.devices.read", failing)
    monkeypatch.setattr("suite.launch.rehearsal.rehearse", failing)
    seen = survey.look(Options(engine="native"))
    assert set(seen.failures) == {"gpu", "rehearsal"}
    assert seen.facts["cpu"]
    assert seen.load.others_cpus is not None


def test_cores_that_cannot_be_used_are_refused_before_anything_else_is_waited_for():
    with pytest.raises(UserError, match="CPU 9999"):
        survey.look(Options(engine="native", launch=LaunchRequest(cores="9999")))
