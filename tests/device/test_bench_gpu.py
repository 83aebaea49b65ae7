"""`bench-gpu` as it is typed, with real workers and doubles in the GPU's place; and its refusals."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from suite.bundle import manifest, reader, schema
from suite.probe import Probe
from tests.device.fake import THERMAL

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "docs" / "samples" / "h200" / "20261129-230109-smoke-7017"


def start(
    arguments: list[str], exported: dict[str, str] | None = None, **planted: object
) -> subprocess.CompletedProcess[str]:
    site = f"{Path(__file__).parent / 'site'}:{ROOT}"
    environment = {**os.environ, "PYTHONPATH": site, "GPU_DOUBLE": json.dumps(planted), **(exported or {})}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], reader.Loaded]:
    """A run on the first of two GPUs that is throttled for its first blocks and shared with a stranger."""
    output = tmp_path_factory.mktemp("gpu")
    arguments = ["suite", "bench-gpu", "--preset", "smoke", "--cases", "matmul_add/64-bf16", "--arms", "eager"]
    arguments += ["--settings", "untuned", "--walkthrough", "--passes", "cold", "--output", str(output)]
    # The first state is taken when the worker describes its device.
    states = [[1980, 0], [1200, THERMAL], [1980, 0]]
    done = start(arguments, {"NVIDIA_TF32_OVERRIDE": "1"}, states=states, strangers=[999_999_9, 999_999_8])
    assert done.returncode == 0, done.stdout + done.stderr
    return done, reader.load(reader.runs(output)[0])


Finished = tuple[subprocess.CompletedProcess[str], reader.Loaded]


def test_several_gpus_are_named_and_one_is_measured(finished: Finished) -> None:
    done, loaded = finished
    assert "measured on cuda device 0, NVIDIA Test GPU; visible: 0: NVIDIA Test GPU, 1: NVIDIA Other GPU" in done.stdout
    assert (loaded.run.device.kind, loaded.run.device.index, loaded.run.device.name) == ("cuda", 0, "NVIDIA Test GPU")
    assert loaded.run.device.clock_mhz == 1980


def test_an_exported_precision_is_not_handed_on_and_the_one_in_force_is_said(finished: Finished) -> None:
    done, loaded = finished
    assert "note: NVIDIA_TF32_OVERRIDE=1 is not handed on to workers" in done.stdout
    assert any("NVIDIA_TF32_OVERRIDE=1" in e.message for e in loaded.events if isinstance(e, schema.Noted))
    effectives = [event for event in loaded.events if isinstance(event, schema.Effective)]
    assert effectives and not any("NVIDIA_TF32_OVERRIDE" in event.environment for event in effectives)
    assert "products of matmul_add/64-bf16-hot in highest: float32 as it is" in done.stdout


def test_the_command_that_repeats_the_run_is_one_that_make_has(finished: Finished) -> None:
    run = finished[1].run
    assert run.command == (
        "make bench-gpu PRESET=smoke CASES=matmul_add/64-bf16 ARMS=eager WALKTHROUGH=yes PASSES=cold SETTINGS=untuned"
    )
    assert "speedproof:cuda" in run.engine.reason


def test_every_block_has_the_hosts_time_beside_the_devices(finished: Finished) -> None:
    measured = [block for block in finished[1].blocks if block.phase == "measure"]
    assert measured and all(block.enqueue_ns and block.host_ns for block in measured)
    assert {block.clock_mhz for block in measured} == {1980}


def test_what_was_throttled_was_measured_again(finished: Finished) -> None:
    loaded = finished[1]
    assert loaded.retaken and all(block.disturbed for block in loaded.retaken)
    assert not any(block.disturbed for block in loaded.blocks)
    again = {block.block for block in loaded.retaken}
    assert {block.block for block in loaded.blocks if block.retake} == again


def test_the_other_process_is_a_finding_and_a_reason(finished: Finished) -> None:
    loaded = finished[1]
    assert loaded.fingerprint and "gpu.other-processes" in {finding.rule for finding in loaded.fingerprint.findings}
    assert any("other processes computed on the GPU" in reason for reason in loaded.run.reasons), loaded.run.reasons
    assert all(row.gpu is not None for row in loaded.telemetry if row.moment == "after")


def test_the_walkthroughs_files_are_written_and_sealed(finished: Finished) -> None:
    loaded = finished[1]
    folder = loaded.path / "traces" / "01_matmul_add"
    assert sorted(path.name for path in folder.iterdir()) == ["64_bf16_cold_eager.json", "64_bf16_cold_eager.txt"]
    assert json.loads((folder / "64_bf16_cold_eager.json").read_bytes())["traceEvents"]
    assert "traces/01_matmul_add/64_bf16_cold_eager.txt" in manifest.read(loaded.path)
    profile = loaded.passes["matmul_add/64-bf16-hot", "eager", "cold"]
    assert (profile.sort_key, profile.cycles[0].active_steps) == ("device_time_total", 3)


def test_the_report_names_the_gpu_the_caches_state_and_the_hosts_time(finished: Finished) -> None:
    html = (finished[1].path / "report.html").read_text()
    assert "NVIDIA Test GPU" in html and "hot cache" in html
    assert "hand over" in html and "float32 as it is" in html


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ({"broken": "The NVIDIA driver on your system is too old (found version 11040). Please update"}, "too old"),
        ({"broken": "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"}, "its memory is taken"),
        ({"broken": "No CUDA GPUs are available"}, "none is visible"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_refused_by_the_probe(planted: dict[str, object], said: str) -> None:
    done = start(["suite.probe", '{"kind":"cuda"}'], **planted)
    answer = msgspec.json.decode(done.stdout.splitlines()[-1], type=Probe)
    assert said in answer.no_device


def test_a_refusal_is_one_sentence_with_status_2_and_leaves_nothing(tmp_path: Path) -> None:
    arguments = ["suite", "bench-gpu", "--preset", "smoke", "--settings", "untuned", "--device", "7"]
    done = start([*arguments, "--output", str(tmp_path)])
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "there is no GPU 7; visible to torch: 0 (NVIDIA Test GPU), 1 (NVIDIA Other GPU)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_a_gpu_that_forbids_computing_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    arguments = ["suite", "bench-gpu", "--preset", "smoke", "--settings", "untuned", "--output", str(tmp_path)]
    done = start(arguments, mode=2)
    assert done.returncode == 2 and "compute mode prohibited" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_the_command_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "suite", "bench-gpu", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_the_prepared_script_prints_its_plan_without_a_gpu() -> None:
    done = subprocess.run(
        ["bash", "docker/gpu-check", "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == ""
    names = ("look", "smoke", "matmul", "models", "rest", "pack")
    assert all(f"  {name}" in done.stdout for name in names)
    seconds = {name: int(text) for name, text in re.findall(r"^  (\w+) +(?:about|at most) +(\d+) s", done.stdout, re.M)}
    assert tuple(seconds) == names
    total = re.search(r"about (\d+) s in all there, without rest", done.stdout)
    assert total and int(total[1]) == sum(seconds.values()) - seconds["rest"] <= 360


def test_the_plan_says_when_more_processes_do_not_fit() -> None:
    done = subprocess.run(
        ["bash", "docker/gpu-check", "--dry-run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PROCESSES": "3"},
    )
    assert "--processes 3 " in done.stdout and "more than 360 s" in done.stdout


def refused(*arguments: str, **environment: str) -> str:
    """The one sentence with which gpu-check refuses what it was given."""
    done = subprocess.run(
        ["bash", "docker/gpu-check", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (done.stdout, done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        *(("BUDGET", value, 1) for value in ("abc", "-5", "0", "08", "1.5")),
        *(("PROCESSES", value, 1) for value in ("abc", "0")),
        *(("DEVICE", value, 0) for value in ("x", "-1")),
    ],
)
def test_the_script_refuses_a_number_that_is_none_before_its_plan(name: str, value: str, least: int) -> None:
    told = f"gpu-check: {name} is a whole number of at least {least}, not '{value}'\n"
    assert refused("--dry-run", **{name: value}) == told


def test_the_script_refuses_a_python_that_is_not_there_before_its_plan() -> None:
    assert refused("--dry-run", PYTHON="no-such-python") == "gpu-check: no no-such-python here; name one with PYTHON=\n"
    assert "unknown option --nonsense" in refused("--nonsense")


def test_the_script_stops_where_its_python_has_no_torch_and_makes_no_folder(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/bash\nexec "{sys.executable}" -S -I "$@"\n')  # without its site-packages
    bare.chmod(0o755)
    told = refused(PYTHON=str(bare), OUT=str(tmp_path / "out"))
    assert "has no torch and no msgspec" in told and "set PYTHON= to a Python that has torch" in told
    broken = refused(PYTHON="/bin/false", OUT=str(tmp_path / "out"))
    assert "/bin/false is no Python that works" in broken and not (tmp_path / "out").exists()


STAND_IN = """#!/bin/bash
case "$*" in
  *bench-gpu*) echo "$*" >>"{log}"; [[ $* != *"--cases matmul_add "* ]] || sleep {smoke} ;;
  *summary*) cat "$3/stages" ;;
esac
"""


def checked(folder: Path, smoke_s: int = 0, **environment: str) -> tuple[list[str], list[str]]:
    """gpu-check with a stand-in for Python: the commands that it gave, and what its summary says of the stages."""
    log, python = folder / "commands", folder / "python"
    log.write_text("")
    python.write_text(STAND_IN.format(log=log, smoke=smoke_s))
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", "docker/gpu-check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": str(python), "OUT": str(folder / "out"), **environment},
    )
    stages = [line for line in (folder / "out" / "summary.txt").read_text().splitlines() if "|" in line]
    assert done.stdout.endswith("\n".join(stages) + "\n")
    return log.read_text().splitlines(), stages


def test_the_script_measures_three_processes_where_they_start_quickly(tmp_path: Path) -> None:
    commands, stages = checked(tmp_path)
    assert [stage.split("|")[:2] for stage in stages] == [
        [n, "ok"] for n in ("look", "smoke", "matmul", "models", "rest")
    ]
    assert "--processes 3 " in commands[1]


def test_the_script_measures_one_process_where_they_start_slowly(tmp_path: Path) -> None:
    commands, _ = checked(tmp_path, smoke_s=2, SLOW_SMOKE_S="1")
    assert "--processes 1 " in commands[1]


def test_an_earlier_stage_is_worth_more_where_there_is_no_time_for_both(tmp_path: Path) -> None:
    """After a smoke of 2 s, 12 s of 29 are left; 3 kept for the models leave too few for a stage: matmul gets them all."""
    _, stages = checked(tmp_path, smoke_s=2, BUDGET="29")
    assert [stage.split("|")[:2] for stage in stages][2] == ["matmul", "ok"]


def test_what_may_be_left_out_is_left_out_where_no_time_is_left(tmp_path: Path) -> None:
    """With 24 s in all, 9 are left behind smoke's limit: less than a stage can show anything in."""
    commands, stages = checked(tmp_path, BUDGET="24")
    assert commands == [] and all("left out" in stage for stage in stages[1:])


def test_a_summary_says_what_an_interrupted_run_holds() -> None:
    found = importlib.util.spec_from_file_location("gpu_check", ROOT / "docker" / "gpu_check.py")
    assert found and found.loader
    gpu_check = importlib.util.module_from_spec(found)
    found.loader.exec_module(gpu_check)
    loaded = reader.load(SAMPLE)
    assert list(gpu_check.parts(loaded)) == [
        f"  matmul_add/{case}-bf16-hot: 3 of 3 processes, profile, pass cold; not there: pass warm"
        for case in (64, 4096)
    ]


def test_an_interrupted_run_has_the_walkthroughs_files_of_what_was_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from suite import session
    from suite.commands import lead
    from suite.plan import Request

    def stopped(*_: object) -> Path:
        raise session.Interrupted(tmp_path / SAMPLE.name, 143)

    shutil.copytree(SAMPLE, tmp_path / SAMPLE.name)
    monkeypatch.setattr(session, "run", stopped)
    request = Request("smoke", "matmul_add", "inductor", device=schema.Device(kind="cuda"), walkthrough=True)
    with pytest.raises(SystemExit) as ended:
        lead(request, tmp_path, "native", "", quiet=True, json=False)
    assert ended.value.code == 143
    written = sorted(path.name for path in (tmp_path / SAMPLE.name / "traces" / "01_matmul_add").iterdir())
    arms = [f"{size}_bf16_cold_{arm}" for size in (4096, 64) for arm in ("compile", "eager")]
    assert written == [f"{name}.{kind}" for name in arms for kind in ("json", "txt")]
    check = manifest.check(tmp_path / SAMPLE.name)
    assert not (check.changed or check.missing or check.unlisted)


def test_the_scripts_stages_are_runs_that_can_be_planned() -> None:
    """Its words are the suite's: every case and arm it names can be planned."""
    from suite.plan import Request, plan_arms, plan_cases

    text = (ROOT / "docker" / "gpu-check").read_text()
    lines = re.findall(r"--preset (\w+).*?--cases (\S+) --arms (\S+)(?:.*--passes ([\w,]+))?", text)
    assert len(lines) == 4
    for preset, cases, arms, passes in lines:
        gpu = schema.Device(kind="cuda")
        planned = plan_cases(Request(preset, cases, arms, device=gpu, walkthrough=bool(passes), passes=passes))
        assert all(case.name.endswith(("-hot", "-cold")) for case in planned)
        plan_arms(arms.rstrip('"'))
