"""The summary in a terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from reports.findings.contract import Evidence, Finding, fired
from reports.render.terminal import LINES, MARGIN, print_summary
from reports.trace.analyse import Analysis
from tests.reports.render.findings_made import EVIL, rule, some
from tests.reports.trace.kineto import Recording, two_steps


def shown(analysis: Analysis, findings: tuple[Finding, ...] = (), width: int = 100, **options: object) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, **options)  # type: ignore[arg-type]
    print_summary(analysis, findings, console, Path("results/page/trace.html"))
    return stream.getvalue().replace("\u00a0", " ")


def test_it_tells_trust_bound_idle_findings_and_where_to_look(tmp_path: Path) -> None:
    text = shown(two_steps().analyse(tmp_path), some())
    abouts = [line[:MARGIN].strip() for line in text.splitlines() if line[:MARGIN].strip()]
    assert abouts == ["Trace", "Trust", "Bound by", "Idle", "problem", "problem", "hint", "Next", "Rules", "Look next"]
    assert text.index("Claim of P-large.") < text.index("Claim of P-small.") < text.index("Claim of H1.")
    assert "- evidence of P-large" in text and "> Save a lot." in text and "Claim of E1" not in text
    assert "1 more on the page" in text
    assert "4 fired, 1 quiet, 1 n/a, 1 withheld" in text and "results/page/trace.html" in text


def test_bars_are_as_long_as_their_share(tmp_path: Path) -> None:
    text = shown(two_steps().analyse(tmp_path))
    bars = [line.split()[0] for line in text.splitlines() if set(line.split()[0]) <= {"#", "."} and "%" in line]
    assert sum(bar.count("#") for bar in bars) in range(15, 19) and len(bars) >= 2


def test_without_a_gpu_operators_are_shown(tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.op("aten::mm", 0.25, 60.25)
    recording.op("aten::add", 70.25, 90.25)
    text = shown(recording.analyse(tmp_path))
    assert "############....   60.0 µs   75.0 %  aten::mm, 1 call" in text and "Idle" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_window_and_there_are_about_forty(tmp_path: Path, width: int) -> None:
    wordy = fired("claim " * 90, Evidence("evidence " * 90), Evidence("more " * 90), why="why", advice="advice " * 90)
    findings = tuple(Finding(rule(f"R{number}"), wordy) for number in range(9))
    lines = shown(two_steps().analyse(tmp_path), findings, width).splitlines()
    assert max(len(line) for line in lines if "/" not in line) <= width
    assert len(lines) <= (LINES if width >= 80 else 2 * LINES)


@pytest.mark.parametrize("width", [40, 200])
def test_a_path_is_never_broken_and_no_other_long_word_either(tmp_path: Path, width: int) -> None:
    page = Path("/tmp/a folder with blanks") / ("long" * 40) / "trace.html"
    word = "kernel<" + "x" * 150 + ">"
    findings = (Finding(rule("R1"), fired(f"Claim of {word}", Evidence(word), why="why", advice="advice")),)
    stream = io.StringIO()
    (folder := tmp_path / "a b" / ("c" * 60)).mkdir(parents=True)
    trace = two_steps().analyse(folder)
    print_summary(trace, findings, Console(file=stream, width=width), page)
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert str(page) in lines
    assert any(line.endswith(f"a b/{'c' * 60}/trace.json,") for line in lines)
    assert sum(word in line for line in lines) == 2


def test_brackets_of_a_name_are_only_brackets(tmp_path: Path) -> None:
    name = f"{EVIL} [/bold] :smile:"
    recording = Recording(devices=[])
    recording.op(name, 0.25, 60.25)
    finding = Finding(rule("R1"), fired(name, Evidence(name), why=name, advice=name))
    text = shown(recording.analyse(tmp_path), (finding,), 300, force_terminal=True, color_system=None)
    assert text.count("[bold red]x[/]") >= 4 and text.count(":smile:") >= 3


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    recording = Recording(devices=[])
    recording.op("\x1b]0;title\x07\ud800evil\r", 0.25, 60.25)
    text = shown(recording.analyse(tmp_path))
    assert not set(text) & set("\x1b\x07\r\ud800") and "evil" in text


def test_a_terminal_without_unicode_is_served(tmp_path: Path) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_summary(two_steps().analyse(tmp_path), some(), Console(file=stream, width=80))
    stream.flush()
    assert b"Idle" in stream.buffer.getvalue()  # type: ignore[attr-defined]
