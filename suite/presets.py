"""Presets: how long and how often each case is measured. Which cases a preset runs stands in the case's own file."""

from __future__ import annotations

from suite.bundle.schema import Procedure

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND


def _procedure(
    processes: tuple[int, int],
    pairs: tuple[int, int],
    measure_s: float,
    *,
    budget_s: float,
    timeout_s: int,
    block_ms: int = 100,
    arm_ms: int = 500,
) -> Procedure:
    return Procedure(
        processes=processes[0],
        processes_maximum=processes[1],
        budget_ns=int(budget_s * SECOND),
        block_duration_ns=block_ms * MILLISECOND,
        block_minimum_iterations=5,
        # A clock reading costs some 50 ns: in a sample of 100 us that is half a tenth of a percent.
        sample_minimum_ns=100_000,
        arm_minimum_ns=arm_ms * MILLISECOND,
        pairs_minimum=pairs[0],
        pairs_maximum=pairs[1],
        measure_budget_ns=int(measure_s * SECOND),
        warmup_budget_ns=int(measure_s / 4 * SECOND),
        process_timeout_s=timeout_s,
    )


PRESETS: dict[str, tuple[str, Procedure]] = {
    "smoke": (
        "tiny shapes to see that everything works; never publishable",
        _procedure((1, 1), (1, 2), 1.0, budget_s=60, timeout_s=300, block_ms=20, arm_ms=0),
    ),
    "quick": (
        "a report about this machine in about ten minutes",
        _procedure((3, 6), (2, 6), 12.0, budget_s=450, timeout_s=900),
    ),
    "standard": (
        "more shapes, dtypes and processes: for publications",
        _procedure((5, 15), (3, 10), 30.0, budget_s=5400, timeout_s=1800),
    ),
    "paper": (
        "the two walkthroughs' own parameters",
        _procedure((3, 10), (5, 5), 120.0, budget_s=4 * 3600, timeout_s=7200),
    ),
}
"""Name -> (what it is for, the procedure)."""

NEVER_PUBLISHABLE = frozenset({"smoke"})
DEFAULT = "quick"
