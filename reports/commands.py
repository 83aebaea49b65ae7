"""The reports' command line: render, analyze, walkthrough, mlperf, compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="Read bundles, render reports."
)

REFUSED = 2


@app.callback()
def main() -> None:
    """Read bundles, render reports."""


def refuse(error: Exception) -> NoReturn:
    """Print the one sentence that a user is meant to read; exit status 2."""
    print(f"speedproof: {error}", file=sys.stderr)
    raise SystemExit(REFUSED) from None


@app.command()
def render(
    bundle: Annotated[Path | None, typer.Argument(help="Directory of a run, as results/<run-id>.")] = None,
    latest: Annotated[Path | None, typer.Option(help="Render the newest run below this directory instead.")] = None,
) -> None:
    """Render report.html and report.pdf of a bundle, in place."""
    from suite.bundle import reader
    from suite.bundle.errors import BundleError

    try:
        if bundle is None and latest is None:
            raise BundleError("name a run's directory, or --latest with the directory of all runs.")
        if bundle is None:
            assert latest is not None
            runs = reader.runs(latest)
            if not runs:
                raise BundleError(f"{latest}: there is no run yet; type `make bench-cpu`.")
            bundle = runs[-1]
        reader.read_run(bundle)
        from reports.render.document import render as render_bundle

        for path in render_bundle(bundle):
            print(path)
    except BundleError as error:
        refuse(error)


@app.command()
def analyze(
    traces: Annotated[list[Path], typer.Argument(help="Traces that export_chrome_trace wrote, gzipped or not.")],
    table: Annotated[
        Path | None, typer.Option(help="The profiler's own table of the (first) trace, to be reconciled with it.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="A trace of the eager arm, which the (first) compiled trace is compared with.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write each trace's page (HTML, PDF) into a folder in here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and write no page.")] = False,
) -> None:
    """Read traces and tell what they mean: a summary, findings with their evidence, a page each."""
    from reports.analyze import Request, run

    raise SystemExit(run(Request(tuple(traces), table, against, output, json)))


@app.command()
def walkthrough(
    traces: Annotated[
        list[Path],
        typer.Argument(
            help="Traces named as the walkthrough names its own: 64_bf16_cold_eager.json, 4096_bf16_warm_compile.json."
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="Write the page (HTML, PDF) into a folder in here.")] = None,
) -> None:
    """Ask the profiling walkthrough's questions of these traces, and answer them beside its A100's numbers."""
    from reports.ask import run
    from suite.bundle.errors import BundleError

    try:
        raise SystemExit(run(traces, output))
    except BundleError as error:
        refuse(error)


@app.command()
def mlperf(
    bundle: Annotated[Path, typer.Argument(help="Directory of a run, as results/<run-id>.")],
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the standard output.")] = None,
) -> None:
    """Write MLPerf's system description (JSON) of the machine of a run; what is not known stays empty."""
    import msgspec

    from reports.export.mlperf import UNKNOWN, system_description
    from suite.bundle import reader, schema, writer
    from suite.bundle.errors import BundleError

    try:
        reader.read_run(bundle)
        path = bundle / writer.FINGERPRINT
        if not path.is_file():
            raise BundleError(f"{bundle}: the run ended before the machine was looked at, so it cannot be described.")
        described = system_description(reader.read_document(path, schema.Fingerprint, versioned=True))
        text = msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"
        if output is None:
            sys.stdout.buffer.write(text)
        elif output.resolve().is_relative_to(bundle.resolve()):
            raise BundleError(
                f"{output}: a bundle's files are sealed by its checksums; name a file outside of {bundle}."
            )
        else:
            writer.write_bytes(output, text)
            print(output)
    except BundleError as error:
        refuse(error)
    empty = [field for field, value in described.items() if value == UNKNOWN]
    print(f"not known from the machine, and left empty: {', '.join(empty)}", file=sys.stderr)


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(help="Two or more runs: directories, or ids of runs below --output.")],
    baseline: Annotated[
        str | None, typer.Option(help="The run to compare with: its letter or id (default: the first).")
    ] = None,
    allow: Annotated[list[str] | None, typer.Option(help="Rank in spite of this difference: torch, threads.")] = None,
    output: Annotated[Path, typer.Option(help="Directory in which the comparison's own directory is made.")] = Path(
        "results"
    ),
) -> None:
    """Put several runs on one page: comparison.html, .pdf and .csv. A run that cannot be used is named and left out."""
    from reports.compare.load import gather
    from reports.compare.matrix import compare as compare_all
    from reports.compare.parity import allowed
    from reports.plain import one_line
    from suite.bundle.errors import BundleError

    try:
        allowing = allowed(allow or [])
        gathered = gather(runs, output)
        found = compare_all(gathered, baseline, allowing)
        for one in gathered.left_out:
            print(f"speedproof: left out: {one.name}: {one.reason}", file=sys.stderr)
        from reports.render.comparison_document import write

        for path in write(found, output):
            print(path)
    except BundleError as error:
        # The sentence may quote a bundle: nothing in it may steer the terminal.
        refuse(BundleError(one_line(error, 1200)))
