"""A bundle's recordings of matmul_add, for the walkthrough's questions: its traces, its times and what slowed its device down."""

from __future__ import annotations

from collections.abc import Sequence

from reports.plain import one_line
from reports.render import numbers, view
from reports.render.plain_text import plain
from reports.render.trace_summary import CaseTrace
from reports.render.walkthrough_document import shown
from reports.render.walkthrough_view import Page
from reports.results import ArmResult, Results
from reports.walkthrough.recording import Machine, Recording, Recordings
from reports.walkthrough.workload import WORKLOAD, dtype_of, work_of
from suite.bundle import schema
from suite.bundle.reader import Loaded


def page_of(bundle: Loaded, traces: Sequence[CaseTrace], found: Results) -> Page | str | None:
    """The walkthrough's page of a bundle; why it could not be made; None where the bundle holds no trace of matmul_add."""
    try:
        asked = recordings(bundle, traces, found)
        return None if asked is None else shown(asked)
    except Exception as error:  # as with a single trace: a report about hours of measuring comes out all the same
        return plain(f"The questions could not be asked ({type(error).__name__}: {error}). Please report this.", 400)


def recordings(bundle: Loaded, traces: Sequence[CaseTrace], found: Results) -> Recordings | None:
    """Every trace of matmul_add that could be read; None where there is none."""
    cases = {case.name: case for case in bundle.run.cases if work_of(case) is not None}
    all_ = tuple(_recording(cases[one.case], one) for one in traces if one.case in cases and one.analysis is not None)
    return Recordings(all_, machine(bundle, found)) if all_ else None


def _recording(case: schema.Case, one: CaseTrace) -> Recording:
    assert one.analysis is not None
    kind = one.profile_pass or "main"
    how = f"pass {kind}" if one.profile_pass else "its profile"
    return Recording(
        label=f"{case.name}, {one.arm}, {how}",
        arm=one.arm,
        size=case.parameters["size"],
        dtype=dtype_of(case),
        kind=kind,
        analysis=one.analysis,
        batch=case.parameters.get("batch") or 1,
        cache=case.cache,
        bias_1d=case.parameters.get("bias") == "1-D",
        page=one.summary.page,
    )


def machine(bundle: Loaded, found: Results) -> Machine:
    """The times of its matmul_add cases without the profiler, and the conditions under which they were taken."""
    timed: dict[tuple[int, str], str] = {}
    for case in found.cases:
        work = work_of(case.case)
        if (
            work is None
            or case.case.cache == "cold"
            or case.case.parameters.get("batch")
            or case.case.parameters.get("bias")
        ):
            continue
        for arm in case.candidates:
            if arm.ratio is not None:
                timed.setdefault((work.size, arm.arm.name), _timed(case.baseline, arm))
    name = bundle.run.device.name or str(view.fact(bundle, "cpu", "model") or "")
    return Machine(one_line(name, 120), _conditions(bundle), timed)


def _timed(eager: ArmResult, arm: ArmResult) -> str:
    assert arm.ratio is not None
    interval = f" ({numbers.interval(arm.ratio)})" if arm.ratio.interval else ""
    word = f", {arm.verdict.word}" if arm.verdict and arm.verdict.word else ""
    return (
        f"{numbers.time(eager.typical_ns)} a call eager, {numbers.time(arm.typical_ns)} {arm.arm.label}:"
        f" {numbers.ratio(arm.ratio)} eager's speed{interval}{word}"
    )


def _conditions(bundle: Loaded) -> tuple[str, ...]:
    blocks = [block for block in bundle.blocks if block.phase == "measure" and block.case.startswith(f"{WORKLOAD}/")]
    facts = bundle.fingerprint.facts.get("gpu", {}) if bundle.fingerprint else {}
    # Facts go by NVML's numbers, which are not torch's where some GPUs are hidden: the place on PCI tells which is meant.
    place = bundle.run.device.bus_id
    numbered = (
        name.removesuffix(" pci_bus_id")
        for name, fact in facts.items()
        if name.endswith(" pci_bus_id") and fact.value == place
    )
    limit = facts.get(f"{next(numbered, 'gpu')} power_limit_w") if place else None
    watts = f", at a power limit of {limit.value:g} W" if limit and isinstance(limit.value, int | float) else ""
    return tuple(
        f"{condition}{watts if 'power' in condition else ''}, in {count} of this run's {len(blocks)} timed blocks of {WORKLOAD}"
        for condition, count, _ in view.conditions(blocks)[:2]
    )
