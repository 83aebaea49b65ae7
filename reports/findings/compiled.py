"""Rules about what torch.compile leaves in a trace: frames, guards, prologues, graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.seen import (
    GRAPH,
    LOOKUP,
    PROLOGUE,
    REGION,
    SHOWN,
    Rows,
    exactly,
    host_bound,
    is_compiled,
    regions,
    rows_named,
    total_us,
    under,
)
from reports.findings.words import moment
from reports.trace.analyse import Analysis
from reports.trace.read import Trace
from reports.trace.steps import step_rows
from reports.words import share, times, us

GUARDS_SHARE = 0.1
"""Share of a step from which guard checks are called a cost: below, they vanish in the differences between steps."""

UNCOMPILED = "the trace holds no compiled region: nothing in it was run by torch.compile"


@dataclass(frozen=True)
class Frame:
    """One compiled version of one frame of Python code: `frame` (K) and `version` (M) of "K/M"; both empty and 0 where the trace does
    not say. `rows` are its calls, by start; `inside` the number that lie in another frame's."""

    frame: str
    version: int
    rows: Rows
    inside: int

    @property
    def name(self) -> str:
        return f"{self.frame}/{self.version}" if self.frame else "(no id)"


def frames(trace: Trace) -> tuple[Frame, ...]:
    """Every compiled frame that ran, in the order of their ids."""
    rows = regions(trace)
    nested = under(trace, rows, rows) >= 0
    by_id: dict[tuple[str, int], list[int]] = defaultdict(list)
    for position, row in enumerate(rows.tolist()):
        match = REGION.fullmatch(trace.name(row))
        if match is not None:
            by_id[match["frame"] or "", int(match["version"] or 0)].append(position)
    return tuple(
        Frame(frame, version, rows[positions], int(nested[positions].sum()))
        for (frame, version), positions in sorted(by_id.items())
    )


def compiled_regions(analysis: Analysis) -> Outcome:
    """R21: frames in compiled code, and which of them were compiled again."""
    if not is_compiled(analysis):
        return not_applicable(UNCOMPILED)
    trace, found = analysis.trace, frames(analysis.trace)
    if not found:
        return quiet(
            "compiled graphs were called, and no frame (Torch-Compiled Region) is recorded: an older PyTorch, or a graph called directly"
        )
    again = [frame for frame in found if frame.version > 0]
    distinct = {frame.frame for frame in found}
    nested = sum(frame.inside for frame in found)
    claim = f"{len(distinct)} compiled frame{'s' if len(distinct) > 1 else ''} ran: " + ", ".join(
        f"{frame.name} {times(int(frame.rows.size))}" for frame in found[:SHOWN]
    )
    if len(found) > SHOWN:
        claim += f" and {len(found) - SHOWN} more"
    advice = []
    if again:
        claim += "; " + ", ".join(
            f"{frame.name} is version {frame.version} of frame {frame.frame}: it was compiled again at least"
            f" {times(frame.version)}"
            for frame in again[:SHOWN]
        )
        advice.append(
            "TORCH_LOGS=recompiles says which guard failed; keep shapes, dtypes and Python values the same, or mark the changing"
            " dimension with torch._dynamo.mark_dynamic."
        )
    if len(distinct) > 1:
        claim += "; several frames mean several functions, or one that is cut by graph breaks"
        advice.append("TORCH_LOGS=graph_breaks names the line of each break.")
    evidence = [
        Evidence(
            f"frame {frame.name}: {times(int(frame.rows.size))}, {us(total_us(trace, frame.rows))} in all",
            *moment(trace, frame.rows[0]),
        )
        for frame in found[:SHOWN]
    ]
    return fired(
        claim + ".",
        *evidence,
        why=f"{sum(int(frame.rows.size) for frame in found)} slices named Torch-Compiled Region, {len(found)} ids,"
        f" {len(again)} with a version above 0, {nested} inside another region",
        advice=" ".join(advice),
    )


@dataclass(frozen=True)
class Guards:
    """Lookups in Dynamo's cache: `per_step` for each step in order, `share` of the steps' host time (of the host's own time where there
    are no steps)."""

    rows: Rows
    total_us: float
    share: float
    per_step: tuple[int, ...]


def guards(analysis: Analysis) -> Guards:
    """What checking the guards costs."""
    trace = analysis.trace
    rows = rows_named(trace, exactly(LOOKUP))
    step = np.array(step_rows(trace), np.intp)
    owner = under(trace, rows, step)
    if not (owner >= 0).any():
        # No steps, or the compiled code ran outside them.
        host = analysis.host.self_cpu_total_us
        spent = total_us(trace, rows)
        return Guards(rows, spent, spent / host if host else 0.0, ())
    inside = rows[owner >= 0]
    host = total_us(trace, step)
    spent = total_us(trace, inside)
    count = Counter(owner.tolist())
    return Guards(rows, spent, spent / host if host else 0.0, tuple(count[int(row)] for row in step.tolist()))


def cache_lookup(analysis: Analysis) -> Outcome:
    """R22: guards are checked on every call."""
    if not is_compiled(analysis):
        return not_applicable(UNCOMPILED)
    found = guards(analysis)
    if not found.rows.size:
        return quiet(
            f"compiled code ran, and no {LOOKUP} is recorded (guards skipped, an older PyTorch, or a graph called directly)"
        )
    of = "of the steps' host time" if found.per_step else "of the host's time (no step holds a lookup)"
    numbers = f"{times(int(found.rows.size))}, {us(found.total_us)}, {share(found.share)} {of}"
    if found.per_step:
        without = sum(count == 0 for count in found.per_step)
        each = (
            f"{min(found.per_step)}"
            if min(found.per_step) == max(found.per_step)
            else f"{min(found.per_step)} to {max(found.per_step)}"
        )
        numbers += f"; {each} in each of {len(found.per_step)} steps" + (f", none in {without}" if without else "")
    costly = found.share >= GUARDS_SHARE and host_bound(analysis)
    return fired(
        f"Every call of compiled code first checks its guards: {share(found.share)} {of}"
        + _judgement(found.share, costly),
        Evidence(
            f"the first lookup, {us(total_us(analysis.trace, found.rows[:1]))}; {numbers}",
            *moment(analysis.trace, found.rows[0]),
        ),
        why=f"{numbers}; a cost from {share(GUARDS_SHARE)} on, where the host bounds the run",
        advice="Compile one larger function instead of many small ones, so that one check serves more work; or lower the cost per call"
        " with mode='reduce-overhead'."
        if costly
        else "",
        at_stake_us=found.total_us if costly else 0.0,
    )


def _judgement(share: float, costly: bool) -> str:
    if costly:
        return ", which is a cost worth a look."
    if share >= GUARDS_SHARE:
        return "; the GPU is what the run waits for, so this is hidden behind its work."
    return ", which is normal."


def prologue(analysis: Analysis) -> Outcome:
    """R23: AOTDispatcher's prologue is there with and without gradients."""
    if not is_compiled(analysis):
        return not_applicable(UNCOMPILED)
    trace = analysis.trace
    rows = rows_named(trace, exactly(PROLOGUE))
    if not rows.size:
        return quiet(f"compiled code ran, and no {PROLOGUE} is recorded (an older PyTorch, or another backend)")
    backward = rows_named(trace, lambda name: name.startswith("autograd::engine") or name == "CompiledFunctionBackward")
    meaning = (
        "no backward pass is recorded, and it is normal all the same: the wrapper is always there"
        if not backward.size
        else "a backward pass is recorded too"
    )
    spent = total_us(trace, rows)
    return fired(
        f"The {PROLOGUE} ran {times(int(rows.size))} ({us(spent)} in all); {meaning}.",
        Evidence(f"the first one, {us(total_us(trace, rows[:1]))}", *moment(trace, rows[0])),
        why=f"{rows.size} slices of that name, {backward.size} of a backward pass",
    )


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


def needs_a_pair(_: Analysis) -> Outcome:
    """R25 for one trace."""
    return not_applicable("compares two traces: give an eager and a compiled one of the same case")


def _rule(
    identity: str,
    title: str,
    check: object,
    formula: str,
    threshold: str,
    refuted_by: str,
    explanation: str,
) -> Rule:
    return Rule(
        id=identity,
        title=title,
        family="compile",
        severity="explanation",
        formula=formula,
        threshold=threshold,
        refuted_by=refuted_by,
        explanation=explanation,
        check=check,  # type: ignore[arg-type]
    )


R25_TITLE = "Compiled steps cost the host more than eager ones"

COMPILE_RULES: tuple[Rule, ...] = (
    _rule(
        "R21",
        "Compiled frames, and versions of them",
        compiled_regions,
        "slices named Torch-Compiled Region: K/M, counted by K (frame) and M (version)",
        "at least 1; M above 0 means compiled again",
        "TORCH_LOGS=recompiles stays silent although a version above 0 runs",
        "Torch-Compiled Region: K/M says that the code in it is compiled. K numbers the Python function (frame) that was compiled, M"
        " its version. 0/0 is the first version of the first function; 0/1 means that an assumption of 0/0 did not hold for a call, so"
        " the function was compiled once more. A recompilation takes seconds, but it lies before the steps you see here if you warmed"
        " up. A few versions are fine; if M keeps growing, find out with TORCH_LOGS=recompiles what keeps changing.",
    ),
    _rule(
        "R22",
        "Guards are checked on every call",
        cache_lookup,
        f"sum of {LOOKUP} inside steps / sum of the steps' host time",
        f"at least 1; called a cost from {share(GUARDS_SHARE)} of the steps",
        "a run with guards skipped whose step is not shorter",
        "Compiled code is valid only for what it was compiled for: these shapes, dtypes and Python values. So each call first checks"
        " that they still hold (guards); this is the TorchDynamo Cache Lookup. It costs some microseconds per call whatever the size of"
        " the work. For a large model that is nothing; for a tiny function it can be more than compiling saves. Then compile a larger"
        " piece of the program.",
    ),
    _rule(
        "R23",
        "AOTDispatcher's prologue without gradients is normal",
        prologue,
        f"slices named {PROLOGUE}",
        "at least 1",
        "a version of PyTorch whose wrapper is absent without gradients",
        "AOTAutograd stands between Dynamo and the code generator and traces forward and backward ahead of time. Its wrapper runs on"
        " every call of a compiled graph and prepares the inputs. It is there under torch.no_grad too, so it does not mean that"
        " gradients are computed. It takes a few microseconds. There is nothing to do about it.",
    ),
    _rule(
        "R24",
        "The same compiled graph in every step",
        same_graphs,
        "for each step the set of keys in '## Call CompiledFxGraph <key> ##', with their counts",
        "equal in all steps; two steps at least",
        "TORCH_LOGS=recompiles reports a compilation within the recorded steps",
        "Inductor gives each graph that it compiles a key, made from the graph and the settings, and keeps the result under it. If all"
        " steps call the same key, every step used what was compiled before: cache hits. Another key in a later step means that other"
        " code was compiled or chosen. 'None' means that the graph has no key, as with freezing, and says nothing about hits. If keys"
        " change, look for inputs whose shapes change from step to step.",
    ),
    _rule(
        "R25",
        R25_TITLE,
        needs_a_pair,
        "median host time per step, compiled / eager",
        "needs two traces of the same case",
        "a longer recording in which the steps' times agree",
        "Compiled code does more on the host for each call: it checks guards, runs a wrapper and calls the graph. For a tiny function"
        " this costs more than the eager call did. It is the expected price, not a fault. It matters only when the host is what the run"
        " waits for. Then compile more work at once, or try mode='reduce-overhead', which replays recorded launches.",
    ),
)
"""R21 to R25; R25 is answered by `reports.findings.pair`."""
