"""Which process a run buys next, and how much it measures. Pure functions on what the bundle holds so far."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from suite.bundle import schema
from suite.bundle.reader import Loaded
from suite.clocktime import now
from suite.measure.stopping import Costs, pairs_wanted, widest
from suite.plan import arms_of


@dataclass(frozen=True)
class Wish:
    """A case that would gain from another process: its half width now (infinite: no interval yet) and what that costs."""

    case: schema.Case
    process: int
    half_width: float
    cost_s: float


def ended_well(loaded: Loaded) -> set[tuple[str, str, int]]:
    """(case, role, process) of everything that is done."""
    ended = (event for event in loaded.events if isinstance(event, schema.ProcessEnded))
    return {(event.case, event.role, event.process) for event in ended if event.outcome == "ok"}


def is_settled(loaded: Loaded, case: schema.Case) -> bool:
    """Whether it was decided before that the case gets no further process; failures may be gone when a run is continued."""
    stopped = (event for event in loaded.events if isinstance(event, schema.Stopped) and event.case == case.name)
    return any(event.reason != "failures" for event in stopped)


def decide(loaded: Loaded, case: schema.Case, prior_s: float, failed: bool) -> Wish | schema.Stopped:
    """Another process for the case, or the event that says why it gets none.

    `prior_s` is what a process is thought to take before one has ended; `failed` that the case has failed too often.
    """
    procedure = loaded.run.procedure
    done = {process for name, role, process in ended_well(loaded) if (name, role) == (case.name, "measure")}
    width = widest([block for block in loaded.blocks if block.case == case.name], arms_of(loaded.run, case), procedure)
    cost_s = _duration_s(loaded, case, prior_s)
    spent_s = (
        sum(e.duration_ns for e in loaded.events if isinstance(e, schema.ProcessEnded) and e.role == "measure") / 1e9
    )
    reason: Any = None
    if failed:
        reason = "failures"
    elif width is not None and width <= procedure.target_half_width:
        reason = "target reached"
    elif len(done) >= max(procedure.processes, procedure.processes_maximum):
        reason = "most processes reached"
    elif spent_s + cost_s > procedure.budget_ns / 1e9:
        reason = "budget spent"
    if reason:
        return schema.Stopped(at=now(), case=case.name, reason=reason, processes=len(done), half_width=width)
    following = next(process for process in itertools.count() if process not in done)
    return Wish(case, following, math.inf if width is None else width, cost_s)


def pairs_for(loaded: Loaded, case: schema.Case, prior_s: float) -> int | None:
    """Pairs that the case's next process should measure, from the processes so far as a pilot; None without one."""
    blocks = [block for block in loaded.blocks if block.case == case.name and block.phase == "measure"]
    pairs = len({(block.process, block.pair) for block in blocks})
    if not pairs:
        return None
    measured_s = sum(sum(block.iterations_ns) for block in blocks) / 1e9
    before_s = _duration_s(loaded, case, prior_s) - measured_s / len({block.process for block in blocks})
    costs = Costs(max(1e-3, measured_s / pairs), max(1.0, before_s))
    return pairs_wanted(blocks, arms_of(loaded.run, case), costs, loaded.run.procedure.pairs_maximum)


def _duration_s(loaded: Loaded, case: schema.Case, prior_s: float) -> float:
    """What another process of the case will take: as the last one that ended well."""
    ended = (event for event in loaded.events if isinstance(event, schema.ProcessEnded))
    mine = [e for e in ended if (e.case, e.role, e.outcome) == (case.name, "measure", "ok")]
    return mine[-1].duration_ns / 1e9 if mine else prior_s
