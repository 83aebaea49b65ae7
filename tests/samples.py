"""Builds bundles on disk from plain numbers, for tests of readers and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.bundle import manifest, schema
from suite.bundle.writer import FINGERPRINT, RUN, Bundle
from suite.measure.schedule import slots
from suite.presets import PRESETS

AT = "2026-03-01T10:00:00.000Z"
START_NS = 1_772_359_200_000_000_000


def case(name: str = "matmul_add/64-fp32", **changes: object) -> schema.Case:
    """A case of the plan."""
    workload, _, variant = name.partition("/")
    fields: dict[str, object] = {
        "name": name,
        "workload": workload,
        "variant": variant,
        "title": f"a test of {workload}",
        "parameters": {"size": 64},
        "inputs": [schema.Tensor(name="x", shape=[64, 64], dtype="float32", distribution="normal(0, 1)")],
        "dtype": "float32",
        "annotation": workload,
        "schedule": schema.ProfilerSchedule(),
    }
    return schema.Case(**{**fields, **changes})  # type: ignore[arg-type]


ARMS = [
    schema.Arm(label="eager", name="eager", role="baseline", description="as it is"),
    schema.Arm(label="eager#2", name="eager", role="noise", description="again"),
    schema.Arm(label="inductor", name="inductor", role="candidate", description="compiled"),
]


def run(cases: Sequence[schema.Case], arms: Sequence[schema.Arm] = ARMS, **changes: object) -> schema.Run:
    """A complete run of the quick preset."""
    fields: dict[str, object] = {
        "schema_version": schema.SCHEMA_VERSION,
        "run_id": "20260301-100000-quick-abcd",
        "preset": "quick",
        "status": "complete",
        "cases": list(cases),
        "arms": list(arms),
        "procedure": PRESETS["quick"][1],
        "argv": ["run"],
        "command": "make bench-cpu PRESET=quick",
        "seed": 1,
        "stretches": [schema.Stretch(started_at=AT, ended_at=AT)],
        "engine": schema.Engine(name="native", containerised=False, reason="a test"),
        "source": schema.Source(version="0", revision="0" * 40, dirty=False),
    }
    return schema.Run(**{**fields, **changes})  # type: ignore[arg-type]


def write(
    directory: Path,
    times_ns: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    pairs: int = 2,
    changes: Mapping[str, object] | None = None,
    case_changes: Mapping[str, object] | None = None,
) -> Path:
    """A bundle in `directory`: `times_ns[case][arm]` holds one time a call for each process; iterations spread 1 % around it."""
    cases = [case(name, **(case_changes or {})) for name in times_ns]
    bundle = Bundle(directory)
    directory.mkdir(parents=True, exist_ok=True)
    bundle.document(RUN, run(cases, **(changes or {})))
    facts = {"cpu": {"model": schema.Fact(value="Test CPU <&>", source="/proc/cpuinfo", status="ok")}}
    bundle.document(FINGERPRINT, schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts=facts))
    for name, arms in times_ns.items():
        for process in range(max(len(times) for times in arms.values())):
            for slot in slots(list(arms), pairs, process):
                if process < len(arms[slot.arm]):
                    bundle.block(
                        block(
                            name,
                            slot.arm,
                            process,
                            slot.block,
                            arms[slot.arm][process],
                            pair=slot.pair,
                            position=slot.position,
                        )
                    )
            for label in arms:
                if process < len(arms[label]):
                    bundle.event(evidence(name, label, process, "before"))
                    bundle.event(evidence(name, label, process, "after"))
            bundle.event(ended(name, process))
    manifest.write(directory)
    return directory


def block(
    case_name: str, arm: str, process: int, number: int, time_ns: float, *, pair: int = 0, position: int = 0
) -> schema.Block:
    """A measured block of five iterations around `time_ns`, whose median is `time_ns`."""
    return schema.Block(
        case=case_name,
        arm=arm,
        process=process,
        phase="measure",
        block=number,
        pair=pair,
        position=position,
        incarnation=0,
        started_at_ns=START_NS + (process * 100 + number) * 1_000_000_000,
        calls_per_iteration=1,
        iterations_ns=[round(time_ns * factor) for factor in (0.99, 0.995, 1.0, 1.005, 1.01)],
    )


def evidence(case_name: str, arm: str, process: int, moment: str = "before", **changes: object) -> schema.ArmEvidence:
    """An arm that is what it says: one graph of all operators where it is compiled, none in eager."""
    fields: dict[str, object] = {"operators": 2}
    if not arm.startswith("eager"):
        fields = {"eager_operators": 2, "regions": ["0/0"], "graph_calls": 1}
        fields |= {"graphs": 1, "kernels": 1, "frozen": int("freezing" in arm)} if moment == "before" else {}
    fields |= {"at": AT, "case": case_name, "arm": arm, "process": process, "incarnation": 0, "role": "measure"}
    return schema.ArmEvidence(**{**fields, "moment": moment, **changes})  # type: ignore[arg-type]


def ended(case_name: str, process: int, outcome: schema.Outcome = "ok", message: str = "") -> schema.ProcessEnded:
    """The end of a measuring process."""
    return schema.ProcessEnded(
        at=AT,
        case=case_name,
        role="measure",
        process=process,
        incarnation=0,
        outcome=outcome,
        message=message,
        exit_code=0 if outcome == "ok" else None,
        signal=None,
        duration_ns=5_000_000_000,
        peak_rss_bytes=2**30,
    )
