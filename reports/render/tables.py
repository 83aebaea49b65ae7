"""The report's tables, as rows of text. No HTML here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reports.render import numbers
from reports.results import ArmResult, CaseResult, Results
from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.statistics.tails import Percentile

PROFILE_ROWS = 10


@dataclass(frozen=True)
class ResultRow:
    """One row of the results table, as text; `word` chooses the verdict's colour."""

    case: str
    arm: str
    time: str = numbers.NO_NUMBER
    ratio: str = numbers.NO_NUMBER
    interval: str = numbers.NO_NUMBER
    p: str = numbers.NO_NUMBER
    word: str = ""
    cold: str = numbers.NO_NUMBER
    warm: str = numbers.NO_NUMBER
    first_call: str = numbers.NO_NUMBER
    bypassed: bool = False
    accuracy: str = numbers.NO_NUMBER
    note: str = ""
    first: bool = False
    host: str = ""
    cache: str = ""
    applies: bool = True


def result_rows(found: Results) -> list[ResultRow]:
    """The results table: baseline, then candidates, then what does not apply, for every case."""
    rows: list[ResultRow] = []
    for case in found.cases:
        for number, arm in enumerate((case.baseline, *case.candidates)):
            rows.append(_result_row(case, arm, first=number == 0))
        for name, reason in case.case.not_applicable.items():
            rows.append(ResultRow(case.case.name, name, note=f"does not apply: {reason}", applies=False))
    return rows


def _result_row(case: CaseResult, arm: ArmResult, *, first: bool) -> ResultRow:
    is_baseline = arm.arm.role == "baseline"
    compilation = arm.compilation
    word = (arm.verdict.word or "no verdict") if arm.verdict else ""
    note = f"not run: {arm.reason}" if arm.reason else ""
    enqueued = [block.enqueue_ns for block in arm.blocks if block.enqueue_ns is not None]
    if arm.verdict and arm.verdict.word in (None, "inconclusive"):
        note = "; ".join(part for part in (arm.verdict.reason, arm.verdict.advice) if part)
    return ResultRow(
        case=case.case.name,
        arm=arm.arm.label,
        time=numbers.time(arm.typical_ns),
        ratio="baseline" if is_baseline else numbers.ratio(arm.ratio),
        interval=f"noise floor {numbers.percent(case.noise_floor.delta)}"
        + (" (assumed)" if case.noise_floor.assumed else "")
        if is_baseline
        else numbers.interval(arm.ratio),
        p=f"{arm.adjusted_p:.2g}" if arm.adjusted_p is not None else numbers.NO_NUMBER,
        word=word,
        cold=numbers.time(compilation.cold_ns),
        warm=numbers.time(compilation.warm_ns)
        + (" *" if compilation.bypassed and compilation.warm_ns is not None else ""),
        first_call=numbers.time(compilation.first_call_ns),
        bypassed=compilation.bypassed,
        accuracy=_accuracy(arm) if not is_baseline else numbers.NO_NUMBER,
        note=note,
        first=first,
        host=numbers.time(statistics.median(enqueued)) if enqueued else "",
        cache=f"{case.case.cache} cache" if case.case.cache else "",
    )


def _accuracy(arm: ArmResult) -> str:
    if arm.accuracy is None:
        return "not checked"
    return "passed" if arm.accuracy.passed else "FAILED"


@dataclass(frozen=True)
class ProfileTable:
    """An arm's profiler table: `columns` are the titles after the row's name and number of calls, `rows` their cells."""

    arm: str
    steps: int
    total: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    left_out: int
    text: str


def profile_table(profile: schema.Profile) -> ProfileTable:
    """The last cycle's table: by self time on a CPU, since only self times add up; by the device's total time where there is a device, as
    the profiler's own table is sorted."""
    cycle = profile.cycles[-1]
    steps = cycle.active_steps
    rows = _without_annotations_on_the_device(cycle.rows)
    total = sum(row.self_cpu_ns for row in rows) or 1
    on_device = sum(row.self_device_ns for row in rows if not row.cpu_ns)
    if on_device:
        shown = sorted(rows, key=lambda row: (-row.device_ns, -row.self_device_ns, -row.self_cpu_ns))[:PROFILE_ROWS]
        columns: tuple[str, ...] = ("self device", "device", "self CPU")
        cells = [tuple(_time(each / steps) for each in (r.self_device_ns, r.device_ns, r.self_cpu_ns)) for r in shown]
        told = f"{numbers.time(on_device / steps)} of the device and {numbers.time(total / steps)} of the host a step"
    else:
        shown = sorted(rows, key=lambda row: -row.self_cpu_ns)[:PROFILE_ROWS]
        columns = ("self", "share")
        cells = [(numbers.time(r.self_cpu_ns / steps), numbers.percent(r.self_cpu_ns / total)) for r in shown]
        told = f"{numbers.time(total / steps)} a step"
    return ProfileTable(
        arm=profile.arm,
        steps=steps,
        total=f"{told} under the profiler",
        columns=columns,
        rows=[(row.name, numbers.count(row.calls / steps), *cell) for row, cell in zip(shown, cells, strict=True)],
        left_out=len(rows) - len(shown),
        text=f"cases/{profile.case}/{profile.arm}/profile.txt",
    )


def _time(nanoseconds: float) -> str:
    return numbers.time(nanoseconds) if nanoseconds else numbers.NO_NUMBER


def _without_annotations_on_the_device(rows: Sequence[schema.ProfileRow]) -> list[schema.ProfileRow]:
    """The rows without those that only repeat an annotation on the device's lane: their time is the distance from a first to a last kernel,
    gaps included, and would be counted beside the kernels'."""
    on_host = {row.name for row in rows if row.cpu_ns}
    return [row for row in rows if row.cpu_ns or row.name not in on_host]


def parity(bundle: Loaded) -> list[tuple[str, str]]:
    """What every arm of a case shares, so that only the arm differs: the parity ledger."""
    effective = next((e for e in bundle.events if isinstance(e, schema.Effective)), None)
    rows = [
        ("inputs", f"the same tensors, drawn once a process from seed {bundle.run.seed}"),
        ("process", "the same process: one allocator, one OpenMP run-time, one set of threads"),
        ("order", "mirrored and rotated blocks (ABBA), so that a steady drift and the position cancel"),
    ]
    if bundle.run.ablation:
        rows[1] = (
            "process",
            "in each process both arms share one level of settings; levels live in processes of their own",
        )
    if effective:
        names = {
            "float32_matmul_precision": "float32 matmul precision",
            "grad_enabled": "gradients recorded",
            "version": "PyTorch",
        }
        rows += [(names.get(name, name.replace("_", " ")), value) for name, value in sorted(effective.torch.items())]
        if not bundle.run.ablation:
            counts = (f"{name.replace('_', ' ')} {count}" for name, count in sorted(effective.threads.items()))
            rows.append(("threads", ", ".join(counts)))
        resolution, overhead = numbers.time(effective.timer_resolution_ns), numbers.time(effective.timer_overhead_ns)
        rows.append(("timer", f"resolution {resolution}, timing one iteration costs {overhead}"))
    return rows


def detail_rows(case: CaseResult) -> list[tuple[str, ...]]:
    """What stands behind each candidate's verdict: detectable ratio, break-even, dependence on the machine's state."""
    rows: list[tuple[str, ...]] = []
    for arm in case.candidates:
        if arm.ratio is None:
            continue
        rows.append(
            (
                arm.arm.label,
                f"{numbers.significant(arm.detectable, 3)}{numbers.TIMES}" if arm.detectable else numbers.NO_NUMBER,
                _break_even(arm),
                _dependence(arm),
            )
        )
    return rows


def _break_even(arm: ArmResult) -> str:
    found = arm.break_even
    if found is None or isinstance(found, str):
        return found or numbers.NO_NUMBER
    low, high = numbers.significant(found.low), numbers.significant(found.high) if found.high is not None else ""
    if found.calls is not None:
        return f"{numbers.significant(found.calls)} calls ({low} to {high or 'never'})"
    if not high:
        return f"unknown, no verdict: not before {low} calls, perhaps never"
    return f"unknown, no verdict: after {low} to {high} calls if the interval holds"


def _dependence(arm: ArmResult) -> str:
    found = arm.dependence
    if found is None or isinstance(found, str):
        return found or numbers.NO_NUMBER
    if not found.depends:
        return f"not seen to follow the memory bandwidth (p = {found.p:.2g}, {found.pairs} pairs)"
    return f"follows the memory bandwidth: {found.slope:+.2f} % for +1 % (p = {found.p:.2g}, {found.pairs} pairs)"


def sample_rows(case: CaseResult) -> list[tuple[str, ...]]:
    """Percentiles with their limits, outliers and warm-up class of every arm."""
    rows: list[tuple[str, ...]] = []
    for arm in case.arms:
        if not arm.blocks:
            continue
        percentiles = [
            f"{numbers.time(p.value)} ({numbers.time(p.low)} to {numbers.time(p.high)})"
            if isinstance(p, Percentile)
            else numbers.NO_NUMBER
            for p in arm.percentiles
        ]
        labelled = f"{arm.outliers.total} of {arm.outliers.samples:,}, {arm.outliers.low_severe + arm.outliers.high_severe} severe"
        rows.append((arm.arm.label, *percentiles, labelled, arm.steadiness))
    return rows


def bandwidths(bundle: Loaded, case: CaseResult) -> dict[int, str]:
    """The machine's state beside a case's ratios: the median memory bandwidth in each process, in GB/s."""
    readings: dict[int, list[float]] = {}
    for state in bundle.states:
        if state.case == case.case.name:
            readings.setdefault(state.process, []).append(state.triad_bytes / state.triad_ns)
    return {process: numbers.significant(statistics.median(values)) for process, values in readings.items()}
