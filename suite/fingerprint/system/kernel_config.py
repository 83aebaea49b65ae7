"""How the kernel was built, as far as it bears on timing: tick, preemption, NUMA, debugging.

Source: Linux, kernel/Kconfig.hz, kernel/Kconfig.preempt, kernel/time/Kconfig.
"""

from __future__ import annotations

import gzip
import re
from io import BytesIO
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import absent, missing, ok
from suite.fingerprint.files import read_bytes, read_text

OPTIONS = re.compile(
    r"CONFIG_(HZ|HZ_PERIODIC|NO_HZ_IDLE|NO_HZ_FULL|HIGH_RES_TIMERS|PREEMPT|PREEMPT_NONE|PREEMPT_VOLUNTARY|PREEMPT_LAZY"
    r"|PREEMPT_RT|PREEMPT_DYNAMIC|NUMA|NUMA_BALANCING|NUMA_BALANCING_DEFAULT_ENABLED|SCHED_AUTOGROUP|SCHED_CORE|SCHED_MC"
    r"|SCHED_SMT|SCHED_CLUSTER|TRANSPARENT_HUGEPAGE_ALWAYS|TRANSPARENT_HUGEPAGE_MADVISE|CFS_BANDWIDTH|PSI"
    r"|PSI_DEFAULT_DISABLED|IRQ_TIME_ACCOUNTING|VIRT_CPU_ACCOUNTING_GEN|PARAVIRT_TIME_ACCOUNTING|MITIGATION_\w+"
    r"|PAGE_TABLE_ISOLATION|RETPOLINE|INIT_ON_ALLOC_DEFAULT_ON|KASAN|UBSAN|KFENCE|PROVE_LOCKING|DEBUG_PAGEALLOC)"
)
COMPRESSED = "/proc/config.gz"
MAXIMUM_BYTES = 8 << 20  # a configuration has about 300 KiB; more is not one


def read(root: Path) -> Fact:
    """The options that bear on timing, by name without CONFIG_, from /proc/config.gz or /boot. Never raises."""
    compressed = read_bytes(root, COMPRESSED)
    if compressed.data:
        try:
            with gzip.open(BytesIO(compressed.data)) as file:
                text = file.read(MAXIMUM_BYTES).decode("utf-8", errors="replace")
            return ok(parse(text), COMPRESSED)
        except (OSError, EOFError, ValueError) as error:
            return absent(COMPRESSED, f"not understood: {error!s:.100}")
    release = read_text(root, "/proc/sys/kernel/osrelease").text or ""
    if not release and (version := read_text(root, "/proc/version").text):
        release = next(iter(version.split()[2:3]), "")
    names = (f"/boot/config-{release}", f"/lib/modules/{release}/config") if release else ()
    reads = [read_text(root, path) for path in names]
    for found in reads:
        if found.text:
            return ok(parse(found.text), found.source)
    refused = next((found for found in reads if found.status == "denied"), None)
    if refused:
        return Fact(value=None, source=refused.source, status="denied", note=refused.reason)
    return missing(root, COMPRESSED, "neither /proc/config.gz nor the kernel's file in /boot is there")


def parse(text: str) -> dict[str, str]:
    """The options that are set; those of the others that are not set are simply not there."""
    pairs = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {
        name.removeprefix("CONFIG_"): value.strip('"')
        for name, equals, value in pairs
        if equals and OPTIONS.fullmatch(name)
    }
