"""What a first call's compilation cost and how the compiler's caches answered. Runs in a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

from suite.bundle.schema import ArmReady
from suite.clocktime import now
from suite.protocol import Assignment

COMPILE_METRIC = "_compile.compile_inner"
"""Dynamo's own span over the compilation of a frame: tracing, AOT autograd, Inductor and the C++ compiler."""

CACHE_COUNTERS = {"fxgraph_cache_hit": "warm", "fxgraph_cache_miss": "cold", "fxgraph_cache_bypass": "bypassed"}


CACHE_VARIABLE = "SPEEDPROOF_CACHE"
"""Names the run's compiler cache to a worker."""

TRITON_VARIABLE = "TRITON_CACHE_DIR"


def ready_toolchain() -> None:
    """Let Inductor find out which vector instructions the processor has, before any arm's compilation is timed.

    It compiles small programs to do so, once for each compiler cache, and would charge that to whichever arm comes first.
    """
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    pick_vec_isa()


@contextmanager
def own_cache(label: str) -> Iterator[None]:
    """Give an arm a compiler cache of its own, a folder of the run's: "cold" then means that nobody compiled for it before."""
    root, before = os.environ.get(CACHE_VARIABLE), os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if root is None or before is None:
        yield
        return
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(root, label)
    # Inductor sets Triton's folder by its own when it is not set, and would leave it there: the next arm would find this one's kernels.
    exported = os.environ.get(TRITON_VARIABLE)
    if exported is None:
        os.environ[TRITON_VARIABLE] = os.path.join(root, label, "triton")
    try:
        yield
    finally:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
        if exported is None:
            os.environ.pop(TRITON_VARIABLE, None)


class CompilationWatch:
    """Context manager around a first call: takes the differences of Dynamo's counters."""

    def __init__(self) -> None:
        self.compile_ns = 0
        self.counters: dict[str, int] = {}

    def __enter__(self) -> CompilationWatch:
        self._seconds, self._counters = _readings()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds, counters = _readings()
        self.compile_ns = round((seconds - self._seconds) * 1e9)
        self.counters = {
            name: count - self._counters.get(name, 0)
            for name, count in counters.items()
            if count != self._counters.get(name, 0)
        }

    def cache(self) -> Literal["none", "cold", "warm", "bypassed"]:
        """How Inductor's graph cache answered; a bypass (frozen constants) or a miss outweighs a hit."""
        for counter in ("fxgraph_cache_miss", "fxgraph_cache_bypass", "fxgraph_cache_hit"):
            if self.counters.get(f"inductor.{counter}"):
                return CACHE_COUNTERS[counter]  # type: ignore[return-value]
        return "none"

    def ready(self, assignment: Assignment, label: str, first_call_ns: int, compiled: bool) -> ArmReady:
        """The event of an arm that made its first call."""
        return ArmReady(
            at=now(),
            case=assignment.case.name,
            arm=label,
            process=assignment.process,
            incarnation=assignment.incarnation,
            role=assignment.role,
            first_call_ns=first_call_ns,
            compile_ns=self.compile_ns if compiled else None,
            cache=self.cache(),
            counters=self.counters,
        )


def _readings() -> tuple[float, dict[str, int]]:
    import sys

    if "torch._dynamo.utils" not in sys.modules:
        # Nothing has been compiled yet, and importing Dynamo would cost an eager first call seconds that are not its own.
        return 0.0, {}
    utils: Any = sys.modules["torch._dynamo.utils"]
    counters = {
        f"{group}.{name}": int(count)
        for group in ("stats", "inductor", "graph_break", "frames")
        for name, count in utils.counters.get(group, {}).items()
        if isinstance(count, int)
    }
    return float(sum(utils.compilation_time_metrics.get(COMPILE_METRIC, []))), counters
