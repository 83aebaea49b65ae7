"""What a report shows of a run on a GPU: its tables, its head, the host's part, blocks that were measured again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reports.render import tables, view
from reports.render.document import render_html
from reports.results import results
from suite.bundle import reader, schema
from suite.bundle.writer import RETAKEN, SAMPLES, Bundle
from tests import samples

CASE = "matmul_add/64-bf16-hot"
GPU = schema.Device(kind="cuda", index=1, name="NVIDIA H200", visible=["0: a", "1: b"], memory_bytes=150109880320)


def row(name: str, cpu: int, self_cpu: int, device: int, self_device: int) -> schema.ProfileRow:
    return schema.ProfileRow(
        name=name, calls=3, cpu_ns=cpu, self_cpu_ns=self_cpu, device_ns=device, self_device_ns=self_device
    )


def profile(rows: list[schema.ProfileRow]) -> schema.Profile:
    return schema.Profile(
        case=CASE,
        arm="eager",
        schedule=schema.ProfilerSchedule(),
        sort_key="device_time_total",
        activities=["CPU", "CUDA"],
        kernel_profile=False,
        cycles=[schema.ProfileCycle(last_step=5, active_steps=3, trace="trace.json.gz", rows=rows)],
    )


ROWS = [
    row("matmul_add", 0, 0, 106_976, 106_976),
    row("cudaDeviceSynchronize", 30_000, 30_000, 0, 0),
    row("aten::add", 50_000, 40_000, 2_913, 2_913),
    row("aten::mm", 205_837, 161_655, 5_760, 5_760),
    row("nvjet_gemm", 0, 0, 5_760, 5_760),
    row("add_kernel", 0, 0, 2_913, 2_913),
    row("matmul_add", 403_692, 109_139, 8_673, 0),
]


def test_a_device_s_table_is_in_the_order_of_its_own_time() -> None:
    table = tables.profile_table(profile(ROWS))
    assert table.columns == ("self device", "device", "self CPU")
    assert [cells[0] for cells in table.rows][:3] == ["matmul_add", "aten::mm", "nvjet_gemm"]
    assert table.rows[1][1:] == ("1", "1.92\u00a0µs", "1.92\u00a0µs", "53.9\u00a0µs")
    assert table.rows[-1][0] == "cudaDeviceSynchronize"


def test_an_annotation_on_the_device_s_lane_is_not_counted_as_work() -> None:
    table = tables.profile_table(profile(ROWS))
    assert table.total.startswith("2.89\u00a0µs of the device and 114\u00a0µs of the host")
    assert [cells[0] for cells in table.rows].count("matmul_add") == 1


def test_a_processor_s_table_stays_by_self_time() -> None:
    table = tables.profile_table(profile([row("aten::mm", 9000, 6000, 0, 0), row("aten::add", 3000, 3000, 0, 0)]))
    assert table.columns == ("self", "share") and table.total == "3.00\u00a0µs a step under the profiler"
    assert table.rows[0] == ("aten::mm", "1", "2.00\u00a0µs", "67\u00a0%")


@pytest.fixture
def loaded(tmp_path: Path) -> reader.Loaded:
    path = samples.write(
        tmp_path / "run",
        {CASE: {"eager": [35_000.0], "inductor": [97_000.0]}},
        changes={"arms": [arm for arm in samples.ARMS if arm.role != "noise"], "device": GPU},
        case_changes={"parameters": {"size": 64}, "cache": "hot"},
    )
    bundle = Bundle(path)
    found = reader.load(path).blocks
    (path / SAMPLES).unlink()
    for number, block in enumerate(found):
        fields = {name: getattr(block, name) for name in block.__struct_fields__}
        slowed = ["slowed down: software power cap, in 1 of 1 readings"] if number == 0 else []
        bundle.block(schema.Block(**{**fields, "enqueue_ns": 31_700, "conditions": slowed, "disturbed": number == 0}))
    again = {name: getattr(found[1], name) for name in found[1].__struct_fields__}
    lines = schema.Block(**{**again, "disturbed": True, "conditions": ["ran at 40 % of its clock"]})

    (path / RETAKEN).write_bytes(msgspec.json.encode(lines) + b"\n")
    return reader.load(path)


def test_the_host_s_part_and_the_cache_stand_where_times_stand(loaded: reader.Loaded) -> None:
    (eager, *_) = tables.result_rows(results(loaded))
    assert (eager.host, eager.cache) == ("31.7\u00a0µs", "hot cache")
    html = render_html(loaded)
    assert "Host's part" in html and "hot cache" in html


def test_a_retaken_block_is_named_with_its_reason(loaded: reader.Loaded) -> None:
    (case,) = results(loaded).cases
    block = loaded.retaken[0]
    expected = (
        f"Block {block.block} of process 0 ({block.arm}) was measured again, and kept apart: ran at 40 % of its clock."
    )
    assert view.retaken(loaded, case) == [expected]
    assert expected in render_html(loaded)


def test_conditions_of_kept_blocks_are_counted(loaded: reader.Loaded) -> None:
    (case,) = results(loaded).cases
    blocks = len(loaded.blocks)
    assert f"Slowed down: software power cap, in 1 of {blocks} blocks; 1 block could only be had so." in view.device(
        loaded, case
    )


def test_one_condition_of_several_blocks_is_one() -> None:
    texts = ("below 75 % of the default clock: 900 of 1980 MHz", "below 75 % of the default clock: 950 of 1980 MHz")
    block = samples.block(CASE, "eager", 0, 0, 1e5)
    fields = {name: getattr(block, name) for name in block.__struct_fields__}
    blocks = [schema.Block(**{**fields, "conditions": [text], "disturbed": True}) for text in texts]
    assert view.conditions(blocks) == [("below 75 % of the default clock", 2, 2)]


def test_the_head_names_the_gpu_with_its_memory_and_which_of_several(loaded: reader.Loaded) -> None:
    assert view.machine_line(loaded).startswith("NVIDIA H200 140\u00a0GiB (device 1 of 2), ")


def test_a_report_of_a_processor_has_no_column_for_a_host(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "run", {"matmul_add/64-fp32": {"eager": [1e6], "inductor": [1e6]}})
    assert "Host's part" not in render_html(reader.load(path))
