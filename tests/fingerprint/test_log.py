from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from suite.fingerprint.effective import log

# Recorded with intel-openmp 2025 on two CPUs, KMP_SETTINGS=1 and the tutorial's variables; lines left out.
KMP_SETTINGS = """\

User settings:

   KMP_AFFINITY=granularity=fine,compact,1,0
   KMP_BLOCKTIME=1
   KMP_SETTINGS=1

Effective settings:

   KMP_ABORT_DELAY=0
   KMP_ADAPTIVE_LOCK_PROPS='1,1024'
   KMP_BLOCKTIME=1ms
   KMP_CPUINFO_FILE: value is not defined
   KMP_SETTINGS=true
   OMP_NESTED: deprecated; max-active-levels-var=1
   OMP_NUM_THREADS='2'
   OMP_PLACES='threads(2)'
   OMP_THREADS_RESERVE='structured(1),free_agent(0)
   OMP_TOOL_LIBRARIES=/home/ada/lib/tool.so
   KMP_AFFINITY='noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=thread,compact,1,0'


   a line of the benchmark
   KMP_LATER=1
"""
# Each recorded from the library that says it.
COMPLAINTS = [
    "ERROR: ld.so: object '/nowhere/libiomp5.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
    "ERROR: ld.so: object '/etc/passwd' from LD_PRELOAD cannot be preloaded (invalid ELF header): ignored.",
    "<jemalloc>: Invalid conf pair: dirty_decay_msx:-1",
    "<jemalloc>: Invalid conf value: background_thread:maybe",
    "<jemalloc>: Conf string ends with key",
    'OMP: Warning #58: KMP_AFFINITY: parameter invalid, ignoring "nonsense".',
    "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.",
    "libgomp: Invalid value for environment variable OMP_NUM_THREADS",
    "libnuma: Warning: node argument 3 is out of range",
    "set_mempolicy: Operation not permitted",
    "taskset: failed to set pid 12630's affinity: Invalid argument",
    "malloc(): corrupted top size",
    "double free or corruption (out)",
    "python: symbol lookup error: /x/libtorch_cpu.so: undefined symbol: GOMP_parallel",
]
OTHERS = """\
OMP: Info #104: KMP_BLOCKTIME value "200" will be used.
OMP: pid 3 tid 4 thread 0 bound to OS proc set {0}
UserWarning: free() is deprecated
[W708 10:00:00] Warning: something of torch
"""


def test_effective_settings_are_what_stands_after_their_heading() -> None:
    settings = log.openmp_settings(KMP_SETTINGS)
    assert settings == {
        "KMP_ABORT_DELAY": "0",
        "KMP_ADAPTIVE_LOCK_PROPS": "1,1024",
        "KMP_BLOCKTIME": "1ms",
        "KMP_SETTINGS": "true",
        "OMP_NUM_THREADS": "2",
        "OMP_PLACES": "threads(2)",
        "OMP_THREADS_RESERVE": "structured(1),free_agent(0)",
        "OMP_TOOL_LIBRARIES": "~/lib/tool.so",
        "KMP_AFFINITY": "noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=thread,compact,1,0",
    }


def test_the_first_of_several_blocks_stands() -> None:
    child = KMP_SETTINGS.replace("KMP_BLOCKTIME=1ms", "KMP_BLOCKTIME=200ms")
    assert log.openmp_settings(KMP_SETTINGS + child)["KMP_BLOCKTIME"] == "1ms"


def test_a_log_without_settings_has_none() -> None:
    assert log.openmp_settings("User settings:\n\n   KMP_SETTINGS=1\n") == {}


@pytest.mark.parametrize("line", COMPLAINTS)
def test_a_complaint_is_recognised(line: str) -> None:
    assert log.complaints(f"before\n{line}\nafter\n") == [line]


def test_what_is_no_complaint_is_left_out() -> None:
    assert log.complaints(OTHERS + KMP_SETTINGS) == []


def test_repeated_complaints_are_counted() -> None:
    assert log.complaints(f"{COMPLAINTS[2]}\n" * 3) == [f"{COMPLAINTS[2]} (3 times)"]


def test_complaints_are_bounded_and_name_no_home() -> None:
    lines = [f"<jemalloc>: Invalid conf pair: x{number}:{'y' * 1000}" for number in range(100)]
    found = log.complaints("\n".join(lines))
    assert len(found) == log.MOST_MESSAGES + 1
    assert found[-1] == "and 60 other complaints"
    assert max(map(len, found)) <= log.LONGEST_MESSAGE
    (line,) = log.complaints(COMPLAINTS[0].replace("/nowhere", "/home/ada"))
    assert "ada" not in line


READ = "import sys; from suite.fingerprint.effective import log; sys.stderr.write('mine'); sys.stdout.write(log.written_since({offset}))"


@pytest.mark.parametrize(("offset", "seen"), [(0, "earlier incarnationmine"), (19, "mine"), (1000, "")])
def test_a_process_reads_what_it_wrote_itself_from_its_own_log(tmp_path: Path, offset: int, seen: str) -> None:
    path = tmp_path / "worker.log"
    path.write_text("earlier incarnation")
    with path.open("ab") as errors:
        done = subprocess.run(
            [sys.executable, "-c", READ.format(offset=offset)], stdout=subprocess.PIPE, stderr=errors, check=True
        )
    assert done.stdout.decode() == seen


def test_a_pipe_is_no_log() -> None:
    done = subprocess.run([sys.executable, "-c", READ.format(offset=0)], capture_output=True, check=True)
    assert done.stdout == b""
