"""The GPU as the leading process watches it: what forbids a run, what is found, and what telemetry keeps."""

from __future__ import annotations

import os

import pytest

from suite.bundle import schema
from suite.device import sampling
from suite.device import watch as watches
from suite.device.nvml import GpuSampler
from suite.device.watch import GpuWatch, open_watch
from tests.device.fake import THERMAL, FakeNvml

GPU = schema.Device(kind="cuda", name="NVIDIA H200")
PROHIBITED = 2


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "INTERVAL_S", 0.01)


def seen(watch: GpuWatch, count: int = 3) -> GpuWatch:
    """The watch after some samples."""
    import time

    assert watch._sampling is not None
    with watch:
        deadline = time.monotonic() + 5
        while len(watch._sampling.samples) < count and time.monotonic() < deadline:
            time.sleep(0.005)
    return watch


def test_telemetry_keeps_the_latest_sample() -> None:
    fields = seen(open_watch(GPU, FakeNvml(((1980, 0), (1200, THERMAL))))).fields()
    assert fields["gpu"].clock_mhz == 1200
    assert fields["gpu"].reasons == ["hardware thermal slowdown"]
    assert (fields["gpu"].temperature_c, fields["gpu"].power_w) == (51, 412.0)
    assert "unreadable" not in fields


def test_without_nvml_the_reason_is_told_once_and_found() -> None:
    watch = open_watch(GPU, FakeNvml(refuses=9))
    assert watch.refusals() == []
    with watch:
        first, second = watch.fields(), watch.fields()
    assert "kernel driver is not loaded" in first["unreadable"]["gpu"] and second == {}
    (finding,) = watch.findings()
    assert finding.rule == "gpu.unwatched" and "kernel driver is not loaded" in finding.evidence[0]


def test_a_stranger_before_the_run_is_found_and_stays_found() -> None:
    watch = open_watch(GPU, FakeNvml(strangers=(4711,)))
    assert watch.refusals() == []
    assert "gpu.other-processes" in {finding.rule for finding in watch.findings()}


def test_the_runs_own_worker_is_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SETTLING_NS", 0)
    watch = open_watch(GPU, FakeNvml(strangers=(os.getpid(),)))
    watch.follow(os.getpid())
    assert seen(watch).fields()["gpu"].others == 0
    watch.leave()
    assert watch._sampler is not None and watch._sampler.sample().other_processes.value == 1


def test_a_worker_that_has_ended_and_is_still_listed_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SETTLING_NS", 0)
    nvml = FakeNvml()
    watch = open_watch(GPU, nvml)
    watch.refusals()
    watch.follow(4711)
    watch.leave()
    nvml.strangers = (4711,)
    assert "gpu.other-processes" not in {finding.rule for finding in seen(watch).findings()}
    watch.follow(4712)
    assert "gpu.other-processes" not in {finding.rule for finding in watch.findings()}


def test_a_stranger_beside_a_worker_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SETTLING_NS", 0)
    nvml = FakeNvml()
    watch = open_watch(GPU, nvml)
    watch.refusals()
    watch.follow(os.getpid())
    nvml.strangers = (os.getpid(), 4711)
    assert "gpu.other-processes" in {finding.rule for finding in seen(watch).findings()}


def test_a_workers_descendants_are_no_strangers() -> None:
    import subprocess
    import sys

    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        watch = open_watch(GPU, FakeNvml(strangers=(os.getpid(), child.pid)))
        watch.follow(os.getpid())
        assert watch._sampler is not None and watch._sampler.sample().other_processes.value == 0
        child.communicate(b"")


def test_a_gpu_that_lets_nobody_compute_forbids_the_run() -> None:
    (refusal,) = open_watch(GPU, FakeNvml(mode=PROHIBITED)).refusals()
    assert "prohibited" in refusal.claim and "nvidia-smi" in refusal.advice


def test_a_divided_gpu_is_refused_whole_and_measured_in_part() -> None:
    (refusal,) = open_watch(GPU, FakeNvml(mig=1)).refusals()
    assert "MIG is on" in refusal.claim
    part = schema.Device(kind="cuda", name="NVIDIA H200 MIG 1g.18gb", partition="1g.18gb")
    watch = open_watch(part, FakeNvml(mig=1))
    assert watch.refusals() == []
    assert "gpu.mig" in {finding.rule for finding in watch.findings()}


def test_facts_and_advice_name_the_gpu_as_nvml_does_and_not_as_torch_counts() -> None:
    """Under CUDA_VISIBLE_DEVICES=3 torch's device 0 is NVML's 3."""
    shown = schema.Device(kind="cuda", name="NVIDIA H200", index=0, bus_id="00000000:4a:00.0")
    watch = open_watch(shown, FakeNvml(number=3, persistence=0))
    watch.refusals()
    assert all(name.startswith("gpu 3 ") for name in watch.facts())
    (advice,) = [finding.advice for finding in watch.findings() if finding.rule == "gpu.persistence"]
    assert "nvidia-smi -i 00000000:4a:00.0 -pm 1" in advice
    nowhere = open_watch(schema.Device(kind="cuda", name="NVIDIA H200"), FakeNvml(number=3, persistence=0))
    nowhere.refusals()
    assert any("nvidia-smi -i 3 -pm 1" in finding.advice for finding in nowhere.findings())


def test_a_worker_that_has_just_ended_is_not_counted_among_others_in_telemetry() -> None:
    """The driver lists it for a while after its end, and after the next one's start."""
    watch = open_watch(GPU, FakeNvml(strangers=(4711,)))
    watch.follow(4711)
    watch.leave()
    assert seen(watch).fields()["gpu"].others is None
    watch.follow(4712)
    assert seen_again(watch).fields()["gpu"].others is None


def seen_again(watch: GpuWatch) -> GpuWatch:
    assert watch._sampling is not None and watch._sampler is not None
    watch._sampling._taken.append(watch._sampler.sample())
    return watch


def test_strangers_long_after_a_worker_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SETTLING_NS", 0)
    watch = open_watch(GPU, FakeNvml(strangers=(os.getpid(), 4711)))
    watch.follow(os.getpid())
    assert seen(watch).fields()["gpu"].others == 1


def test_a_sample_that_is_old_is_no_reading_and_why_is_told_once() -> None:
    now = [0]
    nvml = FakeNvml()
    watch = GpuWatch(GPU, GpuSampler(library=nvml, clock=lambda: now[0]), clock=lambda: now[0])
    assert "gpu" in seen(watch).fields()
    now[0] = int(4 * watches.INTERVAL_S * 1e9)
    assert "gpu" in watch.fields()
    now[0] = int(6 * watches.INTERVAL_S * 1e9)
    first, second = watch.fields(), watch.fields()
    assert first == {"unreadable": {"gpu": "absent: the driver has stopped answering"}} and second == {}
    (finding,) = [each for each in watch.findings() if each.rule == "gpu.unwatched"]
    assert "for a part of the run only" in finding.claim and "stopped answering" in finding.evidence[0]


def test_a_gpu_that_was_lost_is_no_reading() -> None:
    nvml = FakeNvml()
    watch = open_watch(GPU, nvml)
    nvml.lost = True
    fields = seen(watch).fields()
    assert "gpu" not in fields and "fallen off the bus" in fields["unreadable"]["gpu"]


def test_a_driver_that_hangs_hangs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "PATIENCE_S", 0.05)
    monkeypatch.setattr(sampling.ask, "__defaults__", (0.05,))
    nvml = FakeNvml()
    watch = open_watch(GPU, nvml)
    nvml.hangs = True
    try:
        assert watch.refusals() == []
        assert "did not answer within 0.05 s" in watch.fields()["unreadable"]["gpu"]
    finally:
        nvml.hangs = False


def test_memory_errors_during_the_run_make_it_wrong() -> None:
    nvml = FakeNvml(errors=2)
    watch = open_watch(GPU, nvml)
    watch.refusals()
    nvml.errors = 5
    found = {each.rule: each for each in seen(watch).findings()}
    during = found["gpu.ecc-errors-during-run"]
    assert during.severity == "wrong" and "had 3 memory errors" in during.claim
    assert during.evidence[0].endswith("2 before, 5 after")


def test_a_setting_that_somebody_changed_during_the_run_is_found() -> None:
    nvml = FakeNvml()
    watch = open_watch(GPU, nvml)
    watch.refusals()
    nvml.watts = 500
    found = {each.rule: each for each in seen(watch).findings()}
    assert found["gpu.setting-changed"].severity == "wrong"
    assert "power limit w: 700" in found["gpu.setting-changed"].evidence[0]


def test_a_run_in_which_nothing_changed_has_no_such_finding() -> None:
    watch = open_watch(GPU, FakeNvml(errors=2))
    watch.refusals()
    rules = {each.rule for each in seen(watch).findings()}
    assert not rules & {"gpu.setting-changed", "gpu.ecc-errors-during-run", "gpu.unwatched"}
