"""Published peaks of GPUs: what a measurement may be held against, and what it cannot exceed.

Every figure names the maker's document it stands in; most were checked against reproductions of it, not the original. What was
not found stays unknown, with a reason. This is a leaf: it imports nothing else of the suite, so that reports may read it.
"""

from __future__ import annotations

import dataclasses
import re

from suite.peaks import amd, nvidia, nvidia_rtx
from suite.peaks.figures import DTYPES, GIB, Dtype, Figure, NotKnown, Peaks

__all__ = ["DTYPES", "MODELS", "Dtype", "Figure", "NotKnown", "Peaks", "find"]

MODELS: tuple[Peaks, ...] = (*nvidia.MODELS, *nvidia_rtx.MODELS, *amd.MODELS)

LEAST, MOST = 0.88, 1.03
"""What a driver shows of a memory's nominal size: it keeps some for itself, and ECC on GDDR takes a sixteenth."""


def find(name: str, memory_bytes: int | None = None, multiprocessors: int | None = None) -> Peaks | NotKnown:
    """The peaks of the GPU that NVML or a trace's `deviceProperties` calls `name`.

    Memory size and number of SMs or CUs, where they are known, tell variants of one name apart, and parts of a GPU from whole
    ones. Where they leave several, the fastest is given, and its note says so: a check for "too fast to be true" must not accuse.
    """
    bare = " ".join(name.split())
    if not bare:
        return NotKnown("the device has no name")
    if re.search(r"\bMIG\b", bare):
        return NotKnown(f"{bare} is a MIG instance: no peak is published for a part of a GPU")
    named = [each for each in MODELS if any(re.fullmatch(p, bare, re.IGNORECASE) for p in each.patterns)]
    if not named:
        return NotKnown(f"no published peaks are on file for {bare!r}")
    fitting = [each for each in named if _fits(each, memory_bytes, multiprocessors)]
    if not fitting:
        seen = [f"{memory_bytes / GIB:.1f} GiB of memory"] if memory_bytes else []
        seen += [f"{multiprocessors} multiprocessors"] if multiprocessors else []
        known = " or ".join(each.model for each in named)
        return NotKnown(f"{bare} with {' and '.join(seen)} is not a whole {known}: a part of one, or another variant")
    best = max(fitting, key=_speed)
    if len(fitting) == 1:
        return best
    said = f"the name fits {' and '.join(each.model for each in fitting)}; these are the faster one's figures"
    return dataclasses.replace(best, note=f"{best.note}; {said}" if best.note else said)


def _fits(peaks: Peaks, memory_bytes: int | None, multiprocessors: int | None) -> bool:
    if memory_bytes and not LEAST <= memory_bytes / peaks.memory_bytes <= MOST:
        return False
    units = peaks.multiprocessors
    return not multiprocessors or isinstance(units, NotKnown) or units.value == multiprocessors


def _speed(peaks: Peaks) -> tuple[float, float]:
    rate, memory = peaks.flops["fp16"], peaks.memory_bytes_per_s
    return (
        memory.value if isinstance(memory, Figure) else 0.0,
        rate.value if isinstance(rate, Figure) else 0.0,
    )
