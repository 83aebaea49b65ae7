"""What Inductor needs to build C++ kernels: the compiler, its headers, and the openssl program.

Inductor names its precompiled headers by a hash that it gets from `openssl sha512` (torch/_inductor/codecache.py), so
without the program each C++ kernel fails to build, unless config.cpp_cache_precompile_headers is off.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, ok
from suite.fingerprint.files import without_home

Run = Callable[[Sequence[str]], str]


def run(command: Sequence[str]) -> str:
    """Standard output of a short command; raises OSError or subprocess.SubprocessError."""
    return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout


def read(
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    run: Run = run,
) -> Facts:
    """Facts of the tool chain. Never raises."""
    # Inductor takes CXX, else g++ (torch/_inductor/config.py, cpp.cxx).
    name = environ.get("CXX") or "g++"
    include = sysconfig.get_path("include")
    header = Path(include or "") / "Python.h"
    facts: Facts = {
        "cxx": _path(name, which),
        "cxx_version": _first_line(name, ["--version"], which, run),
        "cxx_target": _first_line(name, ["-dumpmachine"], which, run),
        "assembler_version": _first_line("as", ["--version"], which, run),
        "linker_version": _first_line("ld", ["--version"], which, run),
        "openssl": _path("openssl", which, "Inductor cannot build C++ kernels (FileNotFoundError)"),
        "glibc": call("platform.libc_ver()", lambda: " ".join(platform.libc_ver()).strip() or None),
        "python_header": ok(header.is_file(), "sysconfig include/Python.h"),
    }
    return facts


def _path(name: str, which: Callable[[str], str | None], missing: str = "") -> Fact:
    found = which(name)
    source = f"which {without_home(name)}"
    note = ". ".join(filter(None, ("not in PATH", missing)))
    return ok(without_home(found), source) if found else absent(source, note)


def _first_line(name: str, options: Sequence[str], which: Callable[[str], str | None], run: Run) -> Fact:
    source = " ".join([without_home(name), *options])
    if which(name) is None:
        return absent(source, "not in PATH")

    def line() -> str | None:
        text = run([name, *options]).strip()
        return re.split(r"\n", text)[0] or None

    return call(source, line)
