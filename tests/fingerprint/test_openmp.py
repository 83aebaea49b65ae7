from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.fingerprint.effective import maps, openmp, runtime
from suite.launch import libraries

ROOT = Path(__file__).parents[2]
# A library linked to Intel's run-time is opened before GNU's is opened with RTLD_GLOBAL, as torch does it; one linked to that, after.
TWO_RUN_TIMES = """
import ctypes, sys, msgspec
from pathlib import Path
from suite.fingerprint.effective import maps
from suite.fingerprint.effective import openmp
from suite.fingerprint.effective import runtime
early = ctypes.CDLL(sys.argv[1])
ctypes.CDLL(sys.argv[3], mode=ctypes.RTLD_GLOBAL)
late = ctypes.CDLL(sys.argv[2])
mappings = maps.parse(Path("/proc/self/maps").read_text())
found = openmp.answers(mappings, runtime.library_names(mappings))
sys.stdout.buffer.write(msgspec.json.encode([found.symbols, found.callers]))
"""
SOURCE = "extern int omp_get_max_threads(void); int ask(void) { return omp_get_max_threads(); }"


def test_symbols_are_traced_to_the_file_that_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the interpreter's own functions, which every extension module asks for."""
    monkeypatch.setattr(openmp, "SYMBOLS", re.compile(r"PyErr_\w+"))
    mappings = maps.parse(Path("/proc/self/maps").read_text(encoding="utf-8"))
    found = openmp.answers(mappings, runtime.library_names(mappings))
    assert len(found.symbols) == 1
    (name,) = found.symbols
    assert "python" in name
    assert "PyErr_SetString" in found.symbols[name]
    assert 0 < found.bound <= found.total


def test_without_maps_nobody_answers() -> None:
    assert openmp.answers([], {}).symbols == {}


def test_two_run_times_that_answer_different_libraries_are_both_named(tmp_path: Path) -> None:
    intel, compiler = libraries.find({}).openmp.path, shutil.which("cc")
    gnu = libraries.parse_ldconfig(libraries._ldconfig()).get("libgomp.so.1", [])
    if intel is None or compiler is None or not gnu:
        pytest.skip("needs libiomp5, libgomp and a C compiler")
    (tmp_path / "x.c").write_text(SOURCE)
    early, late = tmp_path / "libearly.so", tmp_path / "liblate.so"
    for library, run_time in ((early, intel), (late, gnu[0])):
        link = [str(run_time), f"-Wl,-rpath,{run_time.parent}"]
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "x.c", *link], check=True)
    command = [sys.executable, "-c", TWO_RUN_TIMES, str(early), str(late), str(gnu[0])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    symbols, callers = msgspec.json.decode(done.stdout)
    # The early one was bound while Intel's was the only run-time. Looking its symbol up now would find GNU's, and be wrong.
    name = gnu[0].resolve().name
    assert symbols == {"libiomp5.so": ["omp_get_max_threads"], name: ["omp_get_max_threads"]}
    assert callers == {"libiomp5.so": ["libearly.so"], name: ["liblate.so"]}


def test_kernels_of_inductor_are_counted_and_others_named() -> None:
    kernel = "c" + "a2" * 25 + ".main.so"
    assert (
        openmp.callers_shown([kernel, "libtorch_cpu.so", "c" + "b3" * 25 + ".main.so"])
        == "libtorch_cpu.so, 2 compiled kernels"
    )
    assert openmp.callers_shown([f"lib{number}.so" for number in range(10)]).endswith("lib7.so, 2 more")
