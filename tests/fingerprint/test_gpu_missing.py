"""Why nothing is measured on a GPU: on machines without one, with one that is hidden, and with one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from suite.bundle.schema import Fact
from suite.fingerprint.gpu.devices import PCI, Seen, why_none
from suite.fingerprint.gpu.missing import why_not

NOTHING = Seen(0, (), False, False, "none", "")


def sentence(seen: Seen, asked: int | str = "not asked") -> str:
    return why_not({"count": why_none(seen, asked)})


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


def test_with_a_gpu_it_is_the_suite_that_is_missing():
    facts = {
        "count": Fact(value=1, source="NVML", status="ok"),
        "gpu 0 name": Fact(value="NVIDIA H200", source="NVML", status="ok"),
    }
    assert why_not(facts).startswith("1 GPU is here (NVIDIA H200), but measuring on GPUs is not there yet")


def test_the_command_ends_with_status_2_and_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "suite", "bench-gpu"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("speedproof: ") and done.stderr.count("\n") == 1
