"""What compiling cost, told apart by how the compiler's caches answered."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from suite.bundle import schema


@dataclass(frozen=True)
class Compilation:
    """Compile times of an arm in a case, in ns; None where none was seen.

    `cold_ns` is that of the first process that found nothing in the cache, `warm_ns` the median of those that did. Inductor's graph cache
    does not take frozen graphs: of an arm with `bypassed`, the first process counts as cold and the later ones as warm, because
    its C++ kernels alone come from the cache. `first_call_ns` is the first call in the run, compilation included.
    """

    cold_ns: int | None
    warm_ns: float | None
    bypassed: bool
    first_call_ns: int | None


def compilation_of(events: Iterable[schema.AnyEvent], case: str, label: str) -> Compilation:
    """Compilation of an arm in a case, from the events of its measuring processes."""
    ready = [
        e for e in events if isinstance(e, schema.ArmReady) and (e.case, e.arm, e.role) == (case, label, "measure")
    ]
    compiled = [event for event in ready if event.compile_ns is not None]
    bypassed = [event.compile_ns for event in compiled if event.cache == "bypassed" and event.compile_ns is not None]
    cold = [event.compile_ns for event in compiled if event.cache == "cold" and event.compile_ns is not None]
    warm = [event.compile_ns for event in compiled if event.cache == "warm" and event.compile_ns is not None]
    cold, warm = cold or bypassed[:1], warm or bypassed[1:]
    return Compilation(
        cold_ns=cold[0] if cold else None,
        warm_ns=statistics.median(warm) if warm else None,
        bypassed=bool(bypassed),
        first_call_ns=ready[0].first_call_ns if ready else None,
    )
