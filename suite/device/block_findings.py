"""What the conditions of a run's measured blocks say about the run as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from suite.bundle.schema import Block, Finding
from suite.device.conditions import OWN_LIMIT


def power_capped(blocks: Sequence[Block]) -> list[Finding]:
    """gpu.power-cap: how many blocks ran at the device's own power limit, by case. A note: they are neither measured again nor left out."""
    measured = [block for block in blocks if block.phase == "measure"]
    capped = [block for block in measured if any(OWN_LIMIT in condition for condition in block.conditions)]
    if not capped:
        return []
    lines = []
    for case in dict.fromkeys(block.case for block in capped):
        count = sum(block.case == case for block in capped)
        clocks = sorted(block.clock_mhz for block in capped if block.case == case and block.clock_mhz is not None)
        at = f", at {clocks[0]} to {clocks[-1]} MHz" if clocks else ""
        lines.append(
            f"{case}: {count} of {sum(block.case == case for block in measured)} blocks{at} (NVML, while they ran)"
        )
    return [
        Finding(
            rule="gpu.power-cap",
            severity="note",
            claim=f"{len(capped)} of {len(measured)} measured blocks ran at the GPU's own power limit, which lowers its clock.",
            evidence=lines,
            advice="Nothing to do: that is how the GPU is sold. Compare it with GPUs of the same power limit.",
        )
    ]
