"""The diagnosis as text: what a run would do, then what matters most first, then what is proven; at most 100 columns."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import PurePath
from typing import TextIO

from suite.doctor.advice import Advice, Severity
from suite.doctor.diagnosis import Diagnosis, Launch, Machine
from suite.doctor.words import counted, cpus, gib

WIDEST = 100
NARROWEST = 40
LABEL = 12
MARKS: dict[Severity, tuple[str, str]] = {
    "wrong": ("✗", "x"),
    "doubtful": ("!", "!"),
    "note": ("·", "-"),
    "proven": ("✓", "+"),
}
STYLES: dict[Severity, str] = {"wrong": "bold red", "doubtful": "yellow", "note": "cyan", "proven": "green"}
ARROW = ("→", "->")

# A line of text is its spans: (text, style).
Line = list[tuple[str, str]]


def lines(diagnosis: Diagnosis, width: int = WIDEST, *, ascii_only: bool = False) -> Iterator[Line]:
    """The whole text, wrapped to `width` columns (of 40 to 100)."""
    width = max(NARROWEST, min(width, WIDEST))
    yield from _plain(machine_line(diagnosis.machine), width, style="bold")
    yield from _plain(verdict(diagnosis), width, style="bold" if diagnosis.possible else "bold red")
    yield from _headed("What a run would do", width)
    for label, text in launch_rows(diagnosis.launch):
        yield from _hanging(f"  {label:{LABEL}}", text, width, "dim")
    for title, findings in sections(diagnosis):
        if findings:
            yield from _headed(title, width)
        for finding in findings:
            yield from _finding(finding, width, ascii_only)
    yield []
    yield from _plain(f"Fingerprint: {diagnosis.coverage.line}", width)


def sections(diagnosis: Diagnosis) -> list[tuple[str, list[Advice]]]:
    """The findings under their headings, in their order."""
    findings = diagnosis.findings
    return [
        ("What to mend, the most important first", [f for f in findings if f.severity in ("wrong", "doubtful")]),
        ("Worth knowing", [f for f in findings if f.severity == "note" and f.family != "proof"]),
        ("Cannot be proven here", [f for f in findings if f.severity == "note" and f.family == "proof"]),
        ("Proven", [f for f in findings if f.severity == "proven"]),
    ]


def machine_line(machine: Machine) -> str:
    """The machine in one sentence."""
    model = machine.model or "a processor without a name"
    where = [f"in {machine.container}"] if machine.container else []
    virtual = ["virtual machine"] if machine.hypervisor else []
    about = f" ({', '.join(virtual + where)})" if virtual or where else ""
    shape = [
        f"{counted(machine.cpus_online, 'CPU')}"
        + (f", of which {machine.cpus_allowed} may be used" if _part(machine) else "")
    ]
    shape += [counted(machine.sockets, "socket")] if machine.sockets else []
    shape += [f"{machine.threads_per_core} threads a core"] if (machine.threads_per_core or 1) > 1 else []
    shape += [f"quota {machine.quota_cpus:g} CPUs"] if machine.quota_cpus is not None else []
    memory = [gib(machine.memory_total_bytes)] if machine.memory_total_bytes else []
    memory += [f"limit {gib(machine.memory_limit_bytes)}"] if machine.memory_limit_bytes else []
    software = [f"Linux {machine.kernel}" if machine.kernel else "", machine.os or ""]
    software += [
        f"Python {machine.python}" if machine.python else "",
        f"torch {machine.torch}" if machine.torch else "no torch",
    ]
    return (
        "; ".join(
            filter(None, (f"{model}{about}", ", ".join(shape), ", ".join(memory), ", ".join(filter(None, software))))
        )
        + "."
    )


def _part(machine: Machine) -> bool:
    from suite.fingerprint.files import parse_cpulist

    return len(parse_cpulist(machine.cpus_allowed)) < machine.cpus_online


def verdict(diagnosis: Diagnosis) -> str:
    """Whether a run is possible, and whether it could be published, in a sentence."""
    wrong, doubtful = diagnosis.counts["wrong"], diagnosis.counts["doubtful"]
    if not diagnosis.possible:
        stops = sum(finding.stops_run for finding in diagnosis.findings)
        return f"No run is possible here: {counted(stops, 'thing')} must be mended first."
    found = [f"{counted(wrong, 'thing')} wrong" if wrong else "", f"{doubtful} doubtful" if doubtful else ""]
    seen = f", with {' and '.join(filter(None, found))}" if wrong or doubtful else ""
    if diagnosis.publishable:
        return f"A run is possible here{seen}; nothing seen forbids to publish it."
    return f"A run is possible here{seen}; as things stand it could not be published."


def launch_rows(launch: Launch) -> Iterator[tuple[str, str]]:
    """Label and text of each row of "what a run would do"."""
    engine = launch.engine
    if launch.starts_container:
        yield "where", f"in {engine.name} {engine.version or ''}, {engine.image}: {engine.reason}"
        yield "below", "what a native run would do; the image brings its own libraries"
    elif launch.builds_image:
        yield "where", f"in a container, after building the image; natively when that fails ({engine.reason})"
    elif engine.containerised:
        yield "where", f"in this container ({engine.name}, {engine.image or 'an unnamed image'})"
    elif launch.engines_slow:
        yield "where", f"natively, unless {' or '.join(launch.engines_slow)} answers by then: {engine.reason}"
    else:
        yield "where", f"natively: {engine.reason}"
    command = " ".join([*launch.prefix, "python -m suite.worker"])
    yield "command", command
    cores = cpus(launch.cores) if launch.cores else "no CPUs chosen"
    nodes = f", memory of node {launch.nodes}" if launch.nodes else ""
    bound = nodes if "-m" in launch.prefix or not nodes else ", memory not bound"
    yield (
        "placement",
        f"{cores}{bound}: {launch.reason}" if launch.prefix else f"not pinned ({cores}{nodes}: {launch.reason})",
    )
    yield "threads", str(launch.threads) if launch.threads is not None else "as many as the OpenMP run-time chooses"
    yield "OpenMP", _library(launch, "openmp", "torch's own libgomp")
    yield "allocator", _library(launch, "allocator", "the C library's malloc")
    rest = [
        f"{name}={value}" for name, value in launch.environment.items() if name not in ("LD_PRELOAD", "OMP_NUM_THREADS")
    ]
    yield "settings", f"{launch.settings}: {' '.join(rest)}" if rest else launch.settings
    if launch.exported:
        yield "exported", " ".join(f"{name}={value}" for name, value in launch.exported.items())
    yield "MobileBERT", launch.weights


def _library(launch: Launch, kind: str, otherwise: str) -> str:
    """What answered in the rehearsal, with its path when it is what was planned; else the plan."""
    planned, answering = launch.libraries[kind] or "", launch.answering.get(kind)
    if answering is None:
        return planned if planned and planned in launch.environment.get("LD_PRELOAD", "").split(":") else otherwise
    return planned if PurePath(planned).name == answering else answering


def _finding(finding: Advice, width: int, ascii_only: bool) -> Iterator[Line]:
    mark = MARKS[finding.severity][ascii_only]
    yield from _hanging(f"{mark} ", finding.claim, width, STYLES[finding.severity])
    if finding.evidence and finding.severity != "proven":
        for text in finding.evidence:
            yield from _hanging("  ", text, width, "dim", body="dim")
    elif finding.evidence:
        yield from _hanging("  ", "; ".join(finding.evidence), width, "dim", body="dim")
    if finding.advice:
        yield from _hanging(f"  {ARROW[ascii_only]} ", finding.advice, width, "bold")


def _headed(title: str, width: int) -> Iterator[Line]:
    yield []
    yield [(title[:width], "bold underline")]


def _plain(text: str, width: int, style: str = "") -> Iterator[Line]:
    for line in _wrap(text, width):
        yield [(line, style)]


def _hanging(lead: str, text: str, width: int, lead_style: str, body: str = "") -> Iterator[Line]:
    """`lead` before the first line, and as much room before the others."""
    wrapped = _wrap(text, width - len(lead)) or [""]
    for number, line in enumerate(wrapped):
        yield [(lead if number == 0 else " " * len(lead), lead_style), (line, body)]


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width`: broken at spaces, in a word that is too long between its settings; a path is never broken."""
    words = [piece for word in text.split() for piece in _pieces(word, width)]
    return textwrap.wrap(" ".join(words), width, break_long_words=False, break_on_hyphens=False)


def _pieces(word: str, width: int) -> Iterator[str]:
    piece = ""
    for part in _parts(word) if len(word) > width else [word]:
        if piece and len(piece + part) > width:
            yield piece
            piece = ""
        piece += part
    yield piece


def _parts(word: str) -> Iterator[str]:
    """A setting's parts: up to its signs, but within a path none is one (a colon before a slash is between two paths)."""
    start = 0
    for sign in re.finditer("[,:=]", word):
        if "/" not in word[: sign.end()] or word.startswith(":/", sign.start()):
            yield word[start : sign.end()]
            start = sign.end()
    yield word[start:]


def show(diagnosis: Diagnosis, file: TextIO | None = None) -> None:
    """Print to a terminal with colour and at its width, elsewhere plainly; with ASCII marks where the encoding has no others."""
    file = file or sys.stdout
    ascii_only = not _encodes("✗·✓→µ", file)
    if not file.isatty():
        for line in lines(diagnosis, ascii_only=ascii_only):
            text = "".join(span for span, _ in line).rstrip()
            print(
                text.encode(file.encoding or "utf-8", "replace").decode(file.encoding or "utf-8")
                if ascii_only
                else text,
                file=file,
            )
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False)
    for line in lines(diagnosis, console.width, ascii_only=ascii_only):
        console.print(Text.assemble(*line), soft_wrap=True)


def _encodes(text: str, file: TextIO) -> bool:
    try:
        text.encode(file.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
