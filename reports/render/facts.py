"""The fingerprint as a reader wants it: what was read, in words; what is missing, by reason; long lists to be opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports.render import numbers
from suite.bundle import coverage, schema
from suite.bundle.schema import FactStatus

FOLD_FROM_CHARACTERS = 240
"""Longer values are folded: the report shows their size, and the whole when opened."""
UNFOLDED = {"instruction_sets", "caches", "dimms", "idle_states"}
"""What a reader of a CPU benchmark looks for, however long it is."""
HASH_DIGITS = 12
ABBREVIATIONS = {
    "cpu": "CPU", "cpus": "CPUs", "gpu": "GPU", "numa": "NUMA", "smt": "SMT", "bios": "BIOS", "dimm": "DIMM", "dimms": "DIMMs",
    "mhz": "MHz", "os": "operating system", "cxl": "CXL", "dax": "DAX", "ecc": "ECC", "libc": "C library", "id": "ID",
    "mt": "MT", "cxx": "C++ compiler", "nvcc": "nvcc", "cgroup": "control group", "nmi": "NMI", "isa": "ISA", "mkl": "MKL",
    "onednn": "oneDNN", "openmp": "OpenMP", "cuda": "CUDA", "cudnn": "cuDNN", "blas": "BLAS", "vbios": "VBIOS", "pcie": "PCIe",
    "ns": "ns", "io": "I/O", "irq": "interrupts", "kb": "KiB", "us": "µs",
}  # fmt: skip
# Facts by distinct value with the CPUs that have it ({"performance": "0-31"}), besides the clocks.
BY_CPU = {
    "governor",
    "frequency_driver",
    "energy_performance_preference",
    "energy_performance_bias",
    "core_capacity",
    "microcode",
}
VERBATIM = {"environment", "mitigations", "kernel_config", "packages", "conda_packages", "scheduler_settings"}
REASONS: dict[FactStatus, str] = {
    "masked": "Masked by the container",
    "virtualised": "Virtualised: the hypervisor shows what it likes",
    "denied": "Denied to this user",
    "absent": "Absent: this machine or system does not offer it",
}


@dataclass(frozen=True)
class Row:
    """One field that has a value; `text` may have several lines. Of a long value `entries` are the lines and `text` their number."""

    name: str
    text: str
    entries: tuple[str, ...]
    source: str
    status: str
    note: str


@dataclass(frozen=True)
class Section:
    """One subject's fields that have a value."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Missing:
    """The fields of one status: how many, and their names by subject."""

    reason: str
    count: int
    fields: list[tuple[str, list[str]]]


def sections(facts: coverage.Facts) -> list[Section]:
    """Every subject with what could be read of it; subjects without any value are left out."""
    listed = [
        Section(title(subject), [row(name, fact) for name, fact in found.items() if fact.value is not None])
        for subject, found in facts.items()
    ]
    return [section for section in listed if section.rows]


def missing(facts: coverage.Facts) -> list[Missing]:
    """The fields behind the coverage line's numbers. A field that has a value all the same is marked with an asterisk."""
    listed = []
    for status, gaps in coverage.gaps(facts).items():
        by_subject: dict[str, list[str]] = {}
        for gap in gaps:
            name = field_name(gap.name) + ("*" if gap.fact.value is not None else "")
            by_subject.setdefault(title(gap.subject), []).append(name)
        listed.append(Missing(REASONS[status], len(gaps), list(by_subject.items())))
    return listed


def title(subject: str) -> str:
    """A subject as a heading: "cpu" is "CPU", "memory" is "Memory"."""
    words = field_name(subject)
    return words[:1].upper() + words[1:]


def field_name(name: str) -> str:
    """A field's name in words, without the unit that its value carries."""
    bare = re.sub(r"_mhz$", "_clock", re.sub(r"_(bytes|mt_s|ns|us)$| (FLOP|bytes)/s$", "", name))
    return " ".join(ABBREVIATIONS.get(word, word) for word in re.split(r"[_ ]", bare))


def row(name: str, fact: schema.Fact) -> Row:
    """A field with a value, folded when it is long."""
    entries = lines(name, fact.value)
    text = "; ".join(entries)
    status = "" if fact.status == "ok" else fact.status
    whole = isinstance(fact.value, str) and len(entries) == 1
    if name in UNFOLDED and len(text) > FOLD_FROM_CHARACTERS:
        return Row(field_name(name), "\n".join(entries), (), fact.source, status, fact.note)
    if len(text) <= FOLD_FROM_CHARACTERS or whole:
        return Row(field_name(name), text or "none", (), fact.source, status, fact.note)
    return Row(field_name(name), _size(fact.value, entries), tuple(entries), fact.source, status, fact.note)


def fact_text(name: str, found: schema.Fact) -> str:
    """A fact's value as text; sizes in binary units, lists joined, what is missing by its status."""
    if found.value is None:
        return f"({found.status}{': ' + found.note if found.note else ''})"
    return "; ".join(lines(name, found.value)) or "none"


def lines(name: str, value: Any) -> list[str]:
    """A value as one text an entry: of a list of records, or of a mapping."""
    if isinstance(value, str):
        return value.splitlines() or [value]
    if isinstance(value, Mapping):
        return [_entry(name, str(key), item) for key, item in value.items()]
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return [_record(item) for item in value]
    if isinstance(value, list) and len(value) > 3 and all(isinstance(item, int) for item in value):
        return [_ranges(value)]
    if isinstance(value, list):
        return [", ".join(flat(name, item) for item in value)] if value else []
    return [flat(name, value)]


def flat(name: str, value: Any) -> str:
    """One value on one line, in the unit that its name tells."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{field_name(str(key))} {flat(str(key), item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(flat(name, item) for item in value)
    if isinstance(value, int | float):
        return _number(name, value)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return numbers.size(value)
    if "_share" in name:
        return numbers.percent(value)
    if name.endswith("_ns"):
        return numbers.time(value)
    if name.endswith("/s"):
        return numbers.rate(value, "FLOP/s" if name.endswith("FLOP/s") else "B/s")
    unit = next(
        (unit for ending, unit in (("_us", " µs"), ("_mhz", " MHz"), ("_mt_s", " MT/s")) if name.endswith(ending)), ""
    )
    text = f"{value:g}" if isinstance(value, float) else f"{value}"
    return f"{text}{unit}"


def _entry(name: str, key: str, value: Any) -> str:
    if isinstance(value, Mapping) and "version" in value:
        return _package(key, value)
    if isinstance(value, str) and (name.endswith("_mhz") or name in BY_CPU):
        return f"{key}{' MHz' if name.endswith('_mhz') else ''} (CPUs {value})"
    # Keys that are names of ours are written in words; those of the kernel or the user stay as they are.
    named = field_name(key) if name not in VERBATIM and re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", key) else key
    own_unit = re.search(r"_(bytes|ns|us|mhz)$", key)
    return f"{named}: {flat(key if own_unit else name, value)}"


def _package(name: str, package: Mapping[str, Any]) -> str:
    record = str(package.get("record_sha256", ""))
    told = record[:HASH_DIGITS] if record else f"no record: {package.get('no_record', 'unknown')}"
    origin = f", from {package['installed_from']}" if "installed_from" in package else ""
    return f"{name} {package['version']} ({told}{origin})"


def _record(record: Mapping[str, Any]) -> str:
    named = record.get("name")
    rest = [
        f"{field_name(key)} {flat(key, value)}"
        for key, value in record.items()
        if key != "name" and value not in ("", [])
    ]
    return f"{named}: {', '.join(rest)}" if named else ", ".join(rest)


def _ranges(values: list[int]) -> str:
    parts: list[list[int]] = []
    for value in values:
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _size(value: Any, entries: list[str]) -> str:
    if isinstance(value, str):
        return numbers.counted(len(entries), "line")
    count = len(value)
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
