"""What a rule about a launch looks at, and the contract of such rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from suite.bundle.schema import Effective, Finding, Setting
from suite.launch.command import Launch
from suite.launch.seen import process_of


@dataclass(frozen=True)
class Sighting:
    """One launch, the processes that it started (at least one), and the settings compared over all of them, by name."""

    launch: Launch
    processes: list[Effective]
    settings: Mapping[str, Setting]

    def where(self, number: int) -> str:
        """ "6 of 6 workers", or "the rehearsal" when there was no more than that."""
        if len(self.processes) == 1:
            return process_of(self.processes[0])
        return f"{number} of {len(self.processes)} workers"

    def messages(self, pattern: str) -> dict[str, int]:
        """Complaints that match, and in how many processes each was seen."""
        seen: dict[str, int] = {}
        for effective in self.processes:
            for line in {re.sub(r" \(\d+ times\)$", "", line) for line in effective.messages}:
                if re.match(pattern, line):
                    seen[line] = seen.get(line, 0) + 1
        return dict(sorted(seen.items()))

    def quoted(self, messages: Mapping[str, int]) -> list[str]:
        """Evidence from complaints: each line, and whose standard error it stands in."""
        return [f"standard error of {self.where(number)}: {line}" for line, number in messages.items()]

    def broken(self, pattern: str) -> list[Setting]:
        """Settings that were tried and are not in force, whose whole names match."""
        return [
            row
            for name, row in self.settings.items()
            if row.status == "not in force" and name not in self.launch.unavailable and re.fullmatch(pattern, name)
        ]


# A rule yields findings, each with the names of the settings whose state it explains.
Explained = tuple[Finding, frozenset[str]]
Rule = Callable[[Sighting], Iterator[Explained]]


def row_evidence(row: Setting) -> str:
    """A setting's row as a sentence of evidence."""
    shown = row.effective if row.effective is not None else "nothing"
    return f"{row.name} is {shown}, requested {row.requested} ({row.proof}){f': {row.note}' if row.note else ''}"


def names(rows: list[Setting]) -> frozenset[str]:
    """The names of settings."""
    return frozenset(row.name for row in rows)
