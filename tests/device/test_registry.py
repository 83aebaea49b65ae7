"""One place asks which device it is; planning knows devices by their traits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from suite.bundle import schema
from suite.device import registry
from suite.device.contract import Device, Watch
from suite.errors import UserError
from suite.launch.engine import native
from suite.plan import Request, further_profiles, plan, plan_arms, plan_cases

SUITE = Path(__file__).parents[2] / "suite"
GPU = schema.Device(kind="cuda", index=1)
ASKS = re.compile(
    r"(==|!=)\s*[\"'](cuda|cpu)[\"']|\bin\s*[(\[{][^)\]}]*[\"']cuda[\"']|\bis_cuda\b|cuda\.is_available|\bdevice\w*\.(kind|type)\s*(==|!=|in\b)"
)


def test_nothing_but_the_registry_asks_which_device_it_is() -> None:
    allowed = {"fingerprint", "doctor", "launch"}  # facts and container images, which are about both at once
    found = [
        f"{path.relative_to(SUITE)}:{number}: {line.strip()}"
        for path in sorted(SUITE.rglob("*.py"))
        if path.relative_to(SUITE).parts[0] not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ASKS.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("kind", registry.TRAITS)
def test_every_kind_has_traits_a_module_and_the_same_interface(kind: str) -> None:
    module = __import__(registry.MODULES[kind], fromlist=["open_device"])
    (made,) = [each for name, each in vars(module).items() if name.endswith("Device") and name.lower().startswith(kind)]
    wanted = {name for name in vars(Device) if not name.startswith("_")} | {
        "profiler_activities",
        "sort_key",
        "reference",
    }
    assert {name for name in wanted if not hasattr(made, name)} <= {"description"}


def test_a_processor_has_a_watch_that_sees_nothing() -> None:
    watch = registry.open_watch(schema.Device())
    assert type(watch) is Watch and watch.fields() == {} and watch.findings() == [] and watch.refusals() == []


def test_a_gpus_cases_name_the_caches_state_and_the_precision() -> None:
    cases = plan_cases(Request("quick", device=GPU))
    assert all(case.name.endswith(f"-{case.cache}") and case.cache in ("cold", "hot") for case in cases)
    assert all("matmul_precision" in case.parameters for case in cases)
    tf32 = next(case for case in cases if "tf32" in case.name)
    assert (tf32.dtype, tf32.matmul_precision) == ("float32", "high")
    assert tf32.parameters["matmul_precision"] == "high: float32 rounded to TF32"


def test_a_processors_cases_are_what_they_were() -> None:
    for case in plan_cases(Request("standard")):
        assert (case.cache, case.matmul_precision, case.passes) == ("", "highest", [])
        assert "matmul_precision" not in case.parameters and not case.name.endswith(("-cold", "-hot"))


def test_a_gpus_variant_without_a_state_is_hot() -> None:
    (case,) = plan_cases(Request("quick", "matmul_add/128-bf16", device=GPU))
    assert (case.name, case.cache) == ("matmul_add/128-bf16-hot", "hot")


@pytest.mark.parametrize(
    ("name", "said"),
    [("matmul_add/64-fp32-cold", "not steered on a cpu"), ("matmul_add/64-tf32", "a format of NVIDIA's")],
)
def test_what_only_a_gpu_has_is_refused_on_a_processor(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan_cases(Request("quick", name))


def test_an_arm_that_makes_no_sense_on_a_processor_has_its_reason() -> None:
    (case,) = plan_cases(Request("quick", "matmul_add/64-fp32", "inductor-reduce-overhead"))
    assert "CUDA graphs" in case.not_applicable["inductor-reduce-overhead"]
    (case,) = plan_cases(Request("quick", "matmul_add/64-fp32", "inductor-reduce-overhead", device=GPU))
    assert "inductor-reduce-overhead" not in case.not_applicable


def test_a_gpus_arms_are_its_own() -> None:
    labels = [arm.label for arm in plan_arms("", registry.TRAITS["cuda"].default_arms)]
    assert labels == ["eager", "eager#2", "inductor", "inductor-reduce-overhead", "inductor-max-autotune"]


def test_the_walkthroughs_profiles_are_processes_of_their_own() -> None:
    run = plan(Request("quick", "matmul_add/64-bf16-hot", device=GPU), native("a test"), [])
    named = [f"{one.name} {arm.name}" for one, arm in further_profiles(run, run.cases[0])]
    assert named == [
        "cold eager",
        "cold inductor",
        "warm eager",
        "warm inductor",
        "active20 eager",
        "active20 inductor",
        "wait0 eager",
    ]
    schedules = {one.name: one.schedule for one in run.cases[0].passes}
    assert (schedules["cold"].wait, schedules["cold"].warmup, schedules["cold"].active) == (1, 1, 3)
    assert schedules["active20"].active == 20
    assert (schedules["wait0"].wait, schedules["wait0"].warmup) == (0, 0)


def test_a_flushed_cache_and_a_bias_of_one_dimension_get_no_further_profiles() -> None:
    for name in ("matmul_add/4096-bf16-cold", "matmul_add/4096-bf16-bias1d-hot", "matmul_add/b8-64-bf16-hot"):
        (case,) = plan_cases(Request("quick", name, device=GPU))
        assert case.passes == []


def test_profiles_can_be_chosen_and_an_unknown_one_is_named() -> None:
    (case,) = plan_cases(Request("smoke", "matmul_add/64-bf16-hot", device=GPU, walkthrough=True, passes="warm"))
    assert [one.name for one in case.passes] == ["warm"]
    with pytest.raises(UserError, match="did you mean 'cold'"):
        plan_cases(Request("quick", "matmul_add/64-bf16-hot", device=GPU, passes="colt"))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request("quick", "pointwise_chain", device=GPU, passes="colt"), "PASSES=colt has nothing to choose from"),
        (Request("smoke", "matmul_add/64-bf16", device=GPU, passes="cold"), "with WALKTHROUGH=yes"),
        (
            Request("quick", "pointwise_chain", device=GPU, walkthrough=True),
            "no chosen case has the walkthrough's profiles",
        ),
        (Request("quick", "matmul_add/64-bf16", profile=False, device=GPU, walkthrough=True), "leave PROFILE=no out"),
    ],
)
def test_words_that_would_do_nothing_are_refused(request_: Request, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        plan_cases(request_)


def test_a_continued_run_says_whether_the_walkthroughs_files_can_come_of_it() -> None:
    from suite.session import _ignored

    asked = Request("quick", device=GPU, walkthrough=True)
    with_profiles = plan(Request("quick", "matmul_add/64-bf16", device=GPU), native("a test"), [])
    without = plan(Request("quick", "pointwise_chain", device=GPU), native("a test"), [])
    assert "WALKTHROUGH" not in _ignored(asked, with_profiles) and "WALKTHROUGH" in _ignored(asked, without)


def test_files_that_cannot_be_written_or_do_not_exist_are_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from suite.commands import _walkthrough_files
    from suite.profiling import walkthrough

    def fails(bundle: Path) -> list[Path]:
        raise ValueError("a trace that is cut off")

    monkeypatch.setattr(walkthrough, "write", fails)
    _walkthrough_files(tmp_path)
    assert "could not be written (a trace that is cut off)" in capsys.readouterr().err
    monkeypatch.setattr(walkthrough, "write", lambda bundle: [])
    _walkthrough_files(tmp_path)
    assert "none of its files is there" in capsys.readouterr().err


def test_the_command_that_repeats_a_gpus_run_names_the_gpu() -> None:
    run = plan(Request("quick", "matmul_add/64-bf16", device=GPU, walkthrough=True), native("a test"), [])
    assert run.command == "make bench-gpu PRESET=quick CASES=matmul_add/64-bf16 DEVICE=1 WALKTHROUGH=yes"


def test_planning_for_a_gpu_never_imports_torch() -> None:
    import subprocess

    script = (
        "import sys; from suite.bundle import schema; from suite.plan import Request, plan; from suite.launch.engine import native;"
        "plan(Request('quick', device=schema.Device(kind='cuda')), native('test'), []); import suite.device.watch;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_variables_that_change_arithmetic_or_waiting_are_taken_out_and_named() -> None:
    environ = {"NVIDIA_TF32_OVERRIDE": "1", "CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "4"}
    told = registry.clear(GPU, environ)
    assert environ == {"OMP_NUM_THREADS": "4"}
    assert [(each.shown, each.fate) for each in told] == [
        ("CUDA_LAUNCH_BLOCKING=1", "out"),
        ("NVIDIA_TF32_OVERRIDE=1", "out"),
    ]
    assert registry.clear(GPU, environ) == []


def test_what_only_a_gpu_obeys_is_not_taken_out_for_a_processor() -> None:
    environ = {"NVIDIA_TF32_OVERRIDE": "1"}
    assert registry.clear(schema.Device(), environ) == [] and environ


def test_the_precision_in_force_is_said_with_its_cases() -> None:
    from tests import samples

    cases = plan_cases(Request("quick", device=GPU))
    said = registry.precisions(GPU, cases)
    assert set(said) == {"highest: float32 as it is", "high: float32 rounded to TF32"}
    assert all("tf32" in name for name in said["high: float32 rounded to TF32"])
    assert registry.precisions(schema.Device(), [samples.case()]) == {}
