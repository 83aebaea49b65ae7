"""One call of `run`, from the user's words to a closed bundle: new or continued, natively or in a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from suite import places
from suite.ablate import plan_ablation
from suite.bundle import reader, schema
from suite.bundle.errors import BundleError
from suite.bundle.program import Stopped, held
from suite.bundle.writer import FINGERPRINT, RUN, SBOM, Bundle, unwritable, write_bytes
from suite.cases import workload
from suite.clocktime import now
from suite.device import registry
from suite.device.choices import device_line
from suite.display import Display, counted
from suite.errors import UserError
from suite.fingerprint.effective.worker import SECRET
from suite.fingerprint.redact import names_to_hide, redact_text
from suite.launch import engine as engines
from suite.launch import sbom, variables
from suite.launch.command import STEERING
from suite.machine import Machine, cache_root, prepare
from suite.orchestrate import Orchestrator
from suite.plan import Request, launch_variables, plan, source

ENGINE_FAILED = (125, 126, 127)
"""Exit statuses of `docker run` and `podman run` when the engine, and not the program in the container, failed."""


@dataclass(frozen=True)
class Options:
    """What does not belong into the plan: where results go, the engine asked for, the run to continue."""

    output: Path
    engine: str = "auto"
    resume: str = ""
    argv: list[str] = field(default_factory=list)


class Interrupted(Exception):
    """A signal stopped the run. Its `bundle` can be continued, or is `complete`; None when nothing is left of the run."""

    def __init__(self, bundle: Path | None, status: int) -> None:
        super().__init__(status)
        self.bundle, self.status, self.complete = bundle, status, False
        if bundle:
            with suppress(BundleError):
                self.complete = reader.read_run(bundle).status == "complete"


def run(request: Request, options: Options, screen: Display) -> Path | int:
    """Measure a new or a continued run; returns its bundle, or the exit status of the container that did the whole work.

    Raises:
        UserError, BundleError: one sentence about what is wrong and what to do.
        Interrupted: after a signal.
    """
    places.check(options.output, {"RUN": options.resume, "MODEL_DIR": request.model_dir or ""})
    places.allow_many_files()
    continued = reader.find_run(options.output, options.resume) if options.resume else None
    new = [folder for folder in (options.output, *options.output.parents) if not folder.exists()]
    try:
        return _run(request, options, continued, screen)
    except BaseException as error:
        for folder in new:
            # Only those that are empty: a run that did not begin leaves nothing behind.
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, Stopped):
            raise Interrupted(continued, error.status) from None
        raise


def _run(request: Request, options: Options, continued: Path | None, screen: Display) -> Path | int:
    # Everything that a mistyped word can spoil comes before an engine is chosen: it must not wait for an image to be built.
    if request.model_dir:
        # Workers look for the weights there; the bundle holds their hashes and no path.
        os.environ["MODEL_DIR"] = request.model_dir
    planned = _continued(continued) if continued else _planned(request, options.argv)
    if continued and (ignored := _ignored(request, planned)):
        screen.say(
            f"note: a continued run keeps its own plan; {', '.join(ignored)} {'is' if len(ignored) == 1 else 'are'} ignored"
        )
    place = engines.Place(
        output=options.output,
        model_dir=Path(request.model_dir) if request.model_dir else None,
        launch=planned.launch,
        cache=cache_root(),
    )
    if planned.ablation and planned.ablation.design == "container":
        planned = _with_container(planned, options.engine, place, screen)
        choice = engines.Choice(engines.native("the container is what is measured"), starts_container=False)
    else:
        wanted = _engine_wanted(planned, options) if continued else options.engine
        choice = engines.choose(wanted, place=place, announce=screen.say)
    if choice.starts_container:
        return _in_container(choice, request, options, screen)
    if continued:
        _same_image(continued, planned.engine, choice.engine)
        return _lead(continued, planned, screen, resumed=True)
    path = options.output / planned.run_id
    apart = registry.traits(planned.device).no_container
    if apart and not choice.engine.containerised:
        choice = engines.Choice(engines.native(apart), starts_container=False)
    if options.engine != "auto" and not apart:
        planned = msgspec.structs.replace(planned, command=f"{planned.command} ENGINE={options.engine}")
    return _lead(path, msgspec.structs.replace(planned, engine=choice.engine), screen, resumed=False)


def _planned(request: Request, argv: list[str]) -> schema.Run:
    engine = engines.native("not chosen yet")
    return plan_ablation(request, request.ablation, engine, argv) if request.ablation else plan(request, engine, argv)


def _with_container(planned: schema.Run, engine: str, place: engines.Place, screen: Display) -> schema.Run:
    """The plan with the engine whose containers are measured; a continued run keeps its image.

    Raises:
        UserError: no engine works here, or a continued run's image is gone.
    """
    assert planned.ablation is not None
    before = planned.ablation.engine
    if engine == "native":
        raise UserError("container-cost compares the host with a container: ENGINE=native leaves nothing to compare.")
    found = engines.choose(before.name if before else engine, place=place, announce=screen.say).engine
    if not found.containerised:
        raise UserError(f"container-cost needs docker or podman with the image speedproof:cpu: {found.reason}.")
    if before and before.image_digest != found.image_digest:
        raise UserError(
            f"{planned.run_id} measured the image {before.image_digest}, and it is {found.image_digest} now; start a new run."
        )
    return msgspec.structs.replace(planned, ablation=msgspec.structs.replace(planned.ablation, engine=found))


def _engine_wanted(planned: schema.Run, options: Options) -> str:
    """A run is continued where it was started: processes in and out of a container are not replicates of each other.

    Raises:
        UserError: when another engine was asked for.
    """
    if options.engine not in ("auto", planned.engine.name):
        raise UserError(
            f"{planned.run_id} was started with ENGINE={planned.engine.name} and cannot be continued with ENGINE={options.engine}; "
            "leave ENGINE out."
        )
    return planned.engine.name


def _same_image(path: Path, before: schema.Engine, now: schema.Engine) -> None:
    """Refuse to continue a run in an image of other software: its processes would not be replicates.

    Raises:
        UserError: another digest, unless both images list the same software.
    """
    if before.image_digest == now.image_digest:
        return
    content = sbom.read(os.environ)
    if isinstance(content, bytes) and before.sbom_sha256 == sbom.digest(content):
        return
    raise UserError(
        f"{path} was measured in image {before.image_digest or 'unknown'}, and this is {now.image_digest or 'unknown'}; "
        "continue it in that image, or start a new run."
    )


def _in_container(choice: engines.Choice, request: Request, options: Options, screen: Display) -> int:
    """Hand the whole run over to the image, and print where its report lies on this side.

    Raises:
        UserError: when the container could not be started, or the run in it lies where the container cannot see it.
    """
    engine = choice.engine
    before = set(reader.runs(options.output))
    words = {
        "--preset": request.preset,
        "--cases": request.cases,
        "--arms": request.arms,
        "--processes": str(request.processes or ""),
        "--resume": Path(options.resume).name,
        "--settings": "" if request.ablation else request.launch.settings,
        "--cores": request.launch.cores,
        "--nodes": request.launch.nodes,
        "--threads": str(request.launch.threads or ""),
        "--design": request.ablation.design if request.ablation else "",
        "--rounds": str(request.ablation.rounds or "") if request.ablation else "",
    }
    verb = "ablate" if request.ablation else "bench"
    arguments = [verb, *(word for name, value in words.items() if value for word in (name, value)), *screen.flags]
    flags = {
        "--no-profile": not request.profile and not request.ablation,
        "--smt": request.launch.smt,
        "--strict": request.launch.strict,
    }
    arguments += [flag for flag, given in flags.items() if given]
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(options.output, error) from error
    if options.resume and reader.find_run(options.output, options.resume).parent.resolve() != options.output.resolve():
        raise UserError(
            f"RUN={options.resume} does not lie below {options.output}, which is all that a container sees; give OUTPUT too."
        )
    command = engines.container_command(
        engine,
        arguments,
        options.output,
        Path(request.model_dir) if request.model_dir else None,
        cache=choice.cache,
        environment=_passed_on(request, screen),
        terminal=sys.stdout.isatty(),
    )
    with subprocess.Popen(command) as process:
        try:
            status = process.wait()
        except Stopped as stopped:
            # The engine hands the signal on; the run inside closes its bundle before it ends.
            process.send_signal(stopped.number)
            status = process.wait()
    if status in ENGINE_FAILED:
        raise UserError(
            f"{engine.name} could not start the run in the image (its own words stand above); use ENGINE=native."
        )
    shown = [
        path for path in reader.runs(options.output) if path not in before or path.name == Path(options.resume).name
    ]
    paths = [str(path / name) for path in shown if status == 0 for name in ("report.html", "report.pdf")]
    if "--json" in screen.flags:
        print(msgspec.json.encode({"event": "rendered", "paths": paths}).decode())
    else:
        print("\n".join(paths), end="\n" if paths else "")
    return status


def _passed_on(request: Request, screen: Display) -> dict[str, str]:
    """Variables for the container: what the user exported stands there too, but for paths of the host's.

    What would change an arm goes along, so that the run in there takes it out and records it.
    """
    passed = {name: value for name, value in os.environ.items() if STEERING.fullmatch(name) or variables.known(name)}
    passed = {name: value for name, value in passed.items() if not SECRET.search(name)}
    if passed.pop("LD_PRELOAD", ""):
        screen.say("note: LD_PRELOAD names files of the host and is not passed on to the container")
    if request.model_revision:
        passed["MODEL_REVISION"] = request.model_revision
    return passed


def _ignored(request: Request, planned: schema.Run) -> list[str]:
    """Options that have no effect on a continued run. Files of the walkthrough's are written of the profiles that it has planned."""
    given = {
        "CASES": bool(request.cases),
        "ARMS": bool(request.arms),
        "PROCESSES": request.processes is not None,
        "PROFILE": not request.profile and not request.ablation,
        "DESIGN": bool(request.ablation and request.ablation.design == "alone"),
        "ROUNDS": bool(request.ablation and request.ablation.rounds),
        "MODEL_REVISION": request.model_revision is not None,
        "DEVICE": bool(request.device.index),
        "PASSES": bool(request.passes),
        "WALKTHROUGH": request.walkthrough and not any(case.passes for case in planned.cases),
        **{name: bool(value) for name, value in launch_variables(request.launch).items()},
    }
    return [name for name, was_given in given.items() if was_given]


def failures(path: Path) -> str:
    """A sentence about a run that ended without all its processes; empty for a complete one."""
    run_id, status = path.name, reader.read_run(path).status
    return (
        ""
        if status == "complete"
        else f"some processes did not end well; the report says which. RUN={run_id} tries them again."
    )


def _continued(path: Path) -> schema.Run:
    """The plan of a run to be continued, with a new stretch.

    Raises:
        UserError: when the run is complete, or was started by another revision of the suite.
    """
    old = reader.read_run(path)
    if old.status == "complete":
        raise UserError(f"{path} is complete; render it again with `make report RUN={old.run_id}` or start a new run.")
    here = source()
    if here.dirty and not old.source.dirty:
        raise UserError(
            f"{path} was started with unchanged files and they have been changed since; put them back, or start a new run."
        )
    if old.source.revision != here.revision:
        raise UserError(
            f"{path} was started by revision {old.source.revision or 'unknown'} of the suite and this is {here.revision or 'unknown'}; "
            "check that revision out to continue it, or start a new run."
        )
    return msgspec.structs.replace(old, status="running", stretches=[*old.stretches, schema.Stretch(started_at=now())])


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise unwritable(path, error) from error


def _lead(path: Path, planned: schema.Run, screen: Display, *, resumed: bool) -> Path:
    bundle, made = Bundle(path), False
    try:
        if not resumed:
            with held():
                _make(path)
                made = True
        with bundle.exclusively():
            screen.say("looking at the machine ...")
            # Of this process too: workers and the probe inherit its environment.
            told = registry.clear(planned.device, os.environ)
            variables.refuse_if_strict(planned.launch.strict, told)
            # Nothing is written before the machine has been looked at: a refusal leaves the bundle as it was.
            machine = replace(prepare(planned, path), told=[each.finding for each in told])
            watch = registry.open_watch(machine.device)
            if refusals := watch.refusals():
                raise UserError(" ".join([refusals[0].claim, refusals[0].advice]).strip())
            if resumed:
                _same_machine(path, machine)
                _same_device(path, planned.device, machine.device)
                for case in planned.cases:
                    workload(case.workload).check_again(case)
            else:
                engine = engines.beside_fingerprint(planned.engine, machine.facts.get("container", {}).get("container"))
                planned = msgspec.structs.replace(planned, engine=engine)
            if machine.device != planned.device:
                planned = msgspec.structs.replace(planned, device=machine.device)
            listed = "" if resumed else sbom.read(os.environ)
            if isinstance(listed, bytes):
                write_bytes(path / SBOM, listed)
                engine = msgspec.structs.replace(planned.engine, sbom_sha256=sbom.digest(listed))
                planned = msgspec.structs.replace(planned, engine=engine)
            with held():
                bundle.document(RUN, planned)
                if not resumed:
                    bundle.document(FINGERPRINT, machine.fingerprint(planned, []))
            if isinstance(listed, str) and listed:
                bundle.event(schema.Noted(at=now(), message=f"no list of the image's software: {listed}"))
            toolchain = f"the C++ toolchain answered in {machine.toolchain_ns / 1e9:.1f} s"
            bundle.event(schema.Noted(at=now(), message=f"{'continued' if resumed else 'started'}; {toolchain}"))
            for each in told:
                bundle.event(schema.Noted(at=now(), message=redact_text(each.sentence, names_to_hide())))
                screen.say(f"note: {each.sentence}")
            _announce(planned, machine, path, screen)
            Orchestrator(bundle, planned, machine, screen, watch).lead()
    except BaseException as error:
        begun = (path / RUN).is_file()
        if made and not begun:
            # Nothing of it can be continued.
            shutil.rmtree(path, ignore_errors=True)
        if begun and isinstance(error, Stopped):
            raise Interrupted(path, error.status) from None
        raise
    return path


def _same_machine(path: Path, machine: Machine) -> None:
    """Refuse to continue a run on another machine or with another torch: its processes would not be replicates."""
    fingerprint = path / FINGERPRINT
    if not fingerprint.exists():
        return
    before = reader.read_document(fingerprint, schema.Fingerprint, versioned=True).facts
    for subject, name in (("cpu", "model"), ("torch", "version"), ("memory", "total_bytes")):
        old, new = before.get(subject, {}).get(name), machine.facts.get(subject, {}).get(name)
        if old and new and old.value != new.value:
            raise UserError(
                f"{path} was measured where {subject} {name} is {old.value}, here it is {new.value}; continue it there, or start a new run."
            )


def _same_device(path: Path, before: schema.Device, now: schema.Device) -> None:
    """Refuse to continue a run on another device of this machine, or on another size of its partition."""
    for name in ("name", "partition", "memory_bytes"):
        old, new = getattr(before, name), getattr(now, name)
        if old and old != new:
            raise UserError(
                f"{path} was measured where the {before.kind} device's {name.replace('_', ' ')} is {old}, here it is {new}; "
                "continue it there, or start a new run."
            )


def _announce(planned: schema.Run, machine: Machine, path: Path, screen: Display) -> None:
    where = f"in {planned.engine.name} ({planned.engine.image})" if planned.engine.containerised else "natively"
    cases, processes = counted(len(planned.cases), "case"), counted(planned.procedure.processes, "process")
    screen.say(f"preset {planned.preset}: {cases}, {processes} each, {where}; into {path}")
    if not planned.engine.containerised:
        screen.say(f"not in a container that the suite started: {planned.engine.reason}")
    for loss in planned.engine.losses:
        screen.say(f"note: {loss}")
    if planned.device.name:
        screen.say(device_line(planned.device))
    for precision, names in registry.precisions(planned.device, planned.cases).items():
        screen.say(f"products of {', '.join(names)} in {precision}")
    if planned.ablation:
        levels = ", ".join(level.label for level in planned.ablation.levels)
        screen.say(f"levels of settings, in mirrored order: {levels}")
    for note in machine.launch.notes:
        screen.say(f"note: {note}")
    for finding in machine.findings:
        screen.say(f"{finding.severity}: {finding.claim} {finding.evidence[0]} ({finding.rule})")
    for name, reason in machine.not_run.items():
        screen.say(f"{name} is not run: {reason}")
