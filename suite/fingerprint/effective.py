"""What a measuring process sees in force: run inside the worker after warm-up, outside of timed code."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from suite.bundle.schema import Effective
from suite.fingerprint import runtime
from suite.fingerprint import torch as torch_facts
from suite.fingerprint.files import Text, list_names, parse_cpulist, parse_fields, parse_size, read_text, without_home

# Variables that steer threads, allocation, arithmetic, compilation or loading.
RELEVANT = re.compile(
    r"(OMP|KMP|GOMP|MKL|DNNL|ONEDNN|OPENBLAS|BLIS|MALLOC|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|ATEN|TRITON|CUDA|CUBLAS"
    r"|CUDNN|NVIDIA|NCCL|INDUCTOR|AOT|HF_HUB|TRANSFORMERS)_\w+"
    r"|LD_(PRELOAD|LIBRARY_PATH|BIND_NOW)|GLIBC_TUNABLES|PYTHON(HASHSEED|MALLOC|OPTIMIZE)|CXX|CC|CXXFLAGS"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_KEY|REDIS|_URL$|_HOST$|ADDR", re.IGNORECASE)


def read_effective(case: str, process: int, at: str, timer_resolution_ns: float, timer_overhead_ns: float) -> Effective:
    """What is in force in the calling process. Imports torch (the worker has already); never raises for a missing file.

    `threads` counts threads ("openmp_workers_bound" are those bound to one CPU); for the rest see `Effective`.
    """
    root = Path("/")
    maps = read_text(root, "/proc/self/maps").text or ""
    status = parse_fields(read_text(root, "/proc/self/status").text or "")
    policy = runtime.memory_policy(_first_line("/proc/self/numa_maps"))
    options = runtime.options_in_force() | ({"memory.policy": policy} if policy else {})
    return Effective(
        at=at,
        case=case,
        process=process,
        mapped_libraries=runtime.libraries_by_kind(maps) | runtime.called_libraries(maps),
        affinity=sorted(os.sched_getaffinity(0)),
        memory_nodes=status.get("Mems_allowed_list", ""),
        threads=torch_facts.threads_in_force() | thread_counts(root) | _omp_num_threads(os.environ),
        environment=relevant_environment(os.environ),
        torch=torch_facts.in_force(),
        runtime=options,
        timer_resolution_ns=timer_resolution_ns,
        timer_overhead_ns=timer_overhead_ns,
        peak_rss_bytes=_peak_rss(status),
    )


def relevant_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter to a measurement, sorted, without home directories and without what may be a secret."""
    names = (name for name in environ if RELEVANT.fullmatch(name) and not SECRET.search(name))
    return {name: without_home(environ[name]) for name in sorted(names)}


def thread_counts(root: Path) -> dict[str, int]:
    """Threads of the process by /proc/self/task: all, OpenMP workers by name, and those of them bound to one CPU.

    Only LLVM's and Intel's run-times name their workers; with libgomp the count of workers is 0.
    """
    folder = "/proc/self/task"
    total = workers = bound = 0
    for name in list_names(root, folder, r"\d+"):
        status = parse_fields(read_text(root, f"{folder}/{name}/status").text or "")
        if not status:
            continue  # the thread has ended since
        total += 1
        if status.get("Name", "").startswith("openmp_worker"):
            workers += 1
            bound += _is_one(status.get("Cpus_allowed_list", ""))
    return {"process_threads": total, "openmp_workers": workers, "openmp_workers_bound": bound}


def _is_one(cpulist: str) -> bool:
    try:
        return len(parse_cpulist(cpulist)) == 1
    except ValueError:
        return False


def _omp_num_threads(environ: Mapping[str, str]) -> dict[str, int]:
    first = environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return {"omp_num_threads": int(first)} if first.isdigit() else {}


def _first_line(path: str) -> Text:
    """Only the first line: the kernel walks the page tables of every mapping that is read from numa_maps."""
    try:
        with open(path, encoding="utf-8", errors="replace", buffering=256) as file:
            return Text(file.readline().strip(), "ok", path)
    except OSError as error:
        return Text(None, "absent", path, str(error.strerror))


def _peak_rss(status: Mapping[str, str]) -> int:
    """In bytes. VmHWM is of this program alone; ru_maxrss may also be of the one that it was forked from."""
    try:
        return parse_size(status["VmHWM"])
    except (KeyError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
