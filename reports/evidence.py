"""What a run saw each arm to be: the lines of a case's table, and which arms nothing proves."""

from __future__ import annotations

from dataclasses import dataclass

from reports.plain import one_line
from suite.bundle import schema
from suite.bundle.reader import Loaded, proves_arms


@dataclass(frozen=True)
class Line:
    """One arm's line: `told` are clauses, `after` what was seen after the last block, `reason` why the arm is not shown."""

    arm: str
    told: tuple[str, ...]
    after: str
    reason: str = ""


def unproved(bundle: Loaded, case: str, label: str) -> str:
    """Why nothing proves that the arm is what it says, in a clause; empty where it is proved, was not measured, or cannot be known."""
    if not proves_arms(bundle.run) or not any(
        (b.case, b.arm, b.phase) == (case, label, "measure") for b in bundle.blocks
    ):
        return ""
    proved = any(event.moment == "after" and not event.faults for event in _of(bundle, case, label))
    return "" if proved else f"no process looked after its last block whether {label} is what it says"


def lines(bundle: Loaded, case: str) -> list[Line]:
    """The arms of a case that were looked at, in the plan's order; empty for a bundle of an older schema."""
    found = []
    for arm in bundle.run.arms:
        events = _of(bundle, case, arm.label)
        before = next((event for event in events if event.moment == "before"), None)
        reason = bundle.withheld.get((case, arm.label), "")
        if before is None:
            continue
        told = _compiled(before) if arm.name != "eager" else [_eager(before)]
        found.append(
            Line(
                arm.label,
                tuple(one_line(each) for each in told),
                _after(bundle, events, case, arm.label),
                one_line(reason),
            )
        )
    return found


def variables(bundle: Loaded) -> list[str]:
    """What became of the user's variables, a sentence each."""
    found = bundle.fingerprint.findings if bundle.fingerprint else []
    return [one_line(finding.claim) for finding in found if finding.rule.startswith("launch.variable-")]


def _of(bundle: Loaded, case: str, label: str) -> list[schema.ArmEvidence]:
    return [
        event
        for event in bundle.events
        if isinstance(event, schema.ArmEvidence) and (event.case, event.arm, event.role) == (case, label, "measure")
    ]


def _eager(seen: schema.ArmEvidence) -> str:
    if seen.graph_calls or seen.regions:
        return f"{_counted(seen.graph_calls, 'call')} of compiled graphs"
    return f"{_counted(seen.operators, 'operator')}, no compiled code"


def _compiled(seen: schema.ArmEvidence) -> list[str]:
    graphs = _counted(seen.graphs, "graph") + (
        f" with {_counted(seen.kernels, 'kernel')} of its own" if seen.kernels else ""
    )
    told = [graphs if seen.graphs else "no graph was compiled"]
    told.append(
        _counted(seen.graph_breaks, "graph break") + (f", first: {seen.break_reason}" if seen.break_reason else "")
    )
    if seen.eager_operators:
        share = 100 * seen.operators / seen.eager_operators
        told.append(
            f"{seen.operators} of eager's {seen.eager_operators} operators outside of compiled graphs ({share:.2g} %)"
        )
    else:
        told.append(f"{_counted(seen.operators, 'operator')} outside of compiled graphs")
    if seen.frames_skipped:
        told.append(f"{_counted(seen.frames_skipped, 'frame')} not compiled")
    told.append(f"{_counted(seen.frozen, 'weight')} frozen" if seen.frozen else "no weight frozen")
    if seen.cuda_graphs or seen.cuda_graphs_refused:
        why = f" ({seen.cuda_graphs_refused})" if seen.cuda_graphs_refused else ""
        told.append(f"{seen.cuda_graphs} of {_counted(seen.graphs, 'graph')} replayed as CUDA graphs{why}")
    told += ["called by generated C++"] if seen.cpp_wrapper else []
    told += ["kernels tried out while compiling"] if seen.max_autotune else []
    if seen.attention:
        told.append(f"fused attention in place of plain, {_counted(seen.attention, 'time')}")
    return [*told, *(f"{name} is {value}" for name, value in seen.settings.items())]


def _after(bundle: Loaded, events: list[schema.ArmEvidence], case: str, label: str) -> str:
    after = {event.process: event for event in events if event.moment == "after"}
    same = sum(not event.faults for event in after.values())
    measured = {
        b.process
        for b in (*bundle.blocks, *bundle.withheld_blocks)
        if (b.case, b.arm, b.phase) == (case, label, "measure")
    }
    processes = measured | set(after)
    return f"the same in {same} of {_counted(len(processes), 'process')}" if processes else "was not timed"


def _counted(count: int, what: str) -> str:
    if not count:
        return f"no {what}"
    return f"{count} {what}{'' if count == 1 else 'es' if what.endswith('s') else 's'}"
