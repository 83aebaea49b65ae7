"""What a process finds out about itself: mapped libraries, and torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.bundle.schema import Fact
from suite.fingerprint.effective import maps, runtime
from suite.fingerprint.software import torch as torch_facts

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
    assert runtime.libraries_by_kind(runtime.library_names(maps.parse(MAPS))) == {
        "openmp": ["libgomp-98b21ff3.so.1", "libiomp5.so"],
        "allocator": ["libc.so.6", "libjemalloc.so.2"],
        "blas": ["libmkl_core.so.2", "libscipy_openblas64_-32a4b2a6.so"],
    }


def test_two_files_of_one_name_are_two_libraries() -> None:
    second = "7f0000009000-7f000000a000 r-xp 00000000 fe:00 9 /usr/lib/libiomp5.so\n"
    names = runtime.library_names(maps.parse(MAPS + second))
    assert runtime.libraries_by_kind(names)["openmp"] == ["libgomp-98b21ff3.so.1", "libiomp5.so", "libiomp5.so (2)"]


def test_an_address_is_traced_to_its_file() -> None:
    mappings = maps.parse(MAPS)
    assert maps.file_at(mappings, 0x7F0000001800) == "/opt/lib/libiomp5.so"
    assert maps.file_at(mappings, 0x7F0000001000) == "/opt/lib/libiomp5.so"
    assert maps.file_at(mappings, 0x7F0000007000) is None
    assert maps.file_at(mappings, 0x7FFC85DAF000) is None
    assert maps.file_at(mappings, 1) is None
    assert maps.file_at([], 1) is None


def test_lines_that_are_no_mappings_are_skipped() -> None:
    assert maps.parse("nonsense\n\nx-y r-xp z fe:00 1 /lib/a.so\n") == []


def test_this_processs_malloc_is_found() -> None:
    mappings = maps.parse(Path("/proc/self/maps").read_text(encoding="utf-8"))
    (name,) = runtime.called_libraries(mappings, runtime.library_names(mappings))["allocator_called"]
    assert name.startswith("lib")


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


def test_torchs_facts_are_printed_by_a_process_of_their_own() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    command = [sys.executable, "-m", "suite.fingerprint.software.torch"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    facts = msgspec.json.decode(done.stdout, type=dict[str, Fact])
    assert facts["version"].status == "ok"
    assert facts["cpu_capability"].status == "ok"
    assert facts["intra_op_threads"].value >= 1


@pytest.mark.parametrize(
    ("flags", "best"),
    [
        ("fpu sse4_2", "DEFAULT"),
        ("avx2", "DEFAULT"),
        ("avx2 fma", "AVX2"),
        ("avx2 fma avx512f avx512vl avx512bw", "AVX2"),
        ("avx2 fma avx512f avx512vl avx512bw avx512dq", "AVX512"),
    ],
)
def test_the_best_vector_instructions_are_told_from_a_processors_flags(flags: str, best: str) -> None:
    assert torch_facts.best_capability(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: x\n") == best


def test_a_processor_of_another_kind_has_no_best_set() -> None:
    assert torch_facts.best_capability("processor\t: 0\nFeatures\t: fp asimd\n") is None
