"""NVIDIA's GPUs for data centres. Names as its drivers give them; dense rates, half of what datasheets mark "with sparsity"."""

from __future__ import annotations

from suite.peaks.figures import Peaks, Rates, Reasons, row

BRAND = r"(?:NVIDIA )?"
TESLA = r"(?:NVIDIA |Tesla |NVIDIA Tesla )?"

V100 = "NVIDIA Tesla V100 GPU Accelerator datasheet (2018)"
V100_PAPER = "NVIDIA Tesla V100 GPU Architecture whitepaper, v1.1 (2017)"
T4 = "NVIDIA T4 Tensor Core GPU datasheet (2019)"
TURING_PAPER = "NVIDIA Turing GPU Architecture whitepaper (2018)"
A100 = "NVIDIA A100 Tensor Core GPU datasheet (1758950, r4)"
A100_PAPER = "NVIDIA A100 Tensor Core GPU Architecture whitepaper, v1.0 (2020)"
A40 = "NVIDIA A40 datasheet (2021)"
GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper, v2.0"
H100 = "NVIDIA H100 Tensor Core GPU datasheet (2023)"
H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
H100_BRIEF = "NVIDIA H100 PCIe GPU product brief PB-11133-001, v02 (November 2022)"
H200 = "NVIDIA H200 Tensor Core GPU datasheet (2024)"
BLACKWELL = "NVIDIA Blackwell datasheet: GB200 NVL72 and HGX B200 (2025)"
BLACKWELL_BRIEF = "NVIDIA Blackwell Architecture Technical Brief (2024)"
BLACKWELL_TUNING = "NVIDIA Blackwell Tuning Guide, CUDA 13.0"
H100_NVL = "NVIDIA H100 Tensor Core GPU datasheet (2024), H100 NVL"
GH200 = "NVIDIA GH200 Grace Hopper Superchip datasheet (2024)"
A10 = "NVIDIA A10 Tensor Core GPU datasheet (2021)"
A30 = "NVIDIA A30 Tensor Core GPU datasheet (March 2022)"
ADA = "NVIDIA Ada GPU Architecture whitepaper, v2.01"
L4 = "NVIDIA L4 Tensor Core GPU datasheet (2023)"
L40 = "NVIDIA L40 and L40S datasheets (2023)"

NO_BF16: Reasons = {
    "bf16": "this GPU's matrix units have no bfloat16",
    "tf32": "this GPU has no TF32",
    "fp8": "this GPU has no FP8",
}
NO_FP8: Reasons = {"fp8": "this GPU has no FP8"}

A100_RATES: Rates = {"fp64": (19.5, "tensor cores"), "fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312, "int8": 624}
A100_OTHERS = {"l2": A100_PAPER, "units": A100_PAPER}
H100_SXM_RATES: Rates = {
    "fp64": (67, "tensor cores"),
    "fp32": 67,
    "tf32": 494.7,
    "bf16": 989.4,
    "fp16": 989.4,
    "fp8": 1978.9,
    "int8": 1978.9,
}
H100_OTHERS = {"l2": H100_PAPER, "units": H100_PAPER}

V100_OTHERS = {"l2": V100_PAPER, "units": V100_PAPER}

VOLTA_AND_TURING: tuple[Peaks, ...] = (
    *(
        row(
            f"V100 SXM2 {size} GB",
            (rf"{TESLA}V100-(?:SXM2|DGXS)-{size}GB",),
            V100,
            memory_gib=size,
            gb_per_s=900,
            rates={"fp64": 7.8, "fp32": 15.7, "fp16": 125},
            missing=NO_BF16,
            l2_mib=6,
            units=80,
            sources=V100_OTHERS,
        )
        for size in (16, 32)
    ),
    *(
        row(
            f"V100 PCIe {size} GB",
            (rf"{TESLA}V100-PCIE-{size}GB",),
            V100,
            memory_gib=size,
            gb_per_s=900,
            rates={"fp64": 7, "fp32": 14, "fp16": 112},
            missing=NO_BF16,
            l2_mib=6,
            units=80,
            sources=V100_OTHERS,
        )
        for size in (16, 32)
    ),
    row(
        "T4",
        (rf"{TESLA}T4",),
        T4,
        memory_gib=16,
        gb_per_s=320,
        rates={"fp32": 8.1, "fp16": 65, "int8": 130},
        missing=NO_BF16,
        l2_mib=4,
        units=40,
        sources={"l2": TURING_PAPER, "units": TURING_PAPER},
    ),
)

AMPERE: tuple[Peaks, ...] = (
    row(
        "A100 40 GB",
        (rf"{BRAND}A100-SXM4?-40GB", rf"{BRAND}A100-PCIE-40GB", rf"{BRAND}A100-PG509-200"),
        A100,
        memory_gib=40,
        gb_per_s=1555,
        rates=A100_RATES,
        missing=NO_FP8,
        l2_mib=40,
        units=108,
        sources=A100_OTHERS,
    ),
    row(
        "A100 80 GB SXM",
        (rf"{BRAND}A100-SXM4?-80GB", rf"{BRAND}A100-PG509-200", rf"{BRAND}PG509-210"),
        A100,
        memory_gib=80,
        gb_per_s=2039,
        rates=A100_RATES,
        missing=NO_FP8,
        l2_mib=40,
        units=108,
        sources=A100_OTHERS,
    ),
    row(
        "A100 80 GB PCIe",
        (rf"{BRAND}A100 80GB PCIe", rf"{BRAND}A100-PCIE-80GB"),
        A100,
        memory_gib=80,
        gb_per_s=1935,
        rates=A100_RATES,
        missing=NO_FP8,
        l2_mib=40,
        units=108,
        sources=A100_OTHERS,
    ),
    row(
        "A40",
        (rf"{BRAND}A40",),
        A40,
        memory_gib=48,
        gb_per_s=696,
        rates={"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7, "int8": 299.3},
        missing=NO_FP8,
        l2_mib=6,
        units=84,
        sources={"l2": GA102, "units": GA102},
    ),
)

A10_AND_A30: tuple[Peaks, ...] = (
    row(
        "A10",
        (rf"{BRAND}A10",),
        A10,
        memory_gib=24,
        gb_per_s=600,
        rates={"fp32": 31.2, "tf32": 62.5, "bf16": 125, "fp16": 125, "int8": 250},
        missing=NO_FP8,
        l2_mib=6,
        units=72,
        sources={"l2": GA102, "units": GA102},
    ),
    row(
        "A30",
        (rf"{BRAND}A30",),
        A30,
        memory_gib=24,
        gb_per_s=933,
        rates={"fp64": (10.3, "tensor cores"), "fp32": 10.3, "tf32": 82, "bf16": 165, "fp16": 165, "int8": 330},
        missing=NO_FP8,
        l2_mib=24,
        units=56,
        sources={"l2": "NVIDIA's deviceQuery on an A30", "units": "NVIDIA's deviceQuery on an A30"},
    ),
)

HOPPER: tuple[Peaks, ...] = (
    row(
        "H100 SXM5 80 GB",
        (rf"{BRAND}H100 80GB HBM3", rf"{BRAND}H100 SXM5 80GB"),
        H100,
        memory_gib=80,
        gb_per_s=3350,
        rates=H100_SXM_RATES,
        l2_mib=50,
        units=132,
        sources=H100_OTHERS,
    ),
    row(
        "H100 PCIe 80 GB",
        (rf"{BRAND}H100 PCIe", rf"{BRAND}H100 80GB HBM2e"),
        H100,
        memory_gib=80,
        gb_per_s=(2000, "the product brief says: more than this"),
        rates={
            "fp64": (51, "tensor cores"),
            "fp32": 51,
            "tf32": 378,
            "bf16": 756.5,
            "fp16": 756.5,
            "fp8": 1513,
            "int8": 1513,
        },
        l2_mib=50,
        units=114,
        sources={**H100_OTHERS, "memory": H100_BRIEF},
    ),
    row(
        "H100 NVL",
        (rf"{BRAND}H100 NVL",),
        H100_NVL,
        memory_gib=94,
        gb_per_s=(3930, "the datasheet rounds it to 3,900"),
        rates={
            "fp64": (60, "tensor cores"),
            "fp32": 60,
            "tf32": 417.5,
            "bf16": 835.5,
            "fp16": 835.5,
            "fp8": 1670.5,
            "int8": 1670.5,
        },
        l2_mib=50,
        units=132,
        sources=H100_OTHERS,
        note="one of the pair",
    ),
    *(
        row(
            f"GH200 {size} GB",
            (rf"{BRAND}GH200 (?:120|480)GB", rf"{BRAND}GH200 {size}G(?:B)? HBM3e?"),
            GH200,
            memory_gib=size,
            gb_per_s=speed,
            rates=H100_SXM_RATES,
            l2_mib=50,
            units=132,
            sources=H100_OTHERS,
            note="the superchip's GPU, the chip of H100 SXM5; 120GB and 480GB in its name are the processor's memory",
        )
        for size, speed in ((96, 4000), (144, 4900))
    ),
    row(
        "H200",
        (rf"{BRAND}H200", rf"{BRAND}H200 141GB HBM3e"),
        H200,
        memory_gib=141,
        gb_per_s=4800,
        rates=H100_SXM_RATES,
        l2_mib=50,
        units=132,
        sources=H100_OTHERS,
        note="the chip of H100 SXM5 with more and faster memory",
    ),
)

ADA_MODELS: tuple[Peaks, ...] = (
    row(
        "L4",
        (rf"{BRAND}L4",),
        L4,
        memory_gib=24,
        gb_per_s=300,
        rates={"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121, "fp8": 242.5, "int8": 242.5},
        l2_mib=None,
        units=None,
    ),
    row(
        "L40",
        (rf"{BRAND}L40",),
        L40,
        memory_gib=48,
        gb_per_s=864,
        rates={"fp32": 90.5, "tf32": 90.5, "bf16": 181.05, "fp16": 181.05, "fp8": 362, "int8": 362},
        l2_mib=96,
        units=142,
        sources={"l2": ADA},
    ),
    row(
        "L40S",
        (rf"{BRAND}L40S",),
        L40,
        memory_gib=48,
        gb_per_s=864,
        rates={"fp32": 91.6, "tf32": 183, "bf16": 362.05, "fp16": 362.05, "fp8": 733, "int8": 733},
        l2_mib=96,
        units=142,
        sources={"l2": ADA},
    ),
)

BLACKWELL_MODELS: tuple[Peaks, ...] = (
    row(
        "B200",
        (rf"{BRAND}B200",),
        BLACKWELL,
        memory_gib=180,
        gb_per_s=(8000, "as first published; the datasheet of 2025 says 7,700"),
        rates={
            "fp64": 40,
            "fp32": 80,
            "tf32": 1125,
            "bf16": 2250,
            "fp16": 2250,
            "fp8": 4500,
            "int8": 4500,
        },
        l2_mib=126.5,
        units=148,
        sources={"memory": BLACKWELL_BRIEF, "fp64": BLACKWELL_BRIEF, "fp32": BLACKWELL_BRIEF, "l2": BLACKWELL_TUNING},
    ),
    row(
        "B100",
        (rf"{BRAND}B100",),
        BLACKWELL_BRIEF,
        memory_gib=192,
        gb_per_s=8000,
        rates={"fp64": 30, "fp32": 60, "tf32": 875, "bf16": 1750, "fp16": 1750, "fp8": 3500, "int8": 3500},
        l2_mib=126.5,
        units=None,
        sources={"l2": BLACKWELL_TUNING},
    ),
    row(
        "GB200",
        (rf"{BRAND}GB200",),
        BLACKWELL,
        memory_gib=186,
        gb_per_s=8000,
        rates={
            "fp64": (45, "as first published; the datasheet of 2025 says 40"),
            "fp32": (90, "as first published; the datasheet of 2025 says 80"),
            "tf32": 1250,
            "bf16": 2500,
            "fp16": 2500,
            "fp8": 5000,
            "int8": 5000,
        },
        l2_mib=126.5,
        units=None,
        sources={"fp64": BLACKWELL_BRIEF, "fp32": BLACKWELL_BRIEF, "l2": BLACKWELL_TUNING},
        note="one of the two GPUs of the superchip",
    ),
)

MODELS: tuple[Peaks, ...] = (*VOLTA_AND_TURING, *AMPERE, *A10_AND_A30, *HOPPER, *ADA_MODELS, *BLACKWELL_MODELS)
