"""The run rules: what a run must meet to be publishable. Each rule is a function that yields its complaints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from suite.bundle import manifest, schema
from suite.bundle.errors import BundleError
from suite.bundle.reader import Loaded, proves_arms
from suite.bundle.writer import SBOM
from suite.device.conditions import UNJUDGED
from suite.presets import NEVER_PUBLISHABLE
from suite.statistics.ratio import MINIMUM_PROCESSES

Rule = Callable[[Loaded], Iterator[str]]


def preset_measures(bundle: Loaded) -> Iterator[str]:
    """The smoke preset only shows that everything works."""
    if bundle.run.preset in NEVER_PUBLISHABLE:
        yield f"the preset {bundle.run.preset} is never publishable"


def enough_processes(bundle: Loaded) -> Iterator[str]:
    """Every case has at least three processes that ended well."""
    for case in bundle.run.cases:
        ended = {
            event.process
            for event in bundle.events
            if isinstance(event, schema.ProcessEnded)
            and (event.case, event.role, event.outcome) == (case.name, "measure", "ok")
        }
        if bundle.run.ablation:
            yield from _enough_rounds(case.name, bundle.run.ablation, ended)
        elif len(ended) < MINIMUM_PROCESSES:
            yield f"{case.name}: {_processes(len(ended))} ended well, {MINIMUM_PROCESSES} are needed"


def _enough_rounds(case: str, ablation: schema.Ablation, ended: set[int]) -> Iterator[str]:
    for number, level in enumerate(ablation.levels):
        rounds = sum(ablation.order[process] == number for process in ended)
        if rounds < MINIMUM_PROCESSES:
            yield f"{case}: {_processes(rounds)} with {level.label} ended well, {MINIMUM_PROCESSES} are needed"


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def everything_ran(bundle: Loaded) -> Iterator[str]:
    """No arm was left out for a reason that lies in the machine or in a failure."""
    seen: set[tuple[str, str]] = set()
    for event in bundle.events:
        if isinstance(event, schema.ArmNotRun) and (event.case, event.arm) not in seen:
            seen.add((event.case, event.arm))
            yield f"{event.case}: the arm {event.arm} did not run ({event.reason})"


def arms_proved(bundle: Loaded) -> Iterator[str]:
    """Every process that measured an arm looked, after its last block, whether the arm still is what it says; old runs could not."""
    if not proves_arms(bundle.run):
        return
    proved = {
        (event.case, event.arm, event.process)
        for event in bundle.events
        if isinstance(event, schema.ArmEvidence) and event.moment == "after"
    }
    measured = {(b.case, b.arm, b.process) for b in bundle.blocks if b.phase == "measure"}
    for case, label in sorted({(case, label) for case, label, _ in measured - proved}):
        left = sum((case, label) == each[:2] for each in measured - proved)
        yield f"{case}: {_processes(left)} did not look after the last block whether {label} is what it says"


def accuracy_passed(bundle: Loaded) -> Iterator[str]:
    """Every candidate computes what the baseline computes."""
    for (case, arm), accuracy in bundle.accuracies.items():
        if not accuracy.passed:
            yield f"{case}: the arm {arm} fails its accuracy check ({accuracy.message})"
    measured = {(block.case, block.arm) for block in bundle.blocks}
    for case, label in sorted(measured):
        planned = next((arm for arm in bundle.run.arms if arm.label == label), None)
        if planned and planned.role == "candidate" and (case, planned.name) not in bundle.accuracies:
            yield f"{case}: the accuracy of {label} was not checked"


def nothing_wrong(bundle: Loaded) -> Iterator[str]:
    """What was requested is in force, and nothing else was found that makes the run another than it says it is."""
    for finding in bundle.fingerprint.findings if bundle.fingerprint else []:
        if finding.severity == "wrong":
            yield f"{finding.claim.rstrip('.')} ({finding.rule})"


def one_setting(bundle: Loaded) -> Iterator[str]:
    """Every measuring process of a case (of an ablation: of a level) had the same threads, placement, libraries and modes in force.

    Cases may differ: they map what they need.
    """
    ablation = bundle.run.ablation
    seen: dict[str, list[schema.Effective]] = {}
    for case in bundle.run.cases:
        for event in bundle.events:
            if isinstance(event, schema.Effective) and event.case == case.name:
                level = f" with {ablation.levels[ablation.order[event.process]].label}" if ablation else ""
                seen.setdefault(f"{case.name}{level}", []).append(event)
    for where, events in seen.items():
        for name in ("affinity", "memory_nodes", "threads", "environment", "mapped_libraries", "torch"):
            values = [_comparable(getattr(event, name)) for event in events]
            if any(value != values[0] for value in values):
                yield f"{where}: {name.replace('_', ' ')} differ between its processes"


def _comparable(value: object) -> object:
    """A value without what may differ between equal processes: the number of threads a process happens to have alive."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if key != "process_threads"}
    return value


def undisturbed(bundle: Loaded) -> Iterator[str]:
    """No block had to be kept that was measured while the device was slowed down, and nobody else computed on it."""
    for case in bundle.run.cases:
        blocks = [block for block in bundle.blocks if (block.case, block.phase) == (case.name, "measure")]
        left = [block for block in blocks if block.disturbed]
        if left:
            were = "was" if len(left) == 1 else "were"
            yield f"{case.name}: {len(left)} of {len(blocks)} blocks {were} measured under bad conditions ({left[0].conditions[0]})"
    readings = [row.gpu for row in bundle.telemetry if row.gpu is not None and row.moment != "before"]
    shared = [reading for reading in readings if reading.others]
    if shared:
        yield f"other processes computed on the GPU in {len(shared)} of {len(readings)} readings"


def clocks_judged(bundle: Loaded) -> Iterator[str]:
    """The clock of a device beside its host, and what holds it back, were known of every block."""
    for case in bundle.run.cases:
        blocks = [block for block in bundle.blocks if (block.case, block.phase) == (case.name, "measure")]
        unjudged = [text for block in blocks for text in block.conditions[-1:] if text.startswith(UNJUDGED)]
        if unjudged:
            yield f"{case.name}: {len(unjudged)} of {len(blocks)} blocks could not be judged ({unjudged[0].removeprefix(UNJUDGED)})"


def device_watched(bundle: Loaded) -> Iterator[str]:
    """The state of a device beside its host was read while it was measured."""
    beside = any(block.enqueue_ns is not None for block in bundle.blocks)
    if beside and not any(row.gpu is not None for row in bundle.telemetry):
        yield "nothing was read of the device's clock, heat and neighbours while it was measured"


def known_source(bundle: Loaded) -> Iterator[str]:
    """The suite's revision is known and nothing in it was changed."""
    source = bundle.run.source
    if source.revision is None:
        yield "the suite's own revision is unknown"
    elif source.dirty:
        yield "the suite's own files were changed since their revision"


def in_container(bundle: Loaded) -> Iterator[str]:
    """The run happened in a container whose image is named by digest, and whose software is listed in the bundle."""
    engine = bundle.run.engine
    if bundle.run.ablation and bundle.run.ablation.engine:
        return  # it measures both sides
    if not engine.containerised:
        yield "not in a container that the suite started"
        return
    if engine.image_digest is None:
        yield "the image's digest is unknown"
    if engine.sbom_sha256 is None:
        yield "the image's software is not listed (no SBOM)"
    elif _digest(bundle.path / SBOM) != engine.sbom_sha256:
        yield f"the bundle's {SBOM} is not the list that the image had"


def _digest(path: Path) -> str | None:
    try:
        return manifest.digest(path)
    except BundleError:
        return None


def whole(bundle: Loaded) -> Iterator[str]:
    """The run came to its end."""
    if bundle.run.status != "complete":
        yield f"the run is {bundle.run.status}"


RULES: tuple[Rule, ...] = (
    preset_measures,
    whole,
    enough_processes,
    everything_ran,
    arms_proved,
    accuracy_passed,
    nothing_wrong,
    one_setting,
    undisturbed,
    clocks_judged,
    device_watched,
    in_container,
    known_source,
)


def complaints(bundle: Loaded) -> list[str]:
    """Every reason for which the run is not publishable; empty when it is."""
    return [complaint for rule in RULES for complaint in rule(bundle)]
