"""The facts of torch, read where torch is imported: in a worker, or by `python -m suite.fingerprint.software.torch` (JSON).

The only module of the fingerprint that imports torch, and only inside its functions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from suite.fingerprint.facts import Facts, call
from suite.fingerprint.files import read_text, without_home


def read() -> Facts:
    """Facts of the installed torch. Never raises: a torch that cannot be imported is one absent fact."""

    def imported() -> str:
        import torch

        return str(torch.__version__)

    facts: Facts = {"version": call("torch.__version__", imported)}
    if facts["version"].status != "ok":
        return facts
    for name, (source, reader) in _readers().items():
        facts[name] = call(source, reader)
    return facts


def _readers() -> dict[str, tuple[str, Callable[[], Any]]]:
    import torch

    config, parallel = torch.__config__.show, torch.__config__.parallel_info
    backends = torch.backends
    return {
        "git_revision": ("torch.version.git_version", lambda: torch.version.git_version),
        "debug_build": ("torch.version.debug", lambda: torch.version.debug),
        "compiler": ("torch.__config__.show()", lambda: built_with(config(), r"GCC|clang|MSVC")),
        "onednn": ("torch.__config__.show()", lambda: built_with(config(), r"Intel\(R\) MKL-DNN|oneDNN")),
        "mkl": ("torch.__config__.show()", lambda: built_with(config(), r"Intel\(R\) .*Math Kernel Library")),
        "openmp": ("torch.__config__.show()", lambda: built_with(config(), r"OpenMP")),
        "cuda": ("torch.version.cuda", lambda: torch.version.cuda),
        "hip": ("torch.version.hip", lambda: torch.version.hip),
        "config": ("torch.__config__.show()", lambda: without_home(config().strip())),
        "blas": ("torch.__config__.show() BLAS_INFO", lambda: build_setting(config(), "BLAS_INFO")),
        "parallel_info": ("torch.__config__.parallel_info()", lambda: without_home(parallel().strip())),
        "parallel_backend": ("parallel_info()", lambda: parse_parallel_info(parallel()).get("ATen parallel backend")),
        "cpu_capability": ("torch.backends.cpu.get_cpu_capability()", backends.cpu.get_cpu_capability),
        "intra_op_threads": ("torch.get_num_threads()", torch.get_num_threads),
        "inter_op_threads": ("torch.get_num_interop_threads()", torch.get_num_interop_threads),
        "mkldnn_available": ("torch.backends.mkldnn.is_available()", backends.mkldnn.is_available),
        "mkl_available": ("torch.backends.mkl.is_available()", backends.mkl.is_available),
        "openmp_available": ("torch.backends.openmp.is_available()", backends.openmp.is_available),
        "float32_matmul_precision": ("torch.get_float32_matmul_precision()", torch.get_float32_matmul_precision),
        "cuda_architectures": ("torch.cuda.get_arch_list()", lambda: torch.cuda.get_arch_list() or None),
        "cudnn": ("torch.backends.cudnn.version()", lambda: backends.cudnn.version() if torch.version.cuda else None),
        "triton": ("importlib.metadata triton", lambda: metadata.version("triton")),
        "cxx11_abi": ("torch.compiled_with_cxx11_abi()", torch.compiled_with_cxx11_abi),
    }


def build_setting(config: str, name: str) -> str | None:
    """One build setting of `torch.__config__.show()` ("..., BLAS_INFO=mkl, ..."), or None when it is not there."""
    match = re.search(rf"\b{re.escape(name)}=([^,\n]*)", config)
    return match[1].strip() if match else None


def built_with(config: str, pattern: str) -> str | None:
    """The line of `torch.__config__.show()` ("  - Intel(R) MKL-DNN v3.12.0 (Git Hash ...)") that begins like `pattern`, or None."""
    match = re.search(rf"^\s*- ((?:{pattern})\b.*)$", config, re.MULTILINE)
    return match[1].strip() if match else None


CAPABILITIES = ("DEFAULT", "AVX2", "AVX512")
"""Sets of x86 vector instructions for which ATen has kernels, the best last, as torch.backends.cpu.get_cpu_capability() names them."""

NEEDED = {"AVX512": {"avx512vl", "avx512bw", "avx512dq", "fma"}, "AVX2": {"avx2", "fma"}}
"""Flags that ATen asks for before it uses a set (aten/src/ATen/native/DispatchStub.cpp)."""


def best_capability(cpuinfo: str) -> str | None:
    """The best set for which an x86 processor has the flags, from the text of /proc/cpuinfo; None on another one."""
    match = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if match is None:
        return None
    flags = set(match[1].split())
    return next((name for name in reversed(CAPABILITIES) if NEEDED.get(name, set()) <= flags), None)


def parse_parallel_info(text: str) -> dict[str, str]:
    """`torch.__config__.parallel_info()` as a dictionary; a key is what stands before the last colon of its line."""
    pairs = (line.rpartition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon and value.strip()}


def in_force() -> dict[str, str]:
    """What the calling worker's torch has set, as text: modes, precision, and the switches that change arithmetic."""
    import torch

    backends = torch.backends
    readers: dict[str, Callable[[], Any]] = {
        "version": lambda: torch.__version__,
        "grad_enabled": torch.is_grad_enabled,
        "inference_mode": torch.is_inference_mode_enabled,
        "autocast_cpu": lambda: torch.is_autocast_enabled("cpu"),
        "default_dtype": torch.get_default_dtype,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "mkldnn_enabled": lambda: backends.mkldnn.enabled,
        "mkldnn_matmul_fp32_precision": lambda: backends.mkldnn.matmul.fp32_precision,
        "cpu_capability": backends.cpu.get_cpu_capability,
        "cpu_capability_of_machine": lambda: best_capability(read_text(Path("/"), "/proc/cpuinfo").text or ""),
        "blas": lambda: build_setting(torch.__config__.show(), "BLAS_INFO"),
        "anomaly_mode": torch.is_anomaly_enabled,
    }
    # These exist on every build, but mean something only where torch was built for the device.
    if torch.version.cuda or torch.version.hip:
        readers |= {
            "cuda_matmul_allow_tf32": lambda: backends.cuda.matmul.allow_tf32,
            "cudnn_allow_tf32": lambda: backends.cudnn.allow_tf32,
            "cudnn_benchmark": lambda: backends.cudnn.benchmark,
            "autocast_cuda": lambda: torch.is_autocast_enabled("cuda"),
        }
    values = {}
    for name, reader in readers.items():
        fact = call(name, reader)
        values[name] = str(fact.value) if fact.status == "ok" else f"unknown: {fact.note}"
    return values


def threads_in_force() -> dict[str, int]:
    """The calling worker's thread counts: torch's two pools, and the OpenMP and MKL maxima that torch reports."""
    import torch

    counts = {"torch_intra_op": torch.get_num_threads(), "torch_inter_op": torch.get_num_interop_threads()}
    info = parse_parallel_info(torch.__config__.parallel_info())
    for name, key in (("openmp_maximum", "omp_get_max_threads()"), ("mkl_maximum", "mkl_get_max_threads()")):
        if info.get(key, "").isdigit():
            counts[name] = int(info[key])
    return counts


def main() -> int:
    """Print the facts as one line of JSON: {"name": {"value": ..., "source": ..., "status": ...}}."""
    sys.stdout.buffer.write(msgspec.json.encode(read()) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
