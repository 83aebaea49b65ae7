"""From what a user typed to the plan of a run. No torch, nothing measured yet."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import suite
from suite.arms import ARMS, BASELINE
from suite.bundle import schema
from suite.cases import REGISTRY, workload
from suite.cases.contract import Context, Workload
from suite.clocktime import now
from suite.device import registry
from suite.device.contract import Traits
from suite.errors import UserError
from suite.fingerprint.files import without_home
from suite.launch.profiles import PROFILES
from suite.nearest import nearest
from suite.presets import NEVER_PUBLISHABLE, PRESETS

CACHES = {"cold": "the last-level cache flushed before each iteration", "hot": "cache as the call before left it"}
"""Last part of a variant's name -> the state of the device's cache, in words. Not the walkthrough's cold and warm, which are profiles
without and with calls before (`schema.Pass`)."""

SEED = 20240229
"""Seed of every run's inputs, so that two machines are given the same numbers."""


@dataclass(frozen=True)
class AblationRequest:
    """What an ablation varies: `rounds` is how often each level is started (None: the preset's number)."""

    design: str = "steps"
    rounds: int | None = None


@dataclass(frozen=True)
class Request:
    """What a user asked for; empty strings mean the preset's own choice. `walkthrough` asks for the walkthrough's profiles and files,
    `passes` names those of the further profiles that are wanted.
    """

    preset: str
    cases: str = ""
    arms: str = ""
    processes: int | None = None
    profile: bool = True
    model_dir: str | None = None
    model_revision: str | None = None
    launch: schema.LaunchRequest = field(default_factory=schema.LaunchRequest)
    ablation: AblationRequest | None = None
    device: schema.Device = field(default_factory=schema.Device)
    walkthrough: bool = False
    passes: str = ""


def words(text: str) -> list[str]:
    """Split a list that may be separated by commas or white space."""
    return [word for word in re.split(r"[,\s]+", text) if word]


def plan(request: Request, engine: schema.Engine, argv: list[str]) -> schema.Run:
    """The plan of a new run.

    Raises:
        UserError: for an unknown preset, case, arm or launch profile (naming the nearest), or weights that are not there.
    """
    _check_settings(request)
    _, procedure = PRESETS[request.preset]
    if request.processes is not None:
        procedure = msgspec.structs.replace(procedure, processes=request.processes, processes_maximum=request.processes)
    return schema.Run(
        schema_version=schema.SCHEMA_VERSION,
        run_id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{request.preset}-{secrets.token_hex(2)}",
        preset=request.preset,
        status="running",
        cases=plan_cases(request),
        arms=plan_arms(request.arms, registry.traits(request.device).default_arms),
        procedure=procedure,
        argv=_shown(argv),
        command=command(request),
        seed=SEED,
        stretches=[schema.Stretch(started_at=now())],
        engine=engine,
        source=source(),
        profile=request.profile,
        launch=request.launch,
        device=request.device,
    )


def _check_settings(request: Request) -> None:
    check_launch(request.launch)
    if request.preset not in PRESETS:
        raise UserError(
            f"unknown preset '{request.preset}'{nearest(request.preset, PRESETS)}; the presets are {', '.join(PRESETS)}."
        )
    if request.processes is not None and request.processes < 1:
        raise UserError(f"a case needs at least one process, not {request.processes}.")


def check_words(request: Request) -> None:
    """Refuse every word of a request that no machine could carry out, before any is looked at; weights are left to the plan.

    Raises:
        UserError: as `plan`.
    """
    _check_settings(request)
    plan_cases(replace(request, model_dir=None, model_revision=None))
    plan_arms(request.arms, registry.traits(request.device).default_arms)


_FOLDERS = ("--model-dir", "--output")
"""Options whose values are folders of the user's own."""


def _shown(argv: list[str]) -> list[str]:
    """The command line as a bundle shows it: of the user's folders only their last names."""
    shown = []
    for before, word in zip(["", *argv], argv, strict=False):
        option, equals, value = word.partition("=")
        if before in _FOLDERS:
            shown.append(Path(word).name)
        elif equals and option in _FOLDERS:
            shown.append(f"{option}={Path(value).name}")
        else:
            shown.append(without_home(word))
    return shown


def check_launch(request: schema.LaunchRequest) -> None:
    """Refuse what no machine could be asked for; what this one cannot give is refused when it has been looked at.

    Raises:
        UserError: an unknown launch profile, or a number of threads below one.
    """
    if request.settings not in PROFILES:
        known = ", ".join(PROFILES)
        raise UserError(
            f"unknown settings '{request.settings}'{nearest(request.settings, PROFILES)}; they are {known}."
        )
    if request.threads is not None and request.threads < 1:
        raise UserError(f"threads must be at least one, not {request.threads}.")


def plan_cases(request: Request) -> list[schema.Case]:
    """The cases of a run, in the registry's order for a preset, in the user's order otherwise; none twice."""
    device = registry.traits(request.device)
    further = request.walkthrough or request.preset not in NEVER_PUBLISHABLE
    context = Context(
        request.preset,
        request.model_dir or None,
        request.model_revision or None,
        further_passes=device.further_passes and further,
    )
    chosen: dict[str, schema.Case] = {}
    for word in words(request.cases) or list(REGISTRY):
        name, _, variant = word.partition("/")
        found = workload(name)
        of_device = found.device_variants.get(device.kind, found.variants)
        variants = (variant,) if variant else of_device.get(request.preset, ())
        if not variants:
            raise UserError(
                f"case '{name}' has nothing in the preset '{request.preset}'; name a variant, as {name}/{found.grammar}."
            )
        for each in variants:
            case = case_on(device, found, each, context)
            senseless = {name: reason for name, reason in device.not_for.items() if name in words(request.arms)}
            passes = _chosen_passes(case, words(request.passes))
            case = msgspec.structs.replace(case, not_applicable={**senseless, **case.not_applicable}, passes=passes)
            chosen.setdefault(case.name, case)
    cases = list(chosen.values())
    _refuse_idle_words(request, cases)
    return cases


def _refuse_idle_words(request: Request, cases: Sequence[schema.Case]) -> None:
    """Raises UserError where the walkthrough's files or further profiles were asked for and none of the cases has any."""
    profiled = any(case.passes for case in cases)
    have = "matmul_add of 64 and 4096 has them on a GPU, hot and without a batch"
    if words(request.passes) and not profiled:
        when = "" if request.walkthrough else " (of the preset smoke with WALKTHROUGH=yes)"
        raise UserError(
            f"PASSES={request.passes} has nothing to choose from: no chosen case has further profiles; {have}{when}."
        )
    if request.walkthrough and not request.profile:
        raise UserError("the walkthrough's files are profiles, and no profile is made; leave PROFILE=no out.")
    if request.walkthrough and not profiled:
        raise UserError(f"no chosen case has the walkthrough's profiles; {have}.")


def _chosen_passes(case: schema.Case, named: list[str]) -> list[schema.Pass]:
    """Raises UserError for a further profile that a case with some does not have."""
    known = [one.name for one in case.passes]
    for name in named:
        if known and name not in known:
            raise UserError(
                f"unknown pass '{name}'{nearest(name, known)}; those of {case.name} are {', '.join(known)}."
            )
    return [one for one in case.passes if not named or one.name in named]


def case_on(device: Traits, found: Workload, variant: str, context: Context) -> schema.Case:
    """A workload's case on a device: in the cache's state that the variant ends in, and with what the device makes of it.

    Raises:
        UserError: a state or a precision that the device does not have.
    """
    bare, dash, last = variant.rpartition("-")
    stated = dash == "-" and last in CACHES
    case = found.describe(bare if stated else variant, context)
    if stated and last not in device.caches:
        raise UserError(
            f"case '{found.name}/{variant}': the cache's state ({last}) is not steered on a {device.kind} device; leave -{last} out."
        )
    if device.precisions.get(case.matmul_precision) is None and case.matmul_precision != "highest":
        raise UserError(
            f"case '{case.name}': TF32 is a format of NVIDIA's GPUs; name fp32 or bf16, or use make bench-gpu."
        )
    cache = last if stated else device.caches[0]
    parameters = dict(case.parameters)
    if device.precisions:
        parameters["matmul_precision"] = device.precisions[case.matmul_precision]
    suffix, said = (f"-{cache}", f", {cache} cache") if cache else ("", "")
    rounded = ", products in TF32" if case.matmul_precision != "highest" else ""
    return msgspec.structs.replace(
        case,
        name=case.name + suffix,
        variant=case.variant + suffix,
        title=case.title + rounded + said,
        cache=cache,
        parameters=parameters,
        passes=case.passes if cache != "cold" else [],
    )


def plan_arms(text: str, default: Sequence[str] = registry.TRAITS["cpu"].default_arms) -> list[schema.Arm]:
    """The arms of a run: the baseline, the baseline again for the noise floor, then the candidates.

    An arm that stands twice is labelled with its number ("eager#3"); the baseline need not be named.
    """
    named = words(text) or [BASELINE, *default]
    for name in named:
        if name not in ARMS:
            raise UserError(f"unknown arm '{name}'{nearest(name, ARMS)}; the arms are {', '.join(ARMS)}.")
    if BASELINE in named:
        named.remove(BASELINE)
    roles: list[tuple[str, schema.ArmRole]] = [
        (BASELINE, "baseline"),
        (BASELINE, "noise"),
        *((name, "candidate") for name in named),
    ]
    arms: list[schema.Arm] = []
    for name, role in roles:
        count = sum(arm.name == name for arm in arms) + 1
        label = name if count == 1 else f"{name}#{count}"
        description = "the baseline again, for the noise floor" if role == "noise" else ARMS[name].description
        arms.append(schema.Arm(label=label, name=name, role=role, description=description))
    return arms


def further_profiles(run: schema.Run, case: schema.Case) -> list[tuple[schema.Pass, schema.Arm]]:
    """The case's further profiles, each of one arm in a process of its own: number n of them is the profiling process n + 1."""
    arms = {arm.name: arm for arm in reversed(arms_of(run, case)) if arm.role != "noise"}
    return [(one, arms[name]) for one in case.passes for name in one.arms if name in arms]


def arms_of(run: schema.Run, case: schema.Case) -> list[schema.Arm]:
    """The arms that a case runs: all but those that do not apply to it."""
    return [arm for arm in run.arms if arm.name not in case.not_applicable]


def command(request: Request) -> str:
    """The line that asks for the same run again."""
    variables = {
        "PRESET": request.preset,
        "CASES": " ".join(words(request.cases)),
        "ARMS": ",".join(words(request.arms)),
        "PROCESSES": str(request.processes or ""),
        "PROFILE": "" if request.profile else "no",
        "MODEL_DIR": "<your model directory>" if request.model_dir else "",
        "MODEL_REVISION": request.model_revision or "",
        "DEVICE": str(request.device.index or ""),
        "WALKTHROUGH": "yes" if request.walkthrough else "",
        "PASSES": ",".join(words(request.passes)),
        **launch_variables(request.launch),
    }
    return command_line(registry.traits(request.device).target, variables)


def command_line(target: str, variables: Mapping[str, str]) -> str:
    """A call of make with the variables that are not empty."""
    return " ".join([f"make {target}", *(f"{name}={shlex.quote(value)}" for name, value in variables.items() if value)])


def launch_variables(launch: schema.LaunchRequest) -> dict[str, str]:
    """The launch request as variables of the Makefile; empty where it is the default."""
    return {
        "SETTINGS": launch.settings if launch.settings != schema.LaunchRequest().settings else "",
        "CORES": launch.cores,
        "NODES": launch.nodes,
        "SMT": "yes" if launch.smt else "",
        "THREADS": str(launch.threads or ""),
        "STRICT": "yes" if launch.strict else "",
    }


def source() -> schema.Source:
    """The suite's own revision: git's, or what the image was built from."""
    if revision := os.environ.get("SPEEDPROOF_REVISION"):
        # An image says of itself whether it was built from changed files; without a word of it, nobody knows.
        dirty = {"true": True, "false": False}.get(os.environ.get("SPEEDPROOF_DIRTY", ""))
        return schema.Source(version=suite.__version__, revision=revision, dirty=dirty)
    root = Path(__file__).resolve().parent.parent
    revision, status = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--untracked-files=no")
    return schema.Source(
        version=suite.__version__, revision=revision or None, dirty=None if status is None else bool(status)
    )


def _git(root: Path, *arguments: str) -> str | None:
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
