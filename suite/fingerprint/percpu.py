"""One file of every CPU, kept compact: distinct values with the CPUs that have them ({"performance": "0-31"})."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import absent, joined, missing, ok
from suite.fingerprint.files import format_cpulist, read_text, under

CPU = "/sys/devices/system/cpu"


def grouped(values: dict[int, str]) -> dict[str, str]:
    """CPU lists by value, from values by CPU; the value of the lowest CPU comes first."""
    cpus: dict[str, list[int]] = {}
    for number, value in sorted(values.items()):
        cpus.setdefault(value, []).append(number)
    return {value: format_cpulist(numbers) for value, numbers in cpus.items()}


def per_cpu(root: Path, cpus: Iterable[int], name: str, parse: Callable[[str], str] = str, note: str = "") -> Fact:
    """The file `name` below each CPU's folder, by distinct value; never raises. Without any: the first CPU's reason.

    CPUs whose folder is the same one (cpufreq policies are shared) are read once.
    """
    source = f"{CPU}/cpu*/{name}"
    folder, _, _ = name.rpartition("/")
    read: dict[str, str | None] = {}
    values: dict[int, str] = {}
    reason: Fact | None = None
    numbers = list(cpus)
    for number in numbers:
        path = f"{CPU}/cpu{number}/{name}"
        place = os.path.realpath(under(root, f"{CPU}/cpu{number}/{folder}"))
        if place not in read:
            text = read_text(root, path)
            read[place] = None
            if text.text:
                try:
                    read[place] = parse(text.text)
                except Exception as error:  # any refusal by a parser is a reason
                    reason = reason or absent(source, f"not understood: {error!s:.100}")
            elif text.text is None and text.status != "absent":
                reason = reason or Fact(value=None, source=source, status=text.status, note=text.reason)
            else:
                reason = reason or missing(root, path, text.reason or "the file is empty", source)
        value = read[place]
        if value is not None:
            values[number] = value
    if not values:
        return reason or absent(source, "no CPU is online")
    left = len(numbers) - len(values)
    return ok(grouped(values), source, joined(note, f"{left} CPUs do not show it" if left else ""))


def megahertz(text: str) -> str:
    """A clock that the kernel gives in kHz, as whole MHz. Raises ValueError."""
    return str(round(int(text) / 1000))
