"""Real rehearsals: processes started as a worker is."""

from __future__ import annotations

import os
import sys

import pytest

from suite.bundle.schema import Effective
from suite.launch import libraries
from suite.launch.command import Launch
from suite.launch.rehearsal import rehearse

CLEAN = {
    name: value for name, value in os.environ.items() if not name.startswith(("KMP_", "OMP_", "MALLOC_", "LD_PRELOAD"))
}


def launch(*prefix: str, **environment: str) -> Launch:
    return Launch("tuned", list(prefix), environment, [])


def test_a_rehearsal_reads_back_what_a_worker_would_have_in_force() -> None:
    found = libraries.find({})
    if found.openmp.path is None or found.jemalloc.path is None:
        pytest.skip("libiomp5 and jemalloc are not installed")
    seen = rehearse(
        launch(
            LD_PRELOAD=f"/nowhere/libx.so:{found.openmp.path}:{found.jemalloc.path}",
            MALLOC_CONF="dirty_decay_msx:-1,muzzy_decay_ms:-1",
            KMP_SETTINGS="1",
            KMP_AFFINITY="nonsense",
            OMP_NUM_THREADS="2",
        ),
        CLEAN,
        timeout_s=30,
    )
    assert isinstance(seen, Effective), seen
    assert seen.case == "" and seen.torch == {}
    assert seen.mapped_libraries["openmp_called"] == ["libiomp5.so"]
    assert seen.mapped_libraries["allocator_called"] == ["libjemalloc.so.2"]
    assert seen.runtime["jemalloc.muzzy_decay_ms"] == "-1"
    assert seen.openmp_settings["KMP_SETTINGS"] == "true"
    assert seen.threads["openmp_maximum"] == 2
    assert seen.threads["openmp_workers"] == 1
    said = "\n".join(seen.messages)
    assert "ERROR: ld.so: object '/nowhere/libx.so'" in said
    assert "<jemalloc>: Invalid conf pair: dirty_decay_msx:-1" in said
    assert 'OMP: Warning #58: KMP_AFFINITY: parameter invalid, ignoring "nonsense".' in said


def test_a_prefix_that_does_not_exist_is_a_reason() -> None:
    reason = rehearse(launch("numactl-of-nowhere", "-m", "0"), CLEAN)
    assert isinstance(reason, str)
    assert "`numactl-of-nowhere -m 0 python -m suite.fingerprint.effective.rehearsal` could not be started" in reason


def refusing(code: str) -> str:
    reason = rehearse(launch(sys.executable, "-c", code), CLEAN, timeout_s=30)
    assert isinstance(reason, str)
    return reason


def test_a_prefix_that_refuses_is_quoted() -> None:
    reason = refusing("import sys; print('set_mempolicy: Operation not permitted', file=sys.stderr); sys.exit(1)")
    assert reason.endswith("ended with exit status 1 (set_mempolicy: Operation not permitted).")


def test_a_crash_is_named() -> None:
    assert "crashed with SIGSEGV" in refusing("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")


def test_a_process_that_says_nothing_sensible_is_a_reason() -> None:
    assert refusing("print('hello')").endswith("did not say what is in force.")


def test_a_rehearsal_that_hangs_is_ended() -> None:
    reason = rehearse(launch(sys.executable, "-c", "import time; time.sleep(60)"), CLEAN, timeout_s=0.3)
    assert isinstance(reason, str)
    assert reason.endswith("did not end within 0.3 s.")
