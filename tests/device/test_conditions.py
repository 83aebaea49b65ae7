"""What a GPU's samples say of a block and of a run, and times that no GPU can reach."""

from __future__ import annotations

from typing import Any

import pytest

from suite.device.conditions import assess, impossible, judge
from suite.device.nvml import GpuSample, GpuSampler
from suite.peaks import NotKnown, find
from tests.device.recordings import h200, player, process

TITLE = "GPU 0 (NVIDIA H200)"
IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80


def sample(**changed: Any) -> GpuSample:
    return GpuSampler(library=player(h200(**changed))).sample()


# --- a block --------------------------------------------------------------------------------------------------------


def test_a_block_at_full_clock_and_without_reasons_is_not_flagged():
    judged = judge(sample(ClockSM=1980))
    assert (judged.flags, judged.retake, judged.unknown) == ((), False, ())


def test_a_low_clock_is_flagged_with_both_numbers_and_the_block_retaken():
    judged = judge(sample(ClockSM=900, DefaultApplicationsClock=1410))
    assert judged.flags == ("below 75 % of the default clock: 900 of 1410 MHz",)
    assert judged.retake


@pytest.mark.parametrize(("clock", "flagged"), [(1057, True), (1058, False)])
def test_the_limit_is_75_percent_of_the_default(clock: int, flagged: bool):
    assert bool(judge(sample(ClockSM=clock, DefaultApplicationsClock=1410)).flags) == flagged


def test_a_reading_of_a_gpu_at_rest_judges_nothing():
    judged = judge(sample(ClockSM=345, CurrentClocksEventReasons=IDLE))
    assert (judged.flags, judged.retake) == ((), False)
    assert judged.unknown == ("the clock under load: the GPU was idle when it was asked",)
    assert judged.conditions == ("not judged: the clock under load: the GPU was idle when it was asked",)


@pytest.mark.parametrize("mask", [0, IDLE, 0x2, 0x10, 0x100, 0x112])
def test_harmless_reasons_are_no_flags(mask: int):
    assert judge(sample(CurrentClocksEventReasons=mask)).flags == ()


@pytest.mark.parametrize(
    ("mask", "flag", "retake"),
    [
        (HW_THERMAL, "slowed down: hardware thermal slowdown (thermal)", True),
        (SW_THERMAL, "slowed down: software thermal slowdown (thermal)", True),
        (HW_SLOWDOWN, "slowed down: hardware slowdown (hardware)", True),
        (POWER_BRAKE, "slowed down: hardware power brake slowdown (power)", True),
        (POWER_CAP, "slowed down: software power cap (power)", False),
        (1 << 20, "slowed down: bit 20 (unknown)", True),
    ],
)
def test_a_reason_flags_the_block_and_only_its_own_power_limit_is_not_retaken(mask: int, flag: str, retake: bool):
    judged = judge(sample(CurrentClocksEventReasons=mask))
    assert (judged.flags, judged.retake) == ((flag,), retake)


def test_a_power_limit_that_costs_a_quarter_of_the_clock_is_retaken():
    judged = judge(sample(ClockSM=1200, CurrentClocksEventReasons=POWER_CAP))
    assert len(judged.flags) == 2 and judged.retake


def test_what_was_not_read_is_unknown_and_no_flag():
    assert judge(None).unknown == ("the clock: the GPU's state was not read while the block ran",)
    judged = judge(sample(ClockSM="NVML_ERROR_NOT_SUPPORTED", CurrentClocksEventReasons="NVML_ERROR_NO_PERMISSION"))
    assert judged.flags == () and not judged.retake
    assert judged.unknown == (
        "the clock: not supported by this GPU",
        "what holds the clock back: permission denied",
    )


# --- a run ----------------------------------------------------------------------------------------------------------


def test_a_gpu_as_it_should_be_has_no_findings():
    verdict = assess(sample(), TITLE)
    assert (verdict.refusals, verdict.findings) == ((), ())


FOUND: list[tuple[dict[str, Any], str, str, str, str]] = [
    (
        {"ComputeRunningProcesses": [process(4194304)]},
        "gpu.other-processes",
        "wrong",
        "Another process computes on GPU 0 (NVIDIA H200)",
        "nvidia-smi lists them",
    ),
    ({"EccMode": [0, 0]}, "gpu.ecc-off", "doubtful", "ECC is off", "nvidia-smi -i 0 -e 1"),
    ({"TotalEccErrors": 3}, "gpu.ecc-errors", "wrong", "has had 3 memory errors", "checked and reset"),
    ({"EnforcedPowerLimit": 500000}, "gpu.power-limit", "doubtful", "500 W, and 700 W is its default", "-pl 700"),
    (
        {"ApplicationsClock": 1200, "DefaultApplicationsClock": 1830},
        "gpu.clock-setting",
        "doubtful",
        "1200 of 1830 MHz",
        "-rac",
    ),
    ({"PersistenceMode": 0}, "gpu.persistence", "note", "Persistence mode is off", "-pm 1"),
    ({"CurrPcieLinkWidth": 8}, "gpu.pcie-width", "doubtful", "8 of 16 lanes", "reseat"),
    ({"CurrPcieLinkGeneration": 3}, "gpu.pcie-generation", "doubtful", "generation 3 of 5", "reseat"),
    ({"ComputeMode": 3}, "gpu.exclusive", "note", "exclusive process", "-c DEFAULT"),
    (
        {"ComputeRunningProcesses": "NVML_ERROR_NO_PERMISSION"},
        "gpu.unread",
        "doubtful",
        "does not tell everything",
        "",
    ),
]


@pytest.mark.parametrize(("changed", "rule", "severity", "claim", "advice"), FOUND)
def test_each_departure_is_one_finding(changed: dict[str, Any], rule: str, severity: str, claim: str, advice: str):
    verdict = assess(sample(**changed), TITLE)
    assert verdict.refusals == ()
    assert [(each.rule, each.severity) for each in verdict.findings] == [(rule, severity)]
    assert claim in verdict.findings[0].claim and advice in verdict.findings[0].advice
    assert verdict.findings[0].evidence[0].startswith(("NVML ", "other processes: permission denied"))


@pytest.mark.parametrize(
    ("changed", "rule", "claim", "advice"),
    [
        ({"ComputeMode": 2}, "gpu.mode", "lets no process compute", "nvidia-smi -i 0 -c DEFAULT"),
        (
            {"ComputeMode": 3, "ComputeRunningProcesses": [process(4194304)]},
            "gpu.mode",
            "belongs to one process at a time",
            "-c DEFAULT",
        ),
        ({"MigMode": [1, 1]}, "gpu.mig", "is divided (MIG is on)", "Name one of its instances"),
    ],
)
def test_what_cannot_be_measured_is_refused(changed: dict[str, Any], rule: str, claim: str, advice: str):
    refusals = assess(sample(**changed), TITLE).refusals
    assert [each.rule for each in refusals] == [rule]
    assert claim in refusals[0].claim and advice in refusals[0].advice


def test_a_mig_instance_that_was_named_is_measured_and_said_to_be_a_part():
    verdict = assess(sample(MigMode=[1, 1]), "GPU 0.1 (NVIDIA H200 MIG 1g.18gb)", instance=True)
    assert verdict.refusals == ()
    assert [each.rule for each in verdict.findings] == ["gpu.mig"]


def test_a_divided_gpu_is_refused_with_the_names_of_its_instances_and_how_to_choose_one():
    parts = ["0.0: NVIDIA H200 MIG 1g.18gb", "0.1: NVIDIA H200 MIG 2g.35gb"]
    (refusal,) = assess(sample(MigMode=[1, 1]), TITLE, instances=parts).refusals
    assert all(part in refusal.advice for part in parts)
    assert "CUDA_VISIBLE_DEVICES=MIG-..." in refusal.advice and "nvidia-smi -L" in refusal.advice


def test_advice_names_an_administrator_and_that_the_suite_changes_nothing():
    advised = [assess(sample(**changed), TITLE).findings[0].advice for changed, *_ in FOUND]
    settings = [each for each in advised if "nvidia-smi -i" in each]
    assert len(settings) == 5
    assert all("The suite changes no setting of a GPU. An administrator may" in each for each in settings)


def test_the_number_in_the_advice_is_the_gpus_own():
    finding = assess(sample(PersistenceMode=0), "GPU 5", which=5).findings[0]
    assert "nvidia-smi -i 5 -pm 1" in finding.advice


def test_an_idle_link_is_not_judged():
    resting = sample(CurrPcieLinkWidth=8, CurrPcieLinkGeneration=1, CurrentClocksEventReasons=IDLE)
    assert assess(resting, TITLE).findings == ()
    lingering = sample(CurrPcieLinkWidth=8, UtilizationRates={"gpu": 0, "memory": 0})
    assert assess(lingering, TITLE).findings == ()
    silent = {"CurrPcieLinkWidth": 8, "CurrentClocksEventReasons": "NVML_ERROR_NOT_SUPPORTED"}
    busy = assess(sample(**silent), TITLE).findings
    rested = assess(sample(**silent, UtilizationRates={"gpu": 0, "memory": 0}), TITLE).findings
    assert "gpu.pcie-width" in [each.rule for each in busy]
    assert "gpu.pcie-width" not in [each.rule for each in rested]


def test_a_gpu_without_ecc_or_mig_is_not_blamed_for_it():
    card = sample(
        EccMode="NVML_ERROR_NOT_SUPPORTED",
        TotalEccErrors="NVML_ERROR_NOT_SUPPORTED",
        MigMode="NVML_ERROR_NOT_SUPPORTED",
    )
    assert assess(card, TITLE).findings == ()


# --- too fast to be true --------------------------------------------------------------------------------------------

A100 = find("NVIDIA A100-SXM4-80GB")
H200 = find("NVIDIA H200")
MATMUL_4096 = 2 * 4096.0**3  # 137 GFLOP


@pytest.mark.parametrize(
    ("duration_us", "refused"),
    [
        (580.0, False),  # 237 TFLOP/s: the walkthrough's own
        (441.0, False),  # the published peak exactly
        (380.0, False),  # a boost clock above the published one
        (340.0, True),
        (12.0, True),  # the time of a launch
    ],
)
def test_a_product_on_an_a100_takes_its_time(duration_us: float, refused: bool):
    reason = impossible(MATMUL_4096, None, duration_us * 1000, A100, "bf16")
    assert (reason is not None) == refused
    if reason:
        assert "is above what A100 80 GB SXM can do: its dense bf16 peak is 312 TFLOP/s" in reason
        assert "datasheet" in reason


def test_the_dtype_decides():
    assert impossible(MATMUL_4096, None, 1_000_000, A100, "float32")  # 137 TFLOP/s, and FP32 does 19.5
    assert impossible(MATMUL_4096, None, 1_000_000, A100, "tf32") is None
    assert impossible(MATMUL_4096, None, 1_000, A100, "fp8") is None  # no figure, no judgement
    assert impossible(MATMUL_4096, None, 1_000, NotKnown("no name"), "bf16") is None


def test_a_copy_from_memory_takes_its_time():
    moved = 2.0 * (1 << 30)
    assert impossible(None, moved, 450_000, H200, "fp32") is None  # 4.77 TB/s
    reason = impossible(None, moved, 300_000, H200, "fp32")
    assert reason and "its memory bandwidth is 4.8 TB/s" in reason


def test_what_fits_into_the_cache_is_not_judged_by_the_memorys_bandwidth():
    size = 40.0 * (1 << 20)  # H200 caches 50 MiB
    assert impossible(None, 2 * size, 3_000, H200, "fp32") is None  # 28 TB/s, out of the cache
    assert impossible(None, 2 * size, 3_000, H200, "fp32", flushed=True)


def test_a_short_kernel_is_not_accused_for_the_clocks_resolution():
    flops = 2 * 1024.0**3  # 6.9 us at an A100's peak
    assert impossible(flops, None, 5_000, A100, "bf16") is None
    assert impossible(flops, None, 3_000, A100, "bf16")
