from __future__ import annotations

import _ctypes
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from suite.fingerprint.effective import elf

PYTHON_API = re.compile(r"Py(Err|Obj)\w+")


@pytest.fixture(scope="module")
def library() -> Path:
    """A library that is sure to be there: that of ctypes, whose undefined symbols the interpreter answers."""
    if not getattr(_ctypes, "__file__", None):
        pytest.skip("ctypes is built into this interpreter")
    return Path(_ctypes.__file__)


def read(path: Path) -> elf.Imports:
    found = elf.imports(path, PYTHON_API)
    assert isinstance(found, elf.Imports), found
    return found


def test_undefined_symbols_and_needed_libraries_are_read(library: Path) -> None:
    found = read(library)
    assert "PyErr_SetString" in found.symbols
    assert all(PYTHON_API.fullmatch(name) for name in found.symbols)
    assert any(name.startswith("libc.so") for name in found.needed)
    assert found.first_page[0] == 0


def test_each_imported_function_has_a_place_for_its_address(library: Path) -> None:
    found = read(library)
    assert found.slots["PyErr_SetString"]
    assert elf.imports(library, PYTHON_API, with_slots=False) == elf.Imports(
        found.needed, found.symbols, {}, found.first_page
    )


def test_symbols_that_a_library_defines_itself_are_not_imports(library: Path) -> None:
    assert "PyInit__ctypes" in str(library.read_bytes())
    found = elf.imports(library, re.compile(r"PyInit_\w+"))
    assert isinstance(found, elf.Imports)
    assert found.symbols == []


@pytest.mark.parametrize("style", ["sysv", "gnu"])
def test_both_kinds_of_hash_tables_lead_to_the_undefined_symbols(tmp_path: Path, style: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "x.c").write_text("extern int omp_asked(void); int omp_answered(void) { return omp_asked(); }")
    path = tmp_path / "x.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-Wl,--hash-style={style}", "-o", path, tmp_path / "x.c"], check=True
    )
    found = elf.imports(path, re.compile(r"omp_\w+"))
    assert isinstance(found, elf.Imports)
    assert found.symbols == list(found.slots) == ["omp_asked"]


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + b"\0" * 64, b"\x7fELF\x02\x01" + b"\0" * 64]
)
def test_a_file_that_is_no_library_is_a_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert isinstance(elf.imports(path, PYTHON_API), str)


def test_a_missing_file_is_a_reason(tmp_path: Path) -> None:
    assert elf.imports(tmp_path / "x.so", PYTHON_API) == "cannot be read: No such file or directory"


def test_a_broken_library_never_raises(library: Path, tmp_path: Path) -> None:
    content, random_bytes = library.read_bytes(), random.Random(1)
    path = tmp_path / "x.so"
    for _ in range(100):
        broken = bytearray(content[: random_bytes.randrange(64, len(content))])
        for _ in range(40):
            broken[random_bytes.randrange(min(4096, len(broken)))] = random_bytes.randrange(256)
        path.write_bytes(broken)
        assert isinstance(elf.imports(path, PYTHON_API), str | elf.Imports)
