"""The suite's command line: run, list, doctor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from suite.bundle.errors import BundleError
from suite.errors import UserError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure eager against torch.compile.",
)

INCOMPLETE = 1
REFUSED = 2
INTERRUPTED = 130


def refuse(error: Exception) -> NoReturn:
    """Print the one sentence that a user is meant to read; exit status 2."""
    print(f"speedproof: {error}", file=sys.stderr)
    raise SystemExit(REFUSED)


@app.command()
def run(
    preset: Annotated[str, typer.Option(help="smoke, quick, standard or paper.")] = "quick",
    output: Annotated[Path, typer.Option(help="Directory in which the run's own directory is made.")] = Path("results"),
    cases: Annotated[
        str,
        typer.Option(help="Cases instead of the preset's, separated by commas: matmul_add or matmul_add/1024-bf16."),
    ] = "",
    arms: Annotated[str, typer.Option(help="Arms beside eager, separated by commas.")] = "",
    processes: Annotated[int | None, typer.Option(help="Processes a case, instead of the preset's number.")] = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Whether to profile after measuring.")] = True,
    engine: Annotated[str, typer.Option(help="auto, native, docker or podman.")] = "auto",
    resume: Annotated[str, typer.Option(help="Continue this run (its id, or its directory).")] = "",
    model_dir: Annotated[
        str, typer.Option(envvar="MODEL_DIR", help="Folder with MobileBERT's config.json and weights.")
    ] = "",
    model_revision: Annotated[
        str, typer.Option(envvar="MODEL_REVISION", help="Commit of the published weights, from the local cache.")
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the two paths at the end, nothing else.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Progress as JSON lines.")] = False,
) -> None:
    """Measure, and render the report."""
    from suite import display, session
    from suite.plan import Request

    request = Request(preset, cases, arms, processes, profile, model_dir or None, model_revision or None)
    options = session.Options(output=output, engine=engine, resume=resume, argv=sys.argv[1:])
    try:
        with display.choose(quiet=quiet, json=json) as screen:
            done = session.run(request, options, screen)
    except (UserError, BundleError) as error:
        refuse(error)
    except session.Interrupted as interrupted:
        print(
            f"speedproof: interrupted; every finished block is kept. Continue with: make bench-cpu RUN={interrupted.run_id}",
            file=sys.stderr,
        )
        raise SystemExit(INTERRUPTED) from None
    if isinstance(done, int):
        raise SystemExit(done)
    # Imports point one way, from reports to suite, so the report is asked for as its own program. In a container the outer command
    # prints the paths, which are others on its side.
    inside = "SPEEDPROOF_ENGINE" in os.environ
    render = subprocess.run(
        [sys.executable, "-m", "reports", "render", str(done)], capture_output=True, text=True, check=False
    )
    sys.stderr.write(render.stderr)
    paths = render.stdout.split("\n")[:-1]
    if json:
        print(msgspec.json.encode({"event": "rendered", "paths": paths}).decode())
    elif not inside:
        print("\n".join(paths))
    if failed := session.failures(done):
        print(f"speedproof: {failed}", file=sys.stderr)
    raise SystemExit(render.returncode or (INCOMPLETE if failed else 0))


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
    print("\narms")
    for arm in ARMS.values():
        print(f"  {arm.name:18} {arm.description}")


@app.command()
def doctor(engine: Annotated[str, typer.Option(help="auto, native, docker or podman.")] = "auto") -> None:
    """Say what this machine offers a run, and what is missing."""
    from suite import session

    try:
        session.doctor(engine)
    except UserError as error:
        refuse(error)


if __name__ == "__main__":
    app()
