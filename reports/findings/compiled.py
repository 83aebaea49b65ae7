"""Rules about what torch.compile leaves in a trace: frames, guards, prologues, graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial

import numpy as np

from reports.findings.compiled_graphs import same_graphs
from reports.findings.contract import Evidence, Outcome, Rule, explaining, fired, not_applicable, quiet
from reports.findings.seen import (
    LOOKUP,
    PROLOGUE,
    REGION,
    SHOWN,
    UNCOMPILED,
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
        advice="Compile one larger function instead of many small ones, so that one check serves more work"
        + ("; or lower the cost per call with mode='reduce-overhead'." if analysis.devices else ".")
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


def needs_a_pair(_: Analysis) -> Outcome:
    """R25 for one trace."""
    return not_applicable("compares two traces: give an eager and a compiled one of the same case")


_rule = partial(explaining, "compile")


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
        " waits for. Then compile more work at once, or, on a GPU, try mode='reduce-overhead', which replays recorded launches.",
    ),
)
"""R21 to R25; R25 is answered by `reports.findings.pair`."""
