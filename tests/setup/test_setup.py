"""docker/setup with a Python, a pip and an apt-get that only pretend: what it decides, says and repairs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Behaves as Python 3.11 does towards docker/setup. pip's calls are written to `calls`; `index` says what the CPU index
# does (here, away, broken once); the build that pip installed last stands in `torch`.
PYTHON = r"""#!/bin/bash
state=@STATE@
case "$*" in
  "-m venv --clear .venv")
    [ ! -e $state/hang-venv ] || { rm -rf .venv/* $state/hang-venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python
      touch $state/hanging; exec sleep 60; }
    rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python; touch .venv/pyvenv.cfg ;;
  "-m pip --version" | --version) echo "Python 3.11.0" ;;
  "-m pip install"*)
    echo "$*" >>$state/calls
    [ ! -e $state/hang ] || { rm $state/hang; touch $state/hanging; exec sleep 60; }
    [ ! -e $state/die ] || { rm $state/die; kill -9 $PPID; exit 0; }
    case "$*" in
      *https://*)
        case $(cat $state/index) in
          away) echo "ERROR: No matching distribution found for torch"; exit 1 ;;
          broken) echo here >$state/index; echo "ERROR: IncompleteRead"; exit 1 ;;
          bad) echo "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."
               echo "    torch==2.13.0 from https://index/torch.whl (from -r x (line 1)):"; exit 1 ;;
        esac
        echo 2.13.0+cpu >.venv/torch ;;
      *requirements-cuda.lock)
        [ ! -e $state/offline ] || { echo "ERROR: no network at all"; exit 1; }
        [ -e .venv/torch ] || echo 2.13.0 >.venv/torch ;;
    esac ;;
  "-m pip uninstall"*" torch") rm -f .venv/torch ;;
  *'version("torch")'*) cat .venv/torch ;;
esac
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of what set-up reads, with a folder of pretended programs before the machine's own."""

    root: Path
    state: Path

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.state}:{os.environ['PATH']}", "PYTHON": str(self.state / "python")}
        command = [str(self.root / "docker" / "setup"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)

    def program(self, name: str, text: str) -> None:
        path = self.state / name
        path.write_text(text)
        path.chmod(0o755)

    def pip_calls(self) -> list[str]:
        """The lock that each call of pip installed, in order; the CPU index's calls are marked."""
        calls = self.state / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [("cpu index: " if "https://" in line else "") + Path(line.split()[-1]).stem for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, state = tmp_path / "a checkout", tmp_path / "state"
    state.mkdir()
    shutil.copytree(ROOT / "docker", root / "docker")
    made = Checkout(root, state)
    made.program("python", PYTHON.replace("@STATE@", str(state)))
    # The machine's own packages are left alone, whatever it lacks.
    made.program("apt-get", "#!/bin/sh\nexit 100\n")
    made.program("sudo", "#!/bin/sh\nexit 1\n")
    (state / "index").write_text("here")
    return made


def test_the_cpu_build_is_taken_and_no_cuda_library(checkout: Checkout):
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert checkout.pip_calls() == ["cpu index: torch-cpu", "requirements-cpu"]
    assert "ready: Python 3.11.0, torch 2.13.0+cpu" in ended.stdout


def test_a_second_setup_does_nothing_and_says_nothing(checkout: Checkout):
    checkout.setup()
    calls = checkout.pip_calls()
    ended = checkout.setup()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert checkout.pip_calls() == calls


def test_without_the_cpu_index_the_default_build_comes_with_its_cuda_libraries(checkout: Checkout):
    (checkout.state / "index").write_text("away")
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert checkout.pip_calls()[1:] == ["requirements-cuda"]
    assert "cannot be reached" in ended.stdout
    assert "several GB" in ended.stdout


def test_a_target_that_was_asked_for_is_not_replaced_by_the_other(checkout: Checkout):
    (checkout.state / "index").write_text("away")
    ended = checkout.setup("--cpu")
    assert ended.returncode == 2
    assert "needs PyTorch's own index, which cannot be reached. Offline: put the wheel" in ended.stderr
    assert checkout.pip_calls() == ["cpu index: torch-cpu"]


def test_the_cuda_target_asks_no_cpu_index(checkout: Checkout):
    ended = checkout.setup("--cuda")
    assert ended.returncode == 0, ended.stderr
    assert checkout.pip_calls() == ["requirements-cuda"]
    assert "torch 2.13.0\n" in ended.stdout


def test_another_target_replaces_the_build_of_torch(checkout: Checkout):
    checkout.setup("--cpu")
    assert checkout.setup("--cuda").returncode == 0
    assert (checkout.root / ".venv" / "torch").read_text() == "2.13.0\n"
    assert checkout.setup("--cuda").stdout == ""
    assert checkout.setup().stdout == "", "without a wish, whichever build is there will do"


def test_only_torch_is_taken_from_its_own_index(checkout: Checkout):
    checkout.setup()
    entry = (checkout.root / ".venv" / "torch-cpu.lock").read_text().splitlines()
    assert [line for line in entry if not line.startswith(" ")] == ["torch==2.13.0 \\"]
    assert sum("--hash=sha256:" in line for line in entry) == 1


def test_a_package_that_is_not_the_locked_one_is_named(checkout: Checkout):
    (checkout.state / "index").write_text("bad")
    ended = checkout.setup()
    assert ended.returncode == 2
    assert (
        "what was downloaded for torch==2.13.0 is not what the lock names by its hash, and was refused" in ended.stderr
    )
    assert checkout.pip_calls() == ["cpu index: torch-cpu"], "a second download would be the same"


def test_a_download_that_broke_off_is_tried_again_from_the_same_index(checkout: Checkout):
    (checkout.state / "index").write_text("broken")
    assert checkout.setup().returncode == 0
    assert checkout.pip_calls() == ["cpu index: torch-cpu"] * 2 + ["requirements-cpu"]


def test_a_failed_step_shows_the_end_of_the_log_and_where_it_is(checkout: Checkout):
    (checkout.state / "index").write_text("away")
    (checkout.state / "offline").touch()
    ended = checkout.setup()
    assert ended.returncode == 2
    assert "ERROR: no network at all" in ended.stderr
    assert f"installing the locked packages failed (the whole log: {checkout.root}/.venv.log)" in ended.stderr
    (checkout.state / "offline").unlink()
    assert checkout.setup().returncode == 0


def test_the_developers_tools_are_added_to_what_is_there(checkout: Checkout):
    checkout.setup()
    assert checkout.setup("--dev").returncode == 0
    assert checkout.pip_calls()[-2:] == ["requirements-cpu", "requirements-dev"]
    assert checkout.pip_calls().count("cpu index: torch-cpu") == 1
    assert checkout.setup().stdout == ""


def test_a_changed_lock_is_installed(checkout: Checkout):
    checkout.setup()
    with (checkout.root / "docker" / "requirements-cpu.lock").open("a") as lock:
        lock.write("# changed\n")
    checkout.setup()
    assert checkout.pip_calls()[-2:] == ["requirements-cpu", "requirements-cpu"]


def test_an_environment_in_which_pip_was_killed_is_made_anew(checkout: Checkout):
    (checkout.state / "die").touch()
    assert checkout.setup().returncode == -9
    (checkout.root / ".venv" / "half-installed").touch()
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert "interrupted: starting again" in ended.stdout
    assert not (checkout.root / ".venv" / "half-installed").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_group", [False, True])
def test_an_interrupt_ends_it_at_once_with_one_sentence_and_it_goes_on(
    checkout: Checkout, number: signal.Signals, to_group: bool
):
    (checkout.state / "hang").touch()
    # Tests that run in the background have SIGINT ignored, and so would what they start.
    command = ["env", "--default-signal", str(checkout.root / "docker" / "setup")]
    environment = {
        **os.environ,
        "PATH": f"{checkout.state}:{os.environ['PATH']}",
        "PYTHON": str(checkout.state / "python"),
    }
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (checkout.state / "hanging").exists():
        assert process.poll() is None
    for _ in range(2):
        os.killpg(process.pid, number) if to_group else process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said) == (128 + number, "setup: interrupted; run it again, and it goes on.\n")
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert "interrupted: starting again" in ended.stdout


def test_an_environment_that_was_being_made_is_not_taken_for_one(checkout: Checkout):
    (checkout.state / "hang-venv").touch()
    environment = {
        **os.environ,
        "PATH": f"{checkout.state}:{os.environ['PATH']}",
        "PYTHON": str(checkout.state / "python"),
    }
    process = subprocess.Popen([str(checkout.root / "docker" / "setup")], env=environment, stderr=subprocess.DEVNULL)
    while not (checkout.state / "hanging").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 143
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert "interrupted: starting again" in ended.stdout
    (checkout.root / ".venv" / "pyvenv.cfg").unlink()
    (checkout.root / ".venv" / "stamp-run").unlink()
    assert checkout.setup().returncode == 0
    assert (checkout.root / ".venv" / "pyvenv.cfg").exists(), "pip was let loose on the system's own Python"


def test_a_linked_environment_of_another_checkout_is_left_alone(checkout: Checkout):
    others = checkout.state / "others"
    (others / "bin").mkdir(parents=True)
    (others / "kept").touch()
    (checkout.root / ".venv").symlink_to(others)
    ended = checkout.setup()
    assert ended.returncode == 2
    assert f".venv is a link to {others}" in ended.stderr
    assert sorted(path.name for path in others.iterdir()) == ["bin", "kept"]


def test_two_setups_at_once_install_once(checkout: Checkout):
    environment = {
        **os.environ,
        "PATH": f"{checkout.state}:{os.environ['PATH']}",
        "PYTHON": str(checkout.state / "python"),
    }
    command = [str(checkout.root / "docker" / "setup")]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert checkout.pip_calls() == ["cpu index: torch-cpu", "requirements-cpu"]


def test_missing_system_packages_are_named_with_their_effect_and_do_not_stop_it(checkout: Checkout):
    checkout.program("dpkg-query", "#!/bin/sh\nexit 1\n")
    ended = checkout.setup()
    assert ended.returncode == 0, ended.stderr
    assert "fonts-dejavu-core: the report's PDF may lack characters" in ended.stdout
    assert "to install them: sudo apt-get install --no-install-recommends" in ended.stdout
    assert "ready: " in ended.stdout


def test_without_python_3_11_it_says_what_to_do(checkout: Checkout):
    for name in ("python", "python3", "python3.11"):
        checkout.program(name, "#!/bin/sh\nexit 1\n")
    ended = checkout.setup()
    assert ended.returncode == 2
    assert ended.stderr.startswith("setup: Python 3.11 is missing: install it")
    assert ended.stderr.count("\n") == 1


def test_every_listed_system_package_states_its_effect():
    lines = (ROOT / "docker" / "system-packages").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if not line.startswith("#")]
    assert rows
    assert all(len(row) == 2 and row[0].strip() and row[1].strip() for row in rows)
