"""What an arm really is, as its process sees it: the graphs compiled for it, and where one call's operators run. Runs in a worker.

Nothing of it stands in the timed path: Inductor is listened to during the first call alone, and the calls that are looked at under torch's
profiler are not timed. Only its CPU side is used: the device's would have to be set up, and that costs later kernels time.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from suite.arms import ARMS, BASELINE, Arm
from suite.bundle import schema
from suite.clocktime import now
from suite.fingerprint.files import printable
from suite.fingerprint.redact import names_to_hide, redact_struct
from suite.profiling import proof
from suite.protocol import Assignment

CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config", "torch.compiler.config")
"""Modules in which torch.compile keeps its settings."""

REGION, GRAPH = "Torch-Compiled Region: ", "## Call CompiledFxGraph"
"""How torch's profiler names a frame that Dynamo compiled, and a call of a graph that Inductor compiled."""

LONGEST = 160


@dataclass
class Compiled:
    """What Inductor made while it was listened to; fields as in `suite.bundle.schema.ArmEvidence`."""

    graphs: int = 0
    kernels: int = 0
    frozen: int = 0
    cuda_graphs: int = 0
    cuda_graphs_refused: str = ""
    on_gpu: bool = False
    cpp_wrapper: bool = False
    max_autotune: bool = False
    attention: int = 0
    graph_breaks: int = 0
    break_reason: str = ""
    frames_skipped: int = 0

    def fields(self) -> dict[str, Any]:
        """Those that are fields of the event."""
        return {name: value for name, value in vars(self).items() if name != "on_gpu"}


@dataclass(frozen=True)
class Look:
    """One call under the profiler: the compiled frames that it went through, calls of compiled graphs, operators outside of them."""

    regions: list[str] = field(default_factory=list)
    graph_calls: int = 0
    operators: int = 0


def changed_settings() -> dict[str, str]:
    """The compiler's settings that are not what torch gives them, as "module.name" and the value in Python's words.

    To be read before anything is compiled: torch changes and restores some itself meanwhile.
    """
    found = {}
    for module in CONFIGS:
        config: Any = importlib.import_module(module)
        for name, value in config._get_dict(skip_default=True).items():
            # Torch also writes defaults over defaults.
            if value != config._config[name].default:
                found[f"{module}.{name}"] = printable(repr(value), LONGEST)
    return found


@contextmanager
def listening(arm: Arm) -> Iterator[Compiled]:
    """Note every graph that Inductor hands over, compiled or from its cache, while in the context."""
    found = Compiled()
    if not arm.compiled:
        yield found
        return
    from unittest import mock

    from torch._dynamo import utils
    from torch._inductor import config
    from torch._inductor.output_code import CompiledFxGraph

    usual = CompiledFxGraph.post_compile

    def handed_over(graph: Any, inputs: Any, constants: Any, options: Any) -> None:
        usual(graph, inputs, constants, options)
        found.graphs += 1
        found.kernels += graph.metrics_deltas.generated_kernel_count
        found.frozen += len(graph.frozen_param_names or ())
        found.on_gpu |= bool({"cuda", "xpu"} & set(graph.device_types))
        found.cuda_graphs += bool(options["cudagraphs"])
        if found.on_gpu and graph.disabled_cudagraphs_reason:
            found.cuda_graphs_refused = printable(graph.disabled_cudagraphs_reason, LONGEST)
        found.cpp_wrapper |= bool(options.get("cpp_wrapper") or config.cpp_wrapper)
        found.max_autotune |= bool(config.max_autotune)

    before, reasons = _dynamo_counts(), len(utils.graph_break_reasons)
    with mock.patch.object(CompiledFxGraph, "post_compile", handed_over):
        yield found
    counts = {name: count - before[name] for name, count in _dynamo_counts().items()}
    found.attention, found.graph_breaks = counts["attention"], counts["breaks"]
    found.frames_skipped = counts["frames"] - counts["compiled frames"]
    found.break_reason = _in_words(utils.graph_break_reasons[reasons:])


def _dynamo_counts() -> dict[str, int]:
    from torch._dynamo.utils import counters

    return {
        "attention": counters["inductor"]["fuse_attention"],
        "breaks": sum(counters["graph_break"].values()),
        "frames": counters["frames"]["total"],
        "compiled frames": counters["frames"]["ok"],
    }


def _in_words(breaks: Any) -> str:
    """The first graph break: Dynamo's first line, and the user's line without its folder."""
    for one in breaks:
        where = one.user_stack[-1] if one.user_stack else None
        at = f" ({PurePath(where.filename).name}:{where.lineno}: {(where.line or '').strip()})" if where else ""
        return printable(one.reason.strip().partition("\n")[0], LONGEST) + printable(at, LONGEST)
    return ""


def look(call: Callable[[], Any], synchronise: Callable[[], None]) -> Look:
    """Make one call under torch's profiler and tell where its operators ran; those that other operators call are not counted."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recording:
        call()
        synchronise()
    regions, graph_calls, operators = [], 0, 0
    for event in recording.events() or ():
        if event.name.startswith(REGION):
            regions.append(event.name.removeprefix(REGION))
        elif event.name.startswith(GRAPH):
            graph_calls += 1
        elif _is_operator(event) and not any(
            _is_operator(each) or each.name.startswith(GRAPH) for each in _above(event)
        ):
            operators += 1
    return Look(sorted(set(regions)), graph_calls, operators)


def _is_operator(event: Any) -> bool:
    return "::" in event.name and not event.name.startswith((REGION, GRAPH))


def _above(event: Any) -> Iterator[Any]:
    while (event := event.cpu_parent) is not None:
        yield event


class Witness:
    """Takes the evidence of one process's arms; `synchronise` waits for the device."""

    def __init__(self, assignment: Assignment, synchronise: Callable[[], None]) -> None:
        self._assignment = assignment
        self._synchronise = synchronise
        self._settings: dict[str, str] | None = None
        self._eager_operators = 0
        self._before: dict[str, schema.ArmEvidence] = {}

    def listening(self, arm: Arm) -> AbstractContextManager[Compiled]:
        """The context of an arm's first calls."""
        if arm.compiled and self._settings is None:
            self._settings = changed_settings()
        return listening(arm)

    def before(self, arm: schema.Arm, call: Callable[[], Any], compiled: Compiled) -> schema.ArmEvidence:
        """The evidence of an arm that has made its first calls, with what is wrong with it. One call more is made."""
        seen = self._evidence(arm, call, "before", compiled.fields())
        if arm.name == BASELINE:
            self._eager_operators = seen.operators
        faults = proof.faults_before(ARMS[arm.name], seen, on_gpu=compiled.on_gpu)
        self._before[arm.label] = msgspec.structs.replace(seen, faults=faults)
        return self._before[arm.label]

    def after(self, arm: schema.Arm, call: Callable[[], Any]) -> schema.ArmEvidence:
        """The evidence of an arm that has been timed, against what it was before. One call more is made."""
        seen = self._evidence(arm, call, "after", {})
        return msgspec.structs.replace(seen, faults=proof.faults_after(ARMS[arm.name], seen, self._before[arm.label]))

    def _evidence(
        self, arm: schema.Arm, call: Callable[[], Any], moment: Literal["before", "after"], compiled: dict[str, Any]
    ) -> schema.ArmEvidence:
        seen, a = look(call, self._synchronise), self._assignment
        evidence = schema.ArmEvidence(
            at=now(),
            case=a.case.name,
            arm=arm.label,
            process=a.process,
            incarnation=a.incarnation,
            role=a.role,
            moment=moment,
            regions=seen.regions,
            graph_calls=seen.graph_calls,
            operators=seen.operators,
            eager_operators=self._eager_operators if ARMS[arm.name].compiled else 0,
            settings=(self._settings or {}) if ARMS[arm.name].compiled else {},
            **compiled,
        )
        return redact_struct(evidence, names_to_hide())
