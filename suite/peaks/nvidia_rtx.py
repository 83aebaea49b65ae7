"""NVIDIA's GPUs for workstations and players. Names as its drivers give them; dense rates.

Players' cards accumulate FP16 products in FP16 twice as fast as in FP32. For FP16 and FP8 the faster rate stands here, since a
program may choose it; for BF16 there is only the other.
"""

from __future__ import annotations

from suite.peaks.figures import Peaks, row
from suite.peaks.nvidia import ADA, BRAND, GA102, NO_FP8

A6000 = "NVIDIA RTX A6000 datasheet (2021)"
RTX_6000_ADA = "NVIDIA RTX 6000 Ada Generation datasheet (2023)"
RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper (2025)"

FP16_ACCUMULATE = "accumulating in FP16; in FP32 it is half of this"

MODELS: tuple[Peaks, ...] = (
    row(
        "RTX A6000",
        (rf"{BRAND}RTX A6000",),
        A6000,
        memory_gib=48,
        gb_per_s=768,
        rates={"fp32": 38.7, "bf16": 154.8, "fp16": 154.8},
        missing=NO_FP8,
        l2_mib=6,
        units=84,
        sources={"l2": GA102, "units": GA102},
    ),
    row(
        "GeForce RTX 3090",
        (rf"{BRAND}GeForce RTX 3090",),
        GA102,
        memory_gib=24,
        gb_per_s=936.2,
        rates={"fp32": 35.6, "bf16": 71, "fp16": (142, FP16_ACCUMULATE)},
        missing=NO_FP8,
        l2_mib=6,
        units=82,
    ),
    row(
        "RTX 6000 Ada",
        (rf"{BRAND}RTX 6000 Ada Generation",),
        RTX_6000_ADA,
        memory_gib=48,
        gb_per_s=960,
        rates={"fp32": 91.1, "bf16": 364.2, "fp16": 364.2},
        l2_mib=96,
        units=142,
        sources={"bf16": ADA, "fp16": ADA, "l2": ADA, "units": ADA},
    ),
    row(
        "GeForce RTX 4090",
        (rf"{BRAND}GeForce RTX 4090",),
        ADA,
        memory_gib=24,
        gb_per_s=1008,
        rates={"fp32": 82.6, "bf16": 165.2, "fp16": (330.3, FP16_ACCUMULATE), "fp8": (660.6, FP16_ACCUMULATE)},
        l2_mib=72,
        units=128,
    ),
    row(
        "GeForce RTX 5090",
        (rf"{BRAND}GeForce RTX 5090",),
        RTX_BLACKWELL,
        memory_gib=32,
        gb_per_s=1792,
        rates={
            "fp32": 104.8,
            "bf16": 209.5,
            "fp16": (419, FP16_ACCUMULATE),
            "fp8": (838, FP16_ACCUMULATE),
            "int8": 838,
        },
        l2_mib=96,
        units=170,
    ),
)
