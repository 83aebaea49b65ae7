"""What may stand in one row: which differences refuse it, and which are ranked only when a reader asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from reports.compare.fields import NOT_THERE, PRECISION, Effect, Field, Known, agreed, effectives
from reports.compare.load import Member
from reports.plain import one_line
from suite.bundle import schema
from suite.bundle.errors import BundleError

Allowed = Literal["torch", "threads"]
ALLOWED: tuple[Allowed, ...] = ("torch", "threads")
REFUSED = ("suite", "case", "dtype", "precision")
"""What no reader can allow: these would be two measurements under one name."""

MOST_NAMED = 3
RESTATED = {"matmul_precision", "cache"}
"""Parameters that only repeat what has a field of its own."""


@dataclass(frozen=True)
class Side:
    """A case in one bundle."""

    member: Member
    case: schema.Case


@dataclass(frozen=True)
class Difference:
    """One field in which a bundle differs from the baseline: `field` is a word of `ALLOWED` or `REFUSED`, `text` the sentence."""

    field: str
    text: str


def allowed(words: Sequence[str]) -> tuple[Allowed, ...]:
    """The fields that a user allows, given as words, several of them separated by commas or spaces.

    Raises:
        BundleError: for a word that is no field, or one that nobody can allow.
    """
    names = [name for word in words for name in word.replace(",", " ").split()]
    for name in names:
        if name in REFUSED:
            raise BundleError(f"{name} cannot be allowed: rows that differ in it are two measurements under one name.")
        if name not in ALLOWED:
            raise BundleError(f"there is no field {name} to allow; known: {', '.join(ALLOWED)}.")
    return tuple(name for name in ALLOWED if name in names)


def major(version: str) -> str:
    """The major part of a version: "0" of "0.1.0"."""
    return version.split(".", maxsplit=1)[0]


def definition(case: schema.Case, *, with_dtype: bool = True) -> dict[str, Any]:
    """What a case computes, apart from names and words. Without dtype: what is left when only the dtype differs."""
    inputs = [
        {"name": one.name, "shape": one.shape, "distribution": one.distribution}
        | ({"dtype": one.dtype} if with_dtype else {})
        for one in case.inputs
    ]
    elsewhere = RESTATED if with_dtype else RESTATED | {"dtype"}
    found: dict[str, Any] = {
        "workload": case.workload,
        "parameters": {name: value for name, value in case.parameters.items() if name not in elsewhere},
        # Steered only on devices; a processor's caches are as the call before left them.
        "cache": case.cache or "hot",
        "inputs": inputs,
        "weights": _weights(case.weights) if case.weights else None,
        "floating-point operations": case.floating_point_operations,
    }
    return found | ({"minimum bytes": case.minimum_bytes} if with_dtype else {})


def _weights(found: schema.Weights) -> dict[str, Any]:
    """What weights are: their files' digests, by whichever route they came; where there are none, their source in full."""
    return {"sha256": found.sha256} if found.sha256 else msgspec.to_builtins(found)


def torch_version(side: Side) -> str | None:
    """The torch that measured the case, without the tag of its build; None when the bundle does not tell."""
    seen = agreed(effectives(side.member, side.case.name), lambda event: event.torch).get("version")
    if seen is None and side.member.bundle.fingerprint:
        fact = side.member.bundle.fingerprint.facts.get("torch", {}).get("version")
        seen = fact.value if fact else None
    return None if seen is None else str(seen).split("+", maxsplit=1)[0]


def threads(side: Side) -> str | None:
    """Threads of torch's operators in the processes of the case; None when the bundle does not tell."""
    seen = agreed(effectives(side.member, side.case.name), lambda event: event.threads).get("torch_intra_op")
    return None if seen is None else str(seen)


def precision(side: Side) -> dict[str, Any]:
    """The modes, asked for and in force, that decide in which precision the case computed."""
    return {"matmul precision": side.case.matmul_precision} | {
        name: value
        for name, value in agreed(effectives(side.member, side.case.name), lambda event: event.torch).items()
        if PRECISION.search(name)
    }


def refusals(baseline: Side, other: Side) -> list[Difference]:
    """Why `other` may not be compared with the baseline at all; what only one side tells is no difference."""
    found = []
    versions = [side.member.bundle.run.source.version for side in (baseline, other)]
    if major(versions[0]) != major(versions[1]):
        found.append(
            Difference(
                "suite",
                f"suite {one_line(versions[1], 40)}, in the baseline {one_line(versions[0], 40)}: another major version",
            )
        )
    same_dtype = baseline.case.dtype == other.case.dtype
    names = _differing(definition(baseline.case, with_dtype=same_dtype), definition(other.case, with_dtype=same_dtype))
    if names:
        found.append(Difference("case", f"the case is defined differently ({_some(names)})"))
    if not same_dtype:
        dtypes = [one_line(side.case.dtype, 40) for side in (baseline, other)]
        found.append(Difference("dtype", f"dtype {dtypes[1]}, in the baseline {dtypes[0]}"))
    modes = precision(baseline), precision(other)
    differing = [name for name in modes[0] if name in modes[1] and modes[0][name] != modes[1][name]]
    if differing:
        told = [
            f"{one_line(n, 40)} {one_line(modes[1][n], 40)}, in the baseline {one_line(modes[0][n], 40)}"
            for n in differing
        ]
        found.append(Difference("precision", f"another precision ({_some(told)})"))
    return found


def asked(baseline: Side, other: Side) -> list[Difference]:
    """What has to be allowed before `other` is ranked."""
    found = []
    for field, word, read in (("torch", "torch", torch_version), ("threads", "threads", threads)):
        ours, theirs = read(baseline), read(other)
        if ours is not None and theirs is not None and ours != theirs:
            found.append(Difference(field, f"{word} {one_line(theirs, 60)}, in the baseline {one_line(ours, 60)}"))
    return found


def _differing(one: dict[str, Any], other: dict[str, Any], prefix: str = "") -> list[str]:
    names = []
    for name in dict.fromkeys([*one, *other]):
        ours, theirs = one.get(name), other.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            names += _differing(ours, theirs, f"{prefix}{name} ")
        elif ours != theirs or (name in one) != (name in other):
            names.append(one_line(f"{prefix}{name}", 60))
    return names


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _mode(name: str, modes: Mapping[str, Any], kind: str) -> Known:
    """A mode of torch; those of CUDA are not told, and not missed, where a processor did the work."""
    if name not in modes and kind == "cpu" and ("cuda" in name or "cudnn" in name):
        return Known(False, note=NOT_THERE)
    return Known(name in modes, modes.get(name))


def of_cases(rows: Sequence[tuple[str, Sequence[Side]]], members: Sequence[Member]) -> list[Field]:
    """The fields that decide over rows, for the ledger: of the suite, and of every case that two bundles have."""
    version = {one.letter: Known(True, major(one.bundle.run.source.version)) for one in members}
    fields = [Field("suite's major version", Effect.REFUSES, 0, version)]
    for name, sides in rows:
        if len(sides) < 2:
            continue
        dtypes = {side.case.dtype for side in sides}
        told = {
            side.member.letter: (definition(side.case, with_dtype=len(dtypes) == 1), side.case.dtype, precision(side))
            for side in sides
        }
        modes = dict.fromkeys(key for *_, one in told.values() for key in one)
        kinds = {side.member.letter: side.member.bundle.run.device.kind for side in sides}
        fields += [
            Field(f"{name}: definition", Effect.REFUSES, 1, {k: Known(True, one[0]) for k, one in told.items()}),
            Field(f"{name}: dtype", Effect.REFUSES, 2, {k: Known(True, one[1]) for k, one in told.items()}),
            *(
                Field(
                    f"{name}: {mode}",
                    Effect.REFUSES,
                    3,
                    {k: _mode(mode, one[2], kinds[k]) for k, one in told.items()},
                )
                for mode in modes
            ),
        ]
        for place, (word, read) in enumerate((("torch", torch_version), ("threads", threads))):
            values = {side.member.letter: read(side) for side in sides}
            fields.append(
                Field(f"{name}: {word}", Effect.ASKS, place, {k: Known(v is not None, v) for k, v in values.items()})
            )
    return fields
