"""How the calls of one kernel fall apart: into a fast and a slow group, or a first call and the others."""

from __future__ import annotations

import numpy as np

from reports.findings.contract import Evidence, Outcome, Rule, fired, not_applicable, quiet
from reports.findings.words import least_us, moment, no_gpu
from reports.trace.alike import Group
from reports.trace.analyse import Analysis
from reports.trace.kernels import GROUPS_APART, two_groups
from reports.words import factor, short, times, us

FIRST_RATIO = 1.3
FIRST_LEAST = 5
"""With fewer calls the first is the longest by chance too often."""

NOT_ALIKE = "no kernel is known to have done the same work {} times (record_shapes=True tells)"


def groups_apart(analysis: Analysis) -> Outcome:
    """Calls that take one of two times."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    groups = [group for group in analysis.alike if group.n >= 4]
    if not groups:
        return not_applicable(NOT_ALIKE.format("four"))
    ticks = least_us(analysis.trace)
    found = [
        (group, *two)
        for group in groups
        if (two := two_groups(group.times_us)) is not None and two[1][0] - two[0][0] > ticks
    ]
    if not found:
        return quiet(f"the times of each of {len(groups)} kernels form one group")

    def cost(one: tuple[Group, tuple[float, int], tuple[float, int]]) -> float:
        return (one[2][0] - one[1][0]) * one[2][1]

    found.sort(key=lambda one: -cost(one))
    group, fast, slow = found[0]
    are_slow = np.flatnonzero(group.times_us > (fast[0] * slow[0]) ** 0.5)
    first = int(are_slow[0])
    begin = bool((are_slow == np.arange(are_slow.size)).all())
    where = f"they are the first {are_slow.size}" if begin else f"the first of them is call {first + 1}"
    return fired(
        f"{short(group.name, 60)} has two groups of times: {us(fast[0])} ({times(fast[1])}) and {us(slow[0])} ({times(slow[1])})",
        *(
            Evidence(
                f"{short(one.name, 60)}: {us(low[0])} x{low[1]:,}, {us(high[0])} x{high[1]:,}"
                + (f"; of the slow calls: {where}" if one is group else ""),
                *moment(analysis.trace, int(one.rows[int(np.argmax(one.times_us))])),
            )
            for one, low, high in found[:4]
        ),
        why=f"the longest step between neighbouring times is above {GROUPS_APART:g}, and each group is narrower than it",
        advice=(
            ("Warm up longer: the slow calls come first. " if begin else "")
            + "A mean lies between the groups, where no call is: report both. Look at what the slow calls have in common: what runs beside"
            " them, the clocks, where their data lies."
        ),
        at_stake_us=cost(found[0]),
    )


def first_calls(analysis: Analysis) -> Outcome:
    """First calls that take longer than all the others."""
    if reason := no_gpu(analysis):
        return not_applicable(reason)
    groups = [group for group in analysis.alike if group.n >= FIRST_LEAST]
    if not groups:
        return not_applicable(NOT_ALIKE.format("five"))
    ticks = least_us(analysis.trace)
    found: list[tuple[float, float, Group]] = []
    for group in groups:
        first, rest = float(group.times_us[0]), group.times_us[1:]
        typical = float(np.median(rest))
        if typical > 0 and first >= FIRST_RATIO * typical and first > float(rest.max()) and first - typical > ticks:
            found.append((first - typical, typical, group))
    if not found:
        return quiet(
            f"the first call of each of {len(groups)} kernels takes as long as the others, within {FIRST_RATIO - 1:.0%}"
        )
    found.sort(key=lambda one: -one[0])
    _, typical, top = found[0]
    return fired(
        f"The first call of {short(top.name, 60)} takes {us(float(top.times_us[0]))}, the others typically {us(typical)}"
        + (f"; so it is for {len(found)} of {len(groups)} kernels" if len(found) > 1 else ""),
        *(
            Evidence(
                f"{short(group.name, 60)}: {us(float(group.times_us[0]))}, then typically {us(usual)}"
                f" ({factor(float(group.times_us[0]) / usual)} times, {group.n:,} calls)",
                *moment(analysis.trace, int(group.rows[0])),
            )
            for _, usual, group in found[:4]
        ),
        why=f"the first call is the longest, and at least {FIRST_RATIO:g} times the median of the others",
        advice="Warm up before the recording, or leave the first call out of every average: caches were cold, or clocks still rising.",
        at_stake_us=sum(excess for excess, _, _ in found),
    )


GROUP_RULES = (
    Rule(
        id="two-groups",
        title="One kernel, two times",
        family="gpu",
        severity="hint",
        formula="largest ratio of neighbours among the sorted times of a kernel's calls, at equal launch configuration",
        threshold=f"above {GROUPS_APART:g}, with a tenth (and two) of the calls on either side, each side narrower than the step",
        refuted_by="a longer recording whose times fill the gap",
        explanation=(
            "When the calls of a kernel take one of two times, the mean describes neither. Two states of the machine are behind it, such as"
            " two clocks, or two ways of working, such as data in the cache or not. Say both times and how often each was seen."
        ),
        check=groups_apart,
    ),
    Rule(
        id="first-call",
        title="The first call of a kernel takes longest",
        family="gpu",
        severity="hint",
        formula="first call / median of the others, at equal launch configuration",
        threshold=f"at least {FIRST_RATIO:g}, and longer than each of the others; {FIRST_LEAST} calls at least",
        refuted_by="a recording after more warm-up in which the first call is as slow",
        explanation=(
            "The first call of a kernel meets cold caches and a clock that is still rising. If it is recorded it pulls up the mean,"
            " the more the shorter the recording is. Warm up first, and the difference is gone."
        ),
        check=first_calls,
    ),
)
