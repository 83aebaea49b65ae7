"""What a trace's pages say in their own words: sentences from an analysis. No HTML here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reports.findings.contract import Finding, Verdict
from reports.findings.idle_time import ADVICE, WORDS, against, shows_idle
from reports.render import numbers
from reports.render.plain_text import plain
from reports.render.trace_cpu import cpu_headline, cpu_next, cpu_sentence
from reports.render.trace_units import sentence, share, times, us
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from reports.trace.regime import QUIET, Regime
from reports.trace.usage import Device

SEVERITIES = ("problem", "hint", "explanation")

WITHHOLDS = {
    "window": "anything about the whole recording",
    "idle": "idle time of the GPU",
    "cause": "why the GPU was idle",
    "delay": "launch delays",
    "peak": "comparisons with the device's peak",
    "sub-microsecond": "gaps below 1 µs",
}

ABOUT_THE_GPU = ("idle", "cause", "delay", "peak")

BOUNDS = {
    "overhead-bound": "dispatching and launching operators decides the time, not the kernels",
    "input-bound": "the GPU waits for its data",
    "synchronisation-bound": "the host waits for the GPU and lets its queue run dry",
    "host-bound": "the GPU waits for the host, and launches are not what costs",
    "compute-bound": "arithmetic on the GPU decides the time",
    "memory-bound": "moving data on the GPU decides the time",
    "communication-bound": "communication between GPUs decides the time",
    "mixed": "no single thing decides the time",
    "unknown": "its kernels' names do not tell whether arithmetic or moving data decides the time",
}

UNEXPLAINED = {
    Cause.START: "start-up",
    Cause.COLD: "the cold first step",
    Cause.CAPTURE: "the capture of graphs",
    Cause.PROFILER: "the profiler's own work",
    Cause.UNSEEN: "waits for work that is not recorded",
    Cause.CUT: "parts that were cut out",
    Cause.LOST: "lost records",
    Cause.UNKNOWN: "unexplained gaps",
}
"""What does not count when it is asked what bounds the program as it runs on."""

NEXT = {
    "compute-bound": "Look at the kernels at the top of the table: a narrower dtype or better shapes shorten them, fewer launches do not.",
    "memory-bound": "Move less data: join what only moves it into fewer kernels, or take a narrower dtype.",
    "communication-bound": "Overlap communication with computing, or send less; first hold the other ranks' traces beside this one.",
    "mixed": "Look at the longest kernel and at the largest cause of idle time; neither alone gives much.",
    "unknown": "Look at the kernels at the top of the table.",
}


@dataclass(frozen=True)
class Trust:
    """Whether a trace can be believed: a word, a sentence, and a line for each kind of damage.

    A line holds: what, how many, its effect, what is not claimed because of it.
    """

    status: str
    sentence: str
    notes: tuple[tuple[str, str, str, str], ...]


def trust(analysis: Analysis) -> Trust:
    """The health of a recording."""
    trace = analysis.trace
    notes = tuple(
        (
            note.kind.replace("_", " "),
            f"{note.count:,}",
            plain(note.effect),
            _not_claimed(analysis, note.withholds) or "nothing",
        )
        for note in trace.notes
    )
    slices = f"{trace.count:,} slices"
    if trace.status == "ok":
        return Trust("ok", f"The whole file was read ({slices}), and nothing in it is damaged.", notes)
    withheld = _not_claimed(analysis, trace.withheld)
    told = f"Not claimed: {withheld}." if withheld else "No finding is withheld because of it."
    kinds = "one thing" if len(notes) == 1 else f"{len(notes)} things"
    return Trust(trace.status, f"{slices} were read, with {kinds} to keep in mind. {told}", notes)


def _not_claimed(analysis: Analysis, withheld: Collection[str]) -> str:
    # Of a GPU that is not there nothing would be claimed anyway.
    told = [what for what in sorted(withheld) if analysis.has_gpu or what not in ABOUT_THE_GPU]
    return ", ".join(WITHHOLDS.get(what, what) for what in told)


def busiest(analysis: Analysis) -> tuple[Device, Regime] | None:
    """The GPU with the most work; None where none is recorded."""
    pairs = list(zip(analysis.devices, analysis.regimes, strict=True))
    return max(pairs, key=lambda pair: pair[0].busy_us) if pairs else None


def device_line(analysis: Analysis) -> str:
    """On what it was recorded, in one line."""
    if not analysis.devices:
        if other := _other_device(analysis):
            return other
        return "a GPU whose work was not recorded" if analysis.has_gpu else "no work of a GPU in this recording"
    models: dict[str, int] = {}
    for device in analysis.devices:
        name = plain(device.model, 60) or "GPU whose model the file does not name"
        models[name] = models.get(name, 0) + 1
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in models.items())


def headline(analysis: Analysis) -> str:
    """The trace in a sentence."""
    found = busiest(analysis)
    if found is None:
        if other := _other_device(analysis):
            return other
        if analysis.has_gpu:
            return "The GPU's activity is missing from this recording"
        return "Nothing was recorded" if analysis.trace.slices.start.size == 0 else cpu_headline(analysis)
    device, regime = found
    if analysis.trace.withheld & {"idle", "window"}:
        return "What bounds this workload cannot be told from this recording"
    if regime.counted_us < MOSTLY * device.window_us and "cause" not in analysis.trace.withheld:
        largest = max(device.not_counted, key=device.idle_of)
        works = (
            f"; of the other {us(regime.counted_us)} the GPU works for {share(regime.counted_busy)}"
            if regime.counted_us > 0
            else ""
        )
        return f"Mostly {UNEXPLAINED[largest]}: {us(device.idle_of(largest))} of {us(device.window_us)}{works}"
    left = regime.counted_us < COUNTED * device.window_us
    told = "cause" not in analysis.trace.withheld
    span = f"the {us(regime.counted_us)} left without {_not_counted(device)}" if left and told else us(device.window_us)
    if left and not told:
        return f"The GPU works for {share(regime.busy_share)} of {span}; why it is idle cannot be told"
    if regime.counted_busy >= QUIET or not regime.waits_us:
        bound = "Bound by the GPU" if regime.bound == "unknown" else regime.bound.capitalize()
        return f"{bound}: the GPU works for {share(regime.counted_busy)} of {span}"
    idle = f"the GPU is idle for {share(1 - regime.counted_busy)} of {span}"
    if "cause" in analysis.trace.withheld:
        return f"{idle[0].upper()}{idle[1:]}; why cannot be told"
    part = regime.waits_us / max(regime.counted_us - device.busy_us, regime.waits_us)
    where = "" if regime.bound == "overhead-bound" else f", {share(part)} of that for {regime.waits_for}"
    return f"{regime.bound.capitalize()}: {idle}{where}"


MOSTLY = 0.25
"""Below this share of the window that counts, what does not count is what the recording shows first."""
COUNTED = 0.99
"""From this share of the window on, what does not count is not worth a word."""


def _not_counted(device: Device) -> str:
    """The largest of what does not count, in words; "and more" where it is not nearly all."""
    times = {cause: device.idle_of(cause) for cause in UNEXPLAINED if cause in device.not_counted}
    largest = max(times, key=lambda cause: times[cause])
    others = "" if times[largest] >= 0.9 * sum(times.values()) else " and more"
    return f"{UNEXPLAINED[largest]}{others}"


def _other_device(analysis: Analysis) -> str:
    """That a device of another kind was recorded, which is not read; "" where none was."""
    if any(note.kind == "device_unread" for note in analysis.trace.notes):
        return "A device of another kind was recorded, and its activity is not read"
    return ""


def bound_sentence(analysis: Analysis) -> str:
    """What bounds the workload, with what could be gained; or why that is not said."""
    found = busiest(analysis)
    if found is None:
        return missing(analysis) if analysis.has_gpu else cpu_sentence(analysis)
    if taken := analysis.trace.withheld & {"idle", "window"}:
        reasons = "; ".join(plain(note.effect) for note in analysis.trace.notes if note.withholds & taken)
        return f"What bounds this workload is not said, because the recording is damaged or incomplete: {reasons}."
    device, regime = found
    which = (
        f"GPU {plain(device.device, 20)}, the busiest of {len(analysis.devices)},"
        if len(analysis.devices) > 1
        else "The GPU"
    )
    works = f"{which} works for {us(device.busy_us)} of {us(device.window_us)} ({share(regime.busy_share)})"
    if regime.counted_us < COUNTED * device.window_us and "cause" not in analysis.trace.withheld:
        works += (
            f", and of the {us(regime.counted_us)} left without {_not_counted(device)} for {share(regime.counted_busy)}"
        )
    waiting = regime.counted_busy < QUIET and regime.waits_us > 0
    if waiting and "cause" in analysis.trace.withheld:
        return f"{works}; why it is idle cannot be told from this recording."
    bounds = BOUNDS[regime.bound]
    rest = "it" if regime.counted_us >= COUNTED * device.window_us else "that rest"
    gains = f"twice as fast kernels would make {rest} faster by at most {times(regime.twice_as_fast_kernels)}"
    if waiting:
        free = (
            f"launches that cost nothing would make {rest}"
            if regime.bound == "overhead-bound"
            else f"without that wait {rest} would be"
        )
        without = regime.counted_us - regime.waits_us
        most = f"at most {times(regime.counted_us / without)}" if without > 0 else "no limit that can be computed"
        gains = f"{free} faster by {most}, with twice as fast kernels by {times(regime.twice_as_fast_kernels)}"
    exposed = ""
    if device.busy_us and device.exposed_us >= 0.01 * device.busy_us:
        exposed = (
            f" For {us(device.exposed_us)} ({share(device.exposed_us / device.busy_us)} of its busy time) it runs collectives that no"
            " computing covers."
        )
    bound = "bound by the GPU" if regime.bound == "unknown" else regime.bound
    return f"{works}: {bound}, {bounds}. {gains[0].upper()}{gains[1:]}.{exposed}"


def missing(analysis: Analysis) -> str:
    """What it means that launches, or waits, were recorded and no work."""
    if other := _other_device(analysis):
        return f"{other}: how long it worked or was idle is not known, nor what share of the time the host's is."
    if not analysis.host.launches:
        return (
            f"The host waits {us(analysis.host.synchronize_us)} for a GPU, and neither work on it nor a launch is recorded: the GPU was not"
            " idle, what it did is not in the file. Record again, with no other tool (nsys, ncu, another profiler) attached."
        )
    calls = numbers.counted(analysis.host.launches, "call")
    return (
        f"{calls} put work on a GPU, and none of that work was recorded: the GPU was not idle, its activity is missing. "
        "Record again with activities=[CPU, CUDA], and with no other tool (nsys, ncu, another profiler) attached."
    )


def idle_sentence(analysis: Analysis) -> str:
    """Where the idle time went: the two largest causes."""
    found = busiest(analysis)
    if found is None or analysis.trace.withheld & {"idle", "window", "cause"}:
        return ""
    device = found[0]
    total = sum(device.idle_us.values())
    largest = sorted(Cause, key=lambda cause: -device.idle_us[cause.value])[:2]
    parts = [
        f"{share(device.idle_us[cause.value] / total)} ({us(device.idle_us[cause.value])}) {WORDS[cause]}"
        for cause in largest
        if total and device.idle_us[cause.value] >= 0.02 * total
    ]
    return f"It {shows_idle(device)} {us(total)}: {'; '.join(parts)}." if parts else ""


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """What fired: problems, hints, explanations; in each, first what says whether to believe the trace, then by the time at stake."""
    fired = [finding for finding in findings if finding.outcome.verdict is Verdict.FIRED]
    return sorted(
        fired,
        key=lambda f: (SEVERITIES.index(f.rule.severity), f.rule.family != "trust", -f.outcome.at_stake_us),
    )


def worth_telling(findings: Sequence[Finding]) -> list[Finding]:
    """What fired and is something to begin with, in order."""
    # An explanation says what is normal, and that a trace is damaged stands above: neither is something to begin with.
    return [
        finding
        for finding in ordered(findings)
        if finding.rule.severity == "problem" or (finding.rule.severity == "hint" and finding.rule.family != "trust")
    ]


def minute(analysis: Analysis, findings: Sequence[Finding], against: str = "") -> list[tuple[str, str]]:
    """What a reader with one minute must know: (what it is about, a sentence), two to six of them; `against` is what a comparison says."""
    told = [("What bounds it", bound_sentence(analysis)), ("Where the idle time went", idle_sentence(analysis))]
    if against:
        told.append(("Against the other trace", sentence(against)))
    worth = worth_telling(findings)
    if worth:
        told.append(("The first finding", f"{sentence(worth[0].outcome.claim)} ({plain(worth[0].rule.id)})"))
    told.append(("What to do next", advice(analysis, worth)))
    if analysis.trace.status != "ok":
        told.insert(0, ("Can it be believed", trust(analysis).sentence))
    return [(title, text) for title, text in told if text]


def advice(analysis: Analysis, worth: Sequence[Finding]) -> str:
    """The first finding's advice; but where most of the recording does not count, kernels are the larger lever, or nothing of the whole
    can be told, that comes first."""
    first = next((finding for finding in worth if finding.outcome.advice), None)
    told = sentence(first.outcome.advice) if first else ""
    found = busiest(analysis)
    if (
        found
        and found[1].counted_us < 0.5 * found[0].window_us
        and not analysis.trace.withheld & {"idle", "window", "cause"}
    ):
        largest = max(found[0].not_counted, key=found[0].idle_of)
        return (
            f"{ADVICE[largest]} Then: {told}"
            if told and first and first.rule.id not in ("idle", "R6", "R7")
            else ADVICE[largest]
        )
    if first is None or first.rule.family == "trust" or found is None:
        return told or sentence(_next(analysis))
    if analysis.trace.withheld & {"idle", "window"}:
        return sentence(_next(analysis))
    without = found[1].counted_us - found[1].waits_us
    lever = found[1].counted_us / without if without > 0 else float("inf")
    if found[1].twice_as_fast_kernels > lever and first.rule.id not in ("idle", "exposed-communication"):
        return f"{sentence(_next(analysis))} Second: {told}"
    return told


def _next(analysis: Analysis) -> str:
    """What to do where no finding advises anything."""
    if found := busiest(analysis):
        taken = analysis.trace.withheld & {"idle", "window"}
        if taken:
            return "Record again; until then read only the tables of kernels and operators."
        if found[1].counted_busy < QUIET and found[1].waits_us and "cause" not in analysis.trace.withheld:
            return against(
                analysis, max((cause for cause in Cause if cause not in found[0].not_counted), key=found[0].idle_of)
            )
        if found[1].counted_busy < QUIET:
            return "Record again where the clocks of host and GPU agree: why the GPU is idle cannot be told from this recording."
        return NEXT.get(found[1].bound, NEXT["mixed"])
    return "" if analysis.has_gpu else cpu_next(analysis)
