"""A measuring process on a GPU of doubles: what is retaken, what is refused, and what stays in the bundle."""

from __future__ import annotations

import dataclasses
import itertools
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
    # The device's own clock is the host's, where it is simulated.
    found.now = getattr(under_test, "_clock", found.now)
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


def test_a_cold_case_is_planned_by_cold_times_and_with_the_flush(tmp_path: Path) -> None:
    """A call of 10 us from the cache and of 60 without, after a flush of 200."""
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline), None, "pointwise_chain/64x64-fp32-cold")
    cold = [False]

    class Buffer:
        def zero_(self) -> None:
            timeline.work(1 * US, 200 * US)()
            cold[0] = True

    def call() -> None:
        timeline.work(2 * US, 60 * US if cold[0] else 10 * US)()
        cold[0] = False

    found.device._flushed = Buffer()  # type: ignore[attr-defined]
    found.calls = {"eager": call}
    warmups = found._warm_up()
    assert warmups["eager"].typical_ns == 60 * US
    warm = dataclasses.replace(warmups["eager"], duration_ns=260 * US * len(warmups["eager"].iterations_ns))
    block_ns = found.assignment.procedure.block_duration_ns
    assert found._plan({"eager": warm}).iterations["eager"] == -(-block_ns // (260 * US))


def test_on_the_processor_each_arm_keeps_its_own_number_of_calls(tmp_path: Path) -> None:
    from suite.device.cpu import open_device

    found = measurement(tmp_path, open_device(schema.Device()), None)  # type: ignore[arg-type]
    found.calls = {"short": lambda: sum(range(10)), "long": lambda: sum(range(100_000))}
    calls = found._plan(found._warm_up()).calls_per_iteration
    assert calls["short"] > 10 * calls["long"]


def conditionings(found: Measurement) -> list[schema.Conditioned]:
    return [each for each in reader.load(found.bundle.path).events if isinstance(each, schema.Conditioned)]


def test_the_first_block_waits_until_the_clock_under_all_arms_is_flat(tmp_path: Path) -> None:
    timeline = Timeline()
    falling = [(clock, 0) for clock in range(1980, 1650, -5)]
    found = measurement(tmp_path, on_gpu(timeline, *falling, (1650, 0)), None)
    order: list[str] = []

    def arm(name: str) -> Any:
        work = timeline.work(5 * US, 300 * US)
        return lambda: (order.append(name), work())

    found.calls = {"eager": arm("eager"), "inductor": arm("inductor")}
    plan = msgspec.structs.replace(
        PLAN,
        order=list(found.calls),
        iterations=dict.fromkeys(found.calls, 50),
        calls_per_iteration=dict.fromkeys(found.calls, 1),
    )
    found._measure(plan)
    (event,) = conditionings(found)
    assert event.flat and event.before_block == 0 and event.clocks_mhz[0] > 1970 and event.clocks_mhz[-1] == 1650
    second_ns = 1_000_000_000
    assert second_ns <= event.duration_ns <= 3 * second_ns
    changes = sum(before != after for before, after in itertools.pairwise(order))
    assert changes >= 2 * len(event.clocks_mhz) - 1
    assert {block.clock_mhz for block in reader.load(found.bundle.path).blocks} == {1650}


def test_conditioning_ends_after_its_most_where_the_clock_never_rests(tmp_path: Path) -> None:
    timeline = Timeline()
    states = [(1980, 0), (1500, 0)] * 400
    found = measurement(tmp_path, on_gpu(timeline, *states), timeline.work(5 * US, 50_000 * US))
    found._condition(PLAN, 0, 10, 30)
    (event,) = conditionings(found)
    assert not event.flat and 3.0 <= event.duration_ns / 1e9 <= 3.3


def test_where_no_clock_is_told_conditioning_is_one_cycle(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, device(timeline)[0], timeline.work(5 * US, 300 * US))
    found._condition(PLAN, 0, 10, 30)
    (event,) = conditionings(found)
    assert (event.clocks_mhz, event.flat) == ([], False) and event.duration_ns < 10_000 * US


def test_the_processor_is_not_conditioned(tmp_path: Path) -> None:
    from suite.device.cpu import open_device

    found = measurement(tmp_path, open_device(schema.Device()), lambda: sum(range(100)))  # type: ignore[arg-type]
    found._condition(PLAN, 0, 10, 30)
    assert conditionings(found) == []


def test_before_a_block_is_measured_again_all_arms_load_the_device(tmp_path: Path) -> None:
    timeline = Timeline()
    found = measurement(tmp_path, on_gpu(timeline, (1980, 0), (1200, THERMAL), (1980, 0)), None)
    order: list[str] = []
    work = timeline.work(5 * US, 300 * US)
    found.calls = {name: (lambda name=name: (order.append(name), work())) for name in ("eager", "inductor")}
    plan = msgspec.structs.replace(
        PLAN,
        order=list(found.calls),
        iterations=dict.fromkeys(found.calls, 50),
        calls_per_iteration=dict.fromkeys(found.calls, 1),
    )
    found.device.monitor.read()  # type: ignore[attr-defined]
    assert found._settled_block(SLOT, plan).retake == 1
    (event,) = conditionings(found)
    assert event.before_block == SLOT.block and "inductor" in order and order[-1] == "eager"
    # What it took of the host: the block put aside, and the load.
    assert found._retaken_ns >= event.duration_ns + 50 * 300 * US
