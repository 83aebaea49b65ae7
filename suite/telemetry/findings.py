"""What telemetry says against a run: one finding a rule, with the processes that it is worst in, times and numbers. Pure.

Rules: telemetry.clock-drop, telemetry.steal, telemetry.throttled, telemetry.thermal, telemetry.pressure, telemetry.swap,
telemetry.busy-neighbours, telemetry.migrations, telemetry.cost. Processes are judged by the stretch in which they measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

from suite.bundle.readings import NEIGHBOUR_SHARE, STEAL_SHARE, Span, cost_share, spans, unreadable
from suite.bundle.schema import Ablation, AnyEvent, Finding, ProcessStarted, Severity, Telemetry

CLOCK_SHARE = 0.90
"""Of the median clock; less is a drop."""

LONG_DROP = 3
"""As many readings in a row under `CLOCK_SHARE` of the median are a drop within a process."""

SAME_CASE = 3
"""Processes of a case whose clocks make a median of their own: wide vector instructions lower the clock, and cases differ in them."""

LEAST_STOLEN_S = 0.05
"""Five ticks: stolen time is counted in ticks, and one or two of them prove little."""

THROTTLED_SHARE = 0.01
PRESSURE_SHARES = {"memory": 0.01, "io": 0.05}
NAMES = {"memory": "memory", "io": "I/O"}
SWAP_BYTES = 1 << 20
MIGRATIONS_PER_S = 20.0
"""At some tens of microseconds of cold caches each, about a thousandth of a core."""

COST_SHARE = 0.005
SHOWN = 3


def findings(
    telemetry: Sequence[Telemetry], events: Sequence[AnyEvent], ablation: Ablation | None = None
) -> list[Finding]:
    """Everything that the readings of a run tell against it, most serious first; empty when there is nothing, or nothing readable.

    An `ablation`'s levels run on different CPUs by design: clocks are compared within a level.
    """
    every = spans(telemetry, events)
    measured = [span for span in every if span.role == "measure"]
    found = [
        clock_drop(measured, ablation.order if ablation else None),
        steal(measured),
        throttled(measured),
        thermal(measured),
        swap(measured),
        pressure(measured),
        busy_neighbours(measured, [span for span in every if span.role == "profile"]),
        migrations(measured, events),
        cost(telemetry),
    ]
    return sorted((one for one in found if one is not None), key=lambda one: one.severity == "note")


def _title(span: Span) -> str:
    again = f" (start {span.incarnation + 1})" if span.incarnation else ""
    return f"{span.case} process {span.process}{again}"


def _when(span: Span) -> str:
    return f"{span.start[11:19]} to {span.end[11:19]} UTC"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _of(count: int, total: int) -> str:
    return f"{count} of {total} measuring process{'es' if total != 1 else ''}"


def _evidence(worst: Sequence[Span], sentence: Callable[[Span], str], rule: str) -> list[str]:
    """The worst processes, one sentence each, how many there are besides, and the threshold."""
    shown = [f"{_title(span)}, {_when(span)}: {sentence(span)}" for span in worst[:SHOWN]]
    more = [f"and {len(worst) - SHOWN} more"] if len(worst) > SHOWN else []
    return [*shown, *more, f"threshold: {rule}"]


def _finding(rule: str, severity: Severity, claim: str, evidence: list[str], advice: str) -> Finding:
    return Finding(rule=f"telemetry.{rule}", severity=severity, claim=claim, evidence=evidence, advice=advice)


def clock_drop(measured: Sequence[Span], levels: Sequence[int] | None = None) -> Finding | None:
    """A process's clock under 90 % of the median over processes, as a whole or for three readings in a row.

    `levels` gives each process of an ablation its level.
    """
    clocks = {span.key: span.clock_mhz for span in measured}
    known = [clock for clock in clocks.values() if clock is not None]
    if not known:
        return None
    run = statistics.median(known)
    worst: list[tuple[float, str, Span]] = []
    for span in measured:
        clock = span.clock_mhz
        if clock is None:
            continue
        own_case = [
            value for other in measured if _alike(other, span, levels) and (value := other.clock_mhz) is not None
        ]
        if levels is not None and len(own_case) < SAME_CASE:
            continue
        usual, whose = (statistics.median(own_case), "its case's") if len(own_case) >= SAME_CASE else (run, "the run's")
        if clock < CLOCK_SHARE * usual:
            sentence = f"{clock:.0f} MHz, {_percent(clock / usual)} of {whose} median of {usual:.0f} MHz"
            worst.append((clock / usual, sentence, span))
        elif stretch := _longest_drop(span, usual):
            low = statistics.median(clock for _, clock in stretch)
            sentence = (
                f"{low:.0f} MHz in {len(stretch)} readings from {stretch[0][0][11:19]} to {stretch[-1][0][11:19]} UTC"
            )
            worst.append(
                (low / usual, f"{sentence}, {_percent(low / usual)} of {whose} median of {usual:.0f} MHz", span)
            )
    if not worst:
        return None
    worst.sort(key=lambda drop: drop[0])
    sentences = {span.key: sentence for _, sentence, span in worst}
    return _finding(
        "clock-drop",
        "doubtful",
        f"The clock fell to {_percent(worst[0][0])} of its median in {_of(len(worst), len(known))}.",
        _evidence(
            [span for _, _, span in worst],
            lambda span: sentences[span.key],
            f"{_percent(CLOCK_SHARE)} of the median, by the measured CPUs that were at work",
        ),
        "Look at cooling, power limits, the governor and what else runs on the package; fix the clock if you may, and run again.",
    )


def _alike(one: Span, other: Span, levels: Sequence[int] | None) -> bool:
    """Whether two processes ran the same case with the same settings."""
    return one.case == other.case and (levels is None or levels[one.process] == levels[other.process])


def _longest_drop(span: Span, usual: float) -> list[tuple[str, float]]:
    """The longest run of low readings, if it is long enough."""
    longest: list[tuple[str, float]] = []
    current: list[tuple[str, float]] = []
    for reading in span.clocks:
        current = [*current, reading] if reading[1] < CLOCK_SHARE * usual else []
        longest = max(longest, current, key=len)
    return longest if len(longest) >= LONG_DROP else []


def _over(measured: Iterable[Span], value: Callable[[Span], float | None], least: float) -> list[Span]:
    """Spans whose value exceeds `least`, the largest first."""
    found = [(number, span) for span in measured if (number := value(span)) is not None and number > least]
    return [span for _, span in sorted(found, key=lambda pair: -pair[0])]


def steal(measured: Sequence[Span]) -> Finding | None:
    """More than 1 % of the CPU time that a process's CPUs asked for went to other guests."""
    worst = [
        span
        for span in _over(measured, lambda span: span.stolen, STEAL_SHARE)
        if (span.stolen_s or 0) >= LEAST_STOLEN_S
    ]
    if not worst:
        return None
    return _finding(
        "steal",
        "doubtful",
        f"The hypervisor took up to {_percent(worst[0].stolen or 0)} of the CPU time of {_of(len(worst), len(measured))}.",
        _evidence(
            worst,
            lambda span: f"{_percent(span.stolen or 0)} stolen, {span.stolen_s:.2f} s of CPU time",
            f"{_percent(STEAL_SHARE)} of the time in which the measured CPUs had work",
        ),
        "Take a machine of one's own (a dedicated or bare-metal instance), or repeat the run at another time of day.",
    )


def throttled(measured: Sequence[Span]) -> Finding | None:
    """The control group's CPU quota held the worker back."""
    worst = _over(measured, lambda span: span.throttled_s, 0.0)
    if not worst:
        return None
    largest = max((span.throttled or 0.0) for span in worst)
    return _finding(
        "throttled",
        "doubtful" if largest > THROTTLED_SHARE else "note",
        f"The CPU quota stopped {_of(len(worst), len(measured))}, for {worst[0].throttled_s:.3g} s in the worst.",
        _evidence(
            worst,
            lambda span: (
                f"stopped for {span.throttled_s:.3g} s"
                + (f", {_percent(span.throttled)} of the periods" if span.throttled else "")
            ),
            f"any; doubtful above {_percent(THROTTLED_SHARE)} of the quota's periods",
        ),
        "Raise or lift the quota (--cpus of the container, cpu.max), or use fewer threads than it has CPUs.",
    )


def thermal(measured: Sequence[Span]) -> Finding | None:
    """The processor slowed itself down because of heat."""
    worst = _over(measured, lambda span: (span.core_throttles or 0) + (span.package_throttles or 0), 0.0)
    if not worst:
        return None

    def sentence(span: Span) -> str:
        heat = f", at up to {span.temperature_c:.0f} °C" if span.temperature_c is not None else ""
        return (
            f"{span.core_throttles or 0} times in measured cores, {span.package_throttles or 0} in their packages{heat}"
        )

    return _finding(
        "thermal",
        "doubtful",
        f"The processor slowed down because of heat in {_of(len(worst), len(measured))}.",
        _evidence(worst, sentence, "any event in thermal_throttle"),
        "Mend the cooling, or lower the clock for all arms alike, and run again.",
    )


def swap(measured: Sequence[Span]) -> Finding | None:
    """Memory was swapped while measuring."""
    worst = _over(measured, lambda span: span.swap_bytes, SWAP_BYTES)
    if not worst:
        return None
    return _finding(
        "swap",
        "doubtful",
        f"The machine swapped up to {(worst[0].swap_bytes or 0) / 2**20:.3g} MiB while {_of(len(worst), len(measured))} measured.",
        _evidence(worst, lambda span: f"{(span.swap_bytes or 0) / 2**20:.3g} MiB in and out", "1 MiB in and out"),
        "Free memory, or measure smaller cases; swapped pages are read back inside timed calls.",
    )


def pressure(measured: Sequence[Span]) -> Finding | None:
    """Tasks waited for memory or for I/O."""

    def excess(span: Span) -> float | None:
        shares = span.pressure or {}
        return max((shares[name] / least for name, least in PRESSURE_SHARES.items() if name in shares), default=None)

    worst = _over(measured, excess, 1.0)
    if not worst:
        return None

    def sentence(span: Span) -> str:
        shares = span.pressure or {}
        over = [
            f"{name} {_percent(shares[name])}"
            for name, least in PRESSURE_SHARES.items()
            if shares.get(name, 0.0) > least
        ]
        return f"stalled on {' and '.join(over)} of the time"

    return _finding(
        "pressure",
        # What waits for I/O may be another program; a measured one that does is seen by its faults and switches.
        "doubtful"
        if any((span.pressure or {}).get("memory", 0.0) > PRESSURE_SHARES["memory"] for span in worst)
        else "note",
        f"Tasks waited for memory or for I/O while {_of(len(worst), len(measured))} measured.",
        _evidence(
            worst,
            sentence,
            f"{_percent(PRESSURE_SHARES['memory'])} of time for memory, {_percent(PRESSURE_SHARES['io'])} for I/O (some task, PSI)",
        ),
        "Free memory and stop what reads and writes; a page that has to be fetched again is time inside a timed call.",
    )


def busy_neighbours(measured: Sequence[Span], profiled: Sequence[Span] = ()) -> Finding | None:
    """Others than the worker ran on the measured CPUs; profiling processes, which give no timed call, are told apart."""
    worst = _over(measured, lambda span: span.neighbours, NEIGHBOUR_SHARE)
    if not worst:
        return None

    def sentence(span: Span) -> str:
        waited = (
            f"; the worker's threads waited {_percent(span.waiting)} of their time for a CPU"
            if span.waiting is not None
            else ""
        )
        return f"{_percent(span.neighbours or 0)}, {span.neighbours_s:.3g} s of CPU time, went to others{waited}"

    apart = _over(profiled, lambda span: span.neighbours, NEIGHBOUR_SHARE)
    profiles = (
        [f"profiling processes, which give no timed call, are not in this: up to {_percent(apart[0].neighbours or 0)}"]
        if apart
        else []
    )
    return _finding(
        "busy-neighbours",
        "doubtful",
        f"Other programs took up to {_percent(worst[0].neighbours or 0)} of the measured CPUs in {_of(len(worst), len(measured))}.",
        profiles
        + _evidence(
            worst, sentence, f"{_percent(NEIGHBOUR_SHARE)} of the measured CPUs' time, the worker's children left out"
        ),
        "Stop what else runs, or measure on cores that nothing else may use (--cores with a cpuset or isolated CPUs).",
    )


def migrations(measured: Sequence[Span], events: Sequence[AnyEvent]) -> Finding | None:
    """A worker that was pinned to a set of CPUs was moved about within it."""
    pinned = {
        (event.case, event.role, event.process, event.incarnation)
        for event in events
        if isinstance(event, ProcessStarted)
        and event.command
        and PurePath(event.command[0]).name in ("numactl", "taskset")
    }
    worst = _over(
        (span for span in measured if span.key in pinned), lambda span: span.migrations_per_s, MIGRATIONS_PER_S
    )
    if not worst:
        return None
    return _finding(
        "migrations",
        "note",
        f"Threads of {_of(len(worst), len(measured))} changed CPU up to {worst[0].migrations_per_s:.3g} times a second, though pinned.",
        _evidence(
            worst,
            lambda span: f"{span.migrations} migrations, {span.migrations_per_s:.3g} a second",
            f"{MIGRATIONS_PER_S:g} a second over all threads of a worker started under numactl or taskset",
        ),
        "Bind each thread to a CPU (KMP_AFFINITY or OMP_PROC_BIND with OMP_PLACES); numactl only names the set.",
    )


def cost(telemetry: Sequence[Telemetry]) -> Finding | None:
    """Telemetry took more of a core than it may, or had to be taken on a measured core."""
    share = cost_share(telemetry)
    reason = unreadable(telemetry).get("a core apart for telemetry")
    dear = share is not None and share > COST_SHARE
    if not dear and reason is None:
        return None
    taken = (
        f"it took {_percent(share)} of one core while processes ran"
        if share is not None
        else "its cost is not recorded"
    )
    return _finding(
        "cost",
        "doubtful" if dear else "note",
        "Readings of the machine's state were taken "
        + ("at too high a cost." if dear else "on measured cores, and less often for it."),
        [taken, *([reason.partition(": ")[2]] if reason else []), f"threshold: {_percent(COST_SHARE)} of one core"],
        "Leave a core out of --cores for what leads the run." if reason else "",
    )
