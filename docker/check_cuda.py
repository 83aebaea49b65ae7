"""Runs inside the cuda image, with or without a GPU: is everything there that a GPU run needs? docker/check-cuda-image starts it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

CUDA_SOURCE = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"


def torch_build() -> str:
    """Torch imports, and is a CUDA build."""
    import torch

    assert torch.version.cuda, "torch.version.cuda is not set: this is the CPU build"
    assert "+cpu" not in torch.__version__
    names = ", ".join(torch.cuda.get_arch_list()) or "no architectures named without a driver"
    return f"torch {torch.__version__} for CUDA {torch.version.cuda} ({names})"


def cuda_libraries() -> str:
    """What torch loads at run time besides the driver."""
    import torch

    assert torch.backends.cudnn.version(), "cuDNN cannot be loaded"
    torch.rand(2, 2)
    return f"cuDNN {torch.backends.cudnn.version()}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"


def without_a_driver() -> str:
    """A missing driver is a clear answer, never a crash."""
    import torch

    if torch.cuda.is_available():
        x = torch.ones(4, device="cuda")
        return f"{torch.cuda.get_device_name()} answers: {x.sum().item():.0f}"
    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        return f"no GPU here, and torch says so: {str(error).splitlines()[0]}"
    raise AssertionError("torch takes the CUDA device that it says is not there")


def nvml() -> str:
    """NVML comes with the driver; without it the binding names the reason."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"no driver here, and NVML says so: {error}"
    return f"NVML of driver {pynvml.nvmlSystemGetDriverVersion()}"


def triton() -> str:
    """Triton imports."""
    import triton

    return f"triton {triton.__version__}"


def ptxas() -> str:
    """The assembler that triton ships assembles."""
    import triton

    found = sorted(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas*"))
    assert found, "triton has no ptxas"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "nothing.ptx"), Path(folder, "nothing.cubin")
        source.write_text(CUDA_SOURCE)
        subprocess.run([found[0], "--gpu-name=sm_80", "-o", made, source], check=True, capture_output=True, text=True)
        assert made.stat().st_size > 0
    version = subprocess.run([found[0], "--version"], check=True, capture_output=True, text=True).stdout
    return f"{found[0].name} {version.strip().splitlines()[-1]}"


def compiler() -> str:
    """g++ and Python.h: triton's launcher and Inductor's C++ kernels are compiled on the machine that runs them."""
    program = shutil.which("g++")
    assert program, "g++ is missing"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "nothing.cpp"), Path(folder, "nothing.so")
        source.write_text("#include <Python.h>\n#include <omp.h>\nint answer() { return omp_get_max_threads(); }\n")
        include = sysconfig.get_path("include")
        subprocess.run([program, "-shared", "-fPIC", "-fopenmp", f"-I{include}", "-o", made, source], check=True)
    return subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]


def bill_of_materials() -> str:
    """The SBOM is there and names torch's CUDA libraries."""
    import os

    content = json.loads(Path(os.environ["SPEEDPROOF_SBOM"]).read_text())
    names = {one["name"] for one in content["components"]}
    assert {"torch", "triton", "libc6", "python3.11"} <= names, "the SBOM lacks packages"
    assert any(name.startswith("nvidia-cudnn") for name in names), "the SBOM lacks CUDA's libraries"
    return f"SBOM with {len(names)} components, {content['serialNumber']}"


CHECKS: tuple[Callable[[], str], ...] = (
    torch_build, cuda_libraries, triton, ptxas, compiler, without_a_driver, nvml, bill_of_materials,
)  # fmt: skip


def main() -> int:
    """Run every check, say what each saw; 1 when one failed."""
    failed = 0
    for check in CHECKS:
        try:
            outcome = f"ok      {check()}"
        except Exception as error:  # whatever goes wrong is the outcome
            failed += 1
            outcome = f"FAILED  {type(error).__name__}: {error}"
        print(f"{check.__name__:18}{outcome}")
    print("the image is complete" if not failed else f"{failed} of {len(CHECKS)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
