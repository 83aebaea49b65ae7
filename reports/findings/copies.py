"""Copies within a GPU's memory: those that nobody wrote (R11), and those right before a matrix product (R16)."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from reports.findings.contract import WORTH, Evidence, Outcome, Rule, fired, not_applicable, quiet, recorded_us
from reports.findings.rates import peaks_of
from reports.findings.words import moment, no_gpu
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.classes import class_of
from reports.words import share, short, size, times, us
from suite.peaks import Figure, NotKnown

WITHIN = re.compile(r"^(?!.*(?:PtoP|Peer)).*(?:DtoD|Device -> Device|CopyDeviceToDevice)", re.IGNORECASE)
ASKED = re.compile(
    r"copy|clone|contiguous|all_?reduce|all_?gather|all_?to_?all|reduce_?scatter|broadcast|nccl|rccl|c10d|reducer|bucket"
    r"|aten::(?:to|cpu|cuda|item|_local_scalar_dense|repeat|repeat_interleave|cat|stack|index_put_|roll)$",
    re.IGNORECASE,
)
"""Operators by which a program asks for a copy itself; collectives and DDP's buckets move memory because that is their work."""


def device_to_device(name: str) -> bool:
    """Whether a copy of this name stays within a GPU's memory (CUDA and ROCm name it differently)."""
    return WITHIN.search(name) is not None


def hidden_copies(analysis: Analysis) -> Outcome:
    """R11."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    copies = (trace.slices.kind[trace.gpu_rows] == Kind.MEMCPY) & (trace.links.launch >= 0)
    for row, launch in zip(trace.gpu_rows[copies].tolist(), trace.links.launch[copies].tolist(), strict=True):
        if not device_to_device(trace.name(row)):
            continue
        operator = int(trace.caller[launch])
        while operator >= 0 and trace.name(operator) == "aten::copy_":
            operator = int(trace.caller[operator])
        if operator < 0 or ASKED.search(trace.name(operator)):
            continue
        key = (trace.slices.devices[int(trace.slices.device[row])], trace.name(operator), trace.name(launch))
        groups[key].append(row)
    if not groups:
        return quiet("no operator copies device memory without being asked to")

    def spent(rows: list[int]) -> float:
        return float(trace.slices.duration[rows].sum()) / 1000

    found = sorted(groups.items(), key=lambda item: -spent(item[1]))
    (_, operator_name, _), rows = found[0]
    time, whole = spent(rows), recorded_us(analysis)
    part = f"{us(time)} in {len(rows):,} {'copy' if len(rows) == 1 else 'copies'}"
    if time < WORTH * whole:
        return quiet(f"the most, {part} by {short(operator_name, 60)}, is below {share(WORTH)} of the recording")
    return fired(
        f"{short(operator_name, 60)} copies device memory that you did not ask it to copy: {part}",
        *(Evidence(_told(analysis, *key, members), *moment(trace, members[0])) for key, members in found[:4]),
        why=f"device-to-device copies whose operator is no copy; {share(time / whole)} of the recording",
        advice=(
            "A bias of the product's full size is copied into the output before the matrix product adds to it: a 1-D bias goes into the"
            " product's epilogue instead."
            if "addmm" in operator_name
            else "Look at what the operator needs in another layout or place, and give it that."
        ),
        at_stake_us=time,
    )


def _told(analysis: Analysis, device: str, operator: str, call: str, rows: list[int]) -> str:
    slices = analysis.trace.slices
    lengths = slices.duration[rows] / 1000
    moved = slices.moved_bytes[rows]
    text = f"{short(operator, 40)}: {times(len(rows))} by {call}, median {us(float(np.median(lengths)))}"
    if not np.isfinite(moved).all() or not (lengths > 0).all():
        return text
    rate = float(np.median(2 * moved / lengths)) * 1e6
    text += f", {size(float(np.median(moved)))} each: {rate / 1e12:.3g} TB/s read and written"
    peaks = peaks_of(analysis, device)
    memory = peaks if isinstance(peaks, NotKnown) else peaks.memory_bytes_per_s
    if isinstance(memory, Figure) and "peak" not in analysis.trace.withheld:
        text += (
            f", {share(rate / memory.value)} of the {memory.value / 1e12:.3g} TB/s that the memory is published with"
        )
    return text


def copy_before_product(analysis: Analysis) -> Outcome:
    """R16."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    trace = analysis.trace
    slices, rows = trace.slices, trace.gpu_rows
    # Newer libraries clear a small workspace in between.
    kept = np.flatnonzero(slices.kind[rows] != Kind.MEMSET)
    order = kept[np.lexsort((slices.start[rows[kept]], slices.stream[rows[kept]], slices.device[rows[kept]]))]
    ordered, callers = rows[order], trace.gpu_caller[order]
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    kinds = slices.kind[ordered]
    for number in np.flatnonzero((kinds[:-1] == Kind.MEMCPY) & (kinds[1:] == Kind.KERNEL)).tolist():
        copy, product = int(ordered[number]), int(ordered[number + 1])
        if slices.stream[copy] != slices.stream[product] or slices.device[copy] != slices.device[product]:
            continue
        if not device_to_device(trace.name(copy)) or class_of(trace.name(product)) != "gemm":
            continue
        if callers[number] >= 0 and callers[number] == callers[number + 1]:
            pairs[trace.name(int(callers[number]))].append((copy, product))
    if not pairs:
        return quiet("no matrix product follows a device-to-device copy of the same operator")
    found = sorted(pairs.items(), key=lambda item: -sum(int(slices.duration[copy]) for copy, _ in item[1]))
    operator, members = found[0]
    bias = ": the bias, put where the product adds to it" if re.search(r"addb?mm|addmv|addbmm", operator) else ""
    return fired(
        f"A device-to-device copy stands right before the matrix product in {len(members):,}"
        f" {'call' if len(members) == 1 else 'calls'} of {short(operator, 60)}{bias}",
        *(
            Evidence(
                f"{short(name, 40)}, {times(len(calls))}: {trace.name(calls[0][0])} {us(int(slices.duration[calls[0][0]]) / 1000)},"
                f" then {short(trace.name(calls[0][1]), 60)} {us(int(slices.duration[calls[0][1]]) / 1000)}",
                moment(trace, calls[0][0])[0],
                moment(trace, calls[0][1])[1],
            )
            for name, calls in found[:4]
        ),
        why="both were launched by the same operator, one after the other on one stream",
        advice="This is fusion by the dispatcher (add and mm became addmm), not a new kernel. A 1-D bias needs no copy."
        if bias
        else "",
    )


COPY_RULES = (
    Rule(
        id="R11",
        title="A copy that you did not write",
        family="host",
        severity="problem",
        formula="device-to-device copies launched by an operator that is no copy; bytes read and written / time",
        threshold=f"at least {share(WORTH)} of the recording, in the copies of one operator",
        refuted_by="a call of copy_, clone or contiguous in your code at this place",
        explanation=(
            "addmm(bias, x, w) computes bias + x·w with one kernel of the library, which adds to what is already"
            " in the output. So the bias is"
            " first copied there: a cudaMemcpyAsync that nobody wrote, easily missed beside the launch. It moves its bytes twice (read and"
            " write) at about the speed of the GPU's memory. Copies of collectives and of DDP's buckets are left out: moving memory is"
            " their work."
        ),
        check=hidden_copies,
    ),
    Rule(
        id="R16",
        title="A device copy right before a matrix product",
        family="gpu",
        severity="explanation",
        formula="a device-to-device copy followed on its stream by a matrix product that the same operator launched",
        threshold="any",
        refuted_by="an addmm whose output held the bias already",
        explanation=(
            "add(matmul(x, w), b) can be had from one call, addmm, whose kernel adds the product to what the output holds. So b is copied"
            " into the output first. One launch, two things on the GPU: the copy and the product; the elementwise add is gone."
        ),
        check=copy_before_product,
    ),
)
