"""How the doctor writes numbers."""

from __future__ import annotations

from suite.display import counted

__all__ = ["counted", "cpus", "gib", "percent"]


def gib(size_bytes: float) -> str:
    """A size for people: 23.5 GiB, 512 MiB."""
    if size_bytes >= 1 << 30:
        return f"{size_bytes / (1 << 30):.3g} GiB"
    return f"{size_bytes / (1 << 20):.3g} MiB"


def percent(share: float) -> str:
    """A share as a percentage: 0.4 %, 12 %."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def cpus(cpulist: str) -> str:
    """A list of CPUs with its noun: CPU 1, CPUs 0-3."""
    return f"CPU {cpulist}" if cpulist.isdigit() else f"CPUs {cpulist}"
