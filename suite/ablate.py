"""The plan of an ablation: which launch settings are switched on in which process, so that their effects can be told apart.

Only a new process can change an allocator or an OpenMP run-time. So every process of a case is started with one level of settings,
and the levels follow each other in mirrored, rotated order: a drift of the machine meets all of them alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec

from suite.bundle import schema
from suite.errors import UserError
from suite.launch.profiles import KNOBS, Knob
from suite.nearest import nearest
from suite.plan import AblationRequest, Request, command_line, launch_variables, plan, words
from suite.statistics.order import mirrored

Design = Literal["steps", "alone", "container"]

DEFAULT_ARMS = "inductor"
ROUNDS = {"smoke": 1, "quick": 4, "standard": 8, "paper": 8}
"""Rounds by preset: how often every level is started, and so the number of replicates."""

MEASURE_BUDGET_NS = {
    "smoke": 1_000_000_000,
    "quick": 4_000_000_000,
    "standard": 10_000_000_000,
    "paper": 30_000_000_000,
}
"""A process of an ablation measures less than one of a run: what it is compared with lies in other processes."""

NONE, AGAIN, ALL = "none", "none again", "all"
CONTAINER = "container"
"""Not a launch setting: a level with it starts its workers in a container."""

CASES: dict[str, str] = {
    "steps": "pointwise_chain,mobilebert_qa",
    "alone": "pointwise_chain,mobilebert_qa",
    # A case that touches much memory, and one that computes.
    "container": "pointwise_chain,matmul_add/1024-fp32",
}
"""Cases by design, where the user names none."""

_STEPS: tuple[tuple[str, str], ...] = (
    ("+libiomp5", "Intel's OpenMP run-time in place of torch's own"),
    ("+jemalloc", "jemalloc and its MALLOC_CONF besides"),
    ("+KMP", "the KMP_* settings besides"),
    ("+numactl", "cores and memory bound besides"),
    (ALL, "and the thread count: the whole tuned profile"),
)
"""The steps of the ladder, each with one knob more, in the order of KNOBS."""


def levels(design: Design) -> list[schema.Level]:
    """The levels of a design: nothing set, nothing set again (the noise floor), and then the settings.

    In "steps" each level adds a knob to the one before it, so that the steps multiply to the whole. In "alone" each knob stands alone,
    but for the KMP_* settings, which nothing but libiomp5 reads.
    """
    knobs: list[Knob] = list(KNOBS)
    if design == "container":
        return [
            schema.Level(label="host", knobs=list(knobs), description="natively, with the tuned profile"),
            schema.Level(label="host again", knobs=list(knobs), description="the same again: the noise floor"),
            schema.Level(
                label="container", knobs=[*knobs, CONTAINER], description="each process in a container of its own"
            ),
        ]
    found = [
        schema.Level(label=NONE, knobs=[], description="nothing is set"),
        schema.Level(label=AGAIN, knobs=[], description="nothing is set, again: the noise floor"),
    ]
    if design == "steps":
        for count, (label, description) in enumerate(_STEPS, 1):
            found.append(schema.Level(label=label, knobs=list(knobs[:count]), description=description))
        return found
    for knob in knobs:
        alone = ["libiomp5", "kmp"] if knob == "kmp" else [knob]
        found.append(schema.Level(label=f"{' + '.join(alone)} alone", knobs=list(alone), description=KNOBS[knob]))
    return [*found, schema.Level(label=ALL, knobs=list(knobs), description="the whole tuned profile")]


def plan_ablation(request: Request, asked: AblationRequest, engine: schema.Engine, argv: list[str]) -> schema.Run:
    """The plan of a new ablation: that of a run, with a level for each process and without profiling.

    Raises:
        UserError: as `suite.plan.plan`, and for an unknown design, fewer than one round, or a launch profile (levels replace it).
    """
    design, rounds = asked.design, asked.rounds
    if design not in CASES:
        raise UserError(f"unknown design '{design}'{nearest(design, ('steps', 'alone'))}; they are steps and alone.")
    if rounds is not None and (rounds < 1 or (rounds > 1 and rounds % 2)):
        raise UserError(
            f"rounds come in mirrored twos, so that a drift cancels: an even number (or 1, to try), not {rounds}."
        )
    if request.launch.settings != "tuned" or request.launch.threads:
        raise UserError("an ablation switches the tuned profile's settings one by one: leave settings and threads out.")
    filled = replace(request, cases=request.cases or CASES[design], arms=request.arms or DEFAULT_ARMS, profile=False)
    run = plan(filled, engine, argv)
    found: list[schema.Level] = levels(design)  # type: ignore[arg-type]
    count = rounds or ROUNDS[run.preset]
    labels = [level.label for level in found]
    order = mirrored(labels, -(-count // 2), 0)[: count * len(found)]
    procedure = msgspec.structs.replace(
        run.procedure,
        processes=len(order),
        processes_maximum=len(order),
        measure_budget_ns=MEASURE_BUDGET_NS[run.preset],
        warmup_budget_ns=min(run.procedure.warmup_budget_ns, MEASURE_BUDGET_NS[run.preset]),
        # The replicates are the rounds: time is better spent on another process than on more blocks in one.
        block_minimum_iterations=3,
        pairs_minimum=1,
        pairs_maximum=4,
        arm_minimum_ns=0,
    )
    return msgspec.structs.replace(
        run,
        run_id=run.run_id.replace(
            f"-{run.preset}-", f"-{'container' if design == 'container' else 'ablate'}-{run.preset}-"
        ),
        # Levels are the rivals here, so the baseline is not measured twice in a process.
        arms=[arm for arm in run.arms if arm.role != "noise"],
        procedure=procedure,
        command=_command(request, asked),
        ablation=schema.Ablation(design=design, levels=found, order=[labels.index(label) for label in order]),  # type: ignore[arg-type]
    )


def _command(request: Request, asked: AblationRequest) -> str:
    variables = {
        "PRESET": request.preset,
        "CASES": " ".join(words(request.cases)),
        "ARMS": ",".join(words(request.arms)),
        "ROUNDS": str(asked.rounds or ""),
        "DESIGN": asked.design if asked.design == "alone" else "",
        "MODEL_DIR": "<your model directory>" if request.model_dir else "",
        "MODEL_REVISION": request.model_revision or "",
        **launch_variables(request.launch),
    }
    return command_line("container-cost" if asked.design == "container" else "ablate", variables)
