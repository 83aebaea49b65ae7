"""What changed from an eager to a compiled recording: times a step, kernels, operators, copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from reports.findings.copies import device_to_device
from reports.findings.cpu_code import ELEMENTWISE, PACKED
from reports.findings.seen import FRAMES, FUSED_CPP, compiled_rows, exactly, is_compiled, rows_named, under
from reports.trace.analyse import Analysis
from reports.trace.categories import Kind
from reports.trace.classes import KernelClass
from reports.trace.regime import ARITHMETIC
from reports.trace.steps import STEP

FUSED_GPU = re.compile(r"triton_\w*fused|^triton_")


@dataclass(frozen=True)
class Change:
    """One operator or kernel (by its full name) in both recordings: calls and time (us; self time for operators) per step."""

    name: str
    what: str
    eager_calls: float
    compiled_calls: float
    eager_us: float
    compiled_us: float


@dataclass(frozen=True)
class Copy:
    """A copy on the GPU of which the compiled recording has more: calls per step beyond eager's, bytes of one (None where the trace does
    not say), us of one (median), and bytes read plus written per second, in TB/s (device to device only)."""

    name: str
    per_step: float
    bytes: float | None
    us: float
    read_plus_write_tb_s: float | None


SHARED = 0.5
"""Share of the smaller side's operators: recordings that share no annotation and no matrix product are of one case from here on."""


_SUMS = frozenset({"aten::add", "aten::add_"})
_LINEARS = frozenset({"aten::linear", "aten::addmm", "aten::mm"})
REPLACES = {
    "aten::addmm": frozenset({"aten::mm", "aten::linear"}) | _SUMS,
    "aten::baddbmm": frozenset({"aten::bmm"}) | _SUMS,
    **dict.fromkeys(PACKED, _LINEARS),
}
"""What compiled code calls an operator in place of: the time of these has to be taken off, before it is said to take more."""


@dataclass(frozen=True)
class Growth:
    """An operator that takes more in the compiled recording: us a step by itself, and us that those it may stand for take less."""

    name: str
    more_us: float
    less_us: float
    instead_of: tuple[str, ...]

    @property
    def net_us(self) -> float:
        """What is left of the growth."""
        return self.more_us - self.less_us


def growths(operators: tuple[Change, ...]) -> list[Growth]:
    """Operators that take more time by themselves, less what they stand for, the largest net growth first."""
    shrunk = {
        change.name: change.eager_us - change.compiled_us
        for change in operators
        if change.compiled_calls < change.eager_calls and change.compiled_us < change.eager_us
    }
    found = []
    for change in operators:
        more = change.compiled_us - change.eager_us
        if more > 0:
            replaced = ELEMENTWISE if change.what == "fused" else REPLACES.get(change.name, frozenset())
            gone = tuple(name for name in shrunk if name in replaced)
            found.append(Growth(change.name, more, sum(shrunk[name] for name in gone), gone))
    return sorted(found, key=lambda growth: -growth.net_us)


def warm_steps(analysis: Analysis) -> list[float]:
    """Host time of each step in us, without a cold first one."""
    steps = analysis.steps[1:] if analysis.cold_first_step else analysis.steps
    return [step.host_us for step in steps]


def left_out(eager: Analysis, compiled: Analysis) -> str:
    """Of which recordings `warm_steps` leaves out a cold first step, as it follows on "medians"; empty where of none."""
    cold = [name for name, one in (("eager", eager), ("compiled", compiled)) if one.cold_first_step]
    return f", without the cold first step of the {' and the '.join(cold)} one" if cold else ""


def why_apart(eager: Analysis, compiled: Analysis) -> str:
    """Why two recordings are not an eager and a compiled one of the same case; empty where nothing speaks against it."""
    before, after = _models(eager), _models(compiled)
    if before and after and before != after:
        return f"they were recorded on different devices ({', '.join(before)} against {', '.join(after)})"
    ours, theirs = compiled.workload, eager.workload
    if ours is not None and theirs is not None and (ours.name, ours.dtype) != (theirs.name, theirs.dtype):
        return f"they are of different cases ({theirs.name}, {theirs.dtype} against {ours.name}, {ours.dtype})"
    if not holds_compiled_code(compiled):
        swapped = "; the one to compare with does: are the two swapped?" if holds_compiled_code(eager) else ""
        return f"the first trace holds no compiled code{swapped}"
    annotations = _named(eager, "annotation"), _named(compiled, "annotation")
    products = tuple({k.name for k in one.kernels if k.kernel_class in ARITHMETIC} for one in (eager, compiled))
    operators = _named(eager, "operator"), _named(compiled, "operator")
    if annotations[0] & annotations[1] or products[0] & products[1] or not all(operators):
        return ""
    # Generated code may leave no operator as it was: the annotations of the case speak first.
    if all(annotations) and len(operators[0] & operators[1]) < SHARED * min(map(len, operators)):
        return "they share no annotation, no matrix product and hardly an operator: they are not of one case"
    return ""


def holds_compiled_code(analysis: Analysis) -> bool:
    """Whether a trace shows compiled code: its slices, or kernels that Inductor named."""
    return (
        is_compiled(analysis)
        or any(FUSED_GPU.search(stats.name) for stats in analysis.kernels)
        or any(FUSED_CPP.fullmatch(stats.name) for stats in analysis.operators)
    )


def _models(analysis: Analysis) -> list[str]:
    return sorted({device.model for device in analysis.devices if device.model})


def _named(analysis: Analysis, kind: str) -> set[str]:
    return {
        stats.name
        for stats in analysis.operators
        if stats.kind == kind and not STEP.fullmatch(stats.name) and not FRAMES.fullmatch(stats.name)
    }


def units(analysis: Analysis) -> int:
    """Steps of a recording; 1 where it has none: what counts are taken of."""
    return max(len(analysis.steps), 1)


def cpu_us(analysis: Analysis) -> float | None:
    """Host time of a step (median, without a cold first one), in us; None without steps."""
    steps = warm_steps(analysis)
    return float(np.median(steps)) if steps else None


def gpu_us(analysis: Analysis) -> float | None:
    """GPU time of a step (median), in us; None without GPU work."""
    if not analysis.devices:
        return None
    launched = [step.gpu_busy_us for step in analysis.steps if step.gpu_busy_us > 0]
    if launched:
        return float(np.median(launched))
    return sum(device.busy_us for device in analysis.devices) / units(analysis)


def why_no_gpu(eager: float | None, compiled: float | None) -> str:
    """Why the GPU's times cannot be compared."""
    if not eager and not compiled:
        return "neither recording holds GPU work"
    return f"the {'compiled' if eager else 'eager'} recording holds no GPU work"


def _changes(
    eager: Mapping[str, tuple[float, float]],
    compiled: Mapping[str, tuple[float, float]],
    what: Callable[[str], str],
) -> tuple[Change, ...]:
    nothing = (0.0, 0.0)
    found = [
        Change(
            name,
            what(name),
            eager.get(name, nothing)[0],
            compiled.get(name, nothing)[0],
            eager.get(name, nothing)[1],
            compiled.get(name, nothing)[1],
        )
        for name in {**eager, **compiled}
    ]
    return tuple(sorted(found, key=lambda change: (-max(change.eager_us, change.compiled_us), change.name)))


def kernel_changes(eager: Analysis, compiled: Analysis) -> tuple[Change, ...]:
    """Every kernel of either recording, by its full name."""
    classes: dict[str, KernelClass] = {}
    sides = []
    for analysis in (eager, compiled):
        side: dict[str, tuple[float, float]] = {}
        for stats in analysis.kernels:
            classes[stats.name] = stats.kernel_class
            calls, spent = side.get(stats.name, (0.0, 0.0))
            steps = units(analysis)
            side[stats.name] = calls + stats.count / steps, spent + stats.total_us / steps
        sides.append(side)
    return _changes(sides[0], sides[1], classes.__getitem__)


def operator_changes(eager: Analysis, compiled: Analysis) -> tuple[Change, ...]:
    """Every operator of either recording."""
    sides = [
        {
            stats.name: (stats.count / units(analysis), stats.self_us / units(analysis))
            for stats in analysis.operators
            if stats.kind == "operator" and not STEP.fullmatch(stats.name) and not FRAMES.fullmatch(stats.name)
        }
        for analysis in (eager, compiled)
    ]
    return _changes(sides[0], sides[1], lambda name: "fused" if FUSED_CPP.fullmatch(name) else "operator")


def has_addmm(eager: Analysis, compiled: Analysis) -> bool:
    """Whether compiled code has an addmm where eager code had a product and a sum."""
    trace = compiled.trace
    rows = rows_named(trace, exactly("aten::addmm", "aten::baddbmm"), Kind.OP)
    inside = int((under(trace, rows, compiled_rows(trace)) >= 0).sum()) / units(compiled)

    def count(analysis: Analysis, *names: str) -> float:
        return sum(found.count for name in names if (found := analysis.operator(name)) is not None) / units(analysis)

    products, sums = ("aten::mm", "aten::bmm"), ("aten::add", "aten::add_")
    return (
        inside > count(eager, "aten::addmm", "aten::baddbmm")
        and count(compiled, *products) < count(eager, *products)
        and count(compiled, *sums) < count(eager, *sums)
    )


def copies_added(eager: Analysis, compiled: Analysis) -> tuple[Copy, ...]:
    """Copies of which the compiled recording has more."""
    before: dict[str, float] = {}
    for stats in eager.kernels:
        if stats.kind == "memcpy":
            before[stats.name] = before.get(stats.name, 0.0) + stats.count / units(eager)
    found = []
    for stats in compiled.kernels:
        more = stats.count / units(compiled) - before.get(stats.name, 0.0)
        if stats.kind != "memcpy" or more <= 0:
            continue
        size = stats.bytes / stats.count if stats.bytes is not None else None
        rate = (
            2 * size / (stats.median_us * 1e6)
            if size is not None and stats.median_us and device_to_device(stats.name)
            else None
        )
        found.append(Copy(stats.name, more, size, stats.median_us, rate))
    return tuple(found)
