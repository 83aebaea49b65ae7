"""Whether a GPU was in a state to be measured: judged from samples. Pure; nothing here asks or changes a device.

Rules of the findings: gpu.mode, gpu.mig, gpu.other-processes, gpu.ecc-off, gpu.ecc-errors, gpu.power-limit, gpu.clock-setting,
gpu.persistence, gpu.pcie-width, gpu.pcie-generation, gpu.exclusive, gpu.unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.bundle.schema import Fact, Finding, Severity
from suite.device.choices import HOW
from suite.device.nvml import GpuSample
from suite.device.slowing import slowing
from suite.peaks import Figure, NotKnown, Peaks

CLOCK_SHARE = 0.75
"""Of the default clock; a block measured below it is flagged."""

IDLE = "GPU idle"
OWN_LIMIT = "software power cap"
UNJUDGED = "not judged: "
"""How a block's conditions say what could not be judged of it."""

POWER_SHARE = 0.99
"""Of the default power limit; drivers round a limit."""

# --- a block --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What the sample of a block says of it.

    `flags` are the conditions under which it should not have been measured, for a reader; `retake` is whether measuring it again may
    go better; `unknown` says what could not be judged.
    """

    flags: tuple[str, ...] = ()
    retake: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a block's row keeps: the flags, and what could not be judged."""
        return (*self.flags, *(f"{UNJUDGED}{what}" for what in self.unknown))


def judge(sample: GpuSample | None) -> Judged:
    """Judge a block by the sample that was taken while it ran; None where none was.

    A sample that names idleness came too late: clocks drop then. Every slowing reason is a flag. A block is retaken when its clock was
    low, or something but the GPU's own power limit slowed it down: a load that draws the limit is run at it each time, and that is how
    the GPU is sold.
    """
    if sample is None:
        return Judged(unknown=("the clock: the GPU's state was not read while the block ran",))
    if IDLE in (sample.reasons.value or ()):
        return Judged(unknown=("the clock under load: the GPU was idle when it was asked",))
    flags: list[str] = []
    unknown: list[str] = []
    clock, default = sample.clock_mhz, sample.default_clock_mhz
    low = False
    if clock.value is not None and default.value:
        low = clock.value < CLOCK_SHARE * default.value
        if low:
            flags.append(
                f"below {100 * CLOCK_SHARE:.0f} % of the default clock: {clock.value:.0f} of {default.value:.0f} MHz"
            )
    else:
        unknown.append(f"the clock: {_why(clock if clock.value is None else default)}")
    flags += [f"slowed down: {reason} ({slowing(reason)})" for reason in sorted(sample.slowed_by)]
    if sample.reasons.value is None:
        unknown.append(f"what holds the clock back: {_why(sample.reasons)}")
    return Judged(tuple(flags), low or any(reason != OWN_LIMIT for reason in sample.slowed_by), tuple(unknown))


def _why(fact: Fact) -> str:
    return fact.note or fact.status


# --- a run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What a GPU's state says before (or after) a run: with `refusals` nothing true can be measured; `findings` go into the bundle."""

    refusals: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()


UNCHANGED = "The suite changes no setting of a GPU."


def assess(
    sample: GpuSample, title: str, which: int | str = 0, *, instance: bool = False, instances: Sequence[str] = ()
) -> Verdict:
    """Assess one GPU by a sample; `title` names it to the reader, `which` is NVML's number for nvidia-smi, or its place on PCI.

    `instance` is whether a MIG instance is measured, and not the whole GPU; `instances` are the titles of those to choose from. The PCIe
    link is judged only in a sample of a working GPU, since idle links train down. What could not be read is one finding of its own.
    """
    found = [
        _mode(sample, title, which),
        _mig(sample, title, which, instance, instances),
        _others(sample, title),
        _ecc_off(sample, title, which),
        _ecc_errors(sample, title),
        _power(sample, title, which),
        _clock_setting(sample, title, which),
        _persistence(sample, title, which),
        _link(sample, title, "width", "lanes"),
        _link(sample, title, "generation", "generation"),
        _exclusive(sample, title, which),
        _unread(sample, title),
    ]
    refused = tuple(each for each in found if each is not None and each.rule in ("gpu.mode", "gpu.mig"))
    # A MIG instance that is measured knowingly is a finding, not a refusal.
    refused = tuple(each for each in refused if each.severity == "wrong")
    return Verdict(refused, tuple(each for each in found if each is not None and each not in refused))


def _finding(rule: str, severity: Severity, claim: str, fact: Fact, advice: str = "") -> Finding:
    return Finding(
        rule=f"gpu.{rule}", severity=severity, claim=claim, evidence=[f"{fact.source}: {fact.value}"], advice=advice
    )


def _admin(what: str, which: int | str, option: str) -> str:
    return f"{UNCHANGED} An administrator may {what}: nvidia-smi -i {which} {option}"


def _mode(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    others = sample.other_processes.value or 0
    if sample.compute_mode.value == "prohibited":
        claim = f"{title} lets no process compute (compute mode prohibited)."
    elif str(sample.compute_mode.value).startswith("exclusive") and others:
        claim = (
            f"{title} belongs to one process at a time (compute mode {sample.compute_mode.value}), and another has it."
        )
    else:
        return None
    return _finding("mode", "wrong", claim, sample.compute_mode, _admin("allow it", which, "-c DEFAULT"))


def _mig(sample: GpuSample, title: str, which: int | str, instance: bool, instances: Sequence[str]) -> Finding | None:
    if not sample.mig.value:
        return None
    if instance:
        claim = f"A part of a GPU is measured ({title}): its neighbours share the clock and the power with it."
        return _finding(
            "mig", "doubtful", claim, sample.mig, "Leave the other instances without work while it is measured."
        )
    claim = f"{title} is divided (MIG is on): as a whole it computes nothing."
    named = f"Name one of its instances ({', '.join(instances) or 'it has none yet'}): {HOW}."
    advice = f"{named} {_admin('end the division', which, '-mig 0')}"
    return _finding("mig", "wrong", claim, sample.mig, advice)


def _others(sample: GpuSample, title: str) -> Finding | None:
    count = sample.other_processes.value
    if not count:
        return None
    claim = f"{_many(count)} computes on {title}: whatever is measured is measured beside it."
    return _finding(
        "other-processes",
        "wrong",
        claim,
        sample.other_processes,
        "End it, or choose another GPU; nvidia-smi lists them.",
    )


def _many(count: int) -> str:
    return "Another process" if count == 1 else f"Each of {count} other processes"


def _ecc_off(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    if sample.ecc.value is not False:
        return None
    claim = f"ECC is off on {title}: its memory may be faster than as it was sold, and errors in it go unseen."
    return _finding("ecc-off", "doubtful", claim, sample.ecc, _admin("turn it on, from the next reset", which, "-e 1"))


def _ecc_errors(sample: GpuSample, title: str) -> Finding | None:
    count = sample.ecc_uncorrected.value
    if not count:
        return None
    claim = f"{title} has had {count} memory error{'s' if count != 1 else ''} that ECC could not correct since its driver was loaded."
    advice = (
        "An administrator may have the GPU checked and reset; results of this device are not to be trusted until then."
    )
    return _finding("ecc-errors", "wrong", claim, sample.ecc_uncorrected, advice)


def _power(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    limit, default = sample.power_limit_w.value, sample.power_limit_default_w.value
    if limit is None or default is None or limit >= POWER_SHARE * default:
        return None
    claim = f"The power limit of {title} is lowered: {limit:g} W, and {default:g} W is its default."
    return _finding(
        "power-limit", "doubtful", claim, sample.power_limit_w, _admin("raise it", which, f"-pl {default:g}")
    )


def _clock_setting(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    set_to, default = sample.application_clock_mhz.value, sample.default_clock_mhz.value
    if set_to is None or default is None or set_to >= default:
        return None
    claim = f"The application clock of {title} is set below its default: {set_to} of {default} MHz."
    return _finding("clock-setting", "doubtful", claim, sample.application_clock_mhz, _admin("reset it", which, "-rac"))


def _persistence(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    if sample.persistence.value is not False:
        return None
    claim = f"Persistence mode is off on {title}: the first process to use it wakes the driver, which takes a second or two."
    advice = _admin("turn it on", which, "-pm 1 (or start nvidia-persistenced)")
    return _finding("persistence", "note", claim, sample.persistence, advice)


def _link(sample: GpuSample, title: str, kind: str, unit: str) -> Finding | None:
    now: Fact = getattr(sample, f"pcie_{kind}")
    most: Fact = getattr(sample, f"pcie_{kind}_maximum")
    if not working(sample) or now.value is None or most.value is None or now.value >= most.value:
        return None
    shown = f"{now.value} of {most.value} {unit}" if kind == "width" else f"{unit} {now.value} of {most.value}"
    claim = f"The PCIe link of {title} runs below what GPU and slot can do, under load: {shown}."
    advice = "Copies between host and GPU suffer, kernels do not. An administrator may reseat the card, or move it to another slot."
    return _finding(f"pcie-{kind}", "doubtful", claim, now, advice)


def working(sample: GpuSample) -> bool:
    """Whether the sample is of a GPU with work: no idleness among its reasons, and a kernel in the driver's last interval.

    What of the two is not told does not count; a GPU that tells neither is not known to work.
    """
    reasons, busy = sample.reasons.value, sample.busy_percent.value
    if reasons is None:
        return bool(busy)
    # A GPU keeps its clock for a while after its last kernel, without calling that idle.
    return IDLE not in reasons and busy != 0


def _exclusive(sample: GpuSample, title: str, which: int | str) -> Finding | None:
    mode = str(sample.compute_mode.value)
    if not mode.startswith("exclusive") or sample.other_processes.value:
        return None
    claim = f"{title} belongs to one process at a time (compute mode {mode}): workers follow one another, and a crashed one may hold it."
    return _finding("exclusive", "note", claim, sample.compute_mode, _admin("allow several", which, "-c DEFAULT"))


JUDGED = ("other_processes", "mig", "power_limit_w", "reasons", "clock_mhz")
"""What a run's rules need to know; ECC, persistence and the link are not there on every GPU."""


def _unread(sample: GpuSample, title: str) -> Finding | None:
    facts: dict[str, Fact] = {name: getattr(sample, name) for name in JUDGED}
    # MIG is a thing of a few models; "not supported" is an answer.
    missing = {name: fact for name, fact in facts.items() if fact.value is None}
    if missing.get("mig") and "not supported" in missing["mig"].note:
        del missing["mig"]
    if not missing:
        return None
    return Finding(
        rule="gpu.unread",
        severity="doubtful" if "other_processes" in missing or "reasons" in missing else "note",
        claim=f"The driver does not tell everything of {title} that its results should be judged by.",
        evidence=[f"{name.replace('_', ' ')}: {_why(fact)} ({fact.source})" for name, fact in missing.items()],
    )


# --- too fast to be true --------------------------------------------------------------------------------------------

COMPUTE_MARGIN = 1.25
"""Over a published rate. Rates are published at a boost clock that a GPU may exceed: 1,980 against 1,830 MHz is 8 % on H100, some 15 % on
GeForce cards as sold, and more where a maker of cards sets it. A GPU that was not waited for seems faster by tens or thousands."""

MEMORY_MARGIN = 1.10
"""Over a published bandwidth, which follows from a memory clock that does not boost."""

RESOLUTION_NS = 1000.0
"""Two events of half a microsecond's resolution: what may be missing from a duration."""


def impossible(
    flops: float | None,
    bytes_moved: float | None,
    duration_ns: float,
    peaks: Peaks | NotKnown,
    dtype: str,
    *,
    flushed: bool = False,
) -> str | None:
    """Why a duration is shorter than the work can take on this GPU, or None where it is possible or cannot be judged.

    `flops` are floating-point operations of matrix products in `dtype` ("tf32" where products of float32 are rounded to it); `bytes_moved`
    the least traffic with memory. Of it the last-level cache may spare what it held before and what it still holds afterwards, together
    twice its size (once, when it was flushed before); the rest has to pass the memory's bus.
    """
    if isinstance(peaks, NotKnown):
        return None
    at_most_ns = duration_ns + RESOLUTION_NS
    rate = peaks.flop_per_s(dtype)
    if flops and isinstance(rate, Figure) and flops > rate.value * COMPUTE_MARGIN * at_most_ns / 1e9:
        return _too_fast(flops / 1e12, "TFLOP", duration_ns, rate, peaks.model, f"its dense {dtype} peak")
    memory, cache = peaks.memory_bytes_per_s, peaks.cache_bytes
    if not bytes_moved or isinstance(memory, NotKnown) or cache is None:
        return None
    carried = bytes_moved - (1 if flushed else 2) * cache
    if carried > memory.value * MEMORY_MARGIN * at_most_ns / 1e9:
        return _too_fast(carried / 1e12, "TB", duration_ns, memory, peaks.model, "its memory bandwidth")
    return None


def _too_fast(amount: float, unit: str, duration_ns: float, peak: Figure, model: str, what: str) -> str:
    return (
        f"{amount / (duration_ns / 1e9):.4g} {unit}/s in {duration_ns / 1e3:.4g} us is above what {model} can do: {what} is "
        f"{peak.value / 1e12:.4g} {unit}/s ({peak.source}); the work was not waited for, or not all of it was done"
    )
