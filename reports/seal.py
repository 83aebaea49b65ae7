"""Whether a bundle is what was measured, by its own checksums, and what follows from it when it is not."""

from __future__ import annotations

import hashlib

from reports.render.trace_summary import page_names
from suite.bundle import manifest, schema
from suite.bundle.manifest import NAME, Check
from suite.bundle.reader import Loaded

RENDERED = ("report.html", "report.pdf", "walkthrough.html")
MOST_NAMED = 3


def checked(bundle: Loaded) -> Check:
    """The bundle against its checksums, but for what is rendered of it."""
    return manifest.check(bundle.path, ignore=(*RENDERED, *page_names(bundle.run)))


def content(bundle: Loaded, check: Check) -> str:
    """A digest of every file that was measured as it is now, and of which are missing; what is rendered of them is not in it."""
    sealed = manifest.read(bundle.path)
    now = {name: sealed[name] for name in check.matching}
    now |= {name: manifest.digest(bundle.path / name) for name in (*check.changed, *check.unlisted)}
    now |= dict.fromkeys(check.missing, "missing")
    lines = "".join(f"{now[name]}  {name}\n" for name in sorted(now))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def problems(check: Check) -> str:
    """What is not as it was sealed: "1 changed (samples.jsonl); 2 missing (...)"; empty where nothing is."""
    return "; ".join(
        f"{len(names)} {what} ({', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''})"
        for names, what in ((check.changed, "changed"), (check.missing, "missing"), (check.unlisted, "not listed"))
        if names
    )


def absent(check: Check) -> bool:
    """Whether the bundle has no checksums at all."""
    return not (check.matching or check.changed or check.missing)


def broken(check: Check) -> str:
    """Why the run may not be published for its files' sake, in a clause; empty where every file is what was measured."""
    if absent(check):
        return f"the bundle has no checksums ({NAME}), so nobody can tell whether its files were changed"
    found = problems(check)
    return f"the bundle's files are not as they were measured: {found}" if found else ""


NEVER_CLOSED = "the run was not closed: it goes on still, or was killed"


def barred(run: schema.Run, check: Check) -> str:
    """Why no verdict may rest on the bundle, in a clause; empty where one may.

    A run that never ended has no checksums yet: that alone is nobody's change. One that did end has lost them.
    """
    return "" if absent(check) and run.status == "running" else broken(check)


def reasons(run: schema.Run, check: Check) -> list[str]:
    """Every reason for which the run is not publishable, those of its files first; empty when it is."""
    own = (
        []
        if run.publishable
        else run.reasons or [NEVER_CLOSED if run.status == "running" else "the run does not say why"]
    )
    files = broken(check)
    return [files, *own] if files else own
