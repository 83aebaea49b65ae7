"""What a process finds out about itself: mapped libraries, threads, environment, torch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.bundle.schema import Effective, Fact
from suite.fingerprint import effective, runtime
from suite.fingerprint import torch as torch_facts
from suite.fingerprint.files import Text
from suite.launch import libraries
from tests.fingerprint.trees import write_tree

# Recorded in a worker with both libraries preloaded, shortened.
MAPS = """\
55d000000000-55d000001000 r--p 00000000 fe:00 1 /usr/bin/python3.11
7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /tmp/my venv/torch/lib/libgomp-98b21ff3.so.1
7f0000001000-7f0000002000 r-xp 00000000 fe:00 3 /opt/lib/libiomp5.so (deleted)
7f0000002000-7f0000003000 r-xp 00000000 fe:00 4 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
7f0000003000-7f0000004000 r-xp 00000000 fe:00 5 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000004000-7f0000005000 r-xp 00000000 fe:00 6 /x/numpy.libs/libscipy_openblas64_-32a4b2a6.so
7f0000005000-7f0000006000 r-xp 00000000 fe:00 7 /x/lib/libmkl_core.so.2
7f0000006000-7f0000007000 r-xp 00000000 fe:00 8 /usr/lib/libcap.so.2
7f0000007000-7f0000008000 rw-p 00000000 00:00 0
7ffc85daf000-7ffc85dd0000 rw-p 00000000 00:00 0 [stack]
"""

PARALLEL_INFO = """ATen/Parallel:
\tat::get_num_threads() : 2
OpenMP 201511 (a.k.a. OpenMP 4.5)
\tomp_get_max_threads() : 2
Environment variables:
\tOMP_NUM_THREADS : [not set]
ATen parallel backend: OpenMP
"""


def test_libraries_are_sorted_into_kinds_by_their_file_names() -> None:
    assert runtime.libraries_by_kind(MAPS) == {
        "openmp": ["libgomp-98b21ff3.so.1", "libiomp5.so"],
        "allocator": ["libc.so.6", "libjemalloc.so.2"],
        "blas": ["libmkl_core.so.2", "libscipy_openblas64_-32a4b2a6.so"],
    }


def test_an_address_is_traced_to_its_file() -> None:
    assert runtime.file_at(MAPS, 0x7F0000001800) == "/opt/lib/libiomp5.so"
    assert runtime.file_at(MAPS, 0x7F0000001000) == "/opt/lib/libiomp5.so"
    assert runtime.file_at(MAPS, 0x7F0000007000) is None
    assert runtime.file_at(MAPS, 0x7FFC85DAF000) is None
    assert runtime.file_at(MAPS, 1) is None


def test_this_processs_malloc_is_found() -> None:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    (name,) = runtime.called_libraries(maps)["allocator_called"]
    assert name.startswith("lib")


def test_the_memory_policy_is_the_first_lines() -> None:
    assert runtime.memory_policy(Text("55d0 bind:0 file=/usr/bin/python3.11 mapped=1", "ok", "x")) == "bind:0"
    assert runtime.memory_policy(Text(None, "absent", "x")) is None


def test_only_variables_that_matter_are_kept_without_secrets_and_homes() -> None:
    environ = {
        "OMP_NUM_THREADS": "2",
        "KMP_AFFINITY": "reset",
        "MALLOC_CONF": "x:1",
        "LD_PRELOAD": "/home/ada/lib/libiomp5.so",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor_ada",
        "ATEN_CPU_CAPABILITY": "avx2",
        "TORCHINDUCTOR_REDIS_URL": "redis://user:secret@host",
        "HF_HUB_TOKEN": "hf_secret",
        "USER": "ada",
        "SSH_AUTH_SOCK": "/tmp/x",
    }
    kept = effective.relevant_environment(environ)
    assert set(kept) == {
        "OMP_NUM_THREADS",
        "KMP_AFFINITY",
        "MALLOC_CONF",
        "LD_PRELOAD",
        "TORCHINDUCTOR_CACHE_DIR",
        "ATEN_CPU_CAPABILITY",
    }
    assert "ada" not in str(kept)


def test_openmp_workers_are_counted_by_name_and_mask(tmp_path: Path) -> None:
    threads = {10: ("python", "0-1"), 11: ("openmp_worker", "1"), 12: ("openmp_worker", "0-1")}
    files = {
        f"/proc/self/task/{number}/status": f"Name:\t{name}\nCpus_allowed_list:\t{cpus}"
        for number, (name, cpus) in threads.items()
    }
    counts = effective.thread_counts(write_tree(tmp_path, files))
    assert counts == {"process_threads": 3, "openmp_workers": 2, "openmp_workers_bound": 1}


def test_parallel_info_is_parsed() -> None:
    info = torch_facts.parse_parallel_info(PARALLEL_INFO)
    assert info["omp_get_max_threads()"] == "2"
    assert info["at::get_num_threads()"] == "2"
    assert info["ATen parallel backend"] == "OpenMP"


def test_a_build_setting_is_found_by_name() -> None:
    config = "PyTorch built with:\n  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, USE_MKL=ON, "
    assert torch_facts.build_setting(config, "BLAS_INFO") == "mkl"
    assert torch_facts.build_setting(config, "MKL") is None


def test_a_torch_that_cannot_be_imported_is_one_absent_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    facts = torch_facts.read()
    assert list(facts) == ["version"]
    assert facts["version"].status == "absent"


WORKER = """
import sys, msgspec, torch
torch.ones(256, 256) @ torch.ones(256, 256)
from suite.fingerprint.effective import read_effective
sys.stdout.buffer.write(msgspec.json.encode(read_effective("a/b", 1, "2026-01-01T00:00:00Z", 1.0, 20.0)))
"""


@pytest.fixture(scope="module")
def repository() -> Path:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    return Path(__file__).parents[2]


def test_a_worker_reports_what_is_in_force(repository: Path) -> None:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WORKER], cwd=repository, env=environ, capture_output=True, check=True)
    seen = msgspec.json.decode(done.stdout, type=Effective)
    assert (seen.case, seen.process) == ("a/b", 1)
    assert seen.affinity == sorted(os.sched_getaffinity(0))
    assert seen.threads["torch_intra_op"] == seen.threads["omp_num_threads"] == 1
    assert seen.environment["OMP_NUM_THREADS"] == "1"
    assert seen.torch["grad_enabled"] == "True"
    assert not [name for name, value in {**seen.torch, **seen.runtime}.items() if value.startswith("unknown")]
    assert seen.mapped_libraries["openmp_called"][0] in seen.mapped_libraries["openmp"]
    assert seen.peak_rss_bytes > 50 << 20


def test_torchs_facts_are_printed_by_a_process_of_their_own(repository: Path) -> None:
    command = [sys.executable, "-m", "suite.fingerprint.torch"]
    done = subprocess.run(command, cwd=repository, capture_output=True, check=True)
    facts = msgspec.json.decode(done.stdout, type=dict[str, Fact])
    assert facts["version"].status == "ok"
    assert facts["cpu_capability"].status == "ok"
    assert facts["intra_op_threads"].value >= 1


JEMALLOC_PROBE = "from suite.fingerprint.runtime import jemalloc_serves; print(jemalloc_serves())"


@pytest.mark.parametrize("preloaded", [True, False])
def test_jemalloc_is_asked_whether_it_serves(preloaded: bool) -> None:
    found = libraries.find({})
    if found.jemalloc.path is None:
        pytest.skip("jemalloc is not installed")
    environment = {**os.environ, "LD_PRELOAD": str(found.jemalloc.path) if preloaded else ""}
    done = subprocess.run(
        [sys.executable, "-c", JEMALLOC_PROBE], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == str(preloaded)
