"""What torch.compile leaves in a trace."""

from __future__ import annotations

import pytest

from reports.findings.compiled import COMPILE_RULES, frames, guards
from reports.findings.compiled_graphs import graph_calls
from tests.reports.findings.recordings import HASH, Recording, Verdict, ask, compiled, eager, real


@pytest.mark.parametrize("identity", ["R21", "R22", "R23", "R24"])
def test_an_eager_trace_has_nothing_compiled(identity: str) -> None:
    outcome = ask(COMPILE_RULES, identity, eager().analysis())
    assert (outcome.verdict, "no compiled region" in outcome.why) == (Verdict.NOT_APPLICABLE, True)


@pytest.mark.parametrize("identity", ["R21", "R22", "R23", "R24"])
def test_a_compiled_trace_fires_them_all(identity: str) -> None:
    assert ask(COMPILE_RULES, identity, compiled().analysis()).verdict is Verdict.FIRED


@pytest.mark.parametrize("identity", ["R21", "R22", "R23", "R24"])
def test_a_graph_called_without_its_frame_is_quiet(identity: str) -> None:
    trace = Recording().step(0, 0, 90).op("CompiledFunction", 5, 80).op("aten::mm", 6, 50)
    assert ask(COMPILE_RULES, identity, trace.analysis()).verdict is Verdict.QUIET


def test_one_trace_says_nothing_of_r25() -> None:
    outcome = ask(COMPILE_RULES, "R25", compiled().analysis())
    assert (outcome.verdict, "compares two traces" in outcome.why) == (Verdict.NOT_APPLICABLE, True)


def test_a_first_version_is_no_recompilation() -> None:
    outcome = ask(COMPILE_RULES, "R21", compiled().analysis())
    assert outcome.claim == "1 compiled frame ran: 0/0 3 times."
    assert outcome.advice == ""


def test_a_later_version_names_how_often_the_frame_was_compiled_again() -> None:
    outcome = ask(COMPILE_RULES, "R21", compiled(version=2).analysis())
    assert "0/2 is version 2 of frame 0: it was compiled again at least 2 times" in outcome.claim
    assert "TORCH_LOGS=recompiles" in outcome.advice


def test_a_real_graph_break_and_recompilation_are_both_seen() -> None:
    analysis = real("graph_break-recompiled")
    assert [(frame.name, frame.rows.size, frame.inside) for frame in frames(analysis.trace)] == [
        ("0/0", 3, 0),
        ("0/1", 3, 0),
        ("1/0", 3, 3),
        ("1/1", 3, 3),
    ]
    outcome = ask(COMPILE_RULES, "R21", analysis)
    assert outcome.claim.startswith("2 compiled frames ran")
    assert "TORCH_LOGS=graph_breaks" in outcome.advice and "TORCH_LOGS=recompiles" in outcome.advice


@pytest.mark.parametrize(
    "name", ["Torch-Compiled Region", "Torch-Compiled Region: 0/0_1", "Torch-Compiled Region: !1/0/0"]
)
def test_ids_of_other_versions_are_frames_too(name: str) -> None:
    (frame,) = frames(Recording().op(name, 0, 10).analysis().trace)
    assert frame.version == 0 and frame.rows.size == 1


def test_guards_take_a_share_of_each_step() -> None:
    found = guards(compiled().analysis())
    assert found.share == pytest.approx(22 / 140)
    assert found.per_step == (1, 1, 1)


def test_costly_guards_are_at_stake_only_where_the_host_bounds_the_run() -> None:
    hidden = ask(COMPILE_RULES, "R22", compiled().analysis())
    assert (hidden.at_stake_us, "hidden behind its work" in hidden.claim) == (0, True)
    host = Recording()
    for number in range(2):
        host.step(number, 100 * number, 90).op("TorchDynamo Cache Lookup", 100 * number + 1, 20)
        host.op("Torch-Compiled Region: 0/0", 100 * number + 22, 60)
    outcome = ask(COMPILE_RULES, "R22", host.analysis())
    assert (outcome.at_stake_us, "a cost worth a look" in outcome.claim) == (40, True)


def test_cheap_guards_are_normal() -> None:
    outcome = ask(COMPILE_RULES, "R22", compiled(lookup=2.0).analysis())
    assert "which is normal" in outcome.claim


def test_a_prologue_without_gradients_is_normal() -> None:
    outcome = ask(COMPILE_RULES, "R23", real("layer-inductor"))
    assert "no backward pass is recorded, and it is normal all the same" in outcome.claim


def test_the_same_key_in_every_step_is_a_hit() -> None:
    outcome = ask(COMPILE_RULES, "R24", compiled().analysis())
    assert outcome.claim.startswith("All 3 steps call the same graph (fq4p3bvtmdlu…)")


def test_several_graphs_that_repeat_are_hits_too() -> None:
    outcome = ask(COMPILE_RULES, "R24", real("graph_break-recompiled"))
    assert (outcome.verdict, "the same 4 graphs" in outcome.claim) == (Verdict.FIRED, True)


def test_another_key_in_a_later_step_is_named() -> None:
    outcome = ask(COMPILE_RULES, "R24", compiled(keys=(HASH, HASH, "fother")).analysis())
    assert outcome.verdict is Verdict.QUIET
    assert "step 3 of 3" in outcome.why and "new: fother" in outcome.why


def test_no_key_is_no_miss() -> None:
    outcome = ask(COMPILE_RULES, "R24", real("layer-inductor-freezing"))
    assert (outcome.verdict, "no key is not a miss" in outcome.why) == (Verdict.NOT_APPLICABLE, True)


def test_one_call_of_a_graph_has_nothing_to_be_compared_with() -> None:
    assert ask(COMPILE_RULES, "R24", compiled(steps=1).analysis()).verdict is Verdict.NOT_APPLICABLE


def test_graph_calls_know_their_frame_and_step() -> None:
    calls = graph_calls(compiled(steps=2).analysis().trace)
    assert [(call.graph, call.frame, call.step) for call in calls] == [
        (HASH, "Torch-Compiled Region: 0/0", 0),
        (HASH, "Torch-Compiled Region: 0/0", 1),
    ]
