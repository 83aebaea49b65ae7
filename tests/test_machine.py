"""What is made of a launch and of what its processes saw: the fingerprint's settings and findings, and a strict refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.bundle import schema
from suite.errors import UserError
from suite.launch.command import Launch, Requested
from suite.machine import Machine, _merged, refuse_if_strict
from tests import samples
from tests.test_rules import effective

DENIED = schema.Finding(
    rule="launch.numactl-denied",
    severity="wrong",
    claim="numactl is denied.",
    evidence=["set_mempolicy: no"],
    advice="x",
)
DOUBT = schema.Finding(rule="launch.two-openmp", severity="doubtful", claim="Two are mapped.", evidence=["maps"])
CASE = "matmul_add/64-fp32"


def launch(threads: str = "2", findings: list[schema.Finding] | None = None) -> Launch:
    requested = [Requested("OMP_NUM_THREADS", threads, "suite")]
    return Launch("tuned", [], {"OMP_NUM_THREADS": threads}, requested, findings=findings or [])


def machine(**fields: object) -> Machine:
    return Machine(**{"launch": launch(findings=[DENIED]), "cache": Path("/nowhere"), **fields})  # type: ignore[arg-type]


def seen(process: int, threads: int) -> schema.Effective:
    return effective(CASE, process, threads={"torch_intra_op": threads}, environment={"OMP_NUM_THREADS": str(threads)})


def test_what_planning_found_stands_before_anything_was_measured() -> None:
    found = machine().fingerprint(samples.run([samples.case(CASE)]), [])
    assert DENIED in found.findings
    assert found.settings == []


def test_settings_are_compared_over_all_processes() -> None:
    run = samples.run([samples.case(CASE)])
    found = machine().fingerprint(run, [seen(0, 2), seen(1, 1), seen(2, 2)])
    (threads,) = [setting for setting in found.settings if setting.name == "OMP_NUM_THREADS"]
    assert threads.status == "not in force"
    assert "1 of 3" in threads.note


def test_an_ablations_levels_are_held_against_their_own_launch() -> None:
    levels = [schema.Level(label=name, knobs=[], description="") for name in ("none", "all")]
    plan = schema.Ablation(design="steps", levels=levels, order=[0, 1, 1, 0])
    run = samples.run([samples.case(CASE)], ablation=plan)
    two = machine(levels=[launch("1"), launch("2")])
    content = two.fingerprint(run, [seen(0, 1), seen(1, 2), seen(2, 2), seen(3, 1)])
    assert [f for f in content.findings if f.severity == "wrong"] == []
    wrong = two.fingerprint(run, [seen(0, 2), seen(1, 2)]).findings
    assert any("none: " in line for finding in wrong for line in finding.evidence)


def test_strict_names_every_difference_with_its_proof_and_leaves_doubts_alone() -> None:
    strict = schema.LaunchRequest(strict=True)
    refuse_if_strict(strict, [DOUBT])
    refuse_if_strict(schema.LaunchRequest(), [DENIED])
    with pytest.raises(UserError) as refused:
        refuse_if_strict(strict, [DENIED, DOUBT])
    assert "numactl is denied [launch.numactl-denied: set_mempolicy: no]" in str(refused.value)
    assert "two-openmp" not in str(refused.value)


def test_of_findings_of_one_claim_the_worst_stands_with_all_evidence() -> None:
    doubt = schema.Finding(rule="launch.x", severity="doubtful", claim="The mask shrank.", evidence=["+KMP: 0"])
    wrong = schema.Finding(rule="launch.x", severity="wrong", claim="The mask shrank.", evidence=["+numactl: 0"])
    (merged,) = _merged([doubt, wrong])
    assert (merged.severity, merged.evidence) == ("wrong", ["+KMP: 0", "+numactl: 0"])


def test_settings_are_those_of_the_fullest_level_that_was_seen() -> None:
    levels = [schema.Level(label=name, knobs=[], description="") for name in ("none", "all")]
    plan = schema.Ablation(design="steps", levels=levels, order=[0, 1])
    run = samples.run([samples.case(CASE)], ablation=plan)
    found = machine(levels=[launch("1"), launch("2")]).fingerprint(run, [seen(0, 1)])
    assert found.settings_of == "none"
    assert found.settings
