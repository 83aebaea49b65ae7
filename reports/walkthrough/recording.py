"""What was recorded of matmul_add, and the choice of the recording that a question is asked of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reports.findings.contract import Finding, Outcome, not_applicable
from reports.findings.pair import Pair, compare
from reports.findings.registry import findings
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from reports.walkthrough.published import LARGE, SMALL

EAGER, COMPILED, REDUCE_OVERHEAD = "eager", "inductor", "inductor-reduce-overhead"

FILE_NAME = re.compile(
    r"(?:^|_)(?:(?P<batch>\d+)x)?(?P<size>\d+)_(?P<dtype>bf16|fp16|fp32|tf32)_(?P<warmth>cold|warm|nowait)(?P<active>\d*)"
    r"_(?P<arm>eager|compiled?)(?:[_-](?P<mode>reduce-overhead|max-autotune))?(?=\.|$)"
)
"""The walkthrough's own names, with what others add: `8x4096_bf16_warm_eager`, `4096_bf16_warm20_eager`, `a100_64_bf16_cold_eager`."""

KINDS = ("cold", "warm", "active20", "wait0", "main")
"""How it was recorded: without and with a loop of calls before; twenty steps; no step for the profiler to settle; a run's own profile
(one call before)."""

LEAST_LARGE = 1024
"""Of one size alone: from here on it stands for the walkthrough's large one."""


@dataclass(frozen=True)
class Recording:
    """One trace of matmul_add. `label` names it in a sentence, `page` links to its own page ("" where there is none).

    `arm` is a registered arm's name, `batch` 1 where operands are matrices, `dtype` in short ("bf16").
    """

    label: str
    arm: str
    size: int
    dtype: str
    kind: str
    analysis: Analysis = field(repr=False)
    batch: int = 1
    cache: str = ""
    bias_1d: bool = False
    page: str = ""

    @cached_property
    def findings(self) -> Mapping[str, Finding]:
        """What every rule says of it, by the rule's id."""
        return {finding.rule.id: finding for finding in findings(self.analysis)}

    def outcome(self, rule: str) -> Outcome:
        """What one rule says of it."""
        found = self.findings.get(rule)
        return found.outcome if found else not_applicable(f"there is no rule {rule}")

    @property
    def shape(self) -> str:
        """The operands in a word: "4096", "8x4096"."""
        return f"{self.batch}x{self.size}" if self.batch > 1 else f"{self.size}"


@dataclass(frozen=True)
class Machine:
    """What is known of the machine beside its traces. `timed` are clauses on the times of calls without the profiler, by size and arm;
    `conditions` are sentences on what slowed the device down while it was measured.
    """

    name: str = ""
    conditions: tuple[str, ...] = ()
    timed: Mapping[tuple[int, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recordings:
    """All recordings of one machine."""

    all: tuple[Recording, ...]
    machine: Machine = Machine()

    @property
    def has_gpu(self) -> bool:
        return any(one.analysis.has_gpu for one in self.all)

    @cached_property
    def dtype(self) -> str:
        """The dtype that most sizes were recorded in; the walkthrough's own, bf16, of several."""
        sizes: dict[str, set[int]] = {}
        for one in self.all:
            sizes.setdefault(one.dtype, set()).add(one.size)
        return max(sizes, key=lambda dtype: (len(sizes[dtype]), dtype == "bf16"), default="bf16")

    @cached_property
    def sizes(self) -> tuple[int | None, int | None]:
        """The sizes that stand for the walkthrough's 64 and 4096; None where there is none."""
        found = sorted({one.size for one in self._comparable})
        small = SMALL if SMALL in found else min((size for size in found if size < LEAST_LARGE), default=None)
        larger = [size for size in found if size != small and (small is not None or size >= LEAST_LARGE)]
        return small, LARGE if LARGE in found else max(larger, default=None)

    @property
    def _comparable(self) -> list[Recording]:
        return [one for one in self.all if one.dtype == self.dtype and one.batch == 1 and not one.bias_1d]

    def pick(self, arm: str, size: int | None, *kinds: str) -> Recording | None:
        """The recording of an arm and size whose kind comes first among `kinds` (any, where none is given)."""
        wanted = kinds or KINDS
        found = [one for one in self._comparable if one.arm == arm and one.size == size and one.kind in wanted]
        return min(found, key=lambda one: (wanted.index(one.kind), one.cache == "cold"), default=None)

    def batched(self) -> Recording | None:
        """An eager recording whose operands have a batch dimension, the largest."""
        found = [one for one in self.all if one.batch > 1 and one.arm == EAGER]
        return max(found, key=lambda one: (one.dtype == self.dtype, one.size), default=None)

    def couple(self, arm: str, size: int | None) -> tuple[Recording, Recording] | None:
        """An eager and a compiled recording that were made alike, warm ones first."""
        for kind in ("warm", "main", "cold", "active20"):
            eager, compiled = self.pick(EAGER, size, kind), self.pick(arm, size, kind)
            if eager and compiled and eager.cache == compiled.cache:
                return eager, compiled
        return None

    def pair(self, couple: tuple[Recording, Recording]) -> Pair:
        """Both recordings compared; every couple once."""
        key = (couple[0].label, couple[1].label)
        if key not in self._pairs:
            self._pairs[key] = compare(couple[0].analysis, couple[1].analysis)
        return self._pairs[key]

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], Pair]:
        return {}


def from_file(path: Path) -> Recording:
    """A trace that is named as the walkthrough names its own.

    Raises:
        TraceError: it has another name, cannot be read, or holds no matmul_add.
    """
    match = FILE_NAME.search(path.name)
    if match is None:
        raise TraceError(
            f"{path}: its name does not say what was recorded; name it as the walkthrough does,"
            " <size>_<dtype>_<cold|warm>_<eager|compile>.json (as 64_bf16_cold_eager.json)."
        )
    analysis = analyse(path)
    if analysis.workload is None:
        raise TraceError(
            f"{path}: it holds no annotation matmul_add, so the walkthrough's questions are not about it; record the"
            ' call within record_function("matmul_add").'
        )
    compiled = COMPILED + (f"-{match['mode']}" if match["mode"] else "")
    return Recording(
        label=match[0].lstrip("_"),
        arm=EAGER if match["arm"] == "eager" else compiled,
        size=int(match["size"]),
        dtype=match["dtype"],
        kind=_kind(match["warmth"], match["active"]),
        analysis=analysis,
        batch=int(match["batch"] or 1),
    )


def _kind(warmth: str, active: str) -> str:
    if warmth == "nowait":
        return "wait0"
    return "active20" if active and int(active) >= 10 else warmth


def distinct(recordings: Iterable[Recording]) -> tuple[Recording, ...]:
    """The first of each label: the same recording twice is one."""
    return tuple({one.label: one for one in reversed(list(recordings))}.values())[::-1]
