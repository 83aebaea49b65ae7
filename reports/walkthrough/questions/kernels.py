"""What the trace makes one ask of the kernels: which is the heavy one, why times of one kernel differ, what a batch becomes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from reports.findings.contract import Verdict
from reports.findings.rates import peak_flops, peaks_of
from reports.trace.alike import Group
from reports.trace.kernels import FIRST_MEAN, KernelStats
from reports.walkthrough import published as theirs
from reports.walkthrough.answer import Answer, Beside, Question, fires, lacks, prove
from reports.walkthrough.families import family
from reports.walkthrough.numbers import between, share, size, tflops, us, whole
from reports.walkthrough.recording import EAGER, Recording, Recordings
from reports.walkthrough.seen import PRODUCTS, Launches, kernel, launches, memsets, product
from suite.peaks import Figure

SUMS = ("aten::add", "aten::add_")
FEW_CALLS = 10
"""Below this many calls a mean and a median cannot be told apart from each other's chance."""


def heavy(recordings: Recordings) -> Answer:
    """Is mm or add the heavy one: registers, shared memory, grid, block, and the query before the launch."""
    kinds = ("warm", "main", "active20", "cold", "wait0")
    recording = recordings.pick(EAGER, recordings.sizes[1], *kinds) or recordings.pick(
        EAGER, recordings.sizes[0], *kinds
    )
    if recording is None:
        return lacks("an eager profile")
    analysis = recording.analysis
    mm, add = product(analysis), kernel(analysis, "elementwise")
    if not analysis.devices:
        return _heavy_on_cpu(recording)
    if mm is None or add is None:
        return lacks("an eager profile whose product and sum are both recorded as kernels")
    of_mm, of_add = launches(analysis, *PRODUCTS), launches(analysis, *SUMS)
    asked = f"asks {between(sorted(of_mm.queries))} first" if of_mm.queries else "asks nothing first"
    names = ("aten::mm", "aten::add") if mm.total_us >= add.total_us else ("aten::add", "aten::mm")
    first, second = (mm, add) if mm.total_us >= add.total_us else (add, mm)
    says = (
        f"{names[0]} is the heavy one: {whole(first.median_us)} a call, {share(first.share)} of the GPU's time; {names[1]}"
        f" {whole(second.median_us)}."
        f" mm {asked} and launches through {between(sorted(of_mm.launches))}; add launches through {between(sorted(of_add.launches))}"
        f"{' and asks nothing' if not of_add.queries else ''}."
    )
    return Answer(
        says,
        (
            Beside("mm: query, launch", f"{theirs.QUERY}, {theirs.LAUNCH}", _calls(of_mm)),
            Beside("add: query, launch", f"none, {theirs.LAUNCH}", _calls(of_add)),
            Beside("mm: kernel", theirs.PRODUCT, mm.name),
            Beside("mm: registers, shared memory, grid, block", "not published", footprint(mm)),
            Beside(
                "add: registers, shared memory, grid, block",
                f"{theirs.ADD_REGISTERS} a thread, {theirs.ADD_SHARED_BYTES} bytes",
                footprint(add),
            ),
        ),
        prove(recording, "R3", "R8", "R9"),
        (*other_machine(recording, of_mm), *_other_add(add)),
    )


def _heavy_on_cpu(recording: Recording) -> Answer:
    analysis = recording.analysis
    found = [one for name in (*PRODUCTS, *SUMS) if (one := analysis.operator(name)) is not None]
    if not found:
        return lacks("an eager profile that holds the product's operator")
    steps = max(len(analysis.steps), 1)
    told = ", ".join(f"{one.name} {us(one.self_us / steps)} a step by itself" for one in found)
    most = max(found, key=lambda one: one.self_us)
    return Answer(
        f"{most.name} is the heavy one at {recording.shape}: {told}.",
        tuple(Beside(f"{one.name}, self time a step", "on a GPU", us(one.self_us / steps)) for one in found),
        prove(recording, "cpu-hotspot"),
        ("registers, shared memory and grids are a GPU's: on a CPU the operators' own times tell which one is heavy",),
    )


def footprint(found: KernelStats) -> str:
    """What a kernel was launched with: "32 a thread, 0 bytes, grid 4096 x 1 x 1, block 128 x 1 x 1"."""
    if not found.resources:
        return "not recorded"
    one = found.resources[0]
    parts = [
        f"{one.registers:.4g} a thread" if one.registers is not None else "registers not recorded",
        size(one.shared_memory_bytes) if one.shared_memory_bytes is not None else "shared memory not recorded",
    ]
    for word, shape in (("grid", one.grid), ("block", one.block)):
        if shape is not None:
            parts.append(f"{word} {' x '.join(f'{edge:g}' for edge in shape)}")
    return ", ".join(parts)


def _calls(found: Launches) -> str:
    return f"{between(sorted(found.queries))}, {between(sorted(found.launches))}"


def other_machine(recording: Recording, of_mm: Launches) -> tuple[str, ...]:
    """What is unlike the A100 in a product's kernel and launch, each with the reason that the recording gives."""
    found, told = product(recording.analysis), []
    if found is not None:
        here, usual = family(found.name), family(theirs.PRODUCT)
        if here.prefix and here.prefix != usual.prefix:
            where = f" for {here.architecture} GPUs" if here.architecture else ""
            told.append(
                f"the product's kernel is of another family: {here.prefix}... are {here.library}{where}, {usual.prefix}... the"
                f" A100's; tiles,"
                " registers and grids follow from that"
            )
    others = [name for name in of_mm.launches if name != theirs.LAUNCH]
    if others:
        told.append(f"the product is launched through {between(others)}, not {theirs.LAUNCH}: {_launch_api(others[0])}")
    if of_mm.total and not of_mm.queries:
        told.append(
            f"no query of the device precedes the product's {of_mm.total} launches, where the A100's library asked for the"
            f" occupancy before"
            " each: this library chose its kernel without asking in the recorded steps, so that the rule 'a query means a heavy"
            " kernel' says"
            " nothing here; registers, shared memory and time do"
        )
    each, moved = memsets(recording.analysis)
    if each:
        what = f" of {size(moved)}" if moved else ""
        told.append(
            f"{each:.3g} memset{what} a step runs on the GPU, which the A100's trace does not have: the product's kernel has a workspace"
            " cleared for it"
        )
    return tuple(told)


def _launch_api(name: str) -> str:
    if name.startswith("cu") and not name.startswith("cuda"):
        extended = ", with launch attributes (clusters of blocks among them)" if name.endswith("Ex") else ""
        return f"the library calls the driver itself{extended}, not the run-time"
    if name.startswith("cuda"):
        return "the run-time's launch with attributes" if "Ex" in name else "another call of the run-time"
    return "another run-time's launch" if name.startswith("hip") else "another way to launch"


def _other_add(add: KernelStats) -> tuple[str, ...]:
    one = add.resources[0] if add.resources else None
    if one is None or one.registers is None or one.registers == theirs.ADD_REGISTERS:
        return ()
    return (
        f"add's kernel takes {one.registers:.4g} registers a thread instead of {theirs.ADD_REGISTERS}: compiled anew, for another"
        " architecture or by another version",
    )


def spread(recordings: Recordings) -> Answer:
    """Why the mean is 1084 us where 580 us is typical."""
    if not recordings.has_gpu:
        return _spread_on_cpu(recordings)
    recording = recordings.pick(EAGER, recordings.sizes[1], "active20", "warm", "main", "cold")
    group = _product_group(recording) if recording else None
    if recording is None or group is None:
        return lacks(
            "an eager profile of the large size in which the product ran three times (best twenty: pass active20)"
        )
    misled = fires(recording, "variance")
    mean, of = (
        (group.first_mean_us, f"of the first {min(FIRST_MEAN, group.n)}")
        if group.first_mean_us > group.mean_us
        else (group.mean_us, f"of all {group.n}")
    )
    counts = Counter(bool(time > 1.1 * group.median_us) for time in group.times_us.tolist())
    says = (
        f"The mean {of} calls is {whole(mean)} against a typical {whole(group.median_us)} (median of {group.n}): {counts[True]} slow"
        f" {'call makes' if counts[True] == 1 else 'calls make'} the difference, at equal shapes and launch configuration."
        if misled
        else f"Here mean and median of the product's {group.n} calls agree: {whole(mean)} and {whole(group.median_us)}."
    )
    if group.n < FEW_CALLS:
        says += f" {group.n} calls cannot tell what is typical: twenty steps (pass active20) can."
    rates = _rates(recording, group, mean)
    return Answer(
        says,
        (
            Beside("mean of the first calls", whole(theirs.MEAN_US), whole(group.first_mean_us)),
            Beside("typical (median)", whole(theirs.TYPICAL_US), whole(group.median_us)),
            Beside("shortest and longest", "not published", f"{whole(group.least_us)}, {whole(group.most_us)}"),
            *rates,
        ),
        prove(recording, "variance", "R14", "rate"),
        (*(() if misled else (_even(recording),)), *recordings.machine.conditions),
    )


def _even(recording: Recording) -> str:
    if recording.kind in ("active20", "warm"):
        return "no slow first calls here: whatever made the A100's slow was over before the recording began"
    before = "one call" if recording.kind == "main" else "no call"
    return f"{len(recording.analysis.steps)} steps after {before}: too short a recording for what the walkthrough saw in longer ones"


def _product_group(recording: Recording) -> Group | None:
    mm = product(recording.analysis)
    found = [group for group in recording.analysis.alike if mm is not None and group.name == mm.name]
    return max(found, key=lambda group: group.n, default=None)


def _rates(recording: Recording, group: Group, mean: float) -> tuple[Beside, ...]:
    found = next((one for one in recording.analysis.products if one.kernel == group.name), None)
    if found is None:
        return ()
    peak = peak_flops(peaks_of(recording.analysis, group.device), found.dtype, found.kernel)
    rate = found.tflops(group.median_us)
    of = f" ({share(rate * 1e12 / peak.value)} of the peak)" if isinstance(peak, Figure) else ""
    return (
        Beside(
            "rate, at the typical time",
            f"{tflops(theirs.TYPICAL_TFLOPS)} ({share(theirs.PEAK_SHARE)} of the peak)",
            f"{tflops(rate)}{of}",
        ),
        Beside("rate, at that mean", tflops(theirs.MEAN_TFLOPS), tflops(found.tflops(mean))),
    )


def _spread_on_cpu(recordings: Recordings) -> Answer:
    recording = recordings.pick(EAGER, recordings.sizes[1]) or recordings.pick(EAGER, recordings.sizes[0])
    if recording is None or len(recording.analysis.steps) < 2:
        return lacks("an eager profile with several steps")
    times = np.array([step.host_us for step in recording.analysis.steps])
    mean, median = float(times.mean()), float(np.median(times))
    longest = (
        "the first: a cold start can be" if times.argmax() == 0 else "not the first, so that no cold start explains it"
    )
    return Answer(
        f"On the CPU the steps tell: mean {whole(mean)}, median {whole(median)}, longest {whole(float(times.max()))} of"
        f" {times.size} steps at"
        f" {recording.shape}. The report's distributions, from hundreds of calls without the profiler, are the answer to trust.",
        (
            Beside("mean", f"{whole(theirs.MEAN_US)}, a GPU's kernel", f"{whole(mean)}, whole steps"),
            Beside("typical (median)", f"{whole(theirs.TYPICAL_US)}, a GPU's kernel", f"{whole(median)}, whole steps"),
        ),
        prove(recording, "R6"),
        (f"clocks and power of a GPU cannot be the cause here; the longest step is {longest}",),
    )


def batched(recordings: Recordings) -> Answer:
    """Does a batch of eight use bmm."""
    recording = recordings.batched()
    if recording is None:
        return lacks(
            "a case with a batch dimension, as matmul_add/b8-4096-bf16 (preset standard) or 8x4096_bf16_warm_eager.json"
        )
    outcome = recording.outcome("R19")
    yes = outcome.verdict is Verdict.FIRED
    mm = product(recording.analysis)
    calls = launches(recording.analysis, *PRODUCTS)
    runtime = f" Each launch is preceded by {between(sorted(calls.queries))}." if calls.queries else ""
    return Answer(
        (f"Yes, at {recording.shape}: {outcome.claim}" if yes else f"No, at {recording.shape}: {outcome.why}.")
        + runtime,
        (
            Beside("operator under aten::matmul", "aten::bmm", "aten::bmm" if yes else "not aten::bmm"),
            *(() if mm is None else (Beside("kernel", "not published", f"{mm.name}, {whole(mm.median_us)}"),)),
        ),
        prove(recording, "R19" if yes else "R18"),
        () if recording.batch == theirs.BATCH else (f"the batch is {recording.batch} here, not {theirs.BATCH}",),
    )


TRACE_QUESTIONS_OF_KERNELS = (
    Question("heavy", "Is mm or add the heavy one, and what does each launch?", "The trace", (), heavy),
    Question(
        "spread",
        "Why is the mean 1084 us where 580 us is typical?",
        "The trace",
        ("variance",),
        spread,
    ),
    Question("batch", "Does a batch of 8 use bmm?", "The trace", (), batched),
)
"""Items 89 to 97."""
