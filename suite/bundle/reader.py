"""Reads bundles: strict about meaning, tolerant about what a kill or a newer minor version leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from suite.bundle import schema, writer
from suite.bundle.errors import BundleError

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    schema_version: str


class _Kind(msgspec.Struct):
    kind: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A whole bundle in memory. `notes` tells what could not be read and what was left out, one sentence each.

    `retaken` are blocks that were measured again: evidence of the conditions, never of the time. `withheld` maps (case, arm's label) to the
    reason why the arm is not what it says, and `withheld_blocks` are what was measured of such arms, which stands in no other list.
    `passes` are further profiling passes by (case, arm, pass).
    """

    path: Path
    run: schema.Run
    fingerprint: schema.Fingerprint | None
    blocks: list[schema.Block]
    events: list[schema.AnyEvent]
    telemetry: list[schema.Telemetry]
    states: list[schema.State]
    profiles: dict[tuple[str, str], schema.Profile]
    accuracies: dict[tuple[str, str], schema.Accuracy]
    notes: list[str]
    retaken: list[schema.Block] = msgspec.field(default_factory=list)
    passes: dict[tuple[str, str, str], schema.Profile] = msgspec.field(default_factory=dict)
    withheld: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    withheld_blocks: list[schema.Block] = msgspec.field(default_factory=list)


def read_run(bundle: Path) -> schema.Run:
    """run.json of a bundle.

    Raises:
        BundleError: not a bundle, a newer major schema, or a field that does not fit (named with its path).
    """
    path = bundle / writer.RUN
    if not path.is_file():
        what = "has no run.json" if bundle.is_dir() else "does not exist"
        raise BundleError(f"{bundle}: not a bundle (it {what}); name the directory of a run, as `results/<run-id>`.")
    run = read_document(path, schema.Run, versioned=True)
    _check_plan(path, run)
    return run


def _check_plan(path: Path, run: schema.Run) -> None:
    """Refuse a plan that no run could have: every case needs exactly one baseline arm, and labels and names are unique."""
    for case in run.cases:
        roles = [arm.role for arm in run.arms if arm.name not in case.not_applicable]
        if roles.count("baseline") != 1:
            count = roles.count("baseline")
            raise BundleError(f"{path}: {case.name} has {count} baseline arms instead of one; restore the file.")
    for what, names in (("case", [case.name for case in run.cases]), ("arm", [arm.label for arm in run.arms])):
        if len(set(names)) != len(names):
            raise BundleError(f"{path}: one {what} stands twice; restore the file.")


def read_document(path: Path, struct: type[T], *, versioned: bool = False) -> T:
    """Decode a JSON document into `struct`.

    Raises:
        BundleError: unreadable, not JSON, a newer major schema (with `versioned`), or a field that does not fit.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror or error}).") from error
    try:
        if versioned:
            check_version(path, msgspec.json.decode(content, type=_Versioned).schema_version)
        return msgspec.json.decode(content, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(
            f"{path}: damaged or not of this format ({error}); restore the file from where the run was made."
        ) from error


def check_version(path: Path, version: str) -> None:
    """Refuse a newer (or unknown) major schema by name.

    Raises:
        BundleError: when the major version is not the one this reader knows.
    """
    known = schema.SCHEMA_VERSION.split(".")[0]
    if version.split(".", maxsplit=1)[0] != known:
        raise BundleError(
            f"{path}: schema {version} is not one this version reads (it reads {known}.x); use the Speedproof that wrote it or a newer one."
        )


def proves_arms(run: schema.Run) -> bool:
    """Whether a run of this schema holds evidence of its arms (`schema.ArmEvidence`); of older ones nothing is known."""
    parts = run.schema_version.split(".")[:2]
    return all(part.isdecimal() for part in parts) and [int(part) for part in parts] >= [1, 3]


def read_rows(path: Path, struct: type[T], notes: list[str]) -> Iterator[T]:
    """Rows of a JSON-lines file in order; a torn last line is left out with a note.

    Raises:
        BundleError: when a line that is not the last one cannot be decoded.
    """
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(struct)
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    if torn:
        notes.append(f"{path.name}: the last line is torn ({len(torn)} bytes) and is left out.")
    for number, line in enumerate(lines, 1):
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _is_unknown_kind(line):
                notes.append(f"{path.name}:{number}: an event of a newer schema is skipped.")
                continue
            raise BundleError(
                f"{path}:{number}: damaged line ({error}); restore the file from where the run was made."
            ) from error


_KINDS = {event.__name__ for event in schema.AnyEvent.__args__}


def _is_unknown_kind(line: bytes) -> bool:
    try:
        return msgspec.json.decode(line, type=_Kind).kind not in _KINDS
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def load(bundle: Path) -> Loaded:
    """Read a whole bundle.

    Raises:
        BundleError: see `read_run`, `read_document` and `read_rows`.
    """
    run = read_run(bundle)
    notes: list[str] = []
    fingerprint_path = bundle / writer.FINGERPRINT
    fingerprint = (
        read_document(fingerprint_path, schema.Fingerprint, versioned=True) if fingerprint_path.exists() else None
    )
    profiles: dict[tuple[str, str], schema.Profile] = {}
    accuracies: dict[tuple[str, str], schema.Accuracy] = {}
    passes: dict[tuple[str, str, str], schema.Profile] = {}
    for case in run.cases:
        for arm in sorted({arm.name for arm in run.arms}):
            directory = bundle / "cases" / case.name / arm
            profile = _optional(directory / "profile.json", schema.Profile, notes)
            accuracy = _optional(directory / "accuracy.json", schema.Accuracy, notes)
            if profile is not None:
                profiles[case.name, arm] = profile
            if accuracy is not None:
                accuracies[case.name, arm] = accuracy
            for one in case.passes:
                further = _optional(directory / "passes" / one.name / "profile.json", schema.Profile, notes)
                if further is not None:
                    passes[case.name, arm, one.name] = further
    events: list[schema.AnyEvent] = list(read_rows(bundle / writer.EVENTS, schema.AnyEvent, notes))  # type: ignore[arg-type]
    blocks = _unique(read_rows(bundle / writer.SAMPLES, schema.Block, notes), notes)
    withheld = {(e.case, e.arm): e.reason for e in reversed(events) if isinstance(e, schema.ArmNotRun) and e.withheld}
    return Loaded(
        path=bundle,
        run=run,
        fingerprint=fingerprint,
        blocks=[block for block in blocks if (block.case, block.arm) not in withheld],
        events=events,
        telemetry=list(read_rows(bundle / writer.TELEMETRY, schema.Telemetry, notes)),
        states=list(read_rows(bundle / writer.STATE, schema.State, notes)),
        profiles=profiles,
        accuracies=accuracies,
        notes=notes,
        retaken=list(read_rows(bundle / writer.RETAKEN, schema.Block, notes)),
        passes=passes,
        withheld=withheld,
        withheld_blocks=[block for block in blocks if (block.case, block.arm) in withheld],
    )


def _optional(path: Path, struct: type[T], notes: list[str]) -> T | None:
    """A document that what was measured can be read without; a damaged one is left out with a note."""
    if not path.exists():
        return None
    try:
        return read_document(path, struct)
    except BundleError as error:
        notes.append(f"left out: {error}")
        return None


def identity(block: schema.Block) -> tuple[str, int, str, int]:
    """What makes a block unique in a bundle: a warm-up is repeated by a continuation, a measured block never."""
    return (
        block.case,
        block.process,
        block.phase,
        block.block if block.phase == "measure" else (block.incarnation << 20) + block.block,
    )


def _unique(rows: Iterator[schema.Block], notes: list[str]) -> list[schema.Block]:
    seen: set[tuple[str, int, str, int]] = set()
    kept: list[schema.Block] = []
    for row in rows:
        key = identity(row)
        if key in seen:
            notes.append(
                f"samples.jsonl: block {row.block} of {row.case}, process {row.process}, stands twice; the first is used."
            )
            continue
        seen.add(key)
        kept.append(row)
    return kept


def find_run(output: Path, run: str) -> Path:
    """The bundle that `run` names: a path, or a run id below `output`.

    Raises:
        BundleError: when neither is a bundle; names the newest runs there are.
    """
    for candidate in (output / run, Path(run)):
        # A name that no file can have (too long, a null byte) is as little a run as one that is not there.
        with suppress(OSError, ValueError):
            if (candidate / writer.RUN).is_file():
                return candidate
    known = [path.name for path in runs(output)][-3:]
    advice = f"runs there: {', '.join(known)}" if known else "there is no run yet: type `make bench-cpu`"
    raise BundleError(f"{output / run}: not a bundle; {advice}.")


def runs(output: Path) -> list[Path]:
    """Every bundle directly below `output`, oldest first (run ids start with their time)."""
    if not output.is_dir():
        return []
    return sorted(path.parent for path in output.glob(f"*/{writer.RUN}"))
