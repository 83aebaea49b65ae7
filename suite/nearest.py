"""Names the nearest of the known words when a user mistypes one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause ", did you mean 'x'?" for the nearest of `known`, or nothing when none is near."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean '{matches[0]}'?" if matches else ""
