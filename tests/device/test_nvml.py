"""Which GPUs NVML shows, why it shows none, and one of them sampled beside a run."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from suite.bundle.schema import Fact
from suite.device.nvml import GpuSampler, NoGpu, list_devices, others
from suite.device.sampling import Sampling
from suite.device.slowing import slowing
from suite.fingerprint.gpu.nvml_calls import CLOCK_REASONS
from suite.fingerprint.gpu.nvml_recorder import Answer, Player, load
from tests.device.recordings import H200_BYTES, h200, instance, player, process

MIXED = Path(__file__).parents[1] / "fingerprint" / "nvml_recording_mixed.json"


# --- which there are ------------------------------------------------------------------------------------------------


def test_each_of_two_gpus_is_named_with_its_number_and_memory():
    found = list_devices(player(h200(0), h200(1, name="NVIDIA H100 80GB HBM3", memory=85520809984)))
    assert not isinstance(found, NoGpu)
    assert [each.title for each in found] == ["0: NVIDIA H200", "1: NVIDIA H100 80GB HBM3"]
    assert [each.memory_bytes for each in found] == [H200_BYTES, 85520809984]
    assert [each.bus_id for each in found] == ["00000000:01:00.0", "00000000:02:00.0"]


def test_mig_instances_stand_behind_their_gpu():
    divided = h200(1, MigMode=[1, 1], MaxMigDeviceCount=7)
    machine = player(h200(0), divided | instance(0, 1, "1g.18gb", 16 << 30) | instance(2, 1, "3g.71gb", 70 << 30))
    found = list_devices(machine)
    assert not isinstance(found, NoGpu)
    assert [each.title for each in found] == [
        "0: NVIDIA H200",
        "1: NVIDIA H200",
        "1.0: NVIDIA H200 MIG 1g.18gb",
        "1.2: NVIDIA H200 MIG 3g.71gb",
    ]
    assert [each.mig for each in found] == [False, True, True, True]
    assert found[3].memory_bytes == 70 << 30
    assert found[3].uuid.reveal() == "MIG-00000000-0000-4000-8000-000000000012"


def test_a_uuid_is_neither_printed_nor_encoded():
    found = list_devices(player(h200()))
    assert not isinstance(found, NoGpu)
    assert not re.search(r"0000-4000", repr(found))
    with pytest.raises(TypeError):
        msgspec.json.encode(found)


def test_a_gpu_that_fell_off_the_bus_does_not_hide_the_others():
    found = list_devices(load(MIXED))
    assert not isinstance(found, NoGpu)
    assert [each.title for each in found] == [
        "0: NVIDIA RTX A6000",
        "1: NVIDIA A100-PCIE-40GB",
        "1.0: NVIDIA A100-PCIE-40GB MIG 3g.20gb",
        "1.1: NVIDIA A100-PCIE-40GB MIG 1g.5gb",
    ]


def start_fails(error: str) -> Player:
    return Player({"nvmlInit()": Answer(error=error)})


@pytest.mark.parametrize(
    ("library", "needs", "why", "said"),
    [
        (start_fails("NVML_ERROR_LIBRARY_NOT_FOUND"), None, "no library", "libnvidia-ml.so.1 is not installed"),
        (start_fails("NVML_ERROR_DRIVER_NOT_LOADED"), None, "no driver", "kernel driver is not loaded"),
        (start_fails("NVML_ERROR_FUNCTION_NOT_FOUND"), None, "driver too old", "too old to be asked"),
        (start_fails("NVML_ERROR_NO_PERMISSION"), None, "no permission", "may not ask NVIDIA's driver"),
        (start_fails("NVML_ERROR_LIB_RM_VERSION_MISMATCH"), None, "other", "are of different versions"),
        (start_fails("NVML_ERROR_UNKNOWN"), None, "other", "NVML cannot be started: Unknown Error"),
        (player(), None, "no device", "the driver shows no GPU"),
        (
            player(h200(), driver="535.104.05", cuda=12020),
            "13.0",
            "driver too old",
            "the driver 535.104.05 is for CUDA 12.2, and torch is built for CUDA 13.0: install a newer driver (at least 580)",
        ),
        (
            Player({"nvmlDeviceGetCount()": Answer(value=1), "nvmlDeviceGetHandleByIndex(0)": Answer(error="NVML_ERROR_NO_PERMISSION")}),
            None,
            "no permission",
            "GPU 0: permission denied",
        ),
        (
            Player({"nvmlDeviceGetCount()": Answer(value=1), "nvmlDeviceGetHandleByIndex(0)": Answer(error="NVML_ERROR_GPU_IS_LOST")}),
            None,
            "other",
            "fallen off the bus",
        ),
    ],
)  # fmt: skip
def test_why_there_is_no_gpu_is_a_kind_and_a_clause(library: Player, needs: str | None, why: str, said: str):
    found = list_devices(library, needs)
    assert isinstance(found, NoGpu)
    assert found.why == why and said in found.clause and "\n" not in found.clause
    assert not library.running


@pytest.mark.parametrize("needs", ["13.0", "13.2", "12.6", None])
def test_a_driver_runs_what_is_built_for_its_major_version_or_an_earlier_one(needs: str | None):
    found = list_devices(player(h200(), cuda=13000), needs)
    assert not isinstance(found, NoGpu) and len(found) == 1


def test_nvml_is_ended_after_the_list():
    machine = player(h200())
    list_devices(machine)
    assert not machine.running


# --- one of them, sampled -------------------------------------------------------------------------------------------


def test_a_sample_holds_every_field_as_a_fact():
    sample = GpuSampler(library=player(h200()), clock=lambda: 42).sample()
    assert sample.at_ns == 42
    assert all(isinstance(getattr(sample, each.name), Fact) for each in fields(sample) if each.name != "at_ns")
    assert sample.values() == {
        "clock_mhz": 1740,
        "memory_clock_mhz": 3201,
        "power_w": 612.34,
        "temperature_c": 61,
        "reasons": ["none"],
        "busy_percent": 99,
        "memory_used_bytes": 2 << 30,
        "other_processes": 0,
        "pcie_generation": 5,
        "pcie_width": 16,
        "default_clock_mhz": 1980,
        "maximum_clock_mhz": 1980,
        "power_limit_w": 700.0,
        "power_limit_default_w": 700.0,
        "ecc": True,
        "ecc_uncorrected": 0,
        "pcie_generation_maximum": 5,
        "pcie_width_maximum": 16,
        "persistence": True,
        "compute_mode": "default",
        "mig": False,
    }


def test_without_a_default_clock_the_highest_stands_in_and_says_so():
    sample = GpuSampler(library=player(h200())).sample()
    assert sample.default_clock_mhz.value == 1980
    assert "there is no default application clock" in sample.default_clock_mhz.note
    assert (sample.application_clock_mhz.value, sample.application_clock_mhz.status) == (None, "absent")
    told = GpuSampler(library=player(h200(DefaultApplicationsClock=1410))).sample()
    assert (told.default_clock_mhz.value, told.default_clock_mhz.note) == (1410, "")


def test_each_field_that_is_refused_keeps_its_reason():
    changed: dict[str, Any] = {
        "EccMode": "NVML_ERROR_NOT_SUPPORTED",
        "ComputeRunningProcesses": "NVML_ERROR_NO_PERMISSION",
        "PowerUsage": "NVML_ERROR_GPU_IS_LOST",
    }
    sample = GpuSampler(library=player(h200(**changed))).sample()
    assert (sample.ecc.status, sample.ecc.note) == ("absent", "not supported by this GPU")
    assert (sample.other_processes.status, sample.other_processes.note) == ("denied", "permission denied")
    assert sample.power_w.note == "the GPU is lost: it has fallen off the bus"


def test_reasons_are_decoded_and_those_that_slow_down_stand_out():
    sample = GpuSampler(library=player(h200(CurrentClocksEventReasons=0b100100011))).sample()
    assert sample.reasons.value == [
        "GPU idle",
        "applications clocks setting",
        "software thermal slowdown",
        "display clock setting",
    ]
    assert sample.slowed_by == ("software thermal slowdown",)


def test_every_reason_that_nvml_knows_has_its_meaning_and_a_new_one_is_not_harmless():
    assert all(slowing(name) != "unknown" for name in CLOCK_REASONS)
    assert slowing("bit 17") == "unknown"
    assert GpuSampler(library=player(h200(CurrentClocksEventReasons=1 << 17))).sample().slowed_by == ("bit 17",)


def test_a_gpu_is_opened_by_its_address_where_numbers_may_differ():
    machine = player(h200(0, Temperature=30), h200(1, Temperature=77))
    assert GpuSampler(bus_id="00000000:02:00.0", library=machine).sample().temperature_c.value == 77
    assert GpuSampler(0, library=machine).sample().temperature_c.value == 30


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (player(h200()), "NVML has no GPU 3: not offered by this GPU"),
        (start_fails("NVML_ERROR_DRIVER_NOT_LOADED"), "kernel driver is not loaded"),
    ],
)
def test_a_sampler_that_cannot_be_opened_says_why_and_leaves_nvml_ended(machine: Player, said: str):
    with pytest.raises(LookupError, match=said):
        GpuSampler(3, library=machine)
    assert not machine.running


def test_settings_are_read_once_and_again_when_asked_for():
    machine = player(h200())
    sampler = GpuSampler(library=machine)
    machine._calls = dict(machine._calls) | {
        "nvmlDeviceGetTotalEccErrors(gpu 0, 1, 0)": Answer(value=2),
        "nvmlDeviceGetTemperature(gpu 0, 0)": Answer(value=70),
    }
    assert (sampler.sample().ecc_uncorrected.value, sampler.sample().temperature_c.value) == (0, 70)
    assert sampler.sample(settings=True).ecc_uncorrected.value == 2


def test_no_function_that_sets_anything_is_called():
    class Watched(Player):
        asked: list[str]

        def _answer(self, pynvml: Any, function: str, arguments: tuple[Any, ...]) -> Any:
            self.asked.append(function)
            return super()._answer(pynvml, function, arguments)

    watched = Watched(player(h200())._calls)
    watched.asked = []
    list_devices(watched)
    GpuSampler(library=watched).sample(settings=True)
    assert watched.asked and not [name for name in watched.asked if re.search("Set|Reset|Clear", name)]


# --- whose processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "uses_it", "value"),
    [
        ([], True, 0),
        ([7], True, 0),
        ([7, 8], True, 1),
        ([7, 8], False, 1),
        ([100], True, 0),  # a container: this process is listed under the host's number
        ([100, 101], True, 1),
        ([100], False, 1),
    ],
)
def test_processes_of_others_are_counted(listed: list[int], uses_it: bool, value: int):
    fact = others(listed, {7}, uses_it=uses_it, source="NVML")
    assert fact.value == value
    assert ("container" in fact.note) == (100 in listed and uses_it)


def test_another_process_is_seen_by_a_sampler():
    sampler = GpuSampler(library=player(h200(ComputeRunningProcesses=[process(4194304)])))
    assert sampler.sample().other_processes.value == 1


# --- beside a run ---------------------------------------------------------------------------------------------------


class Counting:
    """A sampler that counts how often it is asked."""

    def __init__(self, fails_after: int = 10**9) -> None:
        self.inner = GpuSampler(library=player(h200()))
        self.asked = 0
        self.fails_after = fails_after

    def sample(self) -> Any:
        self.asked += 1
        if self.asked > self.fails_after:
            raise RuntimeError("the driver went away")
        return self.inner.sample()


def test_a_gpu_is_sampled_until_the_run_ends_and_no_longer():
    counting = Counting()
    with Sampling(counting, 0.005) as sampling:  # type: ignore[arg-type]
        time.sleep(0.1)
    taken = len(sampling.samples)
    assert 3 <= taken == counting.asked
    time.sleep(0.03)
    assert counting.asked == taken and sampling.failure == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-sampling"]


def test_a_sampler_that_fails_ends_the_sampling_and_not_the_run():
    with Sampling(Counting(fails_after=2), 0.001) as sampling:  # type: ignore[arg-type]
        time.sleep(0.05)
    assert len(sampling.samples) == 2
    assert sampling.failure == "RuntimeError: the driver went away"


def test_a_driver_that_hangs_is_left_behind():
    released = threading.Event()

    class Hanging:
        def sample(self) -> Any:
            released.wait(10)

    start = time.monotonic()
    with Sampling(Hanging(), 0.001, patience_s=0.05) as sampling:  # type: ignore[arg-type]
        pass
    released.set()
    assert time.monotonic() - start < 2
    assert "did not answer within 0.05 s" in sampling.failure


def test_an_error_in_the_run_ends_the_sampling_too():
    with pytest.raises(ZeroDivisionError), Sampling(Counting(), 0.001) as sampling:  # type: ignore[arg-type]
        raise ZeroDivisionError
    assert not sampling._thread.is_alive()
