"""How a run shows its progress: a live bar, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

import msgspec

from suite.protocol import Progress
from suite.supervise import Ended


class Unit(Protocol):
    """One process to be run, as shown to the user."""

    @property
    def title(self) -> str:
        """Case, role and process in words."""

    @property
    def estimate_s(self) -> float:
        """Expected duration, for the time left."""


class Display:
    """Keeps the arithmetic of progress. Subclasses draw; `flags` are the command line's words that ask for the same display."""

    flags: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._units: Sequence[Unit] = ()
        self._done_s = 0.0
        self._current: Unit | None = None
        self._began = 0.0
        self._fraction = 0.0

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put away."""

    def plan(self, units: Sequence[Unit]) -> None:
        """The units still to be run, whenever the plan or its estimates change."""
        self._units = units

    def started(self, unit: Unit) -> None:
        """A unit starts."""
        self._current, self._began, self._fraction = unit, time.monotonic(), 0.0

    def progress(self, report: Progress) -> None:
        """The running unit reports."""
        self._fraction = max(self._fraction, report.fraction)

    def tick(self) -> None:
        """About twice a second while a unit runs."""

    def ended(self, unit: Unit, end: Ended) -> None:
        """A unit ended."""
        self._done_s += end.duration_ns / 1e9
        self._current = None

    def say(self, message: str) -> None:
        """A sentence for the user."""

    def remaining_s(self) -> float:
        """Expected time left in seconds."""
        rest = sum(unit.estimate_s for unit in self._units)
        if self._current is None:
            return rest
        elapsed = time.monotonic() - self._began
        by_estimate = max(self._current.estimate_s - elapsed, 0.0)
        by_progress = elapsed * (1 - self._fraction) / self._fraction if self._fraction > 0.4 else by_estimate
        return rest + by_progress

    def fraction(self) -> float:
        """Part of the whole run that is done, by expected time."""
        elapsed = self._done_s + (time.monotonic() - self._began if self._current else 0.0)
        return elapsed / max(elapsed + self.remaining_s(), 1e-9)


class Quiet(Display):
    """Shows nothing."""

    flags = ("--quiet",)


class Plain(Display):
    """One line an occasion, for logs and pipes."""

    def started(self, unit: Unit) -> None:
        super().started(unit)
        self.say(f"{unit.title} ... (about {duration(self.remaining_s())} left)")

    def ended(self, unit: Unit, end: Ended) -> None:
        super().ended(unit, end)
        result = "done" if end.outcome == "ok" else f"{end.outcome.replace('_', ' ')}: {end.message}"
        self.say(f"{unit.title} {result} after {duration(end.duration_ns / 1e9)}")

    def say(self, message: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


class JsonLines(Display):
    """One JSON object a line on standard output, for programs."""

    flags = ("--json",)

    def _emit(self, kind: str, **fields: Any) -> None:
        sys.stdout.write(msgspec.json.encode({"event": kind, **fields}).decode() + "\n")
        sys.stdout.flush()

    def started(self, unit: Unit) -> None:
        super().started(unit)
        self._emit("started", unit=unit.title, remaining_s=round(self.remaining_s(), 1))

    def progress(self, report: Progress) -> None:
        super().progress(report)
        self._emit("progress", phase=report.phase, arm=report.arm, fraction=round(self.fraction(), 4))

    def ended(self, unit: Unit, end: Ended) -> None:
        super().ended(unit, end)
        self._emit(
            "ended",
            unit=unit.title,
            outcome=end.outcome,
            message=end.message,
            duration_s=round(end.duration_ns / 1e9, 3),
        )

    def say(self, message: str) -> None:
        self._emit("note", message=message)


class Live(Display):
    """A bar with case, process, arm, phase and time left."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._console = Console()
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
            # Drawn by tick() only: a thread that redraws ten times a second would run beside timed code.
            auto_refresh=False,
        )
        self._task = self._bar.add_task("starting", total=1.0, left="")
        self._phase = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def progress(self, report: Progress) -> None:
        super().progress(report)
        self._phase = f"{report.phase} {report.arm}".strip()

    def started(self, unit: Unit) -> None:
        super().started(unit)
        self._phase = "start"
        self._bar.start()
        self.tick()

    def tick(self) -> None:
        title = self._current.title if self._current else ""
        left = f"about {duration(self.remaining_s())} left"
        self._bar.update(self._task, completed=self.fraction(), description=f"{title}: {self._phase}", left=left)
        self._bar.refresh()

    def ended(self, unit: Unit, end: Ended) -> None:
        super().ended(unit, end)
        good = end.outcome == "ok"
        result = f"{duration(end.duration_ns / 1e9)}" if good else f"{end.outcome.replace('_', ' ')}: {end.message}"
        self._console.print(
            f"{'✓' if good else '✗'} {unit.title}  {result}",
            markup=False,
            highlight=False,
            soft_wrap=True,
            style=None if good else "red",
        )

    def say(self, message: str) -> None:
        # The terminal wraps by itself, and a path in the sentence can then be copied whole.
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """A duration for people: 8 s, 4 min 10 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 process, 3 processes, 4 cases."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def choose(*, quiet: bool, json: bool) -> Display:
    """The display for this terminal: quiet and json by request, a live bar on a terminal, plain lines elsewhere."""
    if quiet:
        return Quiet()
    if json:
        return JsonLines()
    return Live() if sys.stdout.isatty() else Plain()
