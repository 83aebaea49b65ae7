"""Whether an arm is what it says: rules on the evidence that its process took, and what is worth telling of it. Pure, without torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from suite.arms import Arm
from suite.bundle.schema import AnyEvent, ArmEvidence, Finding

MOST_OUTSIDE = 0.5
"""A compiled arm runs at most this part of eager's operators outside of compiled graphs: beyond, it is mostly eager."""

NOT_IN_THE_CODE = re.compile(
    r"torch\._inductor\.config\.(trace(\..+)?|compile_threads|worker_start_method|(fx_graph|autotune|bundle\w*)_\w*cache|verbose_progress)"
    r"|torch\._dynamo\.config\.(verbose|log_\w+|print_\w+|suppress_errors|(accumulated_)?recompile_limit|(accumulated_)?cache_size_limit)"
    r"|torch\._functorch\.config\.(enable_(remote_)?autograd_cache|debug_\w+)"
    r"|torch\.compiler\.config\.(job_id|force_disable_caches)"
)
"""Settings of the compiler that change how long it takes or what it prints, and not the code: told. Where errors were suppressed, or a
limit was reached, the counts of frames and the calls show it."""

WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that use CUDA graphs on a GPU."""

SUPPRESSING = "torch._dynamo.config.suppress_errors"


class NotWhatItSaysError(Exception):
    """An arm without evidence that it is what it says. The text is a clause with the reasons."""


def reason(evidence: ArmEvidence) -> str:
    """Why the arm is not shown, in a clause; empty where nothing is wrong with it."""
    when = "after the last block it is" if evidence.moment == "after" else "it is"
    return f"{when} not what it says: {'; '.join(evidence.faults)}" if evidence.faults else ""


def faults_before(arm: Arm, seen: ArmEvidence, *, on_gpu: bool = False) -> list[str]:
    """What shows that the arm is another than it says, from its first calls. `on_gpu`: some of its graphs run on a GPU."""
    return list(_compiled(arm, seen, on_gpu) if arm.compiled else _eager(seen))


def faults_after(arm: Arm, seen: ArmEvidence, before: ArmEvidence) -> list[str]:
    """What shows that the arm is not any more what it was before it was timed."""
    if not arm.compiled:
        return list(_eager(seen))
    found = []
    if seen.graph_calls < before.graph_calls:
        found.append(f"{seen.graph_calls} of {before.graph_calls} calls of compiled graphs are left in its call")
    if seen.regions and seen.regions != before.regions:
        found.append(f"it was compiled again meanwhile (frames {_named(before.regions)}, then {_named(seen.regions)})")
    if seen.operators > before.operators:
        found.append(f"{seen.operators} operators ran outside of compiled graphs, and {before.operators} did before")
    return found


def _named(regions: list[str]) -> str:
    return ", ".join(regions[:6]) + (" ..." if len(regions) > 6 else "") or "none"


def _eager(seen: ArmEvidence) -> Iterator[str]:
    if seen.graph_calls or seen.regions:
        yield f"compiled code ran in its call ({_times(max(seen.graph_calls, len(seen.regions)), 'time')})"


def _compiled(arm: Arm, seen: ArmEvidence, on_gpu: bool) -> Iterator[str]:
    changed = [f"{name} is {value}" for name, value in seen.settings.items() if not NOT_IN_THE_CODE.fullmatch(name)]
    if not seen.graphs:
        yield "no graph was compiled for it"
    elif not seen.graph_calls:
        yield "no compiled graph ran in its call"
    if changed:
        yield f"{', '.join(changed)}: not torch's default, and not set by the suite"
    if seen.graphs:
        yield from _of_its_graphs(arm, seen, on_gpu)
    if seen.frames_skipped and SUPPRESSING in seen.settings:
        yield f"{_times(seen.frames_skipped, 'frame')} could not be compiled, and the compiler's errors are suppressed"
    elif seen.graph_calls and seen.operators > MOST_OUTSIDE * seen.eager_operators > 0:
        yield f"{outside(seen)}, so that it is mostly eager"


def _of_its_graphs(arm: Arm, seen: ArmEvidence, on_gpu: bool) -> Iterator[str]:
    if arm.config.get("freezing") and not seen.frozen:
        yield "no weight was frozen into its graphs"
    if seen.frozen and not arm.config.get("freezing"):
        yield f"{_times(seen.frozen, 'weight')} were frozen into its graphs"
    if seen.cpp_wrapper and not arm.config.get("cpp_wrapper"):
        yield "its graphs are called by generated C++ (cpp_wrapper)"
    if seen.max_autotune != arm.mode.startswith("max-autotune"):
        yield "its kernels were tried out (max_autotune)" if seen.max_autotune else "its kernels were not tried out"
    if on_gpu and arm.mode in WITH_CUDA_GRAPHS and not seen.cuda_graphs:
        yield f"none of its graphs is a CUDA graph ({seen.cuda_graphs_refused or 'no reason given'})"
    if seen.cuda_graphs and not arm.mode:
        yield "its graphs are CUDA graphs"


def outside(seen: ArmEvidence) -> str:
    """How much of a call runs outside of compiled graphs, in a clause."""
    if not seen.operators:
        return "all of its operators ran in compiled graphs"
    share = f" ({100 * seen.operators / seen.eager_operators:.2g} %)" if seen.eager_operators else ""
    of = f" of the {seen.eager_operators} that eager runs" if seen.eager_operators else ""
    return f"{_times(seen.operators, 'operator')}{of} ran outside of compiled graphs{share}"


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def untrue(withheld: Mapping[tuple[str, str], str]) -> list[Finding]:
    """Arms that are not what they say, with the reasons, by (case, arm's label)."""
    return [
        Finding(
            rule="arms.not-what-it-says",
            severity="wrong",
            claim=f"{case}: {arm} is not shown.",
            evidence=[why],
        )
        for (case, arm), why in withheld.items()
    ]


def findings(events: Iterable[AnyEvent]) -> list[Finding]:
    """What is worth knowing of arms that are shown all the same, one finding a case and arm, by its first process."""
    first: dict[tuple[str, str], ArmEvidence] = {}
    untrue: set[tuple[str, str]] = set()
    for event in events:
        if isinstance(event, ArmEvidence) and event.role == "measure":
            first.setdefault((event.case, event.arm), event)
            untrue |= {(event.case, event.arm)} if event.faults else set()
    return [finding for arm, seen in first.items() if arm not in untrue for finding in _of_one(seen)]


def _of_one(seen: ArmEvidence) -> Iterator[Finding]:
    where = f"{seen.case}: {seen.arm}"
    if seen.graph_breaks or seen.frames_skipped or (seen.operators and seen.graphs):
        broken = [
            f"has {_times(seen.graph_breaks, 'graph break')}" if seen.graph_breaks else "",
            f"left {_times(seen.frames_skipped, 'frame')} uncompiled" if seen.frames_skipped else "",
        ]
        parts = " and ".join(filter(None, broken)) or "is compiled"
        yield Finding(
            rule="arms.partly-compiled",
            severity="doubtful",
            claim=f"{where} {parts}; {outside(seen)}.",
            evidence=[
                f"{_times(seen.graphs, 'graph')} compiled, {_times(seen.graph_calls, 'call')} of them in a call",
                *([f"the first break: {seen.break_reason}"] if seen.break_reason else []),
            ],
            advice="read its ratio as that of a program that is compiled in part",
        )
    told = [f"{name} is {value}" for name, value in seen.settings.items()]
    if told:
        yield Finding(
            rule="arms.compiler-settings",
            severity="doubtful",
            claim=f"{where} was compiled with {', '.join(told)}: not torch's default, and not set by the suite.",
            evidence=["read in the measuring process before anything was compiled"],
            advice="find out what sets it (sitecustomize, usercustomize, a .pth file)",
        )
    if seen.attention:
        yield Finding(
            rule="arms.attention-replaced",
            severity="note",
            claim=f"{where} computes fused attention where the model has plain attention, in {_times(seen.attention, 'place')}.",
            evidence=[f"Inductor's counter fuse_attention grew by {seen.attention} while the arm was compiled"],
            advice="compare it with the case's -sdpa variant, in which eager has fused attention too",
        )
    if seen.cuda_graphs and seen.cuda_graphs < seen.graphs:
        yield Finding(
            rule="arms.cuda-graphs",
            severity="doubtful",
            claim=f"{where} replays {seen.cuda_graphs} of its {_times(seen.graphs, 'graph')} as CUDA graphs.",
            evidence=[seen.cuda_graphs_refused or "torch gives no reason for the others"],
        )
