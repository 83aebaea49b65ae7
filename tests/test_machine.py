"""What is made of a launch and of what its processes saw: the fingerprint's settings and findings, and a strict refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from suite import machine as machines
from suite.bundle import schema
from suite.errors import UserError
from suite.launch import topology
from suite.launch.command import Launch, Requested
from suite.machine import Machine, _merged, refuse_if_strict
from suite.probe import Probe
from tests import samples
from tests.fingerprint.trees import write_tree
from tests.launch.test_topology import TWO_SOCKETS
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


def test_workers_are_planned_anew_for_the_socket_of_the_device_that_the_probe_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an asked-for place far from it stays, with a finding that the fingerprint keeps."""
    here = topology.read(write_tree(tmp_path, TWO_SOCKETS))
    gpu = schema.Device(kind="cuda", name="NVIDIA H200", bus_id="00000000:4a:00.0")
    probed: list[list[int]] = []

    def plan(
        here: object, found: object, environ: object, request: schema.LaunchRequest, near: int | None = None
    ) -> Launch:
        cores = request.cores or ("2-3" if near == 1 else "0-1")
        return Launch("tuned", ["taskset"], {}, [Requested("cpu_affinity", cores, "suite")])

    def probe(launch: Launch, device: schema.Device) -> Probe:
        probed.append(launch.cpus)
        return Probe(facts={}, no_compiler="", compile_ns=1, device=gpu)

    monkeypatch.setattr(machines.topology, "read", lambda: here)
    monkeypatch.setattr(machines.command, "plan", plan)
    monkeypatch.setattr(machines.near_device, "node_of", lambda bus_id: 1 if bus_id == gpu.bus_id else None)
    monkeypatch.setattr(machines, "_probe", probe)
    monkeypatch.setattr(machines, "rehearsed", lambda launch: [])
    monkeypatch.setattr(machines, "collect", dict)
    monkeypatch.setattr(machines.host, "with_host", lambda facts, environ: facts)
    asked = samples.run([samples.case()], device=gpu)
    found = machines.prepare(asked, tmp_path)
    assert probed == [[0, 1]] and found.launch.cpus == [2, 3] and found.findings == []
    far = machines.prepare(replace(asked, launch=schema.LaunchRequest(cores="0")), tmp_path)
    assert far.launch.cpus == [0] and [each.rule for each in far.findings] == ["launch.far-from-device"]
    assert "launch.far-from-device" in {each.rule for each in far.fingerprint(asked, []).findings}
