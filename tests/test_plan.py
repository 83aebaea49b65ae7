"""From a user's words to a plan."""

import pytest

from suite.bundle.schema import LaunchRequest
from suite.errors import UserError
from suite.launch.engine import native
from suite.plan import Request, arms_of, command, plan, plan_arms, plan_cases


def make(**options: str) -> object:
    return plan(Request(**{"preset": "quick", **options}), native("a test"), ["run"])


def test_quick_is_the_issue_of_four_cases_in_three_processes() -> None:
    run = make()
    assert [case.name for case in run.cases] == [
        "matmul_add/64-fp32",
        "matmul_add/1024-fp32",
        "pointwise_chain/16384x512-fp32",
        "mobilebert_qa/b8-s128-fp32",
    ]
    assert run.procedure.processes == 3
    assert [(arm.label, arm.role) for arm in run.arms] == [
        ("eager", "baseline"),
        ("eager#2", "noise"),
        ("inductor", "candidate"),
        ("inductor-freezing", "candidate"),
    ]


def test_cases_are_taken_as_workloads_or_variants_in_the_users_order_and_none_twice() -> None:
    chosen = plan_cases(Request("quick", cases="pointwise_chain matmul_add/32-bf16,pointwise_chain"))
    assert [case.name for case in chosen] == ["pointwise_chain/16384x512-fp32", "matmul_add/32-bf16"]


def test_an_arm_named_twice_is_an_arm_against_itself() -> None:
    assert [(arm.label, arm.role) for arm in plan_arms("eager,eager")] == [
        ("eager", "baseline"),
        ("eager#2", "noise"),
        ("eager#3", "candidate"),
    ]


def test_the_baseline_is_there_even_when_not_named() -> None:
    assert [arm.label for arm in plan_arms("inductor")] == ["eager", "eager#2", "inductor"]


def test_freezing_does_not_apply_to_a_case_without_parameters() -> None:
    run = make()
    assert [arm.label for arm in arms_of(run, run.cases[0])] == ["eager", "eager#2", "inductor"]
    assert [arm.label for arm in arms_of(run, run.cases[3])] == ["eager", "eager#2", "inductor", "inductor-freezing"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "quik"}, "did you mean 'quick'"),
        ({"cases": "mobilebert"}, "did you mean 'mobilebert_qa'"),
        ({"arms": "inductr"}, "did you mean 'inductor'"),
        ({"cases": "matmul_add/big"}, "is not of the form"),
        ({"processes": 0}, "at least one process"),
    ],
)
def test_a_mistyped_word_is_refused_with_the_nearest(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**options)


def test_the_reproducing_command_repeats_the_users_choice() -> None:
    assert command(Request("quick", cases="matmul_add, pointwise_chain", arms="inductor")) == (
        "make bench-cpu PRESET=quick CASES='matmul_add pointwise_chain' ARMS=inductor"
    )


def test_run_ids_sort_by_time_and_name_the_preset() -> None:
    first, second = make(), make()
    assert first.run_id != second.run_id and "-quick-" in first.run_id


def test_what_was_asked_of_the_launch_is_kept_and_asked_for_again() -> None:
    launch = LaunchRequest(settings="tutorial", cores="0-1", nodes="0", smt=True, threads=2, strict=True)
    request = Request("quick", launch=launch)
    assert plan(request, native("a test"), []).launch == launch
    assert (
        command(request)
        == "make bench-cpu PRESET=quick SETTINGS=tutorial CORES=0-1 NODES=0 SMT=yes THREADS=2 STRICT=yes"
    )


@pytest.mark.parametrize(
    ("launch", "sentence"),
    [
        (LaunchRequest(settings="tund"), "unknown settings 'tund', did you mean 'tuned'"),  # type: ignore[arg-type]
        (LaunchRequest(threads=0), "threads must be at least one, not 0"),
    ],
)
def test_a_launch_that_no_machine_could_give_is_refused(launch: LaunchRequest, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        plan(Request("quick", launch=launch), native("a test"), [])


def test_the_command_line_is_kept_without_the_users_folders() -> None:
    argv = ["run", "--output", "/srv/acme/results", "--model-dir=/srv/acme/bert", "--preset", "quick"]
    kept = plan(Request("quick"), native("a test"), argv).argv
    assert kept == ["run", "--output", "results", "--model-dir=bert", "--preset", "quick"]
