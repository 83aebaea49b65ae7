"""The plan of an ablation: levels, order, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from suite.ablate import ALL, NONE, ROUNDS, levels, plan_ablation
from suite.bundle import schema
from suite.errors import UserError
from suite.launch.engine import native
from suite.launch.profiles import KNOBS
from suite.plan import AblationRequest, Request


def make(design: str = "steps", rounds: int | None = None, **options: object) -> schema.Run:
    request = Request(**{"preset": "quick", **options})  # type: ignore[arg-type]
    return plan_ablation(request, AblationRequest(design, rounds), native("a test"), ["ablate"])


def plan_of(run: schema.Run) -> schema.Ablation:
    assert run.ablation is not None
    return run.ablation


def test_each_step_adds_one_knob_from_nothing_to_everything() -> None:
    knobs = [level.knobs for level in levels("steps")]
    assert knobs[:2] == [[], []]
    for before, after in itertools.pairwise(knobs[1:]):
        assert after[:-1] == before
    assert set(knobs[-1]) == set(KNOBS)
    assert [levels("steps")[0].label, levels("steps")[-1].label] == [NONE, ALL]


def test_alone_every_knob_stands_by_itself_and_kmp_with_the_run_time_that_reads_it() -> None:
    knobs = [set(level.knobs) for level in levels("alone")]
    assert knobs[2:-1] == [{"libiomp5"}, {"jemalloc"}, {"libiomp5", "kmp"}, {"numactl"}, {"threads"}]
    assert knobs[-1] == set(KNOBS)


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_every_round_holds_every_level_once_and_rounds_are_mirrored_in_twos(rounds: int) -> None:
    plan = plan_of(make(rounds=rounds))
    size = len(plan.levels)
    chunks = [plan.order[start : start + size] for start in range(0, len(plan.order), size)]
    assert len(chunks) == rounds
    assert all(Counter(chunk) == Counter(range(size)) for chunk in chunks)
    for first, second in zip(chunks[::2], chunks[1::2], strict=False):
        assert second == first[::-1]


def test_the_processes_of_a_case_are_its_levels_times_its_rounds() -> None:
    run = make()
    count = len(plan_of(run).levels) * ROUNDS["quick"]
    assert (run.procedure.processes, run.procedure.processes_maximum) == (count, count)
    assert [case.workload for case in run.cases] == ["pointwise_chain", "mobilebert_qa"]
    assert [arm.label for arm in run.arms] == ["eager", "inductor"]
    assert not run.profile
    assert "-ablate-quick-" in run.run_id


def test_the_command_asks_for_the_same_ablation_again() -> None:
    assert make().command == "make ablate PRESET=quick"
    assert (
        make("alone", 6, cases="matmul_add").command
        == "make ablate PRESET=quick CASES=matmul_add ROUNDS=6 DESIGN=alone"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"design": "step"}, "unknown design 'step', did you mean 'steps'"),
        ({"rounds": 0}, "an even number .or 1, to try., not 0"),
        ({"rounds": 3}, "not 3"),
        ({"launch": schema.LaunchRequest(settings="untuned")}, "leave settings and threads out"),
        ({"launch": schema.LaunchRequest(threads=2)}, "leave settings and threads out"),
        ({"cases": "pointwise"}, "pointwise"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make(**options)  # type: ignore[arg-type]


def test_a_container_is_compared_with_the_host_and_the_host_with_itself() -> None:
    run = make("container")
    plan = plan_of(run)
    host, again, container = plan.levels
    assert host.knobs == again.knobs
    assert container.knobs == [*host.knobs, "container"]
    assert [case.name for case in run.cases] == ["pointwise_chain/16384x512-fp32", "matmul_add/1024-fp32"]
    assert "-container-quick-" in run.run_id
    assert run.command == "make container-cost PRESET=quick"
