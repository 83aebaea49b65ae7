"""Where a GPU's time goes without computing: its idle time by cause, and communication that nothing covers."""

from __future__ import annotations

import re

import numpy as np

from reports.findings.contract import WORTH, Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.overview import busiest, fewer_launches, recoverable
from reports.findings.seen import rows_named
from reports.findings.words import no_gpu
from reports.trace import intervals
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.columns import Ints
from reports.trace.gaps import Cause
from reports.trace.read import Trace
from reports.trace.steps import STEP
from reports.trace.usage import Device, communication
from reports.words import share, short, us

LEAST_IDLE = 0.1
COVERS = 0.8
"""A slice's name tells what a cause was when it covers this share of it."""

WIDEST = 3
SMALL_CAUSE = 0.02
EXPOSED_LEAST = 0.1


def idle(analysis: Analysis) -> Outcome:
    """Where idle time went."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    device, found = busiest(analysis)
    lost = device.window_us - device.busy_us
    parts = sorted(
        ((Cause(cause), time) for cause, time in device.idle_us.items() if time > 0), key=lambda part: -part[1]
    )
    if device.idle_of_window < LEAST_IDLE or not parts:
        return quiet(f"GPU {device.device} is idle for {share(device.idle_of_window)} of its window")
    largest = parts[0][0]
    at_stake = recoverable(device)
    advised = largest
    if largest in device.not_counted and at_stake >= WORTH * device.window_us:
        advised = next(cause for cause, _ in parts if cause not in device.not_counted)
    again = f"{ADVICE[largest]} Then: " if advised is not largest else ""
    return fired(
        f"GPU {device.device} {shows_idle(device)} {us(lost)} of {us(device.window_us)}, {share(parts[0][1] / lost)} of that"
        f" {WORDS[largest]}",
        *(
            _evidence(analysis.trace, device, cause, time, lost)
            for cause, time in parts
            if time >= SMALL_CAUSE * lost or cause is largest
        ),
        why=(
            f"idle of the window {share(device.idle_of_window)}; of the span between first and last kernel only"
            f" {share(device.idle_of_span)}; of the time that counts (without start-up, captures and what was not recorded)"
            f" {share(1 - found.counted_busy)}"
        ),
        advice=again + against(analysis, advised),
        at_stake_us=at_stake if at_stake >= WORTH * device.window_us else 0.0,
    )


def shows_idle(device: Device) -> str:
    """How to say that nothing is recorded on a GPU: it is not known to be idle where work may be missing from the recording."""
    open_ = device.idle_of(Cause.UNSEEN, Cause.CUT, Cause.LOST, Cause.UNKNOWN)
    return "shows no work for" if open_ > LEAST_IDLE * (device.window_us - device.busy_us) else "is idle for"


def _evidence(trace: Trace, device: Device, cause: Cause, time: float, lost: float) -> Evidence:
    """A cause's time, a piece of it (at half of its time, counted from the shortest), and in what it was spent where one name covers it."""
    mask = np.array([found is cause for found in device.idle.cause], bool)
    start, end = device.idle.start[mask], device.idle.end[mask]
    lengths = end - start
    order = np.argsort(lengths, kind="stable")
    until = np.cumsum(lengths[order])
    shown = int(order[int(np.searchsorted(until, until[-1] / 2))])
    named = "" if cause in UNNAMED else within(trace, start, end)
    pieces = ", in one stretch" if int(lengths.max()) >= COVERS * int(until[-1]) else f", in {lengths.size:,} stretches"
    return Evidence(
        f"{WORDS[cause]}: {us(time)} ({share(time / lost)} of the idle time){pieces}{f', in {short(named, 100)}' if named else ''}",
        (int(start[shown]) - trace.origin) / 1000,
        (int(end[shown]) - trace.origin) / 1000,
    )


def within(trace: Trace, start: Ints, end: Ints) -> str:
    """The name of the shortest host slices that cover most of these disjoint, sorted stretches (ns); "" where none does."""
    slices = trace.slices
    rows = trace.rows(Kind.OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.FRAME)
    rows = rows[(slices.start[rows] < end[-1]) & (trace.end[rows] > start[0])]
    whole = int((end - start).sum())
    lengths = np.bincount(slices.name[rows], slices.duration[rows].astype(float), minlength=len(slices.names))
    best = (float("inf"), "")
    for code in np.flatnonzero(lengths >= COVERS * whole).tolist():
        name = slices.names[code]
        if STEP.fullmatch(name):
            continue
        own = rows[slices.name[rows] == code]
        first, last = intervals.union(slices.start[own], trace.end[own])
        # What is open nearly all the time tells nothing.
        if int((last - first).sum()) > WIDEST * whole:
            continue
        if int(intervals.covered(first, last, start, end).sum()) >= COVERS * whole:
            best = min(best, (float((last - first).sum()), name))
    return best[1]


WORDS = {
    Cause.DATA: "while the host loaded or prepared data",
    Cause.SYNC: "around calls in which the host waits for the GPU, or copies that block it",
    Cause.ALLOCATION: "while the host allocated or freed memory",
    Cause.COMMUNICATION: "while the host was in operators of collectives",
    Cause.COMPUTE: "while operators computed on the CPU",
    Cause.PYTHON: "while the host ran Python code outside of operators",
    Cause.HOST: "while the host had launched nothing, and what it did is not recorded",
    Cause.ANNOTATED: "while the host was in an annotation of the program's, outside of operators",
    Cause.WAITING: "while the host waited for something else (a thread, a message, a process)",
    Cause.REPEATED: "in compiling, capturing or loading, again in most steps",
    Cause.OTHER: "while another GPU worked",
    Cause.ZERO: "while the host dispatched zero_grad",
    Cause.OPTIMIZER: "while the host dispatched the optimizer's step",
    Cause.DISPATCH: "while the host dispatched operators and launches, with short pauses between them",
    Cause.LATENCY: "while launches were under way",
    Cause.COLD: "in the cold first step, before its launches",
    Cause.START: "in start-up: work that happens once",
    Cause.CAPTURE: "while the host captured a graph, which runs later",
    Cause.QUEUED: "between kernels that were queued already",
    Cause.WAIT: "waiting for another stream",
    Cause.PROFILER: "made by the profiler itself",
    Cause.UNSEEN: "while the host waited for the GPU, on which nothing is recorded",
    Cause.CUT: "in which nothing at all is recorded, of host or GPU",
    Cause.LOST: "not known to be idle: work that was launched before has no record",
    Cause.UNKNOWN: "launched and not begun, for reasons the trace does not show",
}
UNNAMED = frozenset({Cause.DISPATCH, Cause.LATENCY, Cause.COLD, Cause.QUEUED, Cause.WAIT, Cause.PROFILER, Cause.LOST})
"""Causes of many short pieces, which no one name tells."""

ADVICE = {
    Cause.DATA: (
        "Feed the GPU: more workers in the data loader (num_workers) and batches prepared ahead (prefetch_factor, pin_memory), cheaper"
        " decoding and transforms, or data that is prepared once and stored. Fewer launches do not bring it sooner."
    ),
    Cause.SYNC: (
        "Let the host run ahead: no .item(), .cpu(), nonzero or printing of a tensor in the loop, or every so many steps only; copies from"
        " pinned memory with non_blocking=True."
    ),
    Cause.ALLOCATION: (
        "Allocate once and keep it: a warm-up of the largest shapes, expandable_segments:True, or smaller peaks; each"
        " allocation and free by the driver stops the host."
    ),
    Cause.COMMUNICATION: "Look at the collectives' backend and at what the other ranks do meanwhile: the host waits in their operators.",
    Cause.COMPUTE: "Move these operators to the GPU (their tensors lie on the CPU), do them in the background, or once.",
    Cause.PYTHON: "Shorten this Python code, do it in the background, or once; the GPU has nothing to do meanwhile.",
    Cause.HOST: (
        "Find out what the host does there: record again with with_stack=True, or put record_function around the suspects. Reading files,"
        " preparing data, logging and waiting for other processes look like this."
    ),
    Cause.ANNOTATED: "Look at what this annotation does outside of operators: shorten it, do it in the background, or once.",
    Cause.WAITING: "Find out what the host waits for: another thread, a request, other ranks. The GPU has nothing to do meanwhile.",
    Cause.REPEATED: (
        "Stop doing it again: recompilations have a reason (TORCH_LOGS=recompiles; mark_dynamic for changing shapes), captures and modules"
        " can be kept."
    ),
    Cause.OTHER: "Balance the work: smaller micro-batches, another split of the layers, or communication that overlaps.",
    Cause.ZERO: "Use zero_grad(set_to_none=True), the default since PyTorch 2.0: it launches nothing.",
    Cause.OPTIMIZER: "Use the optimizer's fused=True (or foreach=True): one launch for many parameters in place of one or more for each.",
    Cause.DISPATCH: "",
    Cause.LATENCY: "",
    Cause.COLD: "Warm up before you measure: the first step loads modules, picks algorithms and compiles.",
    Cause.START: "Warm up before you record: this happens once, and says nothing of the steps that follow.",
    Cause.CAPTURE: "Record after the graphs are captured: capturing happens once, and the GPU runs nothing of it.",
    Cause.QUEUED: "Fewer, longer kernels: each pass from one to the next costs the GPU about a microsecond.",
    Cause.WAIT: "Look at what the streams wait for: an event in the wrong place makes parallel work serial.",
    Cause.PROFILER: "This gap is not there without the profiler: do not optimise it.",
    Cause.UNSEEN: "Leave this time out: the profiler collects its records in such a wait, or the file lacks what the GPU did.",
    Cause.CUT: "Leave this time out: a part of the recording is missing, cut out or never made.",
    Cause.LOST: "Record again, fewer steps at a time: the profiler lost records, so that idle time is not known here.",
    Cause.UNKNOWN: (
        "Leave this time out before you conclude anything: before the first kernel it is usually the profiler's start or the lane's"
        " offset; in the middle, work that was launched before the recording began, an event that the stream waits for, a part that was"
        " cut out, or another process on the GPU."
    ),
}
"""What helps against each cause; for dispatching it depends on what the program does already (`fewer_launches`)."""


FUSED_ALREADY = re.compile(r"multi_tensor_apply|_fused_(?:adam|sgd|adagrad)|FusedAdam|triton_", re.IGNORECASE)
PLAIN = (
    "Prepare data ahead of the GPU: in the background, in other processes, or once and stored; cheaper decoding and transforms. Fewer"
    " launches do not bring it sooner."
)


def against(analysis: Analysis, cause: Cause) -> str:
    """What helps against a cause of idle time, without what the program does already."""
    trace = analysis.trace
    if cause is Cause.DATA:
        if not rows_named(trace, lambda name: "DataLoader" in name or "utils/data/" in name, *HOST_KINDS).size:
            return PLAIN
        copies = [stats.name for stats in analysis.kernels if stats.kind == "memcpy" and "HtoD" in stats.name]
        pinned = bool(copies) and not any("Pageable" in name for name in copies)
        return ADVICE[cause].replace(", pin_memory", "") if pinned else ADVICE[cause]
    if cause is Cause.OPTIMIZER and _fused(trace):
        return fewer_launches(analysis)
    return ADVICE[cause] or fewer_launches(analysis)


HOST_KINDS = (Kind.OP, Kind.ANNOTATION, Kind.FRAME)


def _fused(trace: Trace) -> bool:
    """Whether most of the kernels that the optimizer's step launches update many parameters each."""
    steps = rows_named(trace, lambda name: name.startswith("Optimizer.step#"))
    begun = trace.slices.start[trace.links.launch]
    first, last = intervals.union(trace.slices.start[steps], trace.end[steps])
    at = np.searchsorted(first, begun, side="right") - 1
    rows = (
        trace.gpu_rows[(trace.links.launch >= 0) & (at >= 0) & (begun < last[np.maximum(at, 0)])]
        if first.size
        else trace.gpu_rows[:0]
    )
    return bool(rows.size) and sum(FUSED_ALREADY.search(trace.name(row)) is not None for row in rows) >= rows.size / 2


def exposed(analysis: Analysis) -> Outcome:
    """Communication that no computing covers."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    talking = [device for device in analysis.devices if device.communication_us]
    if not talking:
        return not_applicable("no collective ran on a GPU")
    device = max(talking, key=lambda found: found.exposed_us)
    overlap = 1 - device.exposed_us / device.communication_us
    numbers = (
        f"GPU {device.device}: collectives {us(device.communication_us)}, {share(overlap)} of that beside computing;"
        f" {us(device.exposed_us)} exposed, {share(device.exposed_us / device.busy_us)} of its busy time"
    )
    if device.exposed_us < EXPOSED_LEAST * device.busy_us:
        return quiet(numbers)
    others = [one for one in talking if one is not device]
    return fired(
        f"Communication is exposed: for {us(device.exposed_us)}, {share(device.exposed_us / device.busy_us)} of its busy time, GPU"
        f" {device.device} runs collectives and computes nothing",
        Evidence(numbers, device.start_us, device.start_us + device.span_us),
        *(
            Evidence(
                f"GPU {one.device}: {us(one.exposed_us)} of {us(one.communication_us)} of collectives exposed,"
                f" {share(one.exposed_us / one.busy_us)} of its busy time"
            )
            for one in others[:3]
        ),
        *_exposed_by_step(analysis, device),
        why=f"collectives that no other kernel covers, at least {share(EXPOSED_LEAST)} of the time in which the GPU works",
        advice=(
            "A collective's time holds the waiting for the slowest rank: hold the other ranks' traces beside this one before you blame the"
            " network. Then overlap it with computing (bucketing, prefetching, another stream), or send less."
        ),
        at_stake_us=device.exposed_us,
    )


def _exposed_by_step(analysis: Analysis, device: Device) -> list[Evidence]:
    if len(analysis.steps) < 2:
        return []
    trace = analysis.trace
    mine = trace.slices.device[trace.gpu_rows] == trace.slices.devices.index(device.device)
    rows, launch = trace.gpu_rows[mine], trace.links.launch[mine]
    _, computing = communication(trace, rows)
    begins = np.array([round(step.start_us * 1000) for step in analysis.steps], np.int64) + trace.origin
    of = np.where(launch >= 0, np.searchsorted(begins, trace.slices.start[launch], side="right") - 1, -1)
    alone = []
    for number in range(len(begins)):
        talking, _ = communication(trace, rows[of == number])
        alone.append(int((talking[1] - talking[0]).sum() - intervals.covered(*computing, *talking).sum()))
    told = ", ".join(
        f"#{step.number} {us(int(time) / 1000)}" for step, time in zip(analysis.steps[:6], alone, strict=False)
    )
    return [Evidence(f"exposed of what each step launched: {told}")]


IDLE_RULES = (
    Rule(
        id="idle",
        title="Where the GPU's idle time went",
        family="overview",
        severity="problem",
        formula=(
            "window - busy, every gap split by what the GPU's queue, the profiler and the launching thread were recorded to do in it; the"
            " parts sum to the whole"
        ),
        threshold=f"at least {share(LEAST_IDLE)} of the window",
        refuted_by="a recording without the profiler whose gaps have other lengths",
        explanation=(
            "An empty stretch of the GPU's lane has a cause, and each asks for something else: the host was loading data, waited for the"
            " GPU, allocated, dispatched small operators, or did what is not recorded; the launch was on its way, a stream waited for"
            " another, the profiler itself was busy, or it was start-up. Tools that count only from the first to the last kernel never see"
            " the largest gap: the one before the first kernel."
        ),
        check=idle,
        needs=frozenset({"idle", "window", "cause"}),
    ),
    Rule(
        id="exposed-communication",
        title="Communication that no computing covers",
        family="overview",
        severity="problem",
        formula="union of the collectives less what other kernels cover, per GPU / busy time; 1 - exposed / collectives is the overlap",
        threshold=f"at least {share(EXPOSED_LEAST)} of the GPU's busy time",
        refuted_by="the same step taking as long when nothing is communicated",
        explanation=(
            "Between GPUs data moves in collectives (all-reduce, all-gather). While other kernels run beside them they cost next to"
            " nothing; where a GPU does nothing else, they lengthen the step by their whole time, which includes waiting for the slowest"
            " GPU."
        ),
        check=exposed,
        needs=frozenset({"window"}),
    ),
)
