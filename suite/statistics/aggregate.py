"""The geometric mean over cases: only over those that every compared arm completed, with their number, and never clipped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from suite.statistics.ratio import Ratio


@dataclass(frozen=True)
class Aggregate:
    """`ratios[arm]` is the arm's geometric mean over `cases` of `total`, the same cases for every arm."""

    ratios: Mapping[str, float]
    cases: tuple[str, ...]
    total: int


def geometric_means(ratios: Mapping[str, Mapping[str, Ratio | None]]) -> Aggregate | str:
    """Geometric means of `ratios[case][arm]` over the intersection, or the reason why there are none.

    An arm that a case does not have (not applicable) leaves the case out for all arms, as a failed one does: means over different
    cases cannot be compared (Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986, for the geometric mean itself).
    """
    arms = sorted({arm for by_arm in ratios.values() for arm in by_arm})
    shared = tuple(case for case, by_arm in ratios.items() if all(by_arm.get(arm) is not None for arm in arms))
    if not arms or not shared:
        return "no case was completed by every arm"
    means = {}
    for arm in arms:
        logs = [math.log(found.estimate) for case in shared if (found := ratios[case][arm]) is not None]
        means[arm] = math.exp(math.fsum(logs) / len(logs))
    return Aggregate(means, shared, len(ratios))
