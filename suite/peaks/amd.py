"""AMD's Instinct GPUs. Names as ROCm gives them; a trailing "VF" is the same GPU passed to a virtual machine."""

from __future__ import annotations

from suite.peaks.figures import Peaks, Rates, Reasons, row

BRAND = r"(?:AMD )?(?:Instinct )?"
VF = r"(?: OAM)?(?: VF)?"

MI100 = "AMD Instinct MI100 Accelerator brochure (November 2020)"
MI200 = "AMD Instinct MI200 Series datasheet (2021)"
MI210 = "AMD Instinct MI210 Accelerator brochure (2022)"
MI300X = "AMD Instinct MI300X Accelerator data sheet (December 2023)"
MI300A = "AMD Instinct MI300A APU data sheet (December 2023)"
MI350 = "AMD Instinct MI350X and MI355X data sheets (June 2025)"
MI325X = "AMD Instinct MI325X Accelerator data sheet (October 2024)"
SPECS = "AMD ROCm documentation, GPU specifications"

NO_TF32: Reasons = {"tf32": "this GPU has no TF32", "fp8": "this GPU has no FP8"}
GCD = "one of the module's two dies, which is a device of its own: half of the module's published figures"
CDNA3_RATES: Rates = {
    "fp64": (163.4, "matrix cores"),
    "fp32": 163.4,
    "tf32": 653.7,
    "bf16": 1307.4,
    "fp16": 1307.4,
    "fp8": 2614.9,
    "int8": 2614.9,
}
EMULATED_TF32: Reasons = {"tf32": "this GPU has no TF32 in hardware"}
CDNA4_RATES: dict[str, Rates] = {
    "MI350X": {"fp64": 72.1, "fp32": 144.2, "bf16": 2306.9, "fp16": 2306.9, "fp8": 4613.7, "int8": 4613.7},
    "MI355X": {"fp64": 78.6, "fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2, "int8": 5033.2},
}
CACHES = {"l2": SPECS, "l3": SPECS, "units": SPECS}

MODELS: tuple[Peaks, ...] = (
    row(
        "MI100",
        (rf"{BRAND}MI100{VF}",),
        MI100,
        memory_gib=32,
        gb_per_s=1228.8,
        rates={"fp64": 11.5, "fp32": (46.1, "matrix cores"), "bf16": 92.3, "fp16": 184.6, "int8": 184.6},
        missing=NO_TF32,
        l2_mib=8,
        units=120,
        sources=CACHES,
    ),
    row(
        "MI210",
        (rf"{BRAND}MI210{VF}",),
        MI210,
        memory_gib=64,
        gb_per_s=1638.4,
        rates={
            "fp64": (45.3, "matrix cores"),
            "fp32": (45.3, "matrix cores"),
            "bf16": 181,
            "fp16": 181,
            "int8": 181,
        },
        missing=NO_TF32,
        l2_mib=8,
        units=104,
        sources=CACHES,
    ),
    row(
        "MI250",
        (rf"{BRAND}MI250{VF}", rf"{BRAND}MI250X ?/ ?MI250{VF}"),
        MI200,
        memory_gib=64,
        gb_per_s=1638.4,
        rates={
            "fp64": (45.25, "matrix cores"),
            "fp32": (45.25, "matrix cores"),
            "bf16": 181.05,
            "fp16": 181.05,
            "int8": 181.05,
        },
        missing=NO_TF32,
        l2_mib=8,
        units=104,
        sources=CACHES,
        note=GCD,
    ),
    row(
        "MI250X",
        (rf"{BRAND}MI250X{VF}", rf"{BRAND}MI250X ?/ ?MI250{VF}"),
        MI200,
        memory_gib=64,
        gb_per_s=1638.4,
        rates={
            "fp64": (47.85, "matrix cores"),
            "fp32": (47.85, "matrix cores"),
            "bf16": 191.5,
            "fp16": 191.5,
            "int8": 191.5,
        },
        missing=NO_TF32,
        l2_mib=8,
        units=110,
        sources=CACHES,
        note=GCD,
    ),
    row(
        "MI300X",
        (rf"{BRAND}MI300X{VF}",),
        MI300X,
        memory_gib=192,
        gb_per_s=5300,
        rates=CDNA3_RATES,
        l2_mib=32,
        l3_mib=256,
        units=304,
        sources=CACHES,
    ),
    row(
        "MI325X",
        (rf"{BRAND}MI325X{VF}",),
        MI325X,
        memory_gib=256,
        gb_per_s=6000,
        rates=CDNA3_RATES,
        l2_mib=32,
        l3_mib=256,
        units=304,
        sources=CACHES,
    ),
    row(
        "MI300A",
        (rf"{BRAND}MI300A{VF}",),
        MI300A,
        memory_gib=128,
        gb_per_s=5300,
        rates={"fp64": (122.6, "matrix cores"), "fp32": 122.6, "bf16": 980.6, "fp16": 980.6, "int8": 1961.2},
        l2_mib=24,
        l3_mib=256,
        units=228,
        sources=CACHES,
        note="its memory is the processor's too",
    ),
    *(
        row(
            model,
            (rf"{BRAND}{model}{VF}",),
            MI350,
            memory_gib=288,
            gb_per_s=8000,
            rates=rates,
            missing=EMULATED_TF32,
            l2_mib=32,
            l3_mib=256,
            units=256,
            sources=CACHES,
        )
        for model, rates in CDNA4_RATES.items()
    ),
)
