"""Which instruction sets a processor names, by group, so that a reader sees what matters to torch, oneDNN and Inductor.

Names as in /proc/cpuinfo. Sources: Linux, arch/x86/include/asm/cpufeatures.h and Documentation/arch/arm64/elf_hwcaps.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

X86 = {
    "SSE": r"sse|sse2|pni|ssse3|sse4_[12]|sse4a|misalignsse",
    "AVX": r"avx|avx2|fma|fma4|f16c|xop|avx_\w+",
    "AVX-512 and AVX10": r"avx512\w*|avx10\w*",
    "AMX": r"amx_\w+",
    "crypto": r"aes|vaes|v?pclmulqdq|sha_ni|sha512|sm[34]|gfni|rdrand|rdseed",
    "bit manipulation": r"bmi[12]|abm|lzcnt|popcnt|adx|movbe|tbm",
    "copying and cache lines": r"erms|fsrm|fzrm|fsrs|fsrc|clflushopt|clwb|clzero|cldemote|movdiri|movdir64b|wbnoinvd|3dnowprefetch",
    "pages": r"pdpe1gb|la57|pcid|invpcid|pku|ospke|smep|smap|umip|lam",
    "clocks and power": r"constant_tsc|nonstop_tsc|tsc_\w+|rdtscp|arat|aperfmperf|hwp\w*|ida|cpb|epb|hw_pstate|cppc",
    "cache and bandwidth control": r"rdt_a|cat_\w+|cdp_\w+|mba|cqm\w*|bmec|smba",
    "transactional memory": r"rtm|hle|rtm_always_abort",
    "mitigation": r"ibrs|ibpb|stibp|ssbd|virt_ssbd|ibrs_enhanced|md_clear|flush_l1d|arch_capabilities|l1tf|retpoline\w*|pti|srso\w*",
    "virtualisation": r"vmx|svm|hypervisor|ept\w*|vpid|vnmi|npt|tpr_shadow|flexpriority|vmmcall|sev\w*|tdx\w*",
}
ARM = {
    "Advanced SIMD": r"fp|asimd\w*|neon|vfp\w*|fphp|fcma|jscvt|frint",
    "SVE": r"sve\w*",
    "SME": r"sme\w*",
    "matrices and bfloat16": r"i8mm|bf16|svei8mm|svebf16|svef32mm|ebf16",
    "crypto": r"aes|pmull|sha\w*|sm[34]|rng|sveaes|svepmull",
    "atomics": r"atomics|lrcpc\d?|ilrcpc|uscat|lse128",
    "copying": r"mops|dcpop|dcpodp|dgh|wfxt",
    "protection": r"pac[ag]|bti|mte\d?|ssbs|sb|dit|gcs|poe",
}
RISCV = {
    "vectors": r"v|zv\w+",
    "bit manipulation": r"zb\w+|zbkb?",
    "half precision": r"zfh\w*|zfbf\w+",
    "crypto": r"zk\w+",
}


def of_record(record: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The flags of one processor's record and the groups of its architecture; without flags an empty list."""
    if "flags" in record:
        return sorted(set(record["flags"].split())), X86
    if "Features" in record:
        return sorted(set(record["Features"].split())), ARM
    isa = record.get("isa", "")  # rv64imafdcv_zba_zbb_...
    base, *extensions = isa.split("_") if isa.startswith("rv") else [""]
    return sorted({*base[4:], *extensions}) if base else [], RISCV


def by_group(flags: Iterable[str], groups: dict[str, str]) -> dict[str, list[str]]:
    """Flags by group, groups without any left out. A flag stands in the first group that names it."""
    found: dict[str, list[str]] = {}
    for flag in sorted(set(flags)):
        group = next((name for name, pattern in groups.items() if re.fullmatch(pattern, flag)), None)
        if group:
            found.setdefault(group, []).append(flag)
    return {group: found[group] for group in groups if group in found}
