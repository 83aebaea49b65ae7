"""The `walkthrough` command: traces named as the walkthrough names its own in, its questions with this machine's answers out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reports.plain import one_line
from reports.trace.notes import TraceError
from reports.walkthrough.answer import Asked, ask
from reports.walkthrough.questions import QUESTIONS
from reports.walkthrough.recording import Recording, Recordings, distinct, from_file

REFUSED = 2
FOLDER = "walkthrough"


def run(traces: Sequence[Path], output: Path | None) -> int:
    """Ask the questions of these traces; the exit status (2: one of them could not be used)."""
    found: list[Recording] = []
    status = 0
    for path in traces:
        try:
            found.append(from_file(path))
        except TraceError as error:
            print(f"speedproof: {one_line(error, 1200)}", file=sys.stderr)
            status = REFUSED
    if not found:
        return REFUSED
    kept = distinct(found)
    if len(kept) < len(found):
        print(
            f"speedproof: {len(found) - len(kept)} of the traces have another's name; the first of each is used.",
            file=sys.stderr,
        )
    recordings = Recordings(kept)
    asked = ask(QUESTIONS, recordings)
    print(told(asked))
    if output is not None:
        from reports.render.walkthrough_document import write
        from reports.render.walkthrough_view import page

        for path in write(page(asked, recordings), output / FOLDER):
            print(path)
    return status


def told(asked: Sequence[Asked]) -> str:
    """Questions and answers for a terminal."""
    lines = []
    for one in asked:
        lines.append(one.question.title)
        lines.append(f"    {one_line(one.answer.not_asked or one.answer.says, 1200)}")
        lines += [
            f"    A100: {one_line(b.what)}: {one_line(b.published)}; here {one_line(b.here)}"
            for b in one.answer.beside[:1]
        ]
        lines += [f"    differs: {one_line(text, 600)}" for text in one.answer.differs]
    return "\n".join(lines)
