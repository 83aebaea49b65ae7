"""The suite's command line: run, ablate, bench-gpu, list, doctor."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
import typer

from suite.bundle import program
from suite.bundle.errors import BundleError
from suite.errors import UserError

if TYPE_CHECKING:
    from suite.plan import Request

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure eager against torch.compile.",
)

INCOMPLETE = 1
DEFAULT_OUTPUT = Path("results")


def refuse(error: Exception) -> NoReturn:
    """Print the one sentence that a user is meant to read; exit status 2."""
    program.say(error)
    raise SystemExit(program.REFUSED)


Preset = Annotated[str, typer.Option(help="smoke, quick, standard or paper.")]
Output = Annotated[Path, typer.Option(help="Directory in which the run's own directory is made.")]
Cases = Annotated[
    str, typer.Option(help="Cases instead of the preset's, separated by commas: matmul_add or matmul_add/1024-bf16.")
]
Arms = Annotated[str, typer.Option(help="Arms beside eager, separated by commas.")]
Engine = Annotated[str, typer.Option(help="auto, native, docker or podman.")]
Resume = Annotated[str, typer.Option(help="Continue this run (its id, or its directory).")]
Cores = Annotated[str, typer.Option(help="CPUs for the workers, as 0-3,8; default: the physical cores of one socket.")]
Nodes = Annotated[str, typer.Option(help="NUMA nodes for the workers' memory (and cores, unless those are named).")]
Smt = Annotated[bool, typer.Option("--smt", help="All hardware threads of the cores, not one a core.")]
ModelDir = Annotated[str, typer.Option(envvar="MODEL_DIR", help="Folder with MobileBERT's config.json and weights.")]
ModelRevision = Annotated[
    str, typer.Option(envvar="MODEL_REVISION", help="Commit of the published weights, from the local cache.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse to run when a requested setting is not in force.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the two paths at the end, nothing else.")]
Json = Annotated[bool, typer.Option("--json", help="Progress as JSON lines.")]


@app.command()
def run(
    preset: Preset = "quick",
    output: Output = DEFAULT_OUTPUT,
    cases: Cases = "",
    arms: Arms = "",
    processes: Annotated[int | None, typer.Option(help="Processes a case, instead of the preset's number.")] = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Whether to profile after measuring.")] = True,
    engine: Engine = "auto",
    resume: Resume = "",
    settings: Annotated[
        str,
        typer.Option(
            help="Launch profile: tuned, tutorial (the walkthrough's to the letter) or untuned (nothing set)."
        ),
    ] = "tuned",
    cores: Cores = "",
    nodes: Nodes = "",
    smt: Smt = False,
    threads: Annotated[int | None, typer.Option(help="OpenMP threads; default: one a core, within the quota.")] = None,
    strict: Strict = False,
    model_dir: ModelDir = "",
    model_revision: ModelRevision = "",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure, and render the report."""
    from suite.bundle.schema import LaunchRequest
    from suite.plan import Request

    launch = LaunchRequest(settings=settings, cores=cores, nodes=nodes, smt=smt, threads=threads, strict=strict)  # type: ignore[arg-type]
    request = Request(preset, cases, arms, processes, profile, model_dir or None, model_revision or None, launch)
    lead(request, output, engine, resume, quiet=quiet, json=json)


@app.command()
def ablate(
    preset: Preset = "quick",
    output: Output = DEFAULT_OUTPUT,
    cases: Cases = "",
    arms: Arms = "",
    rounds: Annotated[
        int | None, typer.Option(help="How often each level is started, instead of the preset's number.")
    ] = None,
    design: Annotated[
        str, typer.Option(help="steps (each adds a setting to the last) or alone (each by itself).")
    ] = "steps",
    engine: Engine = "auto",
    resume: Resume = "",
    cores: Cores = "",
    nodes: Nodes = "",
    smt: Smt = False,
    strict: Strict = False,
    model_dir: ModelDir = "",
    model_revision: ModelRevision = "",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure what each launch setting buys on this machine: of time, and of the compile speedup."""
    from suite.bundle.schema import LaunchRequest
    from suite.plan import AblationRequest, Request

    launch = LaunchRequest(cores=cores, nodes=nodes, smt=smt, strict=strict)
    asked = AblationRequest(design, rounds)
    request = Request(preset, cases, arms, None, False, model_dir or None, model_revision or None, launch, asked)
    lead(request, output, engine, resume, quiet=quiet, json=json)


@app.command("container-cost")
def container_cost(
    preset: Preset = "quick",
    output: Output = DEFAULT_OUTPUT,
    cases: Cases = "",
    arms: Arms = "",
    rounds: Annotated[
        int | None, typer.Option(help="How often each side is started, instead of the preset's number.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, docker or podman.")] = "auto",
    resume: Resume = "",
    cores: Cores = "",
    nodes: Nodes = "",
    smt: Smt = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure what running in a container costs on this machine: the same cases on the host and in it, in turn."""
    from suite.bundle.schema import LaunchRequest
    from suite.plan import AblationRequest, Request

    launch = LaunchRequest(cores=cores, nodes=nodes, smt=smt)
    request = Request(preset, cases, arms, None, False, None, None, launch, AblationRequest("container", rounds))
    lead(request, output, engine, resume, quiet=quiet, json=json)


def lead(
    request: Request, output: Path, engine: str, resume: str, *, quiet: bool, json: bool, report: bool = True
) -> NoReturn:
    """Carry a request out, render what came of it, and end with the exit status of both."""
    from suite import display, session

    options = session.Options(output=output, engine=engine, resume=resume, argv=sys.argv[1:])
    try:
        with display.choose(quiet=quiet, json=json) as screen:
            done = session.run(request, options, screen)
    except (UserError, BundleError) as error:
        refuse(error)
    except session.Interrupted as interrupted:
        bundle = interrupted.bundle
        if bundle is None:
            program.say("interrupted before anything was measured; nothing is left of this run.")
            raise SystemExit(interrupted.status) from None
        from suite.device.registry import traits

        if request.walkthrough:
            _walkthrough_files(bundle)
        target = "ablate" if request.ablation else traits(request.device).target
        kept, target = (
            ("the run is complete. Render it", "report")
            if interrupted.complete
            else ("every finished block is kept. Continue", target)
        )
        program.say(f"interrupted; {kept} with: {_again(target, bundle, output)}")
        raise SystemExit(interrupted.status) from None
    if isinstance(done, int):
        raise SystemExit(done)
    try:
        failed = session.failures(done)
        if request.walkthrough:
            _walkthrough_files(done)
        if not report:
            print(done)
            raise SystemExit(_told(failed))
        status = _render(done, json=json)
    except program.Stopped as stopped:
        again = _again("report", done, output)
        program.say(f"interrupted before the report was whole; everything measured is kept. Render it with: {again}")
        raise SystemExit(stopped.status) from None
    raise SystemExit(status or _told(failed))


def _again(target: str, bundle: Path, output: Path) -> str:
    """The command that goes on with a run, as a shell and make take it."""
    named = {"RUN": bundle.name, "OUTPUT": str(output)} if bundle.parent == output else {"RUN": str(bundle)}
    given = [f"{name}={shlex.quote(text)}" for name, text in named.items() if text != str(DEFAULT_OUTPUT)]
    return f"make {target} {' '.join(given)}"


def _render(bundle: Path, *, json: bool) -> int:
    """Have the report rendered, print its paths, and return the renderer's exit status.

    Imports point one way, from reports to suite, so the report is asked for as its own program. In a container the outer command prints the
    paths, which are others on its side.
    """
    inside = "SPEEDPROOF_ENGINE" in os.environ
    command = [sys.executable, "-m", "reports", "render", str(bundle)]
    # A session of its own: it is told to end by us alone, and then leaves no half-written file.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
        start_new_session=True,
    ) as render:
        try:
            told, problems = render.communicate()
        except program.Stopped:
            render.terminate()
            render.wait()
            raise
    if render.returncode < 0:
        problems += f"speedproof: the report could not be rendered: {signal.Signals(-render.returncode).name} ended the renderer.\n"
    sys.stderr.write(problems)
    paths = told.split("\n")[:-1]
    if json and not inside:
        print(msgspec.json.encode({"event": "rendered", "paths": paths}).decode())
    elif not inside and paths:
        print("\n".join(paths))
    return INCOMPLETE if render.returncode < 0 else render.returncode


def _walkthrough_files(bundle: Path) -> None:
    """The walkthrough's own files of as many profiles as there are."""
    from suite.profiling.walkthrough import write

    try:
        written = write(bundle)
    except Exception as error:  # the run is whole without them
        program.say(f"the walkthrough's files could not be written ({error}).")
        return
    if not written:
        program.say("no profile of the walkthrough's ended well, so none of its files is there.")


def _told(failed: str) -> int:
    """Print what failed, and return the exit status of it."""
    if failed:
        program.say(failed)
    return INCOMPLETE if failed else 0


@app.command("bench-gpu")
def bench_gpu(
    preset: Preset = "quick",
    output: Output = DEFAULT_OUTPUT,
    cases: Cases = "",
    arms: Arms = "",
    device: Annotated[str, typer.Option(help="Number of the GPU, or of the MIG instance, as torch counts them.")] = "0",
    processes: Annotated[int | None, typer.Option(help="Processes a case, instead of the preset's number.")] = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Whether to profile after measuring.")] = True,
    walkthrough: Annotated[
        bool,
        typer.Option("--walkthrough", help="Also the walkthrough's own files: traces/01_matmul_add/ in the bundle."),
    ] = False,
    passes: Annotated[str, typer.Option(help="Those of a case's further profiles that are wanted: cold,warm.")] = "",
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to render the report.")] = True,
    resume: Resume = "",
    settings: Annotated[str, typer.Option(help="Launch profile: tuned, tutorial or untuned.")] = "tuned",
    cores: Cores = "",
    nodes: Nodes = "",
    smt: Smt = False,
    threads: Annotated[int | None, typer.Option(help="OpenMP threads; default: one a core, within the quota.")] = None,
    strict: Strict = False,
    model_dir: ModelDir = "",
    model_revision: ModelRevision = "",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure on one GPU, and render the report. Without one: a sentence, exit status 2."""
    from suite.bundle.schema import Device, LaunchRequest
    from suite.fingerprint.gpu import devices
    from suite.fingerprint.gpu.missing import refusal
    from suite.plan import Request, check_words

    if not re.fullmatch(r"\d{1,4}", device, re.ASCII):
        refuse(UserError(f"DEVICE (--device) is the number of a GPU, 0 or more, not '{device}'."))
    launch = LaunchRequest(settings=settings, cores=cores, nodes=nodes, smt=smt, threads=threads, strict=strict)  # type: ignore[arg-type]
    request = Request(
        preset,
        cases,
        arms,
        processes,
        profile,
        model_dir or None,
        model_revision or None,
        launch,
        device=Device(kind="cuda", index=int(device)),
        walkthrough=walkthrough,
        passes=passes,
    )
    # A run that is continued keeps its own plan. Words that no GPU could make right are told before it is said that there is none.
    try:
        if not resume:
            check_words(request)
    except UserError as error:
        refuse(error)
    if reason := refusal(devices.read(), torch_version(), driver_library=driver_library()):
        refuse(UserError(reason))
    # In its container the run knows where it is; from the host none is started for it yet.
    lead(request, output, "native", resume, quiet=quiet, json=json, report=report)


def driver_library() -> bool:
    """Whether the driver's own library can be loaded (it is not started by that)."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def torch_version() -> str:
    """The installed torch's version without importing it ("2.13.0+cpu"); empty when there is none."""
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""


@app.command("list")
def list_everything() -> None:
    """List the presets, cases and arms."""
    from suite.arms import ARMS
    from suite.cases import REGISTRY, workload
    from suite.presets import DEFAULT, PRESETS

    print("presets")
    for name, (purpose, procedure) in PRESETS.items():
        print(f"  {name:10} {purpose}; {procedure.processes} processes a case{' (default)' if name == DEFAULT else ''}")
    print("\ncases")
    for name in REGISTRY:
        found = workload(name)
        print(f"  {name}/{found.grammar}\n      {found.title}")
        for preset, variants in found.variants.items():
            print(f"      {preset:10} {', '.join(variants)}")
        for device, presets in found.device_variants.items():
            print(f"      on {device} devices")
            for preset, variants in presets.items():
                print(f"        {preset:10} {', '.join(variants)}")
    print("\narms")
    for arm in ARMS.values():
        print(f"  {arm.name:18} {arm.description}")


@app.command()
def doctor(
    output: Output = DEFAULT_OUTPUT,
    engine: Engine = "auto",
    settings: Annotated[str, typer.Option(help="Launch profile: tuned, tutorial or untuned.")] = "tuned",
    cores: Cores = "",
    nodes: Nodes = "",
    smt: Smt = False,
    threads: Annotated[int | None, typer.Option(help="OpenMP threads; default: one a core, within the quota.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say what this machine can and cannot prove, in order of importance, and what to do about it (exit 1: no run is possible)."""
    from suite.bundle.schema import LaunchRequest
    from suite.doctor import command, survey

    launch = LaunchRequest(settings=settings, cores=cores, nodes=nodes, smt=smt, threads=threads)  # type: ignore[arg-type]
    try:
        status = command.main(survey.Options(engine, output, launch), json=json)
    except UserError as error:
        refuse(error)
    raise SystemExit(status)
