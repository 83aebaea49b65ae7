"""What Inductor needs to build C++ kernels: the compiler, its headers, and the openssl program.

Inductor names its precompiled headers by a hash that it gets from `openssl sha512` (torch/_inductor/codecache.py), so
without the program each C++ kernel fails to build, unless config.cpp_cache_precompile_headers is off.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, ok
from suite.fingerprint.files import without_home

TIMEOUT_S = 5
Run = Callable[[Sequence[str]], str]
# Programs besides the C++ compiler, and the options with which each tells its version.
TOOLS = {
    "gcc": ("gcc", "--version"),
    "clang": ("clang++", "--version"),
    "assembler": ("as", "--version"),
    "linker": ("ld", "--version"),
    "ninja": ("ninja", "--version"),
    "nvcc": ("nvcc", "--version"),
    "ptxas": ("ptxas", "--version"),
}


def run(command: Sequence[str]) -> str:
    """Standard output of a short command; raises OSError or subprocess.SubprocessError."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


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
    questions: dict[str, tuple[str, list[str], Callable[[str], str | None]]] = {
        "cxx_version": (name, ["--version"], version_line),
        "cxx_target": (name, ["-dumpmachine"], version_line),
        "cxx_native_architecture": (name, ["-march=native", "-Q", "--help=target"], native_architecture),
        **{f"{tool}_version": (command, [option], version_line) for tool, (command, option) in TOOLS.items()},
    }
    chosen = "what the compiler builds for here, by the models and flags that it knows: not the processor's name"
    # Side by side: on a cold disk each program takes a while to start.
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = {fact: pool.submit(_ask, *question, which, run) for fact, question in questions.items()}
    answers = {fact: answer.result() for fact, answer in asked.items()}
    native = answers["cxx_native_architecture"]
    if native.value is not None:
        answers["cxx_native_architecture"] = ok(native.value, native.source, chosen)
    return {
        "cxx": _path(name, which),
        **answers,
        "openssl": _path("openssl", which, "Inductor cannot build C++ kernels (FileNotFoundError)"),
        "python_header": ok(header.is_file(), "sysconfig include/Python.h"),
    }


def version_line(text: str) -> str | None:
    """The line that tells the version: the first one, but NVIDIA's tools begin with their own name and a copyright."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    release = next((line for line in lines if re.match(r"Cuda compilation tools, release", line)), None)
    return release or (lines[0] if lines else None)


def native_architecture(text: str) -> str | None:
    """What -march=native means to the compiler here (Inductor builds with it), from `--help=target`."""
    match = re.search(r"^\s*-march=\s+(\S+)", text, re.MULTILINE)
    return f"-march={match[1]}" if match else None


def _path(name: str, which: Callable[[str], str | None], missing: str = "") -> Fact:
    found = which(name)
    source = f"which {without_home(name)}"
    note = "; ".join(filter(None, ("not in PATH", missing)))
    return ok(without_home(found), source) if found else absent(source, note)


def _ask(
    name: str,
    options: Sequence[str],
    parse: Callable[[str], str | None],
    which: Callable[[str], str | None],
    run: Run,
) -> Fact:
    source = " ".join([without_home(name), *options])
    if which(name) is None:
        return absent(source, "not in PATH")
    return call(source, lambda: parse(run([name, *options])), "its answer was not understood")
