"""A trace in a terminal: forty lines or so, as wide as the window, and clear without colours."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from reports.findings.contract import Finding, Verdict
from reports.render import numbers
from reports.render.page_folder import shown as shown_path
from reports.render.plain_text import plain
from reports.render.timeline_lanes import CAUSE_NAMES
from reports.render.trace_against import Against
from reports.render.trace_cpu import cpu_story
from reports.render.trace_units import cut, quoted, sentence, share, us
from reports.render.trace_words import advice, bound_sentence, busiest, device_line, ordered, trust, worth_telling
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause

LINES = 40
SHOWN, EVIDENCE, NOTES, HOTSPOTS, RECONCILED = 3, 2, 3, 4, 4
MARGIN = 12
"""Width of the column that says what a line is about."""
BAR = 16
LONGEST = 240
"""Characters of one sentence of a rule: three lines of a usual terminal."""
STYLES = {"problem": "bold red", "hint": "bold yellow", "explanation": "bold"}

Entry = tuple[str, Text]
"""What a paragraph is about ("" where it goes on), and the paragraph."""


def print_summary(
    analysis: Analysis,
    findings: Sequence[Finding],
    console: Console,
    page: Path | None = None,
    reconciliation: Sequence[str] = (),
    against: Against | None = None,
) -> None:
    """Print the summary; `page` is where the whole analysis was written, if it was; `reconciliation` says how the profiler's table and
    the trace differ, `against` how another recording and this one do."""
    for line in summary_lines(analysis, findings, console, page, reconciliation, against):
        console.print(line, highlight=False, markup=False, emoji=False, no_wrap=True, overflow="ignore", crop=False)


def shown_summary(
    analysis: Analysis,
    findings: Sequence[Finding],
    page: Path | None = None,
    reconciliation: Sequence[str] = (),
    against: Against | None = None,
) -> str:
    """The summary as it is printed to standard output, with its colours where that has some."""
    seen = Console()
    # Written into a text of its own: rich would write to standard output itself, which may be full.
    held = io.StringIO()
    console = Console(
        file=held, width=seen.width, force_terminal=seen.is_terminal, color_system="auto" if seen.is_terminal else None
    )
    print_summary(analysis, findings, console, page, reconciliation, against)
    return held.getvalue()


def summary_lines(
    analysis: Analysis,
    findings: Sequence[Finding],
    console: Console,
    page: Path | None = None,
    reconciliation: Sequence[str] = (),
    against: Against | None = None,
) -> list[Text]:
    """The summary's lines; in a narrow window fewer findings are shown, so that they stay about as many."""
    lines: list[Text] = []
    for shown in range(SHOWN, 0, -1):
        lines = [
            line
            for about, text in _entries(analysis, findings, page, shown, reconciliation, against)
            for line in _wrapped(about, text, console)
        ]
        if len(lines) <= LINES:
            break
    return lines


def _wrapped(about: str, text: Text, console: Console) -> Iterator[Text]:
    """A paragraph with its hanging indent; signs that the terminal cannot show are replaced."""
    breaks = [] if text.no_wrap else _breaks(text.plain, max(console.width - MARGIN, 20))
    for number, line in enumerate(text.divide(breaks)):
        line.rstrip()
        style = STYLES.get(about, "bold")
        result = Text.assemble((f"{about if number == 0 else '':<{MARGIN}}", style), line)
        encoding = console.encoding or "utf-8"
        if result.plain.encode(encoding, "replace").decode(encoding) != result.plain:
            result = Text(result.plain.encode(encoding, "replace").decode(encoding))
        yield result


def _breaks(text: str, width: int) -> list[int]:
    """Where lines of `width` cells begin, after the first: at words, which are never broken. What is too long for a line can be copied."""
    starts, used = [], 0
    for word in re.finditer(r"[^ ]+ *", text):
        if used and used + cell_len(word[0].rstrip()) > width:
            starts.append(word.start())
            used = 0
        used += cell_len(word[0])
    return starts


def _path(text: str) -> Text:
    """A path on a line of its own: blanks in it are no places to break at."""
    return Text(text, no_wrap=True)


def _entries(
    analysis: Analysis,
    findings: Sequence[Finding],
    page: Path | None,
    shown: int,
    reconciliation: Sequence[str],
    against: Against | None,
) -> Iterator[Entry]:
    # Names come from the trace: they are Text, in which brackets are only brackets.
    yield "Trace", _path(f"{shown_path(Path(analysis.trace.path))},")
    yield "", Text(device_line(analysis))
    health = trust(analysis)
    yield (
        "Trust",
        Text.assemble((health.status, "green" if health.status == "ok" else "yellow"), f": {health.sentence}"),
    )
    for kind, count, effect, _ in health.notes[:NOTES]:
        yield "", Text(f"- {kind} ({count}): {cut(effect, LONGEST)}")
    if len(health.notes) > NOTES:
        yield "", Text(f"- and {len(health.notes) - NOTES} more")
    yield "Bound by", Text(bound_sentence(analysis))
    yield from _idle(analysis)
    yield from _cpu(analysis)
    if against is not None:
        yield "Against", Text(f"{against.name}: {cut(against.told, LONGEST)}")
    yield from _findings(findings, shown, page)
    if following := advice(analysis, worth_telling(findings)):
        yield "Next", Text(cut(following, LONGEST))
    for number, told in enumerate(reconciliation[:RECONCILED]):
        yield "Table" if number == 0 else "", Text(f"{'- ' if number else ''}{sentence(cut(told, LONGEST))}")
    if len(reconciliation) > RECONCILED:
        yield "", Text(f"- and {len(reconciliation) - RECONCILED} more, all in --json and on the page")
    counts = {verdict: sum(f.outcome.verdict is verdict for f in findings) for verdict in Verdict}
    yield (
        "Rules",
        Text(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count) or "none asked"),
    )
    if page:
        yield "Look next", Text("the timeline, every finding with its explanation, and all numbers:")
        yield "", _path(plain(str(page)))


def _idle(analysis: Analysis) -> Iterator[Entry]:
    found = busiest(analysis)
    if found is None or analysis.trace.withheld & {"idle", "window", "cause"}:
        return
    causes = {cause: found[0].idle_us[cause.value] for cause in Cause}
    total = sum(causes.values())
    if not total:
        return
    yield "Idle", Text(f"{us(total)} of {us(found[0].window_us)}, by cause")
    for cause, time in sorted(causes.items(), key=lambda item: -item[1]):
        if time:
            yield "", _bar(CAUSE_NAMES[cause], time, total)


def _bar(name: str, time: float, total: float) -> Text:
    length = max(1, math.floor(BAR * time / total + 0.5))
    bar = f"{'#' * length}{'.' * (BAR - length)}"
    return Text(f"{bar} {us(time):>9} {share(time / total):>8}  {plain(name, 60)}")


def _cpu(analysis: Analysis) -> Iterator[Entry]:
    """Without a GPU: where the operators' own time goes."""
    if analysis.has_gpu or cpu_story(analysis).top is None:
        return
    found = [stats for stats in analysis.operators if stats.kind == "operator"]
    total = sum(stats.self_us for stats in found) or 1.0
    yield "Operators", Text(f"{us(total)} of self time, by name")
    for stats in found[:HOTSPOTS]:
        yield "", _bar(f"{plain(stats.name, 40)}, {numbers.counted(stats.count, 'call')}", stats.self_us, total)


def _findings(findings: Sequence[Finding], most: int, page: Path | None) -> Iterator[Entry]:
    fired = ordered(findings)
    shown = [finding for finding in fired if finding.rule.severity != "explanation"][:most] or fired[:1]
    for finding in shown:
        rule, outcome = finding.rule, finding.outcome
        at_stake = f" (at stake: {us(outcome.at_stake_us)})" if outcome.at_stake_us > 0 else ""
        claim = sentence(cut(outcome.claim, LONGEST))
        yield rule.severity, Text.assemble((claim, "bold"), f" [{rule.id}]{at_stake}")
        for evidence in outcome.evidence[:EVIDENCE]:
            yield "", Text(f"- {cut(quoted(evidence.text), LONGEST)}")
        if outcome.advice:
            yield "", Text(f"> {sentence(cut(outcome.advice, LONGEST))}")
    if more := len(fired) - len(shown):
        yield "", Text(f"{more} more {'on the page' if page else 'in --json'}")
