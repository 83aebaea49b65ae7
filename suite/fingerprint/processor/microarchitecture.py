"""The micro-architecture, from /proc/cpuinfo alone, so that recorded machines can be named too.

Its name comes from the numbers that the maker gave it (family and model, Arm's part). What archspec's database makes of the flags is told
beside it as that: a hypervisor that hides a flag (AMX, say) makes a processor look like an older one there.

`archspec.cpu.host()` reads only the live machine. The choice here is its own: of the targets whose vendor and flags fit,
the deepest in the tree; on Arm the part number decides among them. Source: archspec, archspec/cpu/detect.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Arm's part numbers, by implementer. Source: Linux, arch/arm64/include/asm/cputype.h.
ARM_PARTS = {
    "0x41": {
        "0xd03": "Cortex-A53",
        "0xd05": "Cortex-A55",
        "0xd07": "Cortex-A57",
        "0xd08": "Cortex-A72",
        "0xd09": "Cortex-A73",
        "0xd0a": "Cortex-A75",
        "0xd0b": "Cortex-A76",
        "0xd0c": "Neoverse N1",
        "0xd40": "Neoverse V1",
        "0xd41": "Cortex-A78",
        "0xd42": "Cortex-A78AE",
        "0xd44": "Cortex-X1",
        "0xd49": "Neoverse N2",
        "0xd4b": "Cortex-A78C",
        "0xd4f": "Neoverse V2",
        "0xd81": "Cortex-A720",
        "0xd82": "Cortex-X4",
        "0xd83": "Neoverse V3AE",
        "0xd84": "Neoverse V3",
        "0xd85": "Cortex-X925",
        "0xd87": "Cortex-A725",
        "0xd8e": "Neoverse N3",
    },
    "0x43": {"0x0af": "ThunderX2"},
    "0x46": {"0x001": "A64FX"},
    "0x4e": {"0x004": "Carmel", "0x010": "Olympus"},
    "0xc0": {"0xac3": "Ampere-1", "0xac4": "Ampere-1A"},
}

# Intel's models of family 6, and AMD's ranges of models by family. Source: Linux, arch/x86/include/asm/intel-family.h and
# arch/x86/kernel/cpu/amd.c (6.17). A number that is not here has no name: later ones are added, none is guessed.
INTEL_MODELS = {
    "Nehalem": (0x1A, 0x1E, 0x1F, 0x2E),
    "Westmere": (0x25, 0x2C, 0x2F),
    "Sandy Bridge": (0x2A, 0x2D),
    "Ivy Bridge": (0x3A, 0x3E),
    "Haswell": (0x3C, 0x3F, 0x45, 0x46),
    "Broadwell": (0x3D, 0x47, 0x4F, 0x56),
    "Skylake": (0x4E, 0x5E),
    "Kaby Lake or its kin (Coffee, Whiskey, Amber Lake)": (0x8E, 0x9E),
    "Comet Lake": (0xA5, 0xA6),
    "Cannon Lake": (0x66,),
    "Ice Lake": (0x6A, 0x6C, 0x7D, 0x7E, 0x9D),
    "Rocket Lake": (0xA7,),
    "Tiger Lake": (0x8C, 0x8D),
    "Sapphire Rapids": (0x8F,),
    "Emerald Rapids": (0xCF,),
    "Granite Rapids": (0xAD, 0xAE),
    "Sierra Forest": (0xAF,),
    "Clearwater Forest": (0xDD,),
    "Alder Lake": (0x97, 0x9A, 0xBE),
    "Raptor Lake": (0xB7, 0xBA, 0xBF),
    "Meteor Lake": (0xAA, 0xAC),
    "Arrow Lake": (0xB5, 0xC5, 0xC6),
    "Lunar Lake": (0xBD,),
}
SKYLAKE_SERVER = 0x55
AMD_MODELS: dict[int, dict[str, tuple[tuple[int, int], ...]]] = {
    0x17: {
        "Zen or Zen+": ((0x00, 0x2F), (0x50, 0x5F)),
        "Zen 2": ((0x30, 0x4F), (0x60, 0x7F), (0x90, 0x91), (0xA0, 0xAF)),
    },
    0x19: {"Zen 3": ((0x00, 0x0F), (0x20, 0x5F)), "Zen 4": ((0x10, 0x1F), (0x60, 0xAF))},
    0x1A: {"Zen 5": ((0x00, 0x2F), (0x40, 0x4F), (0x60, 0x7F))},
}


@dataclass(frozen=True)
class Named:
    """What archspec makes of the flags: `name` ("zen3"), `level` the generic one it includes ("x86_64_v3"); `specific` is False when they
    are one."""

    name: str
    level: str
    specific: bool


def arm_model(records: list[dict[str, str]]) -> str | None:
    """What an Arm machine's cores are called ("Cortex-X925, Cortex-A725"), by part numbers; None when one is not known."""
    parts = dict.fromkeys((record.get("CPU implementer", ""), record.get("CPU part", "")) for record in records)
    names = [ARM_PARTS.get(implementer, {}).get(part) for implementer, part in parts]
    return ", ".join(name for name in names if name) if names and all(names) else None


def x86_model(record: dict[str, str]) -> str | None:
    """What the maker calls the processor ("Emerald Rapids"), by vendor, family, model and, where one number serves several, stepping; None
    when it is not known."""
    try:
        family, model, stepping = (int(record[name]) for name in ("cpu family", "model", "stepping"))
    except (KeyError, ValueError):
        return None
    if record.get("vendor_id") == "AuthenticAMD":
        known = AMD_MODELS.get(family, {})
        return next((name for name, ranges in known.items() if any(low <= model <= high for low, high in ranges)), None)
    if record.get("vendor_id") != "GenuineIntel" or family != 6:
        return None
    if model == SKYLAKE_SERVER:
        return "Skylake" if stepping < 5 else "Cascade Lake" if stepping < 10 else "Cooper Lake"
    return next((name for name, models in INTEL_MODELS.items() if model in models), None)


def identify(record: dict[str, str]) -> Named | None:
    """Name the micro-architecture of one processor's record; None when its architecture is not known to archspec."""
    from archspec.cpu import TARGETS

    family = _family(record)
    if family is None:
        return None
    root = TARGETS[family]
    fitting = [
        target for target in TARGETS.values() if (target == root or root in target.ancestors) and _fits(target, record)
    ]
    generic = max((target for target in fitting if target.vendor == "generic"), key=_depth, default=root)
    part = record.get("CPU part", "")
    if part:
        # Flags alone would name another vendor-neutral core that happens to have no more of them.
        fitting = [target for target in fitting if target.cpu_part in (part, "")]
    # Only descendants of the best generic level: a niche flag that the firmware has off must not cost whole generations.
    best = max((target for target in fitting if target > generic), key=_depth, default=generic)
    return Named(str(best), str(generic), best.vendor != "generic")


def _family(record: dict[str, str]) -> str | None:
    if "flags" in record:
        return "x86_64" if "lm" in record["flags"].split() else "x86"
    if "CPU implementer" in record:
        return "aarch64"
    if re.search(r"POWER\d", record.get("cpu", "")):
        return "ppc64le"  # big-endian systems are not told apart, and no torch is built for them
    return "riscv64" if record.get("isa", "").startswith("rv64") else None


def _fits(target: Any, record: dict[str, str]) -> bool:
    from archspec.cpu.schema import TARGETS_JSON

    if power := re.search(r"POWER(\d+)", record.get("cpu", "")):
        return bool(target.generation <= int(power[1]))
    if "isa" in record:
        return target.vendor == "generic" or str(target) == record.get("uarch")
    implementer = record.get("CPU implementer", "")
    if implementer:
        # Which armv8.x level a processor has cannot be told from its features, so only the family counts as generic.
        if target.vendor == "generic" and str(target) != "aarch64":
            return False
        vendor, features = TARGETS_JSON["conversions"]["arm_vendors"].get(implementer, implementer), "Features"
    else:
        vendor, features = record.get("vendor_id", "generic"), "flags"
    flags = set(record.get(features, "").split())
    if flags & {"ssse3", "pni"}:
        flags.add("sse3")  # which /proc/cpuinfo calls pni
    return target.vendor in (vendor, "generic") and target.features <= flags


def _depth(target: Any) -> tuple[int, int]:
    return len(target.ancestors), len(target.features)
