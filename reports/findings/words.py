"""What rules say alike: where a slice lies, and why a rule about a GPU cannot be asked."""

from __future__ import annotations

from reports.trace.analyse import Analysis
from reports.trace.read import Trace


def moment(trace: Trace, row: int) -> tuple[float, float]:
    """Start and end of a slice, in us from the trace's first event."""
    start = int(trace.slices.start[row]) - trace.origin
    return start / 1000, (start + int(trace.slices.duration[row])) / 1000


def no_gpu(analysis: Analysis) -> str | None:
    """Why a rule about a GPU cannot be asked; None where it can."""
    if analysis.devices:
        return None
    if analysis.host.launches:
        return "work was launched on a GPU, and none of it was recorded"
    return "the trace holds no GPU work: it was recorded on the CPU alone, or with activities=[CPU]"


TICKS = 2


def least_us(trace: Trace) -> float:
    """Differences of times that may be the clock's rounding alone: start and end are each rounded to one of its ticks; in us."""
    return TICKS * (1.0 if trace.slices.whole_microseconds else 0.001)
