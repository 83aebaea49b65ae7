"""A container that only tries: whether the engine takes the options, and whether what they promise is so inside.

Which options an engine takes depends on its version, its run-time, the kernel, and what was delegated to the user. No list of
versions tells that as well as starting one container, which takes a second.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from suite.fingerprint.files import parse_cpulist, without_home
from suite.launch.engine_facts import Answer, message
from suite.launch.run_flags import Flag

TIMEOUT_S = 120.0
"""A first start may have to copy layers into the user's own storage."""

FILE = ".speedproof-trial"

# Each line that it prints is something that works. The file in /results is left for its owner to be looked at from outside.
SCRIPT = rf"""
: >/results/{FILE} && echo 'results written'
runs() {{
  cp /bin/true "$2/{FILE}" && "$2/{FILE}" && echo "$1 runs"
  rm -f "$2/{FILE}"
}}
runs tmp /tmp
if [ -d /cache ]; then runs cache /cache; fi
sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus /p; s/^Mems_allowed_list:[[:space:]]*/mems /p' /proc/self/status
exit 0
"""

Start = Callable[[Sequence[Flag]], Answer]
"""Runs `SCRIPT` in a container with these options."""


@dataclass(frozen=True)
class Works:
    """The options that the engine takes, what is lost without the others, and what the script said."""

    flags: tuple[Flag, ...]
    losses: tuple[str, ...]
    said: frozenset[str]

    def value(self, name: str) -> str | None:
        """What the script said after this word: "0-3" for "cpus"."""
        return next((line.partition(" ")[2] for line in sorted(self.said) if line.startswith(f"{name} ")), None)


def settle(flags: Sequence[Flag], start: Start) -> Works | str:
    """Leave out what the engine refuses, as little as possible; or in a clause why no container starts.

    An engine names what it refuses more often than not. Where it does not, every option that can be left out is, and then each is
    tried again by itself.
    """
    kept, losses = list(flags), list[str]()
    answer = start(kept)
    while answer.outcome == "failed" and (culprit := _named(kept, answer.error)):
        kept.remove(culprit)
        losses.append(_loss(culprit, answer.error))
        answer = start(kept)
    if answer.outcome == "failed" and any(flag.without for flag in kept):
        bare = start([flag for flag in kept if not flag.without])
        if bare.outcome == "ok":
            kept, more, answer = _one_by_one(kept, start, bare)
            losses += more
    if answer.outcome == "timed out":
        return f"a container does not start within {TIMEOUT_S:.0f} s"
    if answer.outcome != "ok":
        return f"a container does not start ({message(answer.error) or 'the engine does not say why'})"
    return Works(tuple(kept), tuple(losses), frozenset(line.strip() for line in answer.output.splitlines()))


def _named(flags: Sequence[Flag], error: str) -> Flag | None:
    """The option that an engine's words are about, among those that can be left out."""
    return next(
        (flag for flag in flags if flag.without and flag.refusal and re.search(flag.refusal, error, re.IGNORECASE)),
        None,
    )


def _one_by_one(flags: Sequence[Flag], start: Start, bare: Answer) -> tuple[list[Flag], list[str], Answer]:
    """Take back, one after the other, what can be left out; the answer is that of the last start that went well."""
    kept, losses, answer = [flag for flag in flags if not flag.without], list[str](), bare
    for flag in flags:
        if not flag.without:
            continue
        tried = [one for one in flags if one in kept or one is flag]
        again = start(tried)
        if again.outcome == "ok":
            kept, answer = tried, again
        else:
            losses.append(_loss(flag, again.error))
    return kept, losses, answer


def _loss(flag: Flag, error: str) -> str:
    said = message(error)
    return f"{flag.text} is refused{f' ({said})' if said else ''}: {flag.without}"


def confinement(works: Works) -> list[str]:
    """What is not in force of the cpuset although the engine took it: some ignore what they cannot do."""
    losses = []
    for option, name in (("--cpuset-cpus=", "cpus"), ("--cpuset-mems=", "mems")):
        asked = [word.removeprefix(option) for flag in works.flags for word in flag.words if word.startswith(option)]
        given = works.value(name)
        if asked and given is not None and _numbers(asked[0]) != _numbers(given):
            losses.append(f"{option}{asked[0]} was taken and is not in force: {given} may be used")
    return losses


def _numbers(cpulist: str) -> list[int]:
    try:
        return parse_cpulist(cpulist)
    except ValueError:
        return []


def results(works: Works, output: Path, user: int) -> str:
    """Why results cannot be kept in `output`, in a clause; empty when the container's user can and the files are this user's."""
    left = output / FILE
    try:
        owner = left.stat().st_uid
    except OSError:
        owner = user
    with suppress(OSError):
        left.unlink()
    if "results written" not in works.said:
        return f"the results folder {shown(output)} cannot be written by the container's user"
    if owner != user:
        return f"files in {shown(output)} would belong to user {owner} and not to you"
    return ""


def shown(path: Path) -> str:
    """A path as the user gave it, without a home directory in it."""
    return without_home(os.fspath(path))
