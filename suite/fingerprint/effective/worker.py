"""What a measuring process sees in force: run inside the worker after warm-up, outside of timed code.

`python -m suite.fingerprint.effective.rehearsal` reads the same without torch, before anything is measured.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from suite.bundle.schema import Effective
from suite.fingerprint.effective import log, maps, openmp, placement, runtime
from suite.fingerprint.files import parse_fields, parse_size, read_text, without_home

# Variables that steer threads, allocation, arithmetic, compilation or loading.
RELEVANT = re.compile(
    r"(OMP|KMP|GOMP|MKL|DNNL|ONEDNN|OPENBLAS|BLIS|MALLOC|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|ATEN|TRITON|CUDA|CUBLAS"
    r"|CUDNN|NVIDIA|NCCL|INDUCTOR|AOT|HF_HUB|TRANSFORMERS)_\w+"
    r"|LD_(PRELOAD|LIBRARY_PATH|BIND_NOW)|GLIBC_TUNABLES|PYTHON(HASHSEED|MALLOC|OPTIMIZE)|CXX|CC|CXXFLAGS"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_KEY|REDIS|_URL$|_HOST$|ADDR", re.IGNORECASE)


def read_effective(
    case: str,
    process: int,
    at: str,
    timer_resolution_ns: float,
    timer_overhead_ns: float,
    *,
    log_offset: int = 0,
) -> Effective:
    """What is in force in the calling process. Imports torch (the worker has already); never raises for a missing file.

    `threads` counts threads ("openmp_workers_bound" are those bound to one CPU); for the rest see `Effective`. `log_offset` is the
    size in bytes that the log which is standard error had before this process was started.
    """
    from suite.fingerprint.software import torch as torch_facts

    return read(
        case=case,
        process=process,
        at=at,
        timer_resolution_ns=timer_resolution_ns,
        timer_overhead_ns=timer_overhead_ns,
        threads=torch_facts.threads_in_force(),
        torch=torch_facts.in_force() | _torch_config(),
        written=log.written_since(log_offset),
    )


def read(
    *,
    case: str,
    process: int,
    at: str,
    timer_resolution_ns: float = 0.0,
    timer_overhead_ns: float = 0.0,
    threads: Mapping[str, int],
    torch: Mapping[str, str],
    written: str = "",
    awaited: Path | None = None,
) -> Effective:
    """What is in force, with what torch says handed in and `written` the log of this process.

    `awaited` is the library that a worker is going to load; it is asked for in place of the libraries that are.
    """
    root = Path("/")
    mappings = maps.parse(read_text(root, "/proc/self/maps").text or "")
    names = runtime.library_names(mappings)
    status = parse_fields(read_text(root, "/proc/self/status").text or "")
    answers = openmp.expected(awaited, mappings, names) if awaited else openmp.answers(mappings, names)
    called = runtime.called_libraries(mappings, names)
    if "openmp_called" not in called and len(answers.symbols) == 1:
        # No run-time is in the global scope, but torch's own scope has one.
        called["openmp_called"] = list(answers.symbols)
    peak, resident = _peak_rss(status), _bytes(status, "VmRSS")
    memory, tasks = placement.memory(root, resident), placement.threads(root)
    return Effective(
        at=at,
        case=case,
        process=process,
        mapped_libraries=runtime.libraries_by_kind(names) | called,
        affinity=sorted(os.sched_getaffinity(0)),
        memory_nodes=status.get("Mems_allowed_list", ""),
        threads={**threads, **tasks.counts, **_omp_num_threads(os.environ)},
        environment=relevant_environment(os.environ),
        torch=dict(torch),
        runtime=runtime.options_in_force(os.environ) | _openmp_facts(answers) | _memory_facts(memory),
        timer_resolution_ns=timer_resolution_ns,
        timer_overhead_ns=timer_overhead_ns,
        peak_rss_bytes=peak,
        affinities=tasks.affinities,
        memory_bytes_by_node=memory.private_bytes,
        openmp_settings=log.openmp_settings(written),
        openmp_symbols={name: sorted(symbols) for name, symbols in sorted(answers.symbols.items())},
        messages=log.complaints(written),
    )


def relevant_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter to a measurement, sorted, without home directories and without what may be a secret."""
    names = (name for name in environ if RELEVANT.fullmatch(name) and not SECRET.search(name))
    return {name: without_home(environ[name]) for name in sorted(names)}


def _torch_config() -> dict[str, str]:
    """A hash by which two workers' builds of torch are compared; the fingerprint holds the text once."""
    torch = sys.modules["torch"]
    return {"config_sha256": hashlib.sha256(torch.__config__.show().encode()).hexdigest()[:16]}


def _openmp_facts(answers: openmp.Answers) -> dict[str, str]:
    """Who asks each run-time, and how many of the answers were read from the tables of the askers."""
    facts = {
        f"openmp.callers {name}": openmp.callers_shown(callers) for name, callers in sorted(answers.callers.items())
    }
    return facts | ({"openmp.symbols_bound": f"{answers.bound} of {answers.total}"} if answers.total else {})


def _memory_facts(memory: placement.Memory) -> dict[str, str]:
    facts = {"memory.policy": memory.policy} if memory.policy else {}
    facts |= {f"memory.file_bytes_node{node}": str(size) for node, size in memory.file_bytes.items()}
    return facts | ({"memory.place_unknown": memory.reason} if memory.reason else {})


def _omp_num_threads(environ: Mapping[str, str]) -> dict[str, int]:
    first = environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return {"omp_num_threads": int(first)} if first.isdigit() else {}


def _bytes(status: Mapping[str, str], name: str) -> int:
    with suppress(KeyError, ValueError):
        return parse_size(status[name])
    return 0


def _peak_rss(status: Mapping[str, str]) -> int:
    """In bytes. VmHWM is of this program alone; ru_maxrss may also be of the one that it was forked from."""
    return _bytes(status, "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
