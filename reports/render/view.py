"""What the templates are given: sentences and tables made from results. No HTML here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reports.render import numbers
from reports.results import ArmResult, CaseResult, Results
from reports.state import Regime
from suite.bundle import schema
from suite.bundle.manifest import Check
from suite.bundle.reader import Loaded
from suite.statistics.tails import Percentile

PROFILE_ROWS = 10
PLAIN_NAMES = {"eager": "eager", "inductor": "torch.compile", "inductor-freezing": "torch.compile with frozen weights"}
"""How a sentence calls an arm."""


def arm_in_words(arm: schema.Arm) -> str:
    """An arm as a sentence names it."""
    return PLAIN_NAMES.get(arm.name, f"the arm {arm.label}")


def fact(bundle: Loaded, subject: str, name: str) -> Any:
    """A fact's value, or None when the machine does not show it."""
    found = bundle.fingerprint.facts.get(subject, {}).get(name) if bundle.fingerprint else None
    return found.value if found else None


def machine_line(bundle: Loaded) -> str:
    """The machine in one line: processor, cores in use, memory, torch."""
    threads = next((e.threads.get("torch_intra_op") for e in bundle.events if isinstance(e, schema.Effective)), None)
    memory = fact(bundle, "memory", "total_bytes")
    parts = [
        str(fact(bundle, "cpu", "model") or "processor unknown"),
        f"{threads} thread{'s' if threads != 1 else ''}" if threads else "",
        f"{numbers.size(memory)} memory" if memory else "",
        f"PyTorch {fact(bundle, 'torch', 'version') or 'unknown'}",
    ]
    return ", ".join(part for part in parts if part)


def verdict_sentence(found: Results) -> str:
    """The report in a sentence: the headline comparison, in words that its interval allows."""
    if found.headline is None:
        return "Nothing was compared in this run."
    case, arm = found.headline.case, found.headline.arm
    what = case.case.title
    who = arm_in_words(arm.arm)
    if arm.ratio is None:
        return f"{what}: there is no ratio of {who} to eager ({arm.reason})."
    if arm.verdict is None or arm.verdict.word is None:
        rate = numbers.ratio(arm.ratio)
        return f"{what}: {who} ran at {rate} the speed of eager, without an interval and so without a verdict ({arm.ratio.reason})."
    rate, floor = numbers.ratio(arm.ratio), numbers.percent(case.noise_floor)
    return {
        "faster": f"{what}: {who} is {rate} as fast as eager on this machine.",
        "slower": f"{what}: {who} is slower than eager on this machine, at {rate} its speed.",
        "equivalent": f"{what}: {who} and eager are equally fast on this machine, within {floor}.",
        "inconclusive": f"{what}: this run cannot tell {who} from eager; {arm.verdict.reason}.",
    }[arm.verdict.word]


def tally(found: Results) -> str:
    """All comparisons counted by verdict, in words."""
    words = ("faster", "slower", "equivalent", "inconclusive")
    parts = [f"{count} {word}" for word in words if (count := found.count(word))]
    if without := found.count(None):
        parts.append(f"{without} without a verdict")
    total = len(found.comparisons)
    return f"{total} comparison{'s' if total != 1 else ''}: {', '.join(parts)}" if parts else "no comparison"


@dataclass(frozen=True)
class ResultRow:
    """One row of the results table, as text; `word` chooses the verdict's colour."""

    case: str
    arm: str
    time: str = numbers.NO_NUMBER
    ratio: str = numbers.NO_NUMBER
    interval: str = numbers.NO_NUMBER
    word: str = ""
    cold: str = numbers.NO_NUMBER
    warm: str = numbers.NO_NUMBER
    accuracy: str = numbers.NO_NUMBER
    note: str = ""
    first: bool = False


def result_rows(found: Results) -> list[ResultRow]:
    """The results table: baseline, then candidates, then what does not apply, for every case."""
    rows: list[ResultRow] = []
    for case in found.cases:
        for number, arm in enumerate((case.baseline, *case.candidates)):
            rows.append(_result_row(case, arm, first=number == 0))
        for name, reason in case.case.not_applicable.items():
            rows.append(ResultRow(case.case.name, name, note=f"does not apply: {reason}"))
    return rows


def _result_row(case: CaseResult, arm: ArmResult, *, first: bool) -> ResultRow:
    is_baseline = arm.arm.role == "baseline"
    compilation = arm.compilation
    word = (arm.verdict.word or "no verdict") if arm.verdict else ""
    note = f"not run: {arm.reason}" if arm.reason else ""
    if arm.verdict and arm.verdict.word is None:
        note = f"no interval and no verdict from {arm.verdict.reason}"
    elif arm.verdict and arm.verdict.advice:
        note = arm.verdict.advice
    return ResultRow(
        case=case.case.name,
        arm=arm.arm.label,
        time=numbers.time(arm.typical_ns),
        ratio="baseline" if is_baseline else numbers.ratio(arm.ratio),
        interval=f"noise floor {numbers.percent(case.noise_floor)}" if is_baseline else numbers.interval(arm.ratio),
        word=word,
        cold=numbers.time(compilation.cold_ns),
        warm=numbers.time(compilation.warm_ns)
        + (" *" if compilation.bypassed and compilation.warm_ns is not None else ""),
        accuracy=_accuracy(arm) if not is_baseline else numbers.NO_NUMBER,
        note=note,
        first=first,
    )


def _accuracy(arm: ArmResult) -> str:
    if arm.accuracy is None:
        return "not checked"
    return "passed" if arm.accuracy.passed else "FAILED"


@dataclass(frozen=True)
class ProfileTable:
    """An arm's profiler table: rows of (name, calls a step, self time a step, share of self time)."""

    arm: str
    steps: int
    total: str
    rows: list[tuple[str, str, str, str]]
    left_out: int
    text: str


def profile_table(profile: schema.Profile) -> ProfileTable:
    """The last cycle's table, by self time: only self times add up, totals are nested."""
    cycle = profile.cycles[-1]
    steps = cycle.active_steps
    total = sum(row.self_cpu_ns for row in cycle.rows) or 1
    shown = cycle.rows[:PROFILE_ROWS]
    return ProfileTable(
        arm=profile.arm,
        steps=steps,
        total=numbers.time(total / steps),
        rows=[
            (
                row.name,
                numbers.count(row.calls / steps),
                numbers.time(row.self_cpu_ns / steps),
                numbers.percent(row.self_cpu_ns / total),
            )
            for row in shown
        ],
        left_out=len(cycle.rows) - len(shown),
        text=f"cases/{profile.case}/{profile.arm}/profile.txt",
    )


def parity(bundle: Loaded) -> list[tuple[str, str]]:
    """What every arm of a case shares, so that only the arm differs: the parity ledger."""
    effective = next((e for e in bundle.events if isinstance(e, schema.Effective)), None)
    rows = [
        ("inputs", f"the same tensors, drawn once a process from seed {bundle.run.seed}"),
        ("process", "the same process: one allocator, one OpenMP run-time, one set of threads"),
        ("order", "mirrored and rotated blocks (ABBA), so that drift and position cancel"),
    ]
    if effective:
        names = {
            "float32_matmul_precision": "float32 matmul precision",
            "grad_enabled": "gradients recorded",
            "version": "PyTorch",
        }
        rows += [(names.get(name, name.replace("_", " ")), value) for name, value in sorted(effective.torch.items())]
        rows.append(
            (
                "threads",
                ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(effective.threads.items())),
            )
        )
        rows.append(
            (
                "timer",
                f"resolution {numbers.time(effective.timer_resolution_ns)}, one reading costs {numbers.time(effective.timer_overhead_ns)}",
            )
        )
    return rows


@dataclass(frozen=True)
class ProcessRow:
    """One worker as the machine treated it: how it ended, how long it took, what was stolen from it."""

    case: str
    process: str
    outcome: str
    duration: str
    steal: str
    busy: str
    memory: str
    well: bool


def process_rows(bundle: Loaded) -> list[ProcessRow]:
    """Every worker in the order in which it ended, with the telemetry between its start and its end."""
    rows = []
    for end in bundle.events:
        if not isinstance(end, schema.ProcessEnded):
            continue
        readings = [t for t in bundle.telemetry if (t.case, t.role, t.process) == (end.case, end.role, end.process)]
        steal, busy = _shares(readings)
        outcome = "ok" if end.outcome == "ok" else f"{end.outcome.replace('_', ' ')}: {end.message}"
        if end.incarnation:
            outcome += f" (start {end.incarnation + 1})"
        rows.append(
            ProcessRow(
                case=end.case,
                process="profile" if end.role == "profile" else str(end.process),
                outcome=outcome,
                duration=numbers.time(end.duration_ns, 2),
                steal=numbers.percent(steal),
                busy=numbers.percent(busy),
                memory=numbers.size(end.peak_rss_bytes),
                well=end.outcome == "ok",
            )
        )
    return rows


def _shares(readings: Sequence[schema.Telemetry]) -> tuple[float | None, float | None]:
    """Shares of all CPU time between the first and the last reading: stolen by the hypervisor, and busy."""
    if len(readings) < 2:
        return None, None
    first, last = readings[0], readings[-1]
    if None in (
        first.steal_ticks,
        first.busy_ticks,
        first.idle_ticks,
        last.steal_ticks,
        last.busy_ticks,
        last.idle_ticks,
    ):
        return None, None
    steal = last.steal_ticks - first.steal_ticks  # type: ignore[operator]
    busy = last.busy_ticks - first.busy_ticks  # type: ignore[operator]
    idle = last.idle_ticks - first.idle_ticks  # type: ignore[operator]
    whole = steal + busy + idle
    return (steal / whole, busy / whole) if whole > 0 else (None, None)


def fact_text(name: str, found: schema.Fact) -> str:
    """A fact's value as text; sizes in binary units, lists joined, what is missing by its status."""
    if found.value is None:
        return f"({found.status}{': ' + found.note if found.note else ''})"
    if name.endswith("_bytes") and isinstance(found.value, int | float):
        return numbers.size(found.value)
    return _flat(found.value)


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_flat(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def integrity(check: Check) -> tuple[bool, str]:
    """Whether the bundle's files are what was measured, and a sentence about it."""
    if not check.matching and not check.changed:
        return False, "The bundle has no checksums: the run did not come to its end."
    problems = [
        f"{len(names)} {what} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})"
        for names, what in ((check.changed, "changed"), (check.missing, "missing"), (check.unlisted, "not listed"))
        if names
    ]
    if problems:
        return False, f"The bundle's files are not as they were measured: {'; '.join(problems)}."
    return True, f"All {len(check.matching)} files of the bundle match their checksums (SHA256SUMS)."


def stretches(bundle: Loaded) -> str:
    """When the run took place."""
    spans = [
        f"{span.started_at[:16].replace('T', ' ')} to {(span.ended_at or 'interrupted')[:16].replace('T', ' ')}"
        for span in bundle.run.stretches
    ]
    return "; continued ".join(spans) + " UTC"


def steadiness(case: CaseResult) -> list[str]:
    """Sentences about arms whose times went on changing, by their warm-up class."""
    told = {
        "no steady state": "reached no steady state: its times were still changing when measuring ended",
        "slowdown": "slowed down while it ran",
        "inconsistent": "behaves differently from process to process",
    }
    sentences = []
    for arm in case.arms:
        if arm.steadiness in told:
            classes = ", ".join(f"process {process}: {series.name}" for process, series in arm.steady.items())
            sentences.append(f"{arm.arm.label} {told[arm.steadiness]} ({classes})")
    return sentences


def stopping(case: CaseResult) -> str:
    """Why the case got no further process, in a sentence."""
    stopped = case.stopped
    if stopped is None:
        return ""
    width = f"; its widest half width is {numbers.percent(stopped.half_width)}" if stopped.half_width else ""
    return f"Stopped after {stopped.processes} processes: {stopped.reason}{width}."


def detail_rows(case: CaseResult) -> list[tuple[str, ...]]:
    """What stands behind each candidate's verdict: adjusted p, detectable ratio, break-even, machine dependence."""
    rows: list[tuple[str, ...]] = []
    for arm in case.candidates:
        if arm.ratio is None:
            continue
        rows.append(
            (
                arm.arm.label,
                f"{arm.adjusted_p:.2g}" if arm.adjusted_p is not None else numbers.NO_NUMBER,
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
    text = f"{numbers.significant(found.calls)} calls"
    if found.low is not None:
        text += f" ({numbers.significant(found.low)} to {numbers.significant(found.high) if found.high is not None else 'never'})"
    return text


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


def regime_sentences(found: Iterable[Regime]) -> list[str]:
    """When and how the machine changed under the run, one sentence a stretch."""
    return [_regime_sentence(regime) for regime in found]


def _regime_sentence(regime: Regime) -> str:
    where = f"from process {regime.first_process} of {regime.first_case} on"
    level, usual = _rate(regime.level, regime.reference), _rate(regime.usual, regime.reference)
    side = "below" if regime.change < 0 else "above"
    blocks = f"{regime.blocks} measured block{'s lie' if regime.blocks != 1 else ' lies'} in this stretch"
    return (
        f"From {_clock(regime.start_ns)} to {_clock(regime.end_ns)} UTC, {where}, the {regime.reference} was {level}, "
        f"{abs(regime.change):.0%} {side} the usual {usual}; {blocks}, flagged and kept."
    )


def _clock(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds / 1e9, UTC):%H:%M:%S}"


def _rate(value: float, reference: str) -> str:
    unit = "GB/s" if reference == "memory bandwidth" else "GFLOP/s"
    return f"{numbers.significant(value / 1e9)} {unit}"


def aggregate_sentence(found: Results) -> str:
    """The geometric means over the cases that every arm completed."""
    if isinstance(found.aggregate, str):
        return f"No geometric mean: {found.aggregate}."
    means = ", ".join(
        f"{label} {numbers.significant(mean, 3)}{numbers.TIMES}" for label, mean in found.aggregate.ratios.items()
    )
    return f"Geometric mean over {len(found.aggregate.cases)} of {found.aggregate.total} cases, those that every arm completed: {means}."


def unique_notes(notes: Iterable[str]) -> list[str]:
    """Notes without repetition, in order."""
    return list(dict.fromkeys(notes))
