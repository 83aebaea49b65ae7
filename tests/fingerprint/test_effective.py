"""What a worker reports: by a real process with torch, where there is one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.bundle.schema import Effective
from suite.fingerprint.effective import rehearsal
from suite.fingerprint.effective import worker as effective
from suite.launch import libraries

WORKER = """
import sys, msgspec, torch
torch.ones(512, 512) @ torch.ones(512, 512)
torch.ones(1 << 20).exp()
from suite.fingerprint.effective.worker import read_effective
seen = read_effective("a/b", 1, "2026-01-01T00:00:00Z", 1.0, 20.0, log_offset=int(sys.argv[1]))
sys.stdout.buffer.write(msgspec.json.encode(seen))
"""
EARLIER = "<jemalloc>: Invalid conf pair: earlier:1\n"


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


def worker(folder: Path, **environment: str) -> Effective:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    environ = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "MALLOC_CONF")}
    path = folder / "worker.log"
    path.write_text(EARLIER)
    with path.open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-c", WORKER, str(len(EARLIER))],
            cwd=Path(__file__).parents[2],
            env={**environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
        )
    return msgspec.json.decode(done.stdout, type=Effective)


def test_a_worker_reports_what_is_in_force(tmp_path: Path) -> None:
    seen = worker(tmp_path)
    assert (seen.case, seen.process) == ("a/b", 1)
    assert seen.affinity == sorted(os.sched_getaffinity(0))
    assert sum(seen.affinities.values()) == seen.threads["process_threads"]
    assert seen.threads["torch_intra_op"] == seen.threads["omp_num_threads"] == seen.threads["openmp_maximum"] == 1
    assert seen.environment["OMP_NUM_THREADS"] == "1"
    assert seen.torch["grad_enabled"] == "True"
    assert not [name for name, value in {**seen.torch, **seen.runtime}.items() if value.startswith("unknown")]
    assert seen.mapped_libraries["openmp_called"][0] in seen.mapped_libraries["openmp"]
    assert seen.peak_rss_bytes > 50 << 20
    assert "memory.place_unknown" in seen.runtime or sum(seen.memory_bytes_by_node.values()) > 50 << 20
    assert seen.messages == []


def test_a_worker_proves_which_run_time_serves_torch_and_quotes_its_own_log(tmp_path: Path) -> None:
    found = libraries.find({})
    if found.openmp.path is None or found.jemalloc.path is None:
        pytest.skip("libiomp5 and jemalloc are not installed")
    seen = worker(
        tmp_path,
        LD_PRELOAD=f"/nowhere/libx.so:{found.openmp.path}:{found.jemalloc.path}",
        MALLOC_CONF="dirty_decay_msx:-1,narenas:2",
        KMP_SETTINGS="1",
        KMP_BLOCKTIME="1",
    )
    assert list(seen.openmp_symbols) == ["libiomp5.so"]
    assert {"GOMP_parallel", "omp_get_max_threads"} <= set(seen.openmp_symbols["libiomp5.so"])
    bound, _, total = seen.runtime["openmp.symbols_bound"].partition(" of ")
    assert 0 < int(bound) <= int(total)
    assert seen.openmp_settings["KMP_BLOCKTIME"] == "1ms"
    assert seen.runtime["jemalloc.narenas"] == "2"
    assert [line.split("(")[0].strip() for line in seen.messages] == [
        "ERROR: ld.so: object '/nowhere/libx.so' from LD_PRELOAD cannot be preloaded",
        "<jemalloc>: Invalid conf pair: dirty_decay_msx:-1",
    ]


def test_torchs_library_is_found_without_importing_torch() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from suite.fingerprint.effective import rehearsal as r; import sys; r.torch_library(); print('torch' in sys.modules)",
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
    library = rehearsal.torch_library()
    assert library is None or library.name == "libtorch_cpu.so"
