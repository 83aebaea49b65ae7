"""What a trace's pages say in their own words: sentences from an analysis. No HTML here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reports.findings.contract import Finding, Verdict
from reports.render import numbers
from reports.render.plain_text import plain
from reports.render.trace_cpu import cpu_headline, cpu_next, cpu_sentence
from reports.render.trace_units import sentence, share, times, us
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from reports.trace.regime import Regime
from reports.trace.usage import Device

SEVERITIES = ("problem", "hint", "explanation")

WITHHOLDS = {
    "window": "anything about the whole recording",
    "idle": "idle time of the GPU",
    "delay": "launch delays, and why the GPU was idle",
    "peak": "comparisons with the device's peak",
    "sub-microsecond": "gaps below 1 µs",
}

ABOUT_THE_GPU = ("idle", "delay", "peak")

BOUNDS = {
    "overhead-bound": "what lies between the kernels decides the time, not the kernels",
    "compute-bound": "arithmetic on the GPU decides the time",
    "memory-bound": "moving data on the GPU decides the time",
    "mixed": "no single thing decides the time",
    "unknown": "the GPU decides the time; its kernels' names do not tell whether arithmetic or moving data does",
}

WHERE = {
    Cause.HOST: "nothing had been launched yet: the GPU waited for the host",
    Cause.COLD: "the first step was cold: it loads, chooses and allocates what later steps find ready",
    Cause.LATENCY: "the next kernel was launched and on its way",
    Cause.QUEUED: "the GPU passed from one queued kernel to the next",
    Cause.WAIT: "launched work waited for an event or another stream",
    Cause.PROFILER: "the profiler itself was at work; without it this time would not be lost",
    Cause.UNKNOWN: "work had been launched and did not begin, and nothing recorded says why",
}

NEXT = {
    "overhead-bound": (
        "Give the GPU more work at a time (larger batches), or launch less often: torch.compile fuses operators, and its mode"
        ' "reduce-overhead" replays all launches at once.'
    ),
    "compute-bound": "Look at the kernels at the top of the table: a narrower dtype or better shapes shorten them, fewer launches do not.",
    "memory-bound": "Fuse what only moves data (torch.compile does), or move less of it (a narrower dtype).",
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
        return "GPU work was launched, none was recorded" if analysis.has_gpu else "no GPU in this recording: CPU only"
    models: dict[str, int] = {}
    for device in analysis.devices:
        name = plain(device.model, 60) or "GPU whose model the file does not name"
        models[name] = models.get(name, 0) + 1
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in models.items())


def headline(analysis: Analysis) -> str:
    """The trace in a sentence."""
    found = busiest(analysis)
    if found is None:
        if analysis.has_gpu:
            return "The GPU's activity is missing from this recording"
        return "Nothing was recorded" if analysis.trace.slices.start.size == 0 else cpu_headline(analysis)
    device, regime = found
    if analysis.trace.withheld & {"idle", "window"}:
        return "What bounds this workload cannot be told from a damaged recording"
    if regime.bound == "overhead-bound":
        return (
            f"{regime.bound.capitalize()}: the GPU is idle for {share(device.idle_of_window)} of {us(device.window_us)}"
        )
    return f"{regime.bound.capitalize()}: the GPU works for {share(regime.busy_share)} of {us(device.window_us)}"


def bound_sentence(analysis: Analysis) -> str:
    """What bounds the workload, with both counterfactuals; or why that is not said."""
    found = busiest(analysis)
    if found is None:
        return missing(analysis) if analysis.has_gpu else cpu_sentence(analysis)
    if taken := analysis.trace.withheld & {"idle", "window"}:
        reasons = "; ".join(plain(note.effect) for note in analysis.trace.notes if note.withholds & taken)
        return f"What bounds this workload is not said, because the recording is damaged: {reasons}."
    device, regime = found
    which = (
        f"GPU {plain(device.device, 20)}, the busiest of {len(analysis.devices)},"
        if len(analysis.devices) > 1
        else "The GPU"
    )
    free = f"at most {times(regime.free_launches)}" if device.busy_us else "no limit that can be computed"
    return (
        f"{which} works for {us(device.busy_us)} of {us(device.window_us)} ({share(regime.busy_share)}): {regime.bound}, "
        f"{BOUNDS[regime.bound]}. Free launches would make it faster by {free}; "
        f"twice as fast kernels by {times(regime.twice_as_fast_kernels)}."
    )


def missing(analysis: Analysis) -> str:
    """What it means that launches were recorded and no work."""
    calls = numbers.counted(analysis.host.launches, "call")
    return (
        f"{calls} put work on a GPU, and none of that work was recorded: the GPU was not idle, its activity is missing. "
        "Record again with activities=[CPU, CUDA], and with no other tool (nsys, ncu, another profiler) attached."
    )


def idle_sentence(analysis: Analysis) -> str:
    """Where the idle time went: the two largest causes."""
    found = busiest(analysis)
    if found is None or analysis.trace.withheld & {"idle", "window", "delay"}:
        return ""
    device = found[0]
    total = sum(device.idle_us.values())
    largest = sorted(Cause, key=lambda cause: -device.idle_us[cause.value])[:2]
    parts = [
        f"{share(device.idle_us[cause.value] / total)} ({us(device.idle_us[cause.value])}) because {WHERE[cause]}"
        for cause in largest
        if total and device.idle_us[cause.value] >= 0.02 * total
    ]
    return f"It is idle for {us(total)}: {'; '.join(parts)}." if parts else ""


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
    """The first finding's advice; but where kernels are the larger lever, or nothing of the whole can be told, that comes first."""
    first = next((finding for finding in worth if finding.outcome.advice), None)
    told = sentence(first.outcome.advice) if first else ""
    found = busiest(analysis)
    if first is None or first.rule.family == "trust" or found is None:
        return told or sentence(_next(analysis))
    if analysis.trace.withheld & {"idle", "window"}:
        return sentence(_next(analysis))
    if found[1].twice_as_fast_kernels > found[1].free_launches:
        return f"{sentence(_next(analysis))} Second: {told}"
    return told


def _next(analysis: Analysis) -> str:
    """What to do where no finding advises anything."""
    if found := busiest(analysis):
        taken = analysis.trace.withheld & {"idle", "window"}
        return (
            "Record again; until then read only the tables of kernels and operators." if taken else NEXT[found[1].bound]
        )
    return "" if analysis.has_gpu else cpu_next(analysis)
