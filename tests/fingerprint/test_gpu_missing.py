"""Why nothing is measured on a GPU: on machines without one, with one that is hidden, and with one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from suite.bundle.schema import Fact
from suite.commands import app
from suite.fingerprint.gpu.devices import PCI, Seen, why_none
from suite.fingerprint.gpu.missing import refusal

NOTHING = Seen(0, (), False, False, "none", "")


def sentence(seen: Seen, asked: int | str = "not asked") -> str:
    return refusal({"count": why_none(seen, asked)}, "2.13.0+cpu")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (NOTHING, f"no device of NVIDIA's on PCI ({PCI})"),
        (Seen(None, (), False, False, "podman", ""), "no PCI bus is visible"),
        (Seen(1, ("nouveau",), False, False, "none", ""), "bound to nouveau: NVIDIA's kernel driver is not loaded"),
        (Seen(2, (), True, False, "docker", ""), "no /dev/nvidiactl in this container: start it with --gpus all"),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(seen: Seen, said: str):
    found = sentence(seen)
    assert said in found
    assert found.startswith("nothing can be measured on a GPU here: ")
    assert "\n" not in found and found.endswith(".")


H200 = {
    "count": Fact(value=1, source="NVML", status="ok"),
    "gpu 0 name": Fact(value="NVIDIA H200", source="NVML", status="ok"),
}
DRIVER_THERE = Seen(1, ("nvidia",), True, True, "none", "")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.13.0+cpu", "1 GPU is here (NVIDIA H200), but torch 2.13.0+cpu is built without CUDA"),
        ("", "1 GPU is here (NVIDIA H200), but torch is not installed"),
    ],
)
def test_with_a_gpu_it_is_torch_that_is_missing(version: str, said: str):
    assert refusal(H200, version).startswith(said)


@pytest.mark.parametrize("version", ["2.11.0+cu130", "2.13.0"])
def test_with_a_gpu_and_such_a_torch_nothing_is_missing(version: str):
    assert refusal(H200, version) == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [(9, "the kernel driver is not loaded"), (12, "libnvidia-ml.so.1 is not installed"), (18, "different versions")],
)
def test_nvml_that_cannot_be_asked_is_a_reason_only_for_a_torch_without_cuda(asked: int, said: str):
    facts = {"count": why_none(DRIVER_THERE, asked)}
    assert said in refusal(facts, "2.13.0+cpu")
    assert refusal(facts, "2.11.0+cu130") == ""


def test_where_nothing_is_seen_the_drivers_own_library_has_the_last_word():
    facts = {"count": why_none(NOTHING, "not asked")}
    assert "no device of NVIDIA's" in refusal(facts, "2.11.0+cu130")
    assert refusal(facts, "2.11.0+cu130", driver_library=True) == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "-1"], "DEVICE (--device) is the number of a GPU, 0 or more, not '-1'."),
        (["--device", "abc"], "DEVICE (--device) is the number of a GPU, 0 or more, not 'abc'."),
        (["--passes", "nope"], "unknown pass 'nope'"),
        (["--cases", "nope"], "unknown case 'nope'"),
        (["--arms", "nope"], "unknown arm 'nope'"),
        (["--preset", "nope"], "unknown preset 'nope'"),
        (["--settings", "nope"], "unknown settings 'nope'"),
        (["--processes", "0"], "a case needs at least one process, not 0."),
        (["--threads", "-3"], "threads must be at least one, not -3."),
    ],
)
def test_words_that_no_gpu_could_make_right_are_told_before_the_missing_gpu(options: list[str], said: str):
    done = CliRunner().invoke(app, ["bench-gpu", *options])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("speedproof: ") and said in done.stderr


def test_the_command_ends_with_status_2_and_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "suite", "bench-gpu"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("speedproof: ") and done.stderr.count("\n") == 1
