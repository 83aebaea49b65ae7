"""The `analyze` command: traces in, a summary, JSON or pages out; one that cannot be read does not stop the others."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.export.analysis import document, encode, refusal
from reports.findings.contract import Finding
from reports.findings.overview import busiest
from reports.findings.pair import Pair, compare
from reports.findings.registry import findings
from reports.plain import one_line
from reports.render.page_folder import HTML, page_folders
from reports.render.plain_text import plain
from reports.render.trace_against import told_against
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
    missing: list[Exception] = []
    voice = Voice()
    try:
        table = None if request.table is None else read_table(request.table)
    except TableError as error:
        missing.append(error)
    try:
        eager = None if request.against is None else analyse(request.against)
    except TraceError as error:
        missing.append(error)
    for reason in missing:
        status = _refuse(reason)
    folders = page_folders(request.traces, None if request.json else request.output)
    for number, (path, folder) in enumerate(zip(request.traces, folders, strict=True)):
        first = number == 0
        try:
            analysis = analyse(path, table=table if first else None)
        except TraceError as error:
            status = _refuse(error)
            documents.append(refusal(str(path), str(error)))
            continue
        beside = eager if first else None
        found = findings(analysis, beside)
        reconciled = None if analysis.table is None else reconcile(analysis, analysis.table)
        documents.append(document(analysis, found, reconciled, None if beside is None else beside.trace.path))
        if analysis.workload is not None and analysis.devices and not analysis.trace.withheld & {"idle", "window"}:
            sweep.append((analysis.workload.size, busiest(analysis)[1].bound))
        if reconciled is not None and reconciled.of_another_recording:
            missing.append(TableError(f"{request.table}: {reconciled.sentences()[0]}"))
            status = _refuse(missing[-1])
        if request.json:
            continue
        try:
            where = None if request.output is None else request.output / folder
            _show(analysis, found, reconciled, where, beside, voice)
        except BundleError as error:
            status = _refuse(error)
    if request.json:
        voice.say(encode(documents).decode())
    elif len({size for size, _ in sweep}) > 1:
        voice.say(f"{over_sizes(sweep)}\n")
    if not request.json:
        # What was asked for and is not in the report stands where a reader looks: at the end.
        for reason in missing:
            status = _refuse(reason)
    return status or voice.status


class Voice:
    """Standard output, which may be a pipe that nobody reads any more (then the rest is silent) or a full disk (then that is said)."""

    def __init__(self) -> None:
        self.status = 0
        self._heard = True

    def say(self, text: str) -> None:
        """Write a text out, now."""
        if not self._heard:
            return
        try:
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()
        except OSError as error:
            self._heard = False
            # What is still held back would be written when the interpreter ends, and fail again.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                self.status = _refuse(
                    OSError(f"standard output cannot be written ({error.strerror or error}); write it elsewhere.")
                )


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
    if path.exists() and not path.is_file():
        raise TableError(f"{path}: is no regular file; name a file that holds the table that the profiler printed.")
    try:
        return parse(path.read_text("utf-8", "replace"))
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def _refuse(error: Exception) -> int:
    # The sentence may quote a file's name: nothing in it may steer the terminal.
    print(f"speedproof: {one_line(error, 1200)}", file=sys.stderr)
    return REFUSED


def _show(
    analysis: Analysis,
    found: tuple[Finding, ...],
    reconciled: Reconciliation | None,
    folder: Path | None,
    eager: Analysis | None,
    voice: Voice,
) -> None:
    from reports.render.terminal import shown_summary
    from reports.render.trace_document import render_trace

    told = () if reconciled is None else reconciled.sentences()
    against = None if eager is None else told_against(_pair(eager, analysis), Path(eager.trace.path))
    page = None if folder is None else folder / HTML
    voice.say(shown_summary(analysis, found, page, told, against))
    if folder is not None:
        voice.say("".join(f"{plain(str(path))}\n" for path in render_trace(analysis, found, folder, told, against)))


def _pair(eager: Analysis, compiled: Analysis) -> Pair | None:
    try:
        return compare(eager, compiled)
    except Exception:  # R25 says what went wrong; what one trace alone tells must not be lost with it
        return None
