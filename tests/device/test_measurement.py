"""A measuring process on a GPU of doubles: what is retaken, what is refused, and what stays in the bundle."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest

from suite.bundle import reader, schema
from suite.bundle.writer import RUN, Bundle
from suite.device.contract import RefusedMeasurementError, Timed
from suite.device.cuda import CudaDevice
from suite.measure import process
from suite.measure.process import RETAKES, Measurement
from suite.measure.schedule import Slot
from suite.plan import Request, plan_cases
from suite.presets import PRESETS
from suite.protocol import Assignment, Reporter
from tests import samples
from tests.device.fake import THERMAL, US, FakeNvml, Timeline, device

GPU = schema.Device(kind="cuda", name="NVIDIA H200", memory_bytes=141 << 30, multiprocessors=132, l2_bytes=60 << 20)
SLOT = Slot(block=4, pair=0, position=0, arm="eager")
PLAN = schema.Planned(
    at=samples.AT,
    case="matmul_add/4096-bf16-hot",
    process=0,
    pairs=1,
    order=["eager"],
    iterations={"eager": 5},
    calls_per_iteration={"eager": 1},
)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RECOVERY_S", 0.0)


def measurement(
    tmp_path: Path, under_test: CudaDevice, call: Any, name: str = "matmul_add/4096-bf16-hot"
) -> Measurement:
    (case,) = plan_cases(Request("quick", name, device=GPU))
    bundle = Bundle(tmp_path / "run")
    bundle.document(RUN, samples.run([case], device=GPU))
    assignment = Assignment(
        bundle=str(bundle.path),
        role="measure",
        case=case,
        arms=samples.ARMS,
        procedure=PRESETS["quick"][1],
        process=0,
        incarnation=0,
        seed=1,
        progress_descriptor=-1,
        parent=0,
        device=GPU,
    )
    found = Measurement(assignment, bundle, Reporter(-1), under_test)
    found.calls = {"eager": call}
    return found


def on_gpu(timeline: Timeline, *states: tuple[int, int], **options: Any) -> CudaDevice:
    under_test, _ = device(timeline, FakeNvml(states or ((1980, 0),)), **options)
    under_test.description = GPU
    return under_test


def test_a_throttled_block_is_measured_again_and_both_are_kept(tmp_path: Path) -> None:
    timeline = Timeline()
    # The first state is taken when the sampler is opened.
    under_test = on_gpu(timeline, (1200, THERMAL), (1980, 0))
    found = measurement(tmp_path, under_test, timeline.work(5 * US, 300 * US))
    found.bundle.block(found._settled_block(SLOT, PLAN))
    loaded = reader.load(found.bundle.path)
    (aside,), (kept,) = loaded.retaken, loaded.blocks
    assert (aside.disturbed, aside.retake, aside.clock_mhz) == (True, 0, 1200)
    assert any("hardware thermal slowdown" in each for each in aside.conditions)
    assert (kept.disturbed, kept.retake, kept.clock_mhz, kept.conditions) == (False, 1, 1980, [])
    assert kept.block == aside.block == SLOT.block


def test_a_gpu_that_stays_slow_leaves_a_marked_block_in_the_end(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline, (1200, 0)), timeline.work(5 * US, 300 * US))
    found.bundle.block(found._settled_block(SLOT, PLAN))
    loaded = reader.load(found.bundle.path)
    assert [block.retake for block in loaded.retaken] == list(range(RETAKES))
    (kept,) = loaded.blocks
    assert kept.disturbed and "below 75 % of the default clock" in kept.conditions[0]


def test_no_block_is_measured_again_when_the_budget_is_spent(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline, (1200, 0)), timeline.work(5 * US, 300 * US))
    found._retaken_ns = int(found.assignment.procedure.measure_budget_ns * process.RETAKE_SHARE)
    assert found._settled_block(SLOT, PLAN).disturbed
    assert reader.load(found.bundle.path).retaken == []


def test_the_gpus_own_power_limit_is_told_and_not_retaken(tmp_path: Path) -> None:
    timeline = Timeline()
    power_cap = 1 << 2
    found = measurement(tmp_path, on_gpu(timeline, (1700, power_cap)), timeline.work(5 * US, 300 * US))
    block = found._settled_block(SLOT, PLAN)
    assert not block.disturbed and "software power cap" in block.conditions[0]


def test_a_time_below_what_the_peak_allows_is_refused(tmp_path: Path) -> None:
    timeline = Timeline()
    # 137 GFLOP in 20 us would be 6,900 TFLOP/s.
    found = measurement(tmp_path, on_gpu(timeline), timeline.work(1 * US, 20 * US))
    with pytest.raises(RefusedMeasurementError, match=r"eager, block 4: .*above what"):
        found._settled_block(SLOT, PLAN)
    assert reader.load(found.bundle.path).blocks == []


def test_a_block_that_was_not_waited_for_is_refused_and_nothing_of_it_kept(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline, waits=False), timeline.work(1 * US, 300 * US))
    with pytest.raises(RefusedMeasurementError, match="was not waited for"):
        found._settled_block(SLOT, PLAN)
    loaded = reader.load(found.bundle.path)
    assert (loaded.blocks, loaded.retaken) == ([], [])


def test_the_hosts_time_stands_in_the_blocks_row(tmp_path: Path) -> None:
    timeline = Timeline()
    block = measurement(tmp_path, on_gpu(timeline), timeline.work(7 * US, 300 * US))._settled_block(SLOT, PLAN)
    assert block.enqueue_ns == 7 * US
    assert block.host_ns is not None and block.host_ns >= sum(block.iterations_ns)


def test_a_block_on_the_processor_has_nothing_of_a_gpus(tmp_path: Path) -> None:
    from suite.device.cpu import open_device

    found = measurement(tmp_path, open_device(schema.Device()), lambda: sum(range(100)))  # type: ignore[arg-type]
    block = found._settled_block(SLOT, PLAN)
    assert (block.enqueue_ns, block.host_ns, block.clock_mhz, block.retake, block.conditions) == (
        None,
        None,
        None,
        0,
        [],
    )
    assert reader.load(found.bundle.path).retaken == []


def test_a_cold_case_makes_one_call_an_iteration(tmp_path: Path) -> None:
    timeline = Timeline()
    asked: list[str] = []

    class Recorded(CudaDevice):
        def time_block(self, call: Any, iterations: int, calls: int, cache: Any) -> Timed:
            asked.append(f"{calls} {cache}")
            return super().time_block(call, iterations, calls, cache)

    under_test = on_gpu(timeline)
    under_test.__class__ = Recorded
    found = measurement(tmp_path, under_test, timeline.work(2 * US, 60 * US), "pointwise_chain/64x64-fp32-cold")
    found._warm_up()
    plan = found._plan(found._warm_up())
    assert plan.calls_per_iteration == {"eager": 1}
    found._settled_block(SLOT, plan)
    assert asked == ["1 cold"]


def planned(tmp_path: Path, name: str, **changes: Any) -> tuple[schema.Planned, Measurement]:
    """The plan over an eager arm that is bound by the host and a replayed one that is not."""
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline), None, name)
    found.case = msgspec.structs.replace(found.case, floating_point_operations=None, minimum_bytes=None, **changes)
    found.calls = {"eager": timeline.work(30 * US, 5 * US), "replayed": timeline.work(8 * US, 9 * US)}
    return found._plan(found._warm_up()), found


@pytest.mark.parametrize("fixed", [{}, {"warmup_iterations": 10, "measured_iterations": 100}])
def test_what_an_event_costs_is_a_hundredth_at_most_and_alike_for_all_arms(
    tmp_path: Path, fixed: dict[str, int]
) -> None:
    plan, found = planned(tmp_path, "matmul_add/64-bf16-hot", **fixed)
    assert len(set(plan.calls_per_iteration.values())) == 1
    for label, true_ns in (("eager", 30 * US), ("replayed", 9 * US)):
        slot = Slot(block=0, pair=0, position=0, arm=label)
        block = found._timed_block(slot, plan, 0)
        a_call = statistics.median(block.iterations_ns) / block.calls_per_iteration
        assert true_ns <= a_call <= true_ns * 1.01


def test_a_cold_iteration_stays_one_call(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline), None, "pointwise_chain/64x64-fp32-cold")
    found.calls = {"eager": timeline.work(50 * US, 5 * US), "replayed": timeline.work(8 * US, 60 * US)}
    plan = found._plan(found._warm_up())
    assert set(plan.calls_per_iteration.values()) == {1}


def test_on_the_processor_each_arm_keeps_its_own_number_of_calls(tmp_path: Path) -> None:
    from suite.device.cpu import open_device

    found = measurement(tmp_path, open_device(schema.Device()), None)  # type: ignore[arg-type]
    found.calls = {"short": lambda: sum(range(10)), "long": lambda: sum(range(100_000))}
    calls = found._plan(found._warm_up()).calls_per_iteration
    assert calls["short"] > 10 * calls["long"]
