"""How to read a profiler table: what in it counts twice, or counts what one does not expect."""

from __future__ import annotations

from collections.abc import Sequence

from reports.trace.analyse import Analysis
from reports.trace.averages import STEPS, Line
from reports.trace.table import Table


def remarks(
    analysis: Analysis,
    table: Table,
    lines: Sequence[Line],
    left: Sequence[Line],
    steps: tuple[int, int] | None,
) -> list[str]:
    """What the table shows that would mislead somebody who adds its rows up. `left`: rows of the trace that it does not show; `steps`: in
    the table and in the trace."""
    said = []
    if steps is not None and steps[0] != steps[1]:
        said.append(f"The table covers {steps[0]} steps and the trace {steps[1]}: they are not of one recording.")
    merged = next((line for line in lines if line.name == STEPS and not line.on_device), None)
    if merged is not None and merged.calls > 1:
        said.append(f"{STEPS} adds up {merged.calls} steps, which the trace shows one by one.")
    device = sum(line.self_device_us for line in lines if line.origin in ("kernel", "copy", "fill"))
    copies = [line for line in lines if line.origin == "GPU annotation"]
    if copies and device:
        extra = sum(line.self_device_us for line in copies)
        names = ", ".join(line.name for line in copies[:3])
        said.append(
            f"{names} stand{'s' if len(copies) == 1 else ''} in the table twice, once for the host and once for the GPU, spanning kernels"
            f" and the gaps between them: the rows' Self CUDA adds up to {(device + extra) / device:.0%} of the kernels' time."
        )
    if any(line.self_device_us > 0 and not line.on_device for line in lines):
        said.append(
            "The self device time of an operator is that of the kernels that it launched, and each kernel has a row of its own: add one"
            " kind of row or the other, never both."
        )
    overhead = [line for line in lines if line.origin == "overhead"]
    if overhead:
        said.append(
            "Self CPU time total counts the profiler's own work in: "
            + ", ".join(f"{line.name} {line.self_cpu_us:.3f} us" for line in overhead[:4])
            + "."
        )
    orphans = analysis.trace.links.launch < 0
    if orphans.any():
        rows = analysis.trace.gpu_rows[orphans]
        time = float(analysis.trace.slices.duration[rows].sum()) / 1000
        said.append(
            f"{int(orphans.sum())} slices of the GPU ({time:.3f} us) were launched before the recording began: the rows of their kernels"
            " count them, the operators' rows do not."
        )
    if left and table.rows:
        most = max(line.self_cpu_us + line.self_device_us for line in left)
        said.append(
            f"{len(left)} rows of the trace are not in the table (it was printed with a limit, or sorted by another column); the largest"
            f" has {most:.3f} us of self time."
        )
    return said
