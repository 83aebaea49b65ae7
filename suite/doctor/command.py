"""The command `doctor`: look, judge, print."""

from __future__ import annotations

import sys

import msgspec

from suite.doctor import diagnosis, render, survey

IMPOSSIBLE = 1


def main(options: survey.Options, *, json: bool) -> int:
    """Print the diagnosis; 0 when a run is possible, else 1.

    Raises:
        UserError: for an engine or settings that do not exist, and for cores or nodes that cannot be used here.
    """
    found = diagnosis.diagnose(survey.look(options))
    if json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    else:
        render.show(found)
    return 0 if found.possible else IMPOSSIBLE
