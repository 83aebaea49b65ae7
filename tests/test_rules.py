"""The run rules, each seen to complain and to be content."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from suite import rules
from suite.bundle import reader, schema
from suite.bundle.writer import EVENTS, SBOM, append
from tests import samples

CASES = ("matmul_add/64-fp32", "pointwise_chain/64x64-fp32")
TIMES = {case: {"eager": [2.0] * 3, "eager#2": [2.0] * 3} for case in CASES}


def effective(case: str, process: int, **changes: object) -> schema.Effective:
    """What a process saw in force."""
    fields: dict[str, object] = {
        "at": samples.AT,
        "case": case,
        "process": process,
        "mapped_libraries": {"openmp": ["libiomp5.so"]},
        "affinity": [0, 1],
        "memory_nodes": "0",
        "threads": {"torch_intra_op": 2, "process_threads": 7 + process},
        "environment": {},
        "torch": {},
        "runtime": {},
        "timer_resolution_ns": 40.0,
        "timer_overhead_ns": 60.0,
        "peak_rss_bytes": 1,
    }
    return schema.Effective(**{**fields, **changes})  # type: ignore[arg-type]


def bundle(path: Path, *events: schema.Event, **changes: object) -> reader.Loaded:
    """A run of two cases with these events besides."""
    directory = samples.write(path / "run", TIMES, changes=changes)
    (directory / SBOM).write_bytes(LISTED)
    for event in events:
        append(directory / EVENTS, event)
    return reader.load(directory)


LISTED = b'{"bomFormat": "CycloneDX"}'
ENGINE = schema.Engine(
    name="podman",
    containerised=True,
    reason="",
    image="i",
    image_digest="sha256:0",
    sbom_sha256=hashlib.sha256(LISTED).hexdigest(),
)


def test_a_run_that_meets_every_rule_has_no_complaint(tmp_path: Path) -> None:
    assert rules.complaints(bundle(tmp_path, engine=ENGINE)) == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"preset": "smoke"}, "never publishable"),
        ({"status": "interrupted"}, "the run is interrupted"),
        (
            {"engine": schema.Engine(name="native", containerised=False, reason="")},
            "not in a container that the suite started",
        ),
        ({"engine": replace(ENGINE, image_digest=None)}, "digest is unknown"),
        ({"engine": replace(ENGINE, sbom_sha256=None)}, "software is not listed"),
        ({"engine": replace(ENGINE, sbom_sha256="0" * 64)}, "not the list that the image had"),
        ({"source": schema.Source(version="0", revision="0", dirty=True)}, "were changed"),
        ({"source": schema.Source(version="0")}, "revision is unknown"),
    ],
)
def test_what_the_plan_shows_is_complained_about(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    found = rules.complaints(bundle(tmp_path, **{"engine": ENGINE, **changes}))
    assert len(found) == 1 and complaint in found[0]


@pytest.mark.parametrize(
    "changes",
    [{"affinity": [0]}, {"threads": {"torch_intra_op": 1}}, {"mapped_libraries": {"openmp": ["libgomp.so.1"]}}],
)
def test_processes_of_a_case_must_agree_on_their_settings(tmp_path: Path, changes: dict[str, object]) -> None:
    events = [effective(CASES[0], 0), effective(CASES[0], 1, **changes)]
    (found,) = rules.complaints(bundle(tmp_path, *events, engine=ENGINE))
    assert found.startswith(f"{CASES[0]}: ") and "differ between its processes" in found


def test_cases_may_differ_and_threads_may_come_and_go(tmp_path: Path) -> None:
    events = [
        effective(CASES[0], 0),
        effective(CASES[0], 1),
        effective(CASES[1], 0, mapped_libraries={"openmp": ["other"]}),
    ]
    assert rules.complaints(bundle(tmp_path, *events, engine=ENGINE)) == []


def test_an_arm_that_did_not_run_is_named_once(tmp_path: Path) -> None:
    def not_run(process: int) -> schema.ArmNotRun:
        return schema.ArmNotRun(
            at=samples.AT, case=CASES[0], arm="inductor", process=process, incarnation=0, reason="no C++ compiler"
        )

    found = rules.complaints(bundle(tmp_path, not_run(0), not_run(1), engine=ENGINE))
    assert found == [f"{CASES[0]}: the arm inductor did not run (no C++ compiler)"]


def found(severity: schema.Severity) -> schema.Fingerprint:
    finding = schema.Finding(
        rule="launch.x", severity=severity, claim="MALLOC_CONF is not in force.", evidence=["seen"]
    )
    return schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts={}, findings=[finding])


def test_a_finding_that_something_is_wrong_is_complained_about_and_a_doubt_is_not(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, engine=ENGINE)
    wrong = msgspec.structs.replace(loaded, fingerprint=found("wrong"))
    assert rules.complaints(wrong) == ["MALLOC_CONF is not in force (launch.x)"]
    assert rules.complaints(msgspec.structs.replace(loaded, fingerprint=found("doubtful"))) == []


def test_an_ablation_needs_three_rounds_of_every_level_and_its_levels_may_differ(tmp_path: Path) -> None:
    levels = [schema.Level(label=name, knobs=[], description="") for name in ("none", "all")]
    # Three processes ended well in each case: two of "none", one of "all".
    plan = schema.Ablation(design="steps", levels=levels, order=[0, 1, 0])
    events = [effective(CASES[0], 0), effective(CASES[0], 1, affinity=[0]), effective(CASES[0], 2, affinity=[0])]
    complaints = rules.complaints(bundle(tmp_path, *events, engine=ENGINE, ablation=plan))
    assert complaints == [
        *(
            f"{case}: {rounds} process{'es' if rounds > 1 else ''} with {label} ended well, 3 are needed"
            for case in CASES
            for label, rounds in (("none", 2), ("all", 1))
        ),
        f"{CASES[0]} with none: affinity differ between its processes",
    ]


def test_every_rule_has_a_docstring() -> None:
    undocumented: list[Callable[..., object]] = [rule for rule in rules.RULES if not rule.__doc__]
    assert undocumented == []


def test_what_a_container_costs_is_measured_on_both_sides(tmp_path: Path) -> None:
    levels = [schema.Level(label=name, knobs=[], description="") for name in ("host", "container")]
    plan = schema.Ablation(design="container", levels=levels, order=[0, 1, 0], engine=ENGINE)
    found = rules.complaints(
        bundle(tmp_path, engine=schema.Engine(name="native", containerised=False, reason=""), ablation=plan)
    )
    assert not any("containerised" in complaint for complaint in found)


def on_a_gpu(path: Path, *rows: schema.Telemetry, **block: object) -> list[str]:
    """Complaints about a run whose blocks were measured on a device beside its host."""
    found = bundle(path, engine=ENGINE)
    blocks = [replace(each, enqueue_ns=5000, **block) for each in found.blocks]
    return rules.complaints(replace(found, blocks=blocks, telemetry=list(rows)))


def reading(**fields: object) -> schema.Telemetry:
    """A reading of a GPU beside a measuring process."""
    row = schema.Telemetry(at=samples.AT, moment="during", case=CASES[0], role="measure", process=0, monotonic_ns=1)
    return replace(row, gpu=schema.Gpu(**fields))  # type: ignore[arg-type]


def test_a_gpu_that_was_read_and_left_alone_is_no_complaint(tmp_path: Path) -> None:
    assert on_a_gpu(tmp_path, reading(others=0, clock_mhz=1980)) == []


def test_a_gpu_that_nobody_read_is_complained_about(tmp_path: Path) -> None:
    (found,) = on_a_gpu(tmp_path)
    assert "nothing was read of the device's clock" in found


def test_another_process_on_the_gpu_is_complained_about(tmp_path: Path) -> None:
    (found,) = on_a_gpu(tmp_path, reading(others=0), reading(others=2))
    assert found == "other processes computed on the GPU in 1 of 2 readings"


def test_disturbed_blocks_that_had_to_be_kept_are_counted_with_their_cause(tmp_path: Path) -> None:
    found = on_a_gpu(tmp_path, reading(others=0), disturbed=True, conditions=["slowed down: heat"])
    assert len(found) == len(CASES)
    assert found[0] == f"{CASES[0]}: 24 of 24 blocks were measured under bad conditions (slowed down: heat)"


def test_blocks_whose_clock_could_not_be_judged_are_counted_with_the_reason(tmp_path: Path) -> None:
    found = on_a_gpu(tmp_path, reading(others=0), conditions=["not judged: the clock: permission denied"])
    assert found[0] == f"{CASES[0]}: 24 of 24 blocks could not be judged (the clock: permission denied)"
    assert len(found) == len(CASES)


def test_a_power_limit_that_is_the_gpus_own_is_no_complaint(tmp_path: Path) -> None:
    assert on_a_gpu(tmp_path, reading(others=0), conditions=["slowed down: software power cap (power)"]) == []


@pytest.mark.parametrize(("count", "said"), [(1, "1 process ended well"), (2, "2 processes ended well")])
def test_too_few_processes_are_counted_in_english(tmp_path: Path, count: int, said: str) -> None:
    times = {CASES[0]: {"eager": [2.0] * count, "eager#2": [2.0] * count}}
    loaded = reader.load(samples.write(tmp_path / "run", times))
    assert list(rules.enough_processes(loaded)) == [f"{CASES[0]}: {said}, 3 are needed"]
