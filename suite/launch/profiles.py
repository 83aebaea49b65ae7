"""The launch profiles: which settings each of them requests, and the values that the settings have.

A knob is a group of settings that make sense only together; `make ablate` switches them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Name = Literal["tutorial", "tuned", "untuned"]
Knob = Literal["libiomp5", "jemalloc", "kmp", "numactl", "threads"]

KNOBS: dict[Knob, str] = {
    "libiomp5": "Intel's OpenMP run-time, preloaded",
    "jemalloc": "jemalloc, preloaded, with the tutorial's MALLOC_CONF",
    "kmp": "KMP_BLOCKTIME, KMP_SETTINGS and KMP_AFFINITY",
    "numactl": "threads on the placement's cores, memory on their nodes",
    "threads": "OMP_NUM_THREADS: one thread a core of the placement, within the CPU quota",
}
"""Knob -> what it sets, in the order in which a ladder of them is climbed."""

MALLOC_CONF = "oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"
"""Freed memory is kept and reused instead of being given back to the kernel and faulted in again (jemalloc(3), TUNING)."""


@dataclass(frozen=True)
class Profile:
    """A launch profile: its knobs, and its KMP_AFFINITY."""

    name: Name
    knobs: frozenset[Knob]
    kmp_affinity: str

    @property
    def kmp(self) -> dict[str, str]:
        """The variables of the knob "kmp"."""
        return {"KMP_BLOCKTIME": "1", "KMP_SETTINGS": "1", "KMP_AFFINITY": self.kmp_affinity}


# The tutorial's own value. It leaves the primary thread's CPU mask at one CPU, and every child (g++, the compile workers) inherits
# it: https://github.com/pytorch/pytorch/issues/136307. `reset` puts the mask back after each parallel region.
_TUTORIAL_AFFINITY = "granularity=fine,compact,1,0"
_SAFE_AFFINITY = f"reset,{_TUTORIAL_AFFINITY}"

PROFILES: dict[Name, Profile] = {
    # PyTorch tutorial "Inductor CPU backend debugging and profiling": numactl, two preloads, KMP_*, MALLOC_CONF; no thread count.
    "tutorial": Profile("tutorial", frozenset({"libiomp5", "jemalloc", "kmp", "numactl"}), _TUTORIAL_AFFINITY),
    "tuned": Profile("tuned", frozenset(KNOBS), _SAFE_AFFINITY),
    "untuned": Profile("untuned", frozenset(), _SAFE_AFFINITY),
}
