"""Reads the bundles of a comparison: one that cannot be used is named and left out, the others go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from reports import seal
from reports.plain import one_line
from reports.results import Results, results
from suite.bundle import reader
from suite.bundle.errors import BundleError
from suite.bundle.manifest import Check
from suite.bundle.reader import Loaded

DEEPEST = 16
"""No fact or parameter of ours is nested as deeply; walking through one that is could exhaust the stack."""
LARGEST = 2**64
FIRST_YEAR = 2000


@dataclass(frozen=True)
class Member:
    """One bundle of a comparison with its own report's numbers. `letter` is how the page calls it: A, B, ..., Z, AA.

    `word` names it in a command; it is the folder's own name, unless a path was given that says nothing of the machine. `elsewhere` tells
    that the word is found only once the folder lies below the directory of all runs. `content` is a digest of what was measured.
    """

    letter: str
    bundle: Loaded
    results: Results
    check: Check
    word: str
    elsewhere: bool
    content: str

    @property
    def run_id(self) -> str:
        """The run's id as one printable line."""
        return one_line(self.bundle.run.run_id, 80)

    @property
    def intact(self) -> bool:
        """Whether the bundle's files are what was measured, by its own checksums."""
        return not seal.broken(self.check)

    @property
    def barred(self) -> str:
        """Why no verdict may rest on the bundle, in a clause; empty where one may."""
        return one_line(seal.barred(self.bundle.run, self.check), 300)

    @property
    def publishable(self) -> bool:
        """Whether the run says that it meets every run rule, and nothing in it was changed since."""
        return self.bundle.run.publishable and self.intact


@dataclass(frozen=True)
class LeftOut:
    """A bundle that is not compared: how it was named, and why not, in a sentence. `told` is that without where the bundle lies.

    A page is passed on: it names a bundle by its folder's own name.
    """

    name: str
    reason: str
    told: str

    @property
    def own_name(self) -> str:
        """The last part of the name."""
        return self.name.rstrip("/").rpartition("/")[2] or self.name


@dataclass(frozen=True)
class Gathered:
    """What can be compared, in the order given, and what cannot."""

    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]


def gather(names: Sequence[str], output: Path) -> Gathered:
    """Read the bundles that `names` names: paths, or ids of runs below `output`. Never raises for what is in them."""
    members: list[Member] = []
    left_out: list[LeftOut] = []
    for name in names:
        try:
            bundle = _read(name, output)
            first = next((one for one in members if _same_run(one.bundle, bundle)), None)
            if first:
                raise BundleError(f"the same run as {first.letter} ({first.run_id}).")
            check = seal.checked(bundle)
            told = (*_word(name, bundle.path, output), seal.content(bundle, check))
            members.append(Member(letters(len(members)), bundle, _results(bundle, check), check, *told))
        except BundleError as error:
            places = (f"{Path(name)}: ", f"{Path(name)}/", f"{output}/")
            left_out.append(LeftOut(one_line(name), one_line(error, 600), one_line(without(str(error), *places), 600)))
    return Gathered(tuple(members), tuple(left_out))


def _word(name: str, path: Path, output: Path) -> tuple[str, bool]:
    """How a command names the bundle that was given as `name`, and whether it has to be laid below `output` for that."""
    given = Path(name)
    if path == given and not given.is_absolute() and ".." not in given.parts and len(given.parts) > 1:
        return one_line(given, 2000), False
    return one_line(path.resolve().name, 2000), path.resolve().parent != output.resolve()


def without(text: str, *parts: str) -> str:
    """`text` without any of `parts`."""
    for part in parts:
        text = text.replace(part, "")
    return text


def letters(position: int) -> str:
    """A to Z, then AA, AB, ..."""
    name = ""
    position += 1
    while position:
        position, digit = divmod(position - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def _read(name: str, output: Path) -> Loaded:
    try:
        # A name with a slash is a path, and its own error is better than "no such run".
        given = Path(name)
        bundle = reader.load(given if os.sep in name or given.is_dir() else reader.find_run(output, name))
        if bundle.run.ablation:
            raise BundleError("an ablation: its processes differ on purpose and are no replicates of one another.")
        _refuse_oddities(bundle)
    except (OSError, UnicodeError, ValueError) as error:
        raise BundleError(f"cannot be read ({error}).") from error
    except RecursionError as error:
        raise BundleError("nested too deeply to be a bundle.") from error
    return bundle


def _refuse_oddities(bundle: Loaded) -> None:
    """Refuse what the format does not rule out, no run can have, and a page could stumble over."""
    level: list[Any] = [case.parameters for case in bundle.run.cases]
    if bundle.fingerprint:
        level += [fact.value for found in bundle.fingerprint.facts.values() for fact in found.values()]
    for _ in range(DEEPEST):
        if any(isinstance(value, int) and abs(value) > LARGEST for value in level):
            raise BundleError("a number in it is larger than any that a machine has.")
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise BundleError("nested too deeply to be a bundle.")
    for stretch in bundle.run.stretches:
        try:
            year = datetime.fromisoformat(stretch.started_at).year
        except ValueError:
            year = 0
        if year < FIRST_YEAR:
            raise BundleError(f"it says that it began at {stretch.started_at}, which is no time of a run.")


def _results(bundle: Loaded, check: Check) -> Results:
    """The report's numbers. Blocks that no machine could have written overflow or divide by zero: that is said, too."""
    try:
        return results(bundle, seal.barred(bundle.run, check))
    except (ArithmeticError, LookupError, ValueError) as error:
        raise BundleError(f"its numbers cannot be worked out ({type(error).__name__}: {error}).") from error


def _same_run(one: Loaded, other: Loaded) -> bool:
    """Whether two folders hold the same measurement: a copy is no second run."""
    return one.path.resolve() == other.path.resolve() or (
        one.run.run_id == other.run.run_id
        and one.run.stretches == other.run.stretches
        and msgspec.json.encode(one.blocks) == msgspec.json.encode(other.blocks)
    )
