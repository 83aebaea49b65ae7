"""The CPU lane: cold start (R6, R7), launches and what precedes them (R8, R9), waiting at the end (R10), hidden copies (R11)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.rates import peaks_of
from reports.findings.words import moment, no_gpu
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Call, Kind
from reports.trace.steps import COLD_LEAST_US, COLD_RATIO
from reports.words import share, short, size, us
from suite.peaks import Figure, NotKnown

GAP_LEAST_US = 50.0
GAP_RATIO = 5.0
GAP_SHARE = 0.2
LONG_WAIT = 1 / 3
WORKING = 0.5
COPYING = frozenset(
    {
        *("aten::copy_", "aten::to", "aten::_to_copy", "aten::clone", "aten::contiguous", "aten::_copy_from"),
        *("aten::cpu", "aten::cuda", "aten::item", "aten::_local_scalar_dense", "aten::_foreach_copy_"),
        *("aten::repeat", "aten::repeat_interleave", "aten::cat", "aten::stack", "aten::index_put_", "aten::roll"),
    }
)
"""Operators by which a program asks for a copy itself."""


def wide_first_step(analysis: Analysis) -> Outcome:
    """R6."""
    steps = analysis.steps
    if len(steps) < 2:
        return not_applicable(f"{len(steps)} recorded steps: at least two are needed to compare")
    rest = float(np.median([step.host_us for step in steps[1:]]))
    if rest <= 0:
        return not_applicable("the steps after the first have no recorded length: nothing to compare it with")
    numbers = f"step #{steps[0].number} takes {us(steps[0].host_us)} on the host, the others typically {us(rest)}"
    if not analysis.cold_first_step:
        return quiet(numbers)
    return fired(
        f"The first step is cold: {us(steps[0].host_us)} against {us(rest)}",
        Evidence(numbers, steps[0].start_us, steps[0].end_us),
        why=f"{steps[0].host_us / rest:.3g} times the median of the others",
        advice="Run the step a few times before the recording, and leave the first step out of every average.",
        at_stake_us=steps[0].host_us - rest,
    )


def gap_before_first_operator(analysis: Analysis) -> Outcome:
    """R7."""
    gaps = [(step.gap_us, step) for step in analysis.steps if step.gap_us is not None and step.annotation]
    if not gaps:
        return not_applicable("no step holds an annotation with operators in it")
    values = [gap for gap, _ in gaps]
    most, step = max(gaps, key=lambda item: item[0])
    others = float(np.median([gap for gap, at in gaps if at is not step])) if len(gaps) > 1 else None
    listed = ", ".join(f"#{at.number} {us(gap)}" for gap, at in gaps[:5])
    stands_out = most >= GAP_RATIO * others if others is not None else most >= GAP_SHARE * step.host_us
    if most < GAP_LEAST_US or not stands_out:
        return quiet(
            f"from {gaps[0][1].annotation} to its first operator: {listed}; median {us(float(np.median(values)))}"
        )
    return fired(
        f"{us(most)} pass in step #{step.number} between {step.annotation} and its first operator",
        Evidence(f"gap to {step.first_op} by step: {listed}", step.start_us, step.start_us + most),
        why=f"the others take {us(others)}" if others is not None else f"{share(most / step.host_us)} of the only step",
        advice="One-time work (workspace, library handles, lazy modules): warm up before recording. Recurring gaps are Python's own time.",
        at_stake_us=most - (others or 0.0),
    )


def _launches(analysis: Analysis) -> list[tuple[int, int | None]]:
    """Every kernel launch on the host with the query that precedes it within the same operator, or None."""
    trace = analysis.trace
    rows = trace.host_rows[trace.slices.kind[trace.host_rows] == Kind.RUNTIME]
    rows = rows[np.lexsort((trace.slices.start[rows], trace.slices.lane[rows]))]
    found: list[tuple[int, int | None]] = []
    pending: dict[int, int] = {}
    for row in rows.tolist():
        call, parent = int(trace.call[row]), int(trace.nesting.parent[row])
        if call == Call.QUERY:
            pending[parent] = row
        elif call == Call.LAUNCH:
            found.append((row, pending.pop(parent, None)))
    return found


def launches_with_query(analysis: Analysis) -> Outcome:
    """R8."""
    found = _launches(analysis)
    if not found:
        return not_applicable("no kernel launch was recorded on the host")
    asked = [(row, query) for row, query in found if query is not None]
    if not asked:
        return quiet(f"none of {len(found):,} launches asks the driver anything first")
    callers = Counter(_caller(analysis, row) for row, _ in asked)
    row, query = asked[0]
    assert query is not None
    return fired(
        f"{len(asked):,} of {len(found):,} launches ask the driver about the device or the kernel first: kernels that choose their shape",
        Evidence(
            f"{analysis.trace.name(query)} before {analysis.trace.name(row)} in {_caller(analysis, row)}",
            moment(analysis.trace, query)[0],
            moment(analysis.trace, row)[1],
        ),
        Evidence(f"by caller: {', '.join(f'{short(name, 40)} {count:,}' for name, count in callers.most_common(4))}"),
        why="an occupancy or attribute query precedes the launch within the same operator",
        advice="Nothing to do: matrix products and convolutions pick a kernel for the shape and the device.",
    )


def launches_without_query(analysis: Analysis) -> Outcome:
    """R9."""
    found = _launches(analysis)
    if not found:
        return not_applicable("no kernel launch was recorded on the host")
    bare = [row for row, query in found if query is None]
    if not bare:
        return quiet(f"all {len(found):,} launches follow a query")
    callers = Counter(_caller(analysis, row) for row in bare)
    return fired(
        f"{len(bare):,} of {len(found):,} launches ask nothing first: kernels with a fixed shape, as elementwise ones and reductions",
        Evidence(
            f"by caller: {', '.join(f'{short(name, 40)} {count:,}' for name, count in callers.most_common(4))}",
            *moment(analysis.trace, bare[0]),
        ),
        why="no query precedes the launch within the same operator",
        advice="Elementwise kernels that follow each other are what torch.compile fuses.",
    )


def _caller(analysis: Analysis, row: int) -> str:
    operator = int(analysis.trace.caller[row])
    return "no operator" if operator < 0 else analysis.trace.name(operator)


def long_synchronize(analysis: Analysis) -> Outcome:
    """R10."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    waits = trace.host_rows[trace.call[trace.host_rows] == Call.SYNCHRONIZE]
    if not waits.size:
        return not_applicable("no synchronising call was recorded")
    last = int(waits[np.argmax(trace.end[waits])])
    start, end = int(trace.slices.start[last]), int(trace.end[last])
    window = max(device.window_us for device in analysis.devices)
    length = (end - start) / 1000
    rows = trace.gpu_rows
    busy = intervals.union(trace.slices.start[rows], trace.end[rows])
    working = int(intervals.covered(*busy, np.array([start]), np.array([end]))[0]) / max(end - start, 1)
    numbers = f"the last {trace.name(last)} takes {us(length)}, the GPU works in {us(working * length)} ({share(working)}) of it"
    if length < LONG_WAIT * window or working > WORKING:
        return quiet(numbers)
    return fired(
        f"The recording ends with {us(length)} of {trace.name(last)}, in which the GPU has next to nothing to do",
        Evidence(numbers, *moment(trace, last)),
        why=f"{share(length / window)} of the window, the GPU working in {share(working)} of it",
        advice="The profiler waits here to collect its records: leave this call out when you judge the program.",
    )


def hidden_copies(analysis: Analysis) -> Outcome:
    """R11."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    groups: dict[tuple[str, str, str], list[int]] = {}
    copies = (trace.slices.kind[trace.gpu_rows] == Kind.MEMCPY) & (trace.links.launch >= 0)
    for row, launch in zip(trace.gpu_rows[copies].tolist(), trace.links.launch[copies].tolist(), strict=True):
        if not _device_to_device(trace.name(row)):
            continue
        operator = int(trace.caller[launch])
        while operator >= 0 and trace.name(operator) == "aten::copy_":
            operator = int(trace.caller[operator])
        if operator < 0 or trace.name(operator) in COPYING:
            continue
        key = (trace.slices.devices[int(trace.slices.device[row])], trace.name(operator), trace.name(launch))
        groups.setdefault(key, []).append(row)
    if not groups:
        return quiet("no operator copies device memory without being asked to")
    evidence = []
    for (device, operator_name, call), rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        evidence.append(Evidence(_copies(analysis, device, operator_name, call, rows), *moment(trace, rows[0])))
    time = sum(int(trace.slices.duration[row]) for rows in groups.values() for row in rows) / 1000
    first = next(iter(groups))
    return fired(
        f"{short(first[1], 60)} copies device memory that you did not ask it to copy: {us(time)} in"
        f" {sum(map(len, groups.values())):,} copies",
        *evidence[:4],
        why="device-to-device copies whose operator is no copy",
        advice=(
            "A bias of the product's full size is copied into the output before the matrix product adds to it: a 1-D bias goes into the"
            " product's epilogue instead."
            if any("addmm" in key[1] for key in groups)
            else "Look at what the operator needs in another layout or place, and give it that."
        ),
        at_stake_us=time,
    )


def _device_to_device(name: str) -> bool:
    return "DtoD" in name or "Device -> Device" in name or "CopyDeviceToDevice" in name


def _copies(analysis: Analysis, device: str, operator: str, call: str, rows: list[int]) -> str:
    slices = analysis.trace.slices
    times = slices.duration[rows] / 1000
    moved = slices.moved_bytes[rows]
    text = f"{len(rows):,} copies by {call} in {short(operator, 40)}, median {us(float(np.median(times)))}"
    if not np.isfinite(moved).all() or not (times > 0).all():
        return text
    rate = float(np.median(2 * moved / times)) * 1e6
    text += f", {size(float(np.median(moved)))} each: {rate / 1e12:.3g} TB/s read and written"
    peaks = peaks_of(analysis, device)
    memory = peaks if isinstance(peaks, NotKnown) else peaks.memory_bytes_per_s
    if isinstance(memory, Figure) and "peak" not in analysis.trace.withheld:
        text += (
            f", {share(rate / memory.value)} of the {memory.value / 1e12:.3g} TB/s that the memory is published with"
        )
    return text


HOST_RULES = (
    Rule(
        id="R6",
        title="The first step is much wider",
        family="host",
        severity="hint",
        formula="host time of the first recorded step / median of the others",
        threshold=f"above {COLD_RATIO:g}, and {COLD_LEAST_US:g} us more",
        refuted_by="a recording after more warm-up steps with the same wide first step",
        explanation=(
            "What happens only once happens in the first step: modules are loaded, workspaces allocated, algorithms chosen, code compiled."
            " If that step is recorded it looks like the program's own cost. A warm-up before the recording moves this cost, it does not"
            " remove it: report it apart."
        ),
        check=wide_first_step,
    ),
    Rule(
        id="R7",
        title="A big gap between an annotation and its first operator",
        family="host",
        severity="hint",
        formula="start of the first operator in the annotation - start of the annotation, per step",
        threshold=f"at least {GAP_LEAST_US:g} us and {GAP_RATIO:g} times the other steps' (a fifth of the step, where there is one only)",
        refuted_by="Python frames (with_stack=True) that show work of your own in the gap",
        explanation=(
            "record_function marks where your code begins; the first aten operator is where PyTorch begins to work. In between lies Python,"
            " and, once, everything that is set up lazily. A gap in the first step alone is a cold start; one in"
            " every step is your own code."
        ),
        check=gap_before_first_operator,
    ),
    Rule(
        id="R8",
        title="A query before the launch: a kernel that adapts",
        family="host",
        severity="explanation",
        formula="kernel launches preceded by an occupancy or attribute query within the same operator / all kernel launches",
        threshold="any",
        refuted_by="the same operator launching the same kernel without a query",
        explanation=(
            "cuBLAS and cuDNN have hundreds of kernels for one operation. Before they launch one they ask the driver how many blocks fit on"
            " a multiprocessor. In the trace that is a short call such as cudaOccupancyMaxActiveBlocksPerMultiprocessor right before the"
            " launch; names differ between versions."
        ),
        check=launches_with_query,
    ),
    Rule(
        id="R9",
        title="A launch without a query: a fixed kernel",
        family="host",
        severity="explanation",
        formula="kernel launches without such a query / all kernel launches",
        threshold="any",
        refuted_by="the same launch with a query in another recording",
        explanation=(
            "Elementwise kernels and reductions of PyTorch are launched with a shape that follows from the tensor's size: nothing has to be"
            " asked. They mostly move data, and torch.compile can fuse neighbours of this kind into one."
        ),
        check=launches_without_query,
    ),
    Rule(
        id="R10",
        title="A long wait at the end of the recording",
        family="host",
        severity="explanation",
        formula="length of the last synchronising call / window; busy time of the GPU in it / its length",
        threshold="a third of the window, with the GPU working in at most half of it",
        refuted_by="GPU work in that time that the trace does not hold",
        explanation=(
            "When a recording ends, the profiler calls cudaDeviceSynchronize and waits for its own records. If"
            " the GPU had work, the wait is"
            " for that work. If it had none, the wait is the profiler's alone, and it swells the CPU total of the table."
        ),
        check=long_synchronize,
        needs=frozenset({"window"}),
    ),
    Rule(
        id="R11",
        title="A copy that you did not write",
        family="host",
        severity="problem",
        formula="device-to-device copies launched by an operator that is no copy; bytes read and written / time",
        threshold="any",
        refuted_by="a call of copy_, clone or contiguous in your code at this place",
        explanation=(
            "addmm(bias, x, w) computes bias + x·w with one kernel of the library, which adds to what is already"
            " in the output. So the bias is"
            " first copied there: a cudaMemcpyAsync that nobody wrote, easily missed beside the launch. It moves its bytes twice (read and"
            " write) at about the speed of the GPU's memory."
        ),
        check=hidden_copies,
    ),
)
