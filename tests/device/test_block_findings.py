"""What the conditions of measured blocks say about a whole run."""

from __future__ import annotations

from msgspec.structs import replace

from suite.device.block_findings import power_capped
from tests import samples

CAP = "slowed down: software power cap (power)"
CASE = "matmul_add/4096-bf16-hot"


def test_blocks_at_the_gpus_own_power_limit_are_counted_with_their_clocks_as_a_note() -> None:
    free = samples.block(CASE, "eager", 0, 0, 100.0)
    capped = [
        replace(free, block=number, conditions=[CAP], clock_mhz=clock) for number, clock in ((1, 1650), (2, 1680))
    ]
    other = replace(free, case="matmul_add/64-bf16-hot")
    (found,) = power_capped([free, *capped, other])
    assert (found.rule, found.severity) == ("gpu.power-cap", "note")
    assert found.claim.startswith("2 of 4 measured blocks ran at the GPU's own power limit")
    assert found.evidence == [f"{CASE}: 2 of 3 blocks, at 1650 to 1680 MHz (NVML, while they ran)"]


def test_without_such_blocks_there_is_no_note_and_warm_up_does_not_count() -> None:
    block = samples.block(CASE, "eager", 0, 0, 100.0)
    assert power_capped([block]) == []
    assert power_capped([replace(block, phase="warmup", conditions=[CAP])]) == []
