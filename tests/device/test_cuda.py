"""CUDA timing on a simulated machine: what is timed, what is not, and what is refused."""

from __future__ import annotations

import pytest
import torch

from suite.bundle import schema
from suite.device import nvml
from suite.device.choices import device_line
from suite.device.contract import DeviceUnavailableError, RefusedMeasurementError
from suite.device.cuda import BURST, FLUSH_FACTOR, CudaDevice, open_device
from tests import samples
from tests.device.fake import RECORD_NS, THERMAL, US, FakeCuda, FakeNvml, Timeline, device
from tests.device.recordings import h200, instance, player


def test_an_iteration_is_what_the_device_worked_not_what_the_host_took() -> None:
    timeline = Timeline()
    measured = device(timeline)[0].time_block(timeline.work(2 * US, 50 * US), 10, 4, "hot")
    # The first iteration begins on an idle device, which waits for the host once: for recording an event, and for a call.
    assert measured.iterations_ns == [RECORD_NS + 202 * US] + [200 * US] * 9
    assert measured.enqueue_ns == 2 * US
    assert measured.host_ns is not None and measured.host_ns >= sum(measured.iterations_ns)


def test_work_that_the_host_hands_over_too_slowly_is_as_slow_as_the_host() -> None:
    timeline = Timeline()
    measured = device(timeline)[0].time_block(timeline.work(30 * US, 5 * US), 5, 10, "hot")
    assert all(abs(each - 300 * US - RECORD_NS) <= 5 * US for each in measured.iterations_ns)
    assert measured.enqueue_ns == 30 * US


def test_a_cold_iteration_is_preceded_by_a_flush_that_is_not_timed() -> None:
    timeline = Timeline()
    under_test, _ = device(timeline)
    flushed = []

    class Buffer:
        def zero_(self) -> None:
            timeline.work(1 * US, 400 * US)()
            flushed.append(timeline.free)

    assert under_test._flushed.numel() == FLUSH_FACTOR * (1 << 20)
    under_test._flushed = Buffer()  # type: ignore[assignment]
    measured = under_test.time_block(timeline.work(2 * US, 50 * US), 6, 1, "cold")
    assert measured.iterations_ns == [50 * US] * 6
    assert len(flushed) == 6


def test_a_hot_iteration_is_not_flushed() -> None:
    timeline = Timeline()
    under_test, _ = device(timeline)
    under_test._flushed = None  # type: ignore[assignment]
    under_test.time_block(timeline.work(2 * US, 50 * US), 3, 1, "hot")


def test_an_event_that_has_not_happened_is_a_refused_measurement() -> None:
    timeline = Timeline()
    under_test, _ = device(timeline, waits=False)
    with pytest.raises(RefusedMeasurementError, match="was not waited for"):
        under_test.time_block(timeline.work(2 * US, 5000 * US), 10, 1, "hot")


def test_a_missing_synchronise_is_refused_even_when_events_answer() -> None:
    timeline = Timeline()
    under_test, cuda = device(timeline, waits=False)
    cuda.refuses_early = False
    with pytest.raises(RefusedMeasurementError, match="host's clock showed only"):
        under_test.time_block(timeline.work(2 * US, 5000 * US), 10, 1, "hot")


def test_the_hosts_time_is_taken_from_a_burst_into_an_empty_queue() -> None:
    timeline = Timeline()
    under_test, _ = device(timeline)
    calls = []
    work = timeline.work(7 * US, 100 * US)

    def call() -> None:
        calls.append(timeline.host)
        work()

    assert under_test._handing_over(call) == 7 * US
    assert len(calls) == BURST and timeline.host >= timeline.free


class SlowNvml(FakeNvml):
    """NVML whose reading takes the host's time: 3 ms, as on an H200."""

    timeline: Timeline

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self.timeline.host += 3000 * US
        return super().nvmlDeviceGetPowerUsage(handle)


def read_slowly(timeline: Timeline, **options: bool) -> tuple[CudaDevice, FakeCuda]:
    nvml = SlowNvml()
    nvml.timeline = timeline
    return device(timeline, nvml, **options)


def test_the_hosts_time_is_without_the_reading_where_the_device_was_done_before() -> None:
    timeline = Timeline()
    measured = read_slowly(timeline)[0].time_block(timeline.work(30 * US, 5 * US), 5, 10, "hot")
    assert measured.host_ns is not None
    assert 5 * 300 * US <= measured.host_ns <= 5 * (300 * US + 2 * RECORD_NS) + 10 * US


def test_the_hosts_time_lasts_until_the_device_is_done_where_it_outlasts_the_reading() -> None:
    timeline = Timeline()
    measured = read_slowly(timeline)[0].time_block(timeline.work(2 * US, 1000 * US), 10, 1, "hot")
    assert measured.host_ns is not None and 10_000 * US <= measured.host_ns <= 10_100 * US


def test_a_missing_synchronise_is_refused_though_the_reading_takes_longer_than_the_block() -> None:
    timeline = Timeline()
    under_test, cuda = read_slowly(timeline, waits=False)
    cuda.refuses_early = False
    with pytest.raises(RefusedMeasurementError, match="host's clock showed only"):
        under_test.time_block(timeline.work(2 * US, 100 * US), 10, 1, "hot")


def test_a_throttled_block_says_so_and_its_clock() -> None:
    timeline = Timeline()
    measured = device(timeline, FakeNvml(((1980, 0), (1200, THERMAL))))[0]
    measured.monitor.read()
    block = measured.time_block(timeline.work(2 * US, 50 * US), 3, 1, "hot")
    assert block.clock_mhz == 1200
    assert any("hardware thermal slowdown" in each for each in block.conditions)


IDLE = 1


def test_a_gpu_that_had_finished_when_it_was_asked_is_not_called_slow() -> None:
    timeline = Timeline()
    block = device(timeline, FakeNvml(((345, IDLE),)))[0].time_block(timeline.work(2 * US, 5 * US), 3, 1, "hot")
    said = "not judged: the clock under load: the GPU was idle when it was asked"
    assert (block.clock_mhz, block.conditions, block.disturbed) == (None, (said,), False)


def test_without_nvml_a_block_has_no_clock_and_says_that_it_was_not_judged() -> None:
    timeline = Timeline()
    block = device(timeline)[0].time_block(timeline.work(2 * US, 50 * US), 3, 1, "hot")
    said = "not judged: the clock: the GPU's state was not read while the block ran"
    assert (block.clock_mhz, block.conditions, block.disturbed) == (None, (said,), False)


def test_the_clocks_resolution_is_never_thought_worse_than_documented() -> None:
    assert device(Timeline())[0].resolution_ns() <= 500
    assert device(Timeline())[0].overhead_ns() >= 1


@pytest.mark.parametrize(("precision", "allowed"), [("highest", False), ("high", True)])
def test_the_matmul_precision_is_set_and_never_inherited(precision: str, allowed: bool) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        case = samples.case(matmul_precision=precision)
        under_test, _ = device(Timeline())
        under_test.prepare(case)
        assert torch.get_float32_matmul_precision() == precision
        assert torch.backends.cuda.matmul.allow_tf32 is allowed
        assert torch.backends.cudnn.allow_tf32 is allowed
        assert under_test.in_force()["cuda_matmul_allow_bf16_reduced_precision_reduction"].startswith(("True", "(True"))
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = True


def test_the_device_tells_of_itself() -> None:
    cuda = FakeCuda(Timeline(), ("NVIDIA H200", "NVIDIA H200 MIG 1g.18gb"))
    found = open_device(schema.Device(kind="cuda", index=1), cuda, "cpu").description
    assert (found.name, found.partition, found.capability) == ("NVIDIA H200 MIG 1g.18gb", "1g.18gb", "9.0")
    assert found.visible == ["0: NVIDIA H200", "1: NVIDIA H200 MIG 1g.18gb"]
    assert found.bus_id == "00000000:19:00.0" and found.l2_bytes == 1 << 20
    assert cuda.chosen == 1


def test_a_number_that_no_gpu_has_names_those_there_are() -> None:
    cuda = FakeCuda(Timeline(), ("NVIDIA H200", "NVIDIA A100"))
    with pytest.raises(
        DeviceUnavailableError, match=r"no GPU 2; visible to torch: 0 \(NVIDIA H200\), 1 \(NVIDIA A100\)"
    ):
        open_device(schema.Device(kind="cuda", index=2), cuda, "cpu")


DIVIDED = (
    h200(MigMode=[1, 1], MaxMigDeviceCount=2),
    instance(0, 0, "1g.18gb", 1 << 34),
    instance(1, 0, "2g.35gb", 1 << 35),
)


def test_on_a_divided_gpu_all_instances_are_named_and_how_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several instances torch sees only the first."""
    monkeypatch.setattr(nvml, "_binding", lambda: player(*DIVIDED))
    cuda = FakeCuda(Timeline(), ("NVIDIA H200 MIG 1g.18gb",))
    with pytest.raises(DeviceUnavailableError) as refused:
        open_device(schema.Device(kind="cuda", index=1), cuda, "cpu")
    text = str(refused.value)
    assert "instances: 0.0: NVIDIA H200 MIG 1g.18gb, 0.1: NVIDIA H200 MIG 2g.35gb" in text
    assert "CUDA_VISIBLE_DEVICES=MIG-..." in text and "MIG-0000" not in text
    found = open_device(schema.Device(kind="cuda", index=0), cuda, "cpu").description
    assert found.visible[1:] == ["instance 0.0: NVIDIA H200 MIG 1g.18gb", "instance 0.1: NVIDIA H200 MIG 2g.35gb"]
    assert "nvidia-smi -L" in device_line(found)


def test_a_gpu_that_is_hidden_from_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_binding", lambda: player(h200(0), h200(1, "NVIDIA A100")))
    with pytest.raises(DeviceUnavailableError, match=r"the driver has 0: NVIDIA H200, 1: NVIDIA A100 \(see CUDA_VIS"):
        open_device(schema.Device(kind="cuda", index=1), FakeCuda(Timeline()), "cpu")


def test_a_driver_that_is_too_old_is_told_with_the_least_that_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_binding", lambda: player(h200(), driver="535.104.05", cuda=12020))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    cuda = FakeCuda(Timeline())
    cuda.broken = RuntimeError("The NVIDIA driver on your system is too old (found version 12020). Please update")
    with pytest.raises(DeviceUnavailableError, match=r"the driver 535.104.05 is for CUDA 12.2.*\(at least 580\)"):
        open_device(schema.Device(kind="cuda"), cuda, "cpu")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update"),
            "too old for this torch",
        ),
        (RuntimeError("Found no NVIDIA driver on your system. Please check"), "no driver of NVIDIA's is loaded"),
        (AssertionError("Torch not compiled with CUDA enabled"), "built without CUDA"),
        (RuntimeError("No CUDA GPUs are available"), "CUDA_VISIBLE_DEVICES"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"), "its memory is taken"),
        (RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable"), "another process has the GPU"),
        (RuntimeError("something new"), "torch cannot use it: RuntimeError: something new"),
    ],
)
def test_why_a_gpu_cannot_be_used_is_one_clause(raised: Exception, said: str) -> None:
    cuda = FakeCuda(Timeline())
    cuda.broken = raised
    with pytest.raises(DeviceUnavailableError) as refused:
        open_device(schema.Device(kind="cuda"), cuda, "cpu")
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_ceilings_that_cannot_be_measured_cost_nothing_but_themselves() -> None:
    (fact,) = device(Timeline())[0].ceilings().values()
    assert fact.value is None and fact.note


def test_ceilings_are_facts_with_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from suite.device import cuda
    from suite.device.ceilings import Ceiling, Ceilings

    one = Ceiling(name="bf16", per_s=7e14, median_per_s=6.9e14, unit="FLOP/s", work="8192", calls=9, rounds_ns=[1])
    found = Ceilings(device="NVIDIA H200", measured={"bf16": one}, missing={"copy": "no room"})
    monkeypatch.setattr(cuda, "measure", lambda torch, where: found)
    facts = device(Timeline())[0].ceilings()
    assert (facts["bf16 FLOP/s"].value, facts["bf16 FLOP/s"].note) == (7e14, "8192")
    assert facts["copy"].value is None and facts["copy"].note == "no room"


def test_a_torch_without_cuda_is_named() -> None:
    with pytest.raises(DeviceUnavailableError, match="is built without CUDA"):
        open_device(schema.Device(kind="cuda"))
