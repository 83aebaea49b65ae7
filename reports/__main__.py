"""The reports' command line: render."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="Read bundles, render reports."
)

REFUSED = 2


@app.callback()
def main() -> None:
    """Read bundles, render reports."""


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
        print(f"speedproof: {error}", file=sys.stderr)
        raise SystemExit(REFUSED) from None


if __name__ == "__main__":
    app()
