"""The `analyze` command: traces in, a summary, JSON or pages out; one that cannot be read does not stop the others."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.export.analysis import document, encode, refusal
from reports.findings.contract import Finding
from reports.findings.registry import findings
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from reports.trace.reconcile import reconcile
from reports.trace.regime import Bound, flips_at
from reports.trace.table import Table, TableError, parse

REFUSED = 2


@dataclass(frozen=True)
class Request:
    """What to analyse; `table` and `against` belong to the first trace. Without `output` no page is written."""

    traces: tuple[Path, ...]
    table: Path | None = None
    against: Path | None = None
    output: Path | None = None
    json: bool = False


def run(request: Request) -> int:
    """Analyse every trace; the exit status (2: one could not be read)."""
    documents: list[dict[str, Any]] = []
    sweep: list[tuple[float, Bound]] = []
    status = 0
    try:
        table = None if request.table is None else read_table(request.table)
        eager = None if request.against is None else analyse(request.against)
    except (TraceError, TableError) as error:
        return _refuse(error)
    for number, path in enumerate(request.traces):
        try:
            analysis = analyse(path, table=table if number == 0 else None)
        except TraceError as error:
            status = _refuse(error)
            documents.append(refusal(str(path), str(error)))
            continue
        found = findings(analysis, eager if number == 0 else None)
        documents.append(document(analysis, found))
        if analysis.workload is not None and analysis.regimes:
            sweep.append((analysis.workload.size, analysis.regimes[0].bound))
        if not request.json:
            _show(analysis, found, request.output)
    if request.json:
        sys.stdout.buffer.write(encode(documents))
    elif len({size for size, _ in sweep}) > 1:
        print(over_sizes(sweep))
    return status


def over_sizes(sweep: list[tuple[float, Bound]]) -> str:
    """What a sweep over sizes shows, in a sentence."""
    named = ", ".join(f"{size:g} {bound}" for size, bound in sorted(sweep))
    flips = flips_at(sweep)
    return f"over the sizes: {named}; " + (
        f"from {flips:g} on the launches no longer decide the time"
        if flips
        else "there is no one size at which this changes"
    )


def read_table(path: Path) -> Table:
    """A profiler table from a file.

    Raises:
        TableError: when it cannot be read.
    """
    try:
        return parse(path.read_text("utf-8", "replace"))
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def folder_name(path: Path) -> str:
    """The folder of a trace's page: its name without what says how it is packed."""
    name = path.name
    for ending in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return name or "trace"


def _refuse(error: Exception) -> int:
    print(f"speedproof: {error}", file=sys.stderr)
    return REFUSED


def _show(analysis: Analysis, found: tuple[Finding, ...], output: Path | None) -> None:
    from reports.render.terminal import show
    from reports.render.trace_document import render_trace

    show(analysis, found)
    if output is not None:
        reconciled = () if analysis.table is None else reconcile(analysis, analysis.table).sentences()
        for path in render_trace(analysis, found, output / folder_name(Path(analysis.trace.path)), reconciled):
            print(path)
