"""The collector on the host: what a container cannot see, for the runs in it.

    sudo docker/fingerprint-host            (or: sudo make fingerprint-host)

It writes one JSON file, `HostFingerprint`: the facts of the hardware and the kernel as the host sees them (as root: with
memory modules, firmware and the machine's UUID, of which only the salted identity is kept), when and in which boot they
were collected. A run in a container that is handed the file (SPEEDPROOF_HOST_FINGERPRINT=path) fills in what is masked,
absent or denied inside, and says of each such fact that it is the host collector's. A file of another machine, or of
another boot of it, is refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from suite.bundle.errors import BundleError
from suite.bundle.row import Moment, Row
from suite.bundle.schema import Fact
from suite.bundle.writer import write_document
from suite.fingerprint.collect import collect
from suite.fingerprint.facts import Facts, absent, ok

VARIABLE = "SPEEDPROOF_HOST_FINGERPRINT"
FORMAT = "speedproof host fingerprint"
VERSION = "1.0"
DEFAULT = Path("results/host-fingerprint.json")
LARGEST_BYTES = 4 << 20

# Of the machine; the others are of the process that reads (its limits, its tools) or of the moment.
SUBJECTS = ("cpu", "memory", "gpu", "system", "identity")
NOT_THE_MACHINES = {
    "allowed_cpus",
    "quota_cpus",
    "available_bytes",
    "node_free_bytes",
    "transparent_huge_pages_used_bytes",
    "current_mhz",
    "clock_reported_mhz",
    "visible_devices",
    "os",
    "libc",
}
FILLED = ("masked", "absent", "denied")


class HostFingerprint(Row, frozen=True, kw_only=True, omit_defaults=True):
    """The collector's file. `boot` is the salted boot id; `missing` says what the collector could not read, and why."""

    format: str
    schema_version: str
    collected_at: Moment
    boot: str
    as_root: bool
    facts: dict[str, dict[str, Fact]]
    missing: tuple[str, ...] = ()


def gather(root: Path = Path("/")) -> HostFingerprint:
    """The facts of the machine, as this user sees them. Never raises."""
    everything = collect(root)
    facts = {
        subject: {name: fact for name, fact in everything[subject].items() if name not in NOT_THE_MACHINES}
        for subject in SUBJECTS
        if subject in everything
    }
    boot = facts.get("identity", {}).get("boot")
    return HostFingerprint(
        format=FORMAT,
        schema_version=VERSION,
        collected_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        boot=str(boot.value) if boot and boot.value else "",
        as_root=os.geteuid() == 0,
        facts=facts,
        missing=tuple(_missing(everything)),
    )


def _missing(facts: Mapping[str, Facts]) -> list[str]:
    """What this user may not read, and what a container hides: the collector is meant to run on the host, as root."""
    said = [
        f"{subject} {name}: {fact.note or fact.status}"
        for subject in SUBJECTS
        for name, fact in facts.get(subject, {}).items()
        if fact.status == "denied" or (fact.status == "masked" and fact.value is None)
    ]
    engine = facts.get("container", {}).get("container")
    if engine and engine.value not in (None, "none"):
        said.insert(0, f"this is a container ({engine.value}): the collector is meant to run on the host")
    return said


def load(path: Path) -> HostFingerprint | str:
    """A collector's file, or why it is none that can be used. Never raises."""
    try:
        if not path.is_file():
            return "there is no such file"
        if path.stat().st_size > LARGEST_BYTES:
            return f"it is larger than {LARGEST_BYTES >> 20} MiB, and so no host collector's"
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        return f"it cannot be read ({getattr(error, 'strerror', None) or 'not a path'})"
    try:
        head: Any = msgspec.json.decode(content)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            return "it is not a host collector's file"
        version = str(head.get("schema_version"))
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            return f"its schema is {version}, and this version reads {VERSION.partition('.')[0]}.x"
        return msgspec.json.decode(content, type=HostFingerprint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"it is damaged ({error})"


def refusal(inside: Mapping[str, Facts], host: HostFingerprint) -> str | None:
    """Why a collector's file is not of this machine in this boot; None when it is.

    The boot id is drawn at random at every start, so that equal ones prove one kernel; the rest catches files put together
    by hand. Total memory may differ within a boot (balloons, lxcfs), down to what the container is shown.
    """
    here = _value(inside, "identity", "boot")
    if not here:
        return "the boot id is not readable here, so that it cannot be told whether the file is of this machine"
    if host.boot != here:
        return "it was collected on another machine or before the last start: run the host collector again"
    for subject, name, words in (("cpu", "model", "processor"), ("system", "kernel", "kernel release")):
        there = _value(host.facts, subject, name)
        if there != _value(inside, subject, name):
            return f"its {words} is another one ({there})"
    total, limit = (_value(each, "memory", "total_bytes") for each in (inside, host.facts))
    if isinstance(total, int) and isinstance(limit, int) and total > limit:
        return "its memory is smaller than what is seen here"
    return None


def _value(facts: Mapping[str, Mapping[str, Fact]], subject: str, name: str) -> Any:
    fact = facts.get(subject, {}).get(name)
    return fact.value if fact else None


def merge(inside: Mapping[str, Facts], host: HostFingerprint | str) -> dict[str, Facts]:
    """The facts seen inside, with what is masked, absent or denied there filled from the collector's file.

    The subject "host_collector" tells what was filled, or why the file was refused (`host` is the reason when it could not
    even be read). Never raises.
    """
    facts = {subject: dict(found) for subject, found in inside.items()}
    why = host if isinstance(host, str) else refusal(inside, host)
    if why is not None or isinstance(host, str):
        facts["host_collector"] = {"file": absent(VARIABLE, f"refused: {why}")}
        return facts
    filled = []
    for subject in SUBJECTS:
        if subject == "gpu" and _value(inside, "gpu", "count") is not None:
            continue  # the GPUs that the container sees have numbers of their own
        for name, fact in host.facts.get(subject, {}).items():
            seen = facts.get(subject, {}).get(name)
            if name in NOT_THE_MACHINES or fact.value is None or fact.status not in ("ok", "virtualised"):
                continue
            if seen is None or seen.status in FILLED:
                told = msgspec.structs.replace(fact, source=f"host collector: {fact.source}")
                facts.setdefault(subject, {})[name] = told
                filled.append(f"{subject} {name}")
    facts["host_collector"] = {
        "filled": ok(filled or ["nothing"], VARIABLE),
        "collected_at": ok(host.collected_at, VARIABLE),
        "as_root": ok(host.as_root, VARIABLE),
    }
    return facts


def with_host(inside: Mapping[str, Facts], environ: Mapping[str, str] = os.environ) -> dict[str, Facts]:
    """The facts seen inside, with the collector's file that the environment names merged in, if it names one."""
    path = environ.get(VARIABLE)
    return merge(inside, load(Path(path))) if path else {subject: dict(found) for subject, found in inside.items()}


def write(path: Path, document: HostFingerprint) -> None:
    """Write the file so that the user who called sudo, and a container's user, can read it.

    Raises:
        BundleError: the place cannot be written.
    """
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    write_document(path, document)
    path.chmod(0o644)
    owner = [os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if os.geteuid() == 0 and all(number.isdigit() for number in owner):
        for each in new:
            # A folder left to root would keep the next run from writing its results.
            with suppress(OSError):
                os.chown(each, int(owner[0]), int(owner[1]), follow_symlinks=False)


def main(arguments: list[str] | None = None) -> int:
    """Collect, write, and say what is missing. Exit status 2: the place cannot be written."""
    parser = argparse.ArgumentParser(
        prog="docker/fingerprint-host", description="Collect on the host what a container cannot see."
    )
    parser.add_argument("--output", type=Path, default=DEFAULT, help=f"where to write (default: {DEFAULT})")
    path: Path = parser.parse_args(arguments).output
    document = gather()
    try:
        write(path, document)
    except (BundleError, OSError) as error:
        print(f"speedproof: {error}", file=sys.stderr)
        return 2
    read = sum(fact.value is not None for found in document.facts.values() for fact in found.values())
    print(f"{path}: {read} facts of this machine; hand it to a run with {VARIABLE}=PATH.")
    if not document.as_root:
        print(
            "Not run as root: memory modules, firmware and the machine's UUID may be missing (sudo make fingerprint-host)."
        )
    if document.missing:
        print("Not readable:", *document.missing, sep="\n  ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
