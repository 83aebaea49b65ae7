"""The report's sentences, made from results. No HTML here."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from reports import seal
from reports.render import numbers
from reports.results import ArmResult, CaseResult, Results
from suite.bundle import schema
from suite.bundle.manifest import Check
from suite.bundle.reader import Loaded

PLAIN_NAMES = {
    "eager": "eager",
    "inductor": "torch.compile",
    "inductor-freezing": "torch.compile with frozen weights",
    "inductor-reduce-overhead": "torch.compile in its mode reduce-overhead",
    "inductor-max-autotune": "torch.compile in its mode max-autotune",
}
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
    if bundle.run.ablation:
        threads = None  # levels may differ in it
    memory = fact(bundle, "memory", "total_bytes")
    parts = [
        _device_in_short(bundle),
        str(fact(bundle, "cpu", "model") or "processor unknown"),
        f"{threads} thread{'s' if threads != 1 else ''}" if threads else "",
        f"{numbers.size(memory)} memory" if memory else "",
        f"PyTorch {fact(bundle, 'torch', 'version') or 'unknown'}",
    ]
    return ", ".join(part for part in parts if part)


def _device_in_short(bundle: Loaded) -> str:
    """A device beside its host: name, memory, which of several, driver."""
    device = bundle.run.device
    if not device.name:
        return ""
    of = f" of {len(device.visible)}" if len(device.visible) > 1 else ""
    size = f" {numbers.size(device.memory_bytes)}" if device.memory_bytes else ""
    part = f", partition {device.partition}" if device.partition else ""
    driver = fact(bundle, "gpu", "driver")
    told = f", driver {driver}" if driver else ""
    return f"{device.name}{size} (device {device.index}{of}{part}{told})"


CLAIMED = 3
"""Settled comparisons that a headline names one by one."""


def verdict_sentence(found: Results) -> str:
    """The report in a sentence: the headline comparison, in words that its interval allows. Why nothing is claimed stands beside it."""
    if found.headline is None:
        return "Nothing was compared in this run."
    case, arm = found.headline.case, found.headline.arm
    what, who = case.case.title, arm_in_words(arm.arm)
    if arm.ratio is None or arm.verdict is None:
        return f"{what}: there is no ratio of {who} to eager ({arm.reason})."
    rate, floor = numbers.ratio(arm.ratio), numbers.percent(case.noise_floor.delta)
    reason = arm.verdict.reason
    if found.barred:
        return f"{what}: no claim is made about {who}; {found.barred}."
    if arm.verdict.word is None and arm.ratio.interval is not None:
        return f"{what}: the speed of {who} is not to be quoted; {reason}.{elsewhere(found)}"
    if arm.verdict.word is None:
        return (
            f"{what}: {who} ran at {rate} the speed of eager, without an interval and so without a verdict ({reason})."
        )
    return {
        "faster": f"{what}: {who} is {rate} as fast as eager on this machine.",
        "slower": f"{what}: {who} is slower than eager on this machine, at {rate} its speed.",
        "equivalent": f"{what}: {who} and eager are equally fast on this machine, within {floor}.",
        "inconclusive": f"{what}: no claim is made about {who} against eager.{elsewhere(found)}",
    }[arm.verdict.word]


def elsewhere(found: Results) -> str:
    """What is claimed of the other comparisons, where nothing is of the headline's: named one by one, or counted where there are many."""
    assert found.headline is not None
    others = [(case, arm) for case, arm in found.comparisons if arm is not found.headline.arm]
    claimed = [(case, arm, arm.verdict.word) for case, arm in others if arm.verdict and arm.verdict.word in CLAIMS]
    if not others:
        return ""
    whole = (
        f"the other {numbers.counted(len(others), 'comparison')} of this run"
        if len(others) > 1
        else "the other comparison of this run"
    )
    if not claimed:
        return f" No claim is made about {whole} either."
    told = [f"{arm.arm.label} in {case.case.name} {_claim(word, arm)}" for case, arm, word in claimed[:CLAIMED]]
    rest = f" and {len(claimed) - CLAIMED} more" if len(claimed) > CLAIMED else ""
    return f" Of {whole}, {len(claimed)} {'is' if len(claimed) == 1 else 'are'} settled: {'; '.join(told)}{rest}."


def _claim(word: str, arm: ArmResult) -> str:
    return word if word == "equivalent" else f"{word} ({numbers.ratio(arm.ratio)})"


def tally(found: Results) -> str:
    """All comparisons counted by verdict, in words."""
    words = ("faster", "slower", "equivalent", "inconclusive")
    parts = [f"{count} {word}" for word in words if (count := found.count(word))]
    if without := found.count(None):
        parts.append(f"{without} without a verdict")
    total = len(found.comparisons)
    return f"{total} comparison{'s' if total != 1 else ''}: {', '.join(parts)}" if parts else "no comparison"


def integrity(check: Check) -> tuple[bool, str]:
    """Whether the bundle's files are what was measured, and a sentence about it."""
    if seal.absent(check):
        return (
            False,
            "The bundle has no checksums (SHA256SUMS), so nothing can be said about whether its files were changed.",
        )
    if problems := seal.problems(check):
        return False, f"The bundle's files are not as they were measured: {problems}."
    return True, (
        f"All {len(check.matching)} files that the run wrote match their checksums (SHA256SUMS);"
        " what is rendered from them (this report, the traces' pages) is not among them."
    )


SEVERITIES = ("wrong", "doubtful", "note")


def findings(bundle: Loaded) -> list[schema.Finding]:
    """What was found about the launch and the machine, the worst first."""
    found = bundle.fingerprint.findings if bundle.fingerprint else []
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def accuracy(arm: ArmResult) -> str:
    """Whether the arm computes what eager computes: the criterion's tolerance, and the largest errors that were seen."""
    found = arm.accuracy
    if found is None:
        return "not checked"
    if not found.passed:
        return f"failed: {found.message}"
    if not found.outputs:
        return "passed; no error was recorded"
    worst = max(found.outputs, key=lambda output: output.root_mean_square_error)
    error = f"root mean square error against float64 at most {worst.root_mean_square_error:.2g}"
    error += f" (eager {worst.baseline_root_mean_square_error:.2g}; tolerated {found.tolerance:g}, or 3 times eager's)"
    if all(output.identical for output in found.outputs):
        return f"passed: every output is equal to eager's, bit for bit; {error}"
    largest = max(output.max_absolute_error for output in found.outputs)
    return f"passed: not bit for bit, largest difference from eager {largest:.2g}; {error}"


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


CACHES = {
    "hot": "hot cache: every iteration finds the device's last cache as the call before left it",
    "cold": "cold cache: the device's last cache was flushed before every iteration, outside of what is timed",
}


def device(bundle: Loaded, case: CaseResult) -> str:
    """How the case was measured on a device beside its host, and what its host took; nothing on a processor."""
    if not case.case.cache:
        return ""
    parts = [f"{bundle.run.device.name}, timed by the device's own events; {CACHES[case.case.cache]}."]
    if precision := case.case.parameters.get("matmul_precision"):
        parts.append(f"Matmul precision {precision}.")
    taken = {arm.arm.label: [b.enqueue_ns for b in arm.blocks if b.enqueue_ns is not None] for arm in case.arms}
    told = [f"{label} {numbers.time(statistics.median(found))}" for label, found in taken.items() if found]
    if told:
        parts.append(f"The host's time to hand over one call, taken apart: {', '.join(told)}.")
    blocks = [block for arm in case.arms for block in arm.blocks]
    of = numbers.counted(len(blocks), "block")
    for condition, count, bad in conditions(blocks)[:CONDITIONS]:
        could = f"; {numbers.counted(bad, 'block')} could only be had so" if bad else ""
        parts.append(f"{condition[0].upper()}{condition[1:]}, in {count} of {of}{could}.")
    return " ".join(parts)


MEASURED = re.compile(r", in \d+ of \d+ readings$|: [\d.]+ of .*$")
"""What in a condition is one block's own: the same condition of several blocks is one without it."""


def conditions(blocks: Iterable[schema.Block]) -> list[tuple[str, int, int]]:
    """Each condition of the device that blocks were measured under: in words, how many blocks, and how many of them disturbed by it."""
    seen: Counter[str] = Counter()
    disturbed: Counter[str] = Counter()
    for block in blocks:
        for condition in dict.fromkeys(MEASURED.sub("", text) for text in block.conditions):
            seen[condition] += 1
            disturbed[condition] += block.disturbed
    return [(condition, count, disturbed[condition]) for condition, count in seen.most_common() if condition]


CONDITIONS = 3
RETAKEN = 6
"""Conditions of the device, and blocks that were measured again, that are named one by one."""


def retaken(bundle: Loaded, case: CaseResult) -> list[str]:
    """Blocks of the case that were measured again, each with the reason; nothing where there is none."""
    found = [block for block in bundle.retaken if block.case == case.case.name]
    told = [
        f"Block {block.block} of process {block.process} ({block.arm}) was measured again, and kept apart:"
        f" {'; '.join(block.conditions) or 'the device was disturbed'}."
        for block in found[:RETAKEN]
    ]
    if len(found) > RETAKEN:
        told.append(f"And {numbers.counted(len(found) - RETAKEN, 'more block')}, in retaken.jsonl.")
    return told


STOPPED = {
    "target reached": "because every ratio is known to within the target",
    "budget spent": "because the budget of measuring was spent, or another would have been expected to exceed it",
    "most processes reached": "the most that this run was allowed",
    "failures": "because its processes kept failing",
}


def stopping(case: CaseResult) -> str:
    """Why the case got no further process, in a sentence."""
    stopped = case.stopped
    if stopped is None or not case.candidates:
        return ""
    width = (
        f"; the widest interval of an arm's ratio reaches {numbers.percent(stopped.half_width)} to either side"
        if stopped.half_width
        else ""
    )
    return f"Stopped after {numbers.counted(stopped.processes, 'process')}, {STOPPED[stopped.reason]}{width}."


def aggregate_sentence(found: Results) -> str:
    """The geometric means over the cases that have every arm; nothing for fewer than two, of which there is no mean."""
    if isinstance(found.aggregate, str) or len(found.aggregate.cases) < 2:
        return ""
    shared = f"{len(found.aggregate.cases)} of {found.aggregate.total} cases, those in which every arm has a ratio"
    means = ", ".join(
        f"{label} {numbers.significant(mean)}{numbers.TIMES}{_unclaimed(found, label, found.aggregate.cases)}"
        for label, mean in found.aggregate.ratios.items()
    )
    return f"Geometric mean over {shared}, without an interval of its own: {means}."


CLAIMS = ("faster", "slower", "equivalent")
"""The words of a verdict that claim something."""


def _unclaimed(found: Results, label: str, cases: Collection[str]) -> str:
    """In which of a mean's cases nothing is claimed of the arm; empty where there is none."""
    own = [case for case in found.cases if case.case.name in cases]
    arms = [(case.case.name, arm) for case in own for arm in case.candidates if arm.arm.label == label]
    open_ = [name for name, arm in arms if arm.verdict is None or arm.verdict.word not in CLAIMS]
    return f" (nothing is claimed in {len(open_)} of {len(arms)}: {', '.join(open_)})" if open_ else ""


def unique_notes(notes: Iterable[str]) -> list[str]:
    """Notes without repetition, in order."""
    return list(dict.fromkeys(notes))
