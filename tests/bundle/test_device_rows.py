"""What schema 1.2 added: read in new bundles, and not missed in old ones."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from suite.bundle import reader, schema
from suite.bundle.writer import RUN, Bundle, write_document
from tests import samples

CASE = "matmul_add/64-fp32"


def written(path: Path) -> Path:
    return samples.write(path / "run", {CASE: {"eager": [2.0], "eager#2": [2.0]}})


def test_an_older_bundle_was_measured_on_the_processor_with_nothing_retaken(tmp_path: Path) -> None:
    directory = written(tmp_path)
    plan = json.loads((directory / RUN).read_bytes())
    assert "device" not in plan
    for version in ("1.0", "1.1"):
        (directory / RUN).write_text(json.dumps({**plan, "schema_version": version}))
        loaded = reader.load(directory)
        assert loaded.run.device == schema.Device() and loaded.run.device.kind == "cpu"
        assert (loaded.retaken, loaded.passes, loaded.run.cases[0].cache) == ([], {}, "")
        assert all(block.enqueue_ns is None and not block.disturbed for block in loaded.blocks)


def test_a_retaken_block_is_kept_beside_and_never_among_the_blocks(tmp_path: Path) -> None:
    directory = written(tmp_path)
    block = reader.load(directory).blocks[0]
    aside = replace(block, iterations_ns=[999_999], disturbed=True, conditions=["slowed down"])
    Bundle(directory).retaken(aside)
    loaded = reader.load(directory)
    assert loaded.retaken == [aside]
    assert not any(999_999 in each.iterations_ns for each in loaded.blocks) and loaded.notes == []


def test_further_profiles_are_read_by_their_names(tmp_path: Path) -> None:
    directory = written(tmp_path)
    run = reader.read_run(directory)
    one = schema.Pass(name="cold", schedule=schema.ProfilerSchedule(), arms=["eager"])
    write_document(directory / RUN, replace(run, cases=[replace(run.cases[0], passes=[one])]))
    cycle = schema.ProfileCycle(last_step=5, active_steps=3, trace="trace.json.gz", rows=[])
    profile = schema.Profile(
        case=CASE,
        arm="eager",
        schedule=one.schedule,
        sort_key="device_time_total",
        activities=["CPU", "CUDA"],
        kernel_profile=False,
        cycles=[cycle],
    )
    write_document(directory / "cases" / CASE / "eager" / "passes" / "cold" / "profile.json", profile)
    assert reader.load(directory).passes == {(CASE, "eager", "cold"): profile}
