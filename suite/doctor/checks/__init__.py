"""The checks, in order of importance. Each is a pure function of the survey that yields what it has to say.

The order of the output is explicit: by severity, then by the place of the check in these lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from suite.doctor.advice import SEVERITIES, Advice, Family, advise
from suite.doctor.checks import container, gpu, noise, possible, proof, proven, publishable
from suite.doctor.survey import Survey

Check = Callable[[Survey], Iterator[Advice]]

FAMILIES: tuple[tuple[Family, tuple[Check, ...]], ...] = (
    ("run", possible.CHECKS),
    ("publish", (*publishable.CHECKS, *container.CHECKS)),
    ("noise", noise.CHECKS),
    ("gpu", gpu.CHECKS),
    ("proof", proof.CHECKS),
    ("proven", proven.CHECKS),
)


def run(survey: Survey) -> list[Advice]:
    """Everything that the checks say, what stops a run first. Never raises."""
    said = [
        msgspec.structs.replace(advice, family=family)
        for family, family_checks in FAMILIES
        for check in family_checks
        for advice in _guarded(check, survey)
    ]
    # Sorting is stable: within a severity the order of the lists stands.
    return sorted(said, key=lambda advice: (not advice.stops_run, SEVERITIES.index(advice.severity)))


def _guarded(check: Check, survey: Survey) -> list[Advice]:
    try:
        return list(check(survey))
    except Exception as error:  # facts of a machine that nobody foresaw must not cost the other checks
        name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
        claim = f"The check {name} failed on this machine's facts."
        return [advise("check-failed", "doubtful", claim, f"{type(error).__name__}: {error}", advice="report this")]
