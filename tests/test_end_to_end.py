"""Real runs with real workers: measured, killed, continued, refused; small cases."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from suite.bundle import reader, schema
from suite.measure.schedule import slots
from tests.conftest import RealRun

SUITE = [sys.executable, "-m", "suite"]
CASE = "matmul_add/8-fp32"


def suite(
    *arguments: str, environment: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    env = {**os.environ, **(environment or {})}
    return subprocess.run([*SUITE, *arguments], capture_output=True, text=True, timeout=timeout, env=env, check=False)


def run_arguments(output: Path, *more: str) -> list[str]:
    """A run of one tiny case, eager alone, natively."""
    fixed = ["--preset", "smoke", "--processes", "2", "--arms", "eager", "--engine", "native"]
    return ["run", *fixed, "--cases", CASE, "--output", str(output), *more]


@pytest.fixture(scope="module")
def finished(real_run: RealRun) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A finished run with a compiled arm, which most tests look at."""
    return real_run.done, real_run.bundle


def test_a_run_ends_with_the_two_paths(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, bundle = finished
    assert done.stdout.splitlines()[-2:] == [str(bundle / "report.html"), str(bundle / "report.pdf")]
    assert (bundle / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_runs_files_match_their_checksums(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    check = subprocess.run(
        ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"],
        cwd=finished[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout


def test_the_compiled_chain_is_one_kernel_and_no_elementwise_row(
    finished: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    profiles = reader.load(finished[1]).profiles
    compiled = [row.name for row in profiles["pointwise_chain/64x64-fp32", "inductor"].cycles[-1].rows]
    eager = {row.name: row.calls for row in profiles["pointwise_chain/64x64-fp32", "eager"].cycles[-1].rows}
    assert sum("cpp_fused" in name for name in compiled) == 1
    assert not {"aten::add", "aten::mul"} & set(compiled)
    assert (eager["aten::add"], eager["aten::mul"]) == (9, 3)  # three steps of three additions and one product


def test_generated_code_and_trace_are_kept(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    import gzip

    directory = finished[1] / "cases" / "pointwise_chain" / "64x64-fp32" / "inductor"
    assert "cpp_fused" in (directory / "code" / "output_code_0.py").read_text()
    assert json.loads(gzip.decompress((directory / "trace.json.gz").read_bytes()))["traceEvents"]


def test_compilation_is_cold_once_and_then_from_the_cache(
    finished: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ready = [
        e
        for e in reader.load(finished[1]).events
        if isinstance(e, schema.ArmReady) and (e.arm, e.role) == ("inductor", "measure")
    ]
    assert [(e.process, e.cache) for e in ready] == [(0, "cold"), (1, "warm")]
    assert all(e.compile_ns is not None and 0 < e.compile_ns <= e.first_call_ns for e in ready)


def test_the_accuracy_of_the_compiled_arm_was_checked(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    assert reader.load(finished[1]).accuracies["pointwise_chain/64x64-fp32", "inductor"].passed


def test_the_workers_effective_libraries_are_recorded(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    effective = next(e for e in reader.load(finished[1]).events if isinstance(e, schema.Effective))
    assert effective.mapped_libraries["openmp"] and effective.threads["torch_intra_op"] >= 1


def test_a_smoke_run_is_never_publishable(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    run = reader.read_run(finished[1])
    assert run.status == "complete" and not run.publishable
    assert "the preset smoke is never publishable" in run.reasons


def test_the_compiler_cache_is_gone_when_the_run_is_complete(
    finished: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    from suite.machine import cache_root

    assert not (cache_root() / finished[1].name).exists()


def test_a_complete_run_is_not_continued(finished: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done = suite("run", "--resume", finished[1].name, "--output", str(finished[1].parent))
    assert done.returncode == 2 and "is complete" in done.stderr and "Traceback" not in done.stderr


def test_a_killed_orchestrator_loses_no_block_and_measures_none_twice(tmp_path: Path) -> None:
    process = subprocess.Popen([*SUITE, *run_arguments(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    bundle = _wait_for_blocks(tmp_path, 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1)
    before = measured(bundle)
    assert before and not any(count > 1 for count in before.values())
    lines = (bundle / "samples.jsonl").read_bytes()
    time.sleep(1)
    assert (bundle / "samples.jsonl").read_bytes() == lines, "the orphaned worker went on measuring"

    done = suite("run", "--resume", bundle.name, "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = reader.load(bundle)
    after = measured(bundle)
    assert (bundle / "samples.jsonl").read_bytes().startswith(lines)
    assert set(after.values()) == {1} and set(before) <= set(after)
    plans = {e.process: e for e in loaded.events if isinstance(e, schema.Planned)}
    assert set(after) == {
        (process, slot.block) for process, plan in plans.items() for slot in slots(plan.order, plan.pairs, 0)
    }
    assert loaded.run.status == "complete" and len(loaded.run.stretches) == 2


def test_ctrl_c_closes_the_bundle_and_says_how_to_continue(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SUITE, *run_arguments(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    bundle = _wait_for_blocks(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"RUN={bundle.name}" in stderr and "Traceback" not in stderr
    assert reader.read_run(bundle).status == "interrupted"
    assert (bundle / "SHA256SUMS").exists()


def test_without_a_compiler_eager_still_runs(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("numactl", "taskset", "git", "openssl"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    environment = {"PATH": str(tools)}
    arguments = [
        "run",
        "--preset",
        "smoke",
        "--cases",
        CASE,
        "--engine",
        "native",
        "--output",
        str(tmp_path / "results"),
    ]
    done = suite(*arguments, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = reader.load(reader.runs(tmp_path / "results")[0])
    assert {e.reason for e in loaded.events if isinstance(e, schema.ArmNotRun) and e.arm == "inductor"} >= {
        "no C++ compiler"
    }
    assert any(block.arm == "eager" for block in loaded.blocks)
    assert "not run: no C++ compiler" in (loaded.path / "report.html").read_text()
    assert any("no C++ compiler" in reason for reason in loaded.run.reasons)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--preset", "quik"], "did you mean 'quick'"),
        (["run", "--cases", "matmul-add"], "did you mean 'matmul_add'"),
        (["run", "--arms", "inducto"], "did you mean 'inductor'"),
        (["run", "--resume", "nothing"], "not a bundle"),
        (["run", "--engine", "lxc"], "engine"),
        (["run", "--output", "/proc/nowhere", "--engine", "native"], "cannot be written"),
        (["run", "--model-dir", "/nowhere", "--engine", "native"], "no such folder"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    if "--output" not in arguments:
        arguments = [*arguments, "--output", str(tmp_path)]
    done = suite(*arguments)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def _wait_for_blocks(output: Path, count: int) -> Path:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for bundle in reader.runs(output):
            if len(measured(bundle)) >= count:
                return bundle
        time.sleep(0.02)
    raise AssertionError("no block was measured in two minutes")


def measured(bundle: Path) -> Counter[tuple[int, int]]:
    """How often each (process, block) stands in samples.jsonl, read without the reader that is under test."""
    path = bundle / "samples.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return Counter((row["process"], row["block"]) for row in rows if row["phase"] == "measure")


# --- requested against effective -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "rule", "proof"),
    [
        ({"LD_PRELOAD": "/nowhere/libjemalloc.so.2"}, "launch.preload-ignored", "cannot be preloaded"),
        ({"MALLOC_CONF": "dirty_decay_msx:-1"}, "launch.malloc-conf-invalid", "dirty_decay_msx"),
        ({"LD_PRELOAD": "", "KMP_BLOCKTIME": "1"}, "launch.kmp-without-libiomp5", "KMP_BLOCKTIME"),
    ],
)
def test_strict_refuses_what_is_not_in_force_and_leaves_no_bundle(
    tmp_path: Path, environment: dict[str, str], rule: str, proof: str
) -> None:
    done = suite(*run_arguments(tmp_path, "--strict"), environment=environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert rule in done.stderr
    assert proof in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_strict_the_run_goes_on_and_is_not_publishable(tmp_path: Path) -> None:
    done = suite(*run_arguments(tmp_path), environment={"MALLOC_CONF": "dirty_decay_msx:-1"})
    assert done.returncode == 0, done.stderr
    (bundle,) = reader.runs(tmp_path)
    run = reader.read_run(bundle)
    assert any("launch.malloc-conf-invalid" in reason for reason in run.reasons)
    assert "launch.malloc-conf-invalid" in (bundle / "report.html").read_text()


def test_an_ablation_starts_every_level_with_its_own_settings_and_proves_it(tmp_path: Path) -> None:
    options = ["--preset", "smoke", "--arms", "eager", "--engine", "native", "--cases", CASE, "--output", str(tmp_path)]
    done = suite("ablate", *options)
    assert done.returncode == 0, done.stderr
    (bundle,) = reader.runs(tmp_path)
    loaded = reader.load(bundle)
    assert loaded.run.ablation is not None
    levels = [level.label for level in loaded.run.ablation.levels]
    seen = {
        levels[loaded.run.ablation.order[event.process]]: event
        for event in loaded.events
        if isinstance(event, schema.Effective)
    }
    assert seen.keys() == set(levels)

    def called(level: str, kind: str) -> str:
        return next(iter(seen[level].mapped_libraries.get(f"{kind}_called", [])), "")

    assert called("none", "openmp").startswith("libgomp")
    assert not called("none", "allocator").startswith("libjemalloc")
    assert called("+libiomp5", "openmp") == "libiomp5.so"
    assert not called("+libiomp5", "allocator").startswith("libjemalloc")
    assert called("+jemalloc", "allocator").startswith("libjemalloc")
    assert seen["+jemalloc"].runtime["openmp.kmp_blocktime_ms"] != "1"
    assert seen["+KMP"].runtime["openmp.kmp_blocktime_ms"] == "1"
    assert "OMP_NUM_THREADS" not in seen["+numactl"].environment
    assert "OMP_NUM_THREADS" in seen["all"].environment
    assert "What each step adds" in (bundle / "report.html").read_text()


def test_strict_refuses_a_variable_that_would_change_an_arm_in_one_sentence(tmp_path: Path) -> None:
    done = suite(*run_arguments(tmp_path, "--strict"), environment={"TORCHDYNAMO_DISABLE": "1", "MKLROOT": "/opt/mkl"})
    assert done.returncode == 2 and not list(tmp_path.iterdir())
    (line,) = done.stderr.splitlines()
    assert "TORCHDYNAMO_DISABLE=1 (compiled arms would be eager); unset them (env -u TORCHDYNAMO_DISABLE)" in line


def test_an_arm_that_something_in_the_process_turns_off_is_not_shown(tmp_path: Path) -> None:
    """A variable that is taken out, and a setting of the compiler that no variable shows."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import torch._dynamo.config as config\nconfig.disable = True\n")
    arguments = run_arguments(tmp_path / "results", "--arms", "inductor", "--no-profile", "--processes", "1")
    done = suite(*arguments, environment={"PYTHONPATH": str(site), "TORCHINDUCTOR_FREEZING": "1"})
    assert done.returncode == 0, done.stderr
    assert "note: TORCHINDUCTOR_FREEZING=1 is not handed on to workers" in done.stdout
    loaded = reader.load(reader.runs(tmp_path / "results")[0])
    (reason,) = loaded.withheld.values()
    assert f"{CASE}: inductor is not shown: {reason}" in done.stdout
    assert reason.startswith(
        "it is not what it says: no graph was compiled for it; torch._dynamo.config.disable is True"
    )
    assert {block.arm for block in loaded.blocks} == {"eager", "eager#2"} and not loaded.withheld_blocks
    assert not any(isinstance(event, schema.ArmReady) and event.arm == "inductor" for event in loaded.events)
    shown = (loaded.path / "report.html").read_text()
    assert "no graph was compiled for it" in shown and "TORCHINDUCTOR_FREEZING=1 is not handed on" in shown
