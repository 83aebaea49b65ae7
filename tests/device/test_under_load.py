"""What only a working GPU shows, as facts for the fingerprint."""

from __future__ import annotations

from typing import Any

from suite.device.nvml import GpuSample, GpuSampler
from suite.device.under_load import NAMES, under_load
from tests.device.recordings import h200, player, process


def sample(**changed: Any) -> GpuSample:
    return GpuSampler(library=player(h200(**changed))).sample()


RESTING: dict[str, Any] = {
    "CurrentClocksEventReasons": 1,
    "CurrPcieLinkWidth": 4,
    "CurrPcieLinkGeneration": 1,
    "ClockSM": 345,
    "Temperature": 99,
}


def test_readings_at_rest_do_not_count():
    facts = under_load([sample(**RESTING), sample(), sample(ClockSM=1700), sample(ClockSM=1980)], 3)
    assert {name.removeprefix("gpu 3 "): fact.value for name, fact in facts.items()} == {
        "pcie_generation_under_load": 5,
        "pcie_width_under_load": 16,
        "clock_sm_under_load_mhz": 1740,
        "clock_memory_under_load_mhz": 3201,
        "power_draw_under_load_w": 612.34,
        "temperature_under_load_c": 61,
        "clock_event_reasons_under_load": ["none"],
        "other_compute_processes_under_load": 0,
    }
    assert facts["gpu 3 pcie_width_under_load"].note == "of 3 readings under load"


def test_reasons_and_strangers_of_any_reading_are_kept():
    facts = under_load([sample(), sample(CurrentClocksEventReasons=4, ComputeRunningProcesses=[process(4194304)])])
    assert facts["gpu 0 clock_event_reasons_under_load"].value == ["software power cap"]
    assert facts["gpu 0 other_compute_processes_under_load"].value == 1


def test_a_refusal_keeps_its_reason():
    facts = under_load([sample(CurrPcieLinkWidth="NVML_ERROR_NOT_SUPPORTED")])
    fact = facts["gpu 0 pcie_width_under_load"]
    assert (fact.value, fact.status, fact.note) == (None, "absent", "not supported by this GPU")


def test_without_a_working_reading_every_fact_says_so():
    for samples in ([], [sample(**RESTING)]):
        facts = under_load(samples)
        assert len(facts) == len(NAMES)
        assert {fact.note for fact in facts.values()} == {"the GPU was never read while it worked"}


def test_a_gpu_that_calls_nothing_idle_but_ran_no_kernel_was_not_under_load():
    lingering = sample(CurrentClocksEventReasons=0, UtilizationRates={"gpu": 0, "memory": 0}, CurrPcieLinkWidth=4)
    assert {fact.status for fact in under_load([lingering]).values()} == {"absent"}
    assert under_load([lingering, sample()])["gpu 0 pcie_width_under_load"].note == "of 1 reading under load"
    untold = sample(UtilizationRates="NVML_ERROR_NOT_SUPPORTED")
    assert under_load([untold])["gpu 0 pcie_width_under_load"].value == 16
