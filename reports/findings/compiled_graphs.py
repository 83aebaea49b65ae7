"""Calls of compiled graphs, and whether every step calls the same (R24)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from reports.findings.contract import Evidence, Outcome, fired, not_applicable, quiet
from reports.findings.seen import GRAPH, SHOWN, UNCOMPILED, is_compiled, regions, rows_named, under
from reports.findings.words import moment
from reports.trace.analyse import Analysis
from reports.trace.read import Trace
from reports.trace.steps import step_rows


@dataclass(frozen=True)
class GraphCall:
    """One call of a compiled graph: `graph` is its key in the cache ("None" where it has none), `frame` the id of the nearest compiled
    frame around it, `step` the number of the step in order (-1 outside)."""

    row: int
    graph: str
    frame: str
    step: int


def graph_calls(trace: Trace) -> tuple[GraphCall, ...]:
    """Every call of a compiled graph, by start."""
    rows = rows_named(trace, GRAPH.fullmatch)
    step = np.array(step_rows(trace), np.intp)
    number = {int(row): position for position, row in enumerate(step.tolist())}
    owner, frame = under(trace, rows, step), under(trace, rows, regions(trace))
    calls = []
    for position, row in enumerate(rows.tolist()):
        match = GRAPH.fullmatch(trace.name(row))
        around = int(frame[position])
        calls.append(
            GraphCall(
                row,
                match[1] if match else "None",
                trace.name(around) if around >= 0 else "",
                number.get(int(owner[position]), -1),
            )
        )
    return tuple(calls)


def same_graphs(analysis: Analysis) -> Outcome:
    """R24: the same graphs in every step."""
    if not is_compiled(analysis):
        return not_applicable(UNCOMPILED)
    trace, calls = analysis.trace, graph_calls(analysis.trace)
    if not calls:
        return quiet("compiled code ran, and no call of a CompiledFxGraph is recorded (an older PyTorch)")
    keyed = [call for call in calls if call.graph != "None"]
    if not keyed:
        return not_applicable(
            f"all {len(calls)} calls name the graph 'None': with freezing the weights are part of the graph and it has no key in the"
            " cache; no key is not a miss"
        )
    keyless = f"; {len(calls) - len(keyed)} calls have no key (frozen graphs)" if len(keyed) < len(calls) else ""
    groups = _groups(keyed)
    if len(groups) < 2:
        return not_applicable(
            f"{len(keyed)} graph call{'s' if len(keyed) > 1 else ''} and nothing to compare with: record two steps or more"
        )
    first = groups[0]
    graphs = sorted(set(first))
    other = next((number for number, group in enumerate(groups) if group != first), None)
    unit = "step" if any(call.step >= 0 for call in keyed) else "call"
    if other is not None:
        new = sorted(set(groups[other]) - set(first))
        gone = sorted(set(first) - set(groups[other]))
        said = (
            "; ".join(
                part
                for part in (
                    f"new: {', '.join(map(_short, new))}" if new else "",
                    f"gone: {', '.join(map(_short, gone))}" if gone else "",
                )
                if part
            )
            or "the same graphs, called another number of times"
        )
        return quiet(
            f"{unit} {other + 1} of {len(groups)} calls other graphs than the first ({said}): a shape or a Python value changed, or a"
            f" graph was compiled again, or the parts of the program differ{keyless}"
        )
    row = next(call.row for call in keyed)
    return fired(
        f"All {len(groups)} {unit}s call the same {'graph' if len(graphs) == 1 else f'{len(graphs)} graphs'}"
        f" ({', '.join(map(_short, graphs[:SHOWN]))}): nothing was compiled again.",
        Evidence(f"the first call; {len(keyed)} calls with a key, {len(graphs)} different", *moment(trace, row)),
        why=f"{len(groups)} {unit}s compared by the graphs they call and how often{keyless}",
    )


def _groups(calls: list[GraphCall]) -> list[Counter[str]]:
    """The graphs called by each step, or, in a recording without steps, by each call of the frame that is called most."""
    by_step: dict[int, Counter[str]] = defaultdict(Counter)
    for call in calls:
        by_step[call.step][call.graph] += 1
    by_step.pop(-1, None)
    if by_step:
        return [by_step[number] for number in sorted(by_step)]
    by_frame: dict[str, list[Counter[str]]] = defaultdict(list)
    for call in calls:
        by_frame[call.frame].append(Counter([call.graph]))
    return max(by_frame.values(), key=len)


def _short(graph: str) -> str:
    return f"{graph[:12]}…" if len(graph) > 13 else graph
