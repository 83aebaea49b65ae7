"""The `analyze` command: traces in, a summary, JSON or pages out; one that cannot be read does not stop the others."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.export.analysis import document, encode, refusal
from reports.findings.contract import Finding
from reports.findings.overview import busiest
from reports.findings.registry import findings
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from reports.trace.reconcile import Reconciliation, reconcile
from reports.trace.regime import Bound, flips_at
from reports.trace.table import Table, TableError, parse
from suite.bundle.errors import BundleError

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
    """Analyse every trace; the exit status (2: something could not be read or written, and was said on standard error)."""
    documents: list[dict[str, Any]] = []
    sweep: list[tuple[float, Bound]] = []
    status = 0
    table: Table | None = None
    eager: Analysis | None = None
    try:
        table = None if request.table is None else read_table(request.table)
    except TableError as error:
        status = _refuse(error)
    try:
        eager = None if request.against is None else analyse(request.against)
    except TraceError as error:
        status = _refuse(error)
    for number, (path, folder) in enumerate(zip(request.traces, page_folders(request.traces), strict=True)):
        first = number == 0
        try:
            analysis = analyse(path, table=table if first else None)
        except TraceError as error:
            status = _refuse(error)
            documents.append(refusal(str(path), str(error)))
            continue
        found = findings(analysis, eager if first else None)
        reconciled = None if analysis.table is None else reconcile(analysis, analysis.table)
        documents.append(document(analysis, found, reconciled))
        if analysis.workload is not None and analysis.devices and not analysis.trace.withheld & {"idle", "window"}:
            sweep.append((analysis.workload.size, busiest(analysis)[1].bound))
        if request.json:
            continue
        try:
            _show(analysis, found, reconciled, None if request.output is None else request.output / folder)
        except BundleError as error:
            status = _refuse(error)
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


def page_folders(traces: Sequence[Path]) -> list[str]:
    """The folder of each trace's page, no two the same, on any file system.

    It is the trace's name; traces of one name (one a rank, say) are told apart by the folder that they lie in, then by a number.
    """
    names = [folder_name(path) for path in traces]
    often = Counter(map(_as_one, names))
    used: set[str] = set()
    folders = []
    for path, name in zip(traces, names, strict=True):
        parent = path.absolute().parent.name
        wanted = f"{parent}-{name}" if parent and often[_as_one(name)] > 1 else name
        folder, number = wanted, 1
        while _as_one(folder) in used:
            number += 1
            folder = f"{wanted}-{number}"
        used.add(_as_one(folder))
        folders.append(folder)
    return folders


def folder_name(path: Path) -> str:
    """A trace's name without what says how it is packed."""
    name = path.name
    for ending in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return name or "trace"


def _as_one(name: str) -> str:
    """What a file system that ignores case, or composes accents, takes for one name."""
    return unicodedata.normalize("NFC", name).casefold()


def _refuse(error: Exception) -> int:
    print(f"speedproof: {error}", file=sys.stderr)
    return REFUSED


def _show(
    analysis: Analysis, found: tuple[Finding, ...], reconciled: Reconciliation | None, folder: Path | None
) -> None:
    from reports.render.terminal import show
    from reports.render.trace_document import render_trace

    told = () if reconciled is None else reconciled.sentences()
    show(analysis, found, reconciliation=told)
    if folder is not None:
        for path in render_trace(analysis, found, folder, told):
            print(path)
