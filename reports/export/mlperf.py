"""MLPerf's system description, from fingerprint.json alone: filled where the machine told, empty where it did not.

Fields, order and formats: MLPerf Inference v5.1, <system_desc_id>.json (MLCommons policies, submission_rules.adoc, "metadata";
inference/tools/submission/submission_checker, constants.py), and two of those of power submissions that a fingerprint knows. What only a
submitter can say (division, status, cooling, networks) stays empty: the checker then names it, which a made-up value would hide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from suite.bundle.schema import Fact, Fingerprint

FIELDS = (
    "submitter",
    "division",
    "system_type",
    "system_type_detail",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_memory_capacity",
    "host_storage_type",
    "host_storage_capacity",
    "host_networking",
    "host_network_card_count",
    "host_networking_topology",
    "host_memory_configuration",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "framework",
    "other_software_stack",
    "operating_system",
    "sw_notes",
    "power_management",
    "boot_firmware_version",
)
UNKNOWN = ""
NONE = "N/A"  # what submissions without an accelerator write

Value = str | int
T = TypeVar("T")


class Facts:
    """The facts of a fingerprint by subject and name; a value that is not there is None."""

    def __init__(self, facts: dict[str, dict[str, Fact]]) -> None:
        self._facts = facts

    def value(self, subject: str, name: str) -> Any:
        """A fact's value, or None."""
        fact = self._facts.get(subject, {}).get(name)
        return fact.value if fact else None

    def text(self, subject: str, name: str) -> str:
        """A fact's value as text, empty when there is none."""
        value = self.value(subject, name)
        if isinstance(value, list):
            return ", ".join(str(item) for item in value)
        return UNKNOWN if value is None else str(value)

    def count(self, subject: str, name: str) -> int | None:
        """A fact's value where it is a whole number (and no truth value), else None."""
        value = self.value(subject, name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def rows(self, subject: str, name: str, *sizes: str) -> list[dict[str, Any]]:
        """A fact's rows, as far as each has whole numbers under the names `sizes`."""
        value = self.value(subject, name)
        rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
        return [row for row in rows if all(isinstance(row.get(size), int) for size in sizes)]

    def gpus(self, name: str, kind: type[T]) -> list[T]:
        """The values that the GPUs give for a name, in order, each once; those without one of that kind are left out."""
        keys = [key for key in self._facts.get("gpu", {}) if re.fullmatch(rf"gpu \d+ {re.escape(name)}", key)]
        values = [value for key in keys if isinstance(value := self.value("gpu", key), kind)]
        return [value for place, value in enumerate(values) if value not in values[:place]]


def system_description(fingerprint: Fingerprint) -> dict[str, Value]:
    """MLPerf's fields in their order; counts are numbers, everything else is text, and what is not known is empty."""
    facts = Facts(fingerprint.facts)
    known: dict[str, Value] = {
        "number_of_nodes": 1,
        "system_name": _joined(_without_repetition(facts, "sys_vendor", "product_name"), " "),
        **_processor(facts),
        **_memory(facts),
        **_accelerators(facts),
        **_software(facts),
        "hw_notes": _hardware_notes(facts),
        "power_management": _power(facts),
        "boot_firmware_version": _joined(
            (facts.text("system", name) for name in ("bios_vendor", "bios_version", "bios_date")), " "
        ),
    }
    return {field: known.get(field, UNKNOWN) for field in FIELDS}


def _joined(parts: Iterable[str], between: str = ", ") -> str:
    return between.join(part for part in parts if part)


def _without_repetition(facts: Facts, vendor: str, product: str) -> list[str]:
    maker, name = facts.text("system", vendor), facts.text("system", product)
    return [name] if name.lower().startswith(maker.lower()) else [maker, name]


def _processor(facts: Facts) -> dict[str, Value]:
    sockets, cores, cpus = (facts.count("cpu", name) for name in ("sockets", "physical_cores", "online_cpus"))
    virtual = facts.text("cpu", "hypervisor") not in (UNKNOWN, "none")
    # The rules ask for cores of one processor, or, where only those are known, as in a cloud, for virtual CPUs.
    alike = sockets and cores and cores % sockets == 0 and not virtual
    return {
        "host_processor_model_name": facts.text("cpu", "model"),
        "host_processors_per_node": sockets or UNKNOWN,
        "host_processor_core_count": cores // sockets if alike and sockets and cores else UNKNOWN,
        "host_processor_vcpu_count": cpus if virtual and cpus else UNKNOWN,
        "host_processor_frequency": _frequency(facts),
        "host_processor_caches": _caches(facts),
    }


def _frequency(facts: Facts) -> str:
    stated, highest = (
        [float(kind) for kind in _kinds(facts.value("cpu", name)) if re.fullmatch(r"\d+(\.\d+)?", kind)]
        for name in ("base_mhz", "maximum_mhz")
    )
    if stated:
        return ", ".join(f"{value:g}MHz" for value in stated)
    return ", ".join(f"{value:g}MHz maximum" for value in highest) or UNKNOWN


def _kinds(value: Any) -> list[str]:
    """The distinct values of a fact that is told per CPU ({"2000.0": "0-31"}), or those of an older bundle."""
    if isinstance(value, dict | list):
        return [str(each) for each in value]
    return [] if value is None or isinstance(value, bool) else [str(value)]


def _caches(facts: Facts) -> str:
    """Caches as "L1: 32KB I + 32KB D per core, L2: 1MB per core, L3: 37.75MB per chip".

    Where a level's caches differ (hybrid parts), each kind is told with how many there are.
    """
    levels: dict[str, list[dict[str, Any]]] = {}
    for row in facts.rows("cpu", "caches", "size_bytes", "shared_by_cpus", "instances"):
        level, _, kind = str(row.get("name", "")).partition(" ")
        levels.setdefault(level, []).append({**row, "kind": {"data": " D", "instruction": " I"}.get(kind, "")})
    told = []
    for level, each in levels.items():
        each.sort(key=lambda row: row["kind"] != " I")
        mixed = len({row["kind"] for row in each}) < len(each)
        scopes = [_scope(row["shared_by_cpus"], facts) for row in each]
        sizes = [(f"{row['instances']}x " if mixed else "") + _size(row["size_bytes"]) + row["kind"] for row in each]
        if len(set(scopes)) == 1:
            told.append(f"{level}: {' + '.join(sizes)} {scopes[0]}")
        else:
            told.append(f"{level}: {' + '.join(f'{size} {scope}' for size, scope in zip(sizes, scopes, strict=True))}")
    return ", ".join(told)


def _scope(shared: int, facts: Facts) -> str:
    sockets, cpus = facts.count("cpu", "sockets"), facts.count("cpu", "online_cpus")
    if shared == facts.count("cpu", "threads_per_core"):
        return "per core"
    if sockets and cpus and shared == cpus // sockets:
        return "per chip"
    return f"per {shared} CPUs" if shared > 1 else "per CPU"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:g}MB" if size_bytes >= 1 << 20 else f"{size_bytes / 2**10:g}KB"


def _gigabytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.0f}GB"


def _memory(facts: Facts) -> dict[str, Value]:
    rows = facts.rows("memory", "dimms", "count", "size_bytes")
    installed = sum(row["count"] * row["size_bytes"] for row in rows)
    # The kernel keeps a part for itself: without the modules' sizes its total stands for what is installed.
    total = installed or facts.count("memory", "total_bytes")
    return {
        "host_memory_capacity": _gigabytes(total) if total else UNKNOWN,
        "host_memory_configuration": " + ".join(map(_module, rows)),
    }


def _module(row: dict[str, Any]) -> str:
    ranks = f"{row['ranks']}R" if row.get("ranks") else ""
    speed = f"{row['speed_mt_s']} MT/s" if row.get("speed_mt_s") else ""
    what = (ranks, str(row.get("type", "")), speed, str(row.get("part_number", "")))
    return _joined((f"{row['count']}x {_gigabytes(row['size_bytes'])}", *what), " ")


def _accelerators(facts: Facts) -> dict[str, Value]:
    count = facts.count("gpu", "count")
    if count is None:
        return {}
    if count == 0:
        return {"accelerators_per_node": 0} | {field: NONE for field in FIELDS if field.startswith("accelerator_")}
    return {
        "accelerators_per_node": count,
        "accelerator_model_name": _each(facts.gpus("name", str)),
        "accelerator_memory_capacity": _each(map(_gigabytes, facts.gpus("memory_total_bytes", int))),
        "accelerator_memory_configuration": _gpu_memory(facts),
        "accelerator_frequency": _each(f"{clock}MHz" for clock in facts.gpus("clock_sm_maximum_mhz", int)),
        "accelerator_host_interconnect": _pcie(facts),
        **_links(facts),
    }


def _each(values: Iterable[Any]) -> str:
    return " + ".join(dict.fromkeys(str(value) for value in values))


def _gpu_memory(facts: Facts) -> str:
    """The kind of memory where the product's name holds it ("H100 80GB HBM3"), and the width of its bus."""
    kinds = [match[0] for name in facts.gpus("name", str) if (match := re.search(r"\bHBM\w*|\bGDDR\w*", name))]
    return _joined((_each(kinds), _each(f"{bits}-bit bus" for bits in facts.gpus("memory_bus_bits", int))))


def _pcie(facts: Facts) -> str:
    generations, widths = facts.gpus("pcie_generation_maximum", int), facts.gpus("pcie_width_maximum", int)
    if len(generations) == len(widths) == 1:
        return f"PCIe {generations[0]}.0 x{widths[0]}"
    return _each(f"PCIe {generation}.0" for generation in generations)


def _links(facts: Facts) -> dict[str, Value]:
    active = [count for count in facts.gpus("nvlink_active", int) if count]
    if not active:
        return {}
    speeds = facts.gpus("nvlink_speed_mb_per_s", int)
    speed = f", {_each(f'{speed / 1000:g}GB/s' for speed in speeds)} each" if speeds else ""
    versions = _each(facts.gpus("nvlink_version", str))
    ends = {end for remote in facts.gpus("nvlink_remote", dict) for end in remote}
    topology = {"switch": "NVSwitch", "GPU": "Direct"}
    return {
        "accelerator_interconnect": _joined((f"{_each(active)}x NVLink", versions), " ") + speed,
        "accelerator_interconnect_topology": topology.get(next(iter(ends)), UNKNOWN) if len(ends) == 1 else UNKNOWN,
    }


def _package(facts: Facts, name: str) -> str:
    packages = facts.value("python", "packages")
    listed = packages.get(name) if isinstance(packages, dict) else None
    version = listed.get("version") if isinstance(listed, dict) else facts.value("python", f"package {name}")
    return f"{name} {version}" if version else UNKNOWN


def _software(facts: Facts) -> dict[str, Value]:
    def named(words: str, subject: str, name: str) -> str:
        text = facts.text(subject, name)
        return f"{words} {text}" if text else UNKNOWN

    container = facts.text("container", "container")
    return {
        "framework": named("PyTorch", "torch", "version"),
        "operating_system": _joined((facts.text("system", "os"), named("Linux", "system", "kernel"))),
        "other_software_stack": _joined(
            (
                named("Python", "python", "version"),
                _package(facts, "transformers"),
                _package(facts, "triton"),
                _package(facts, "intel-openmp"),
                named("CUDA", "torch", "cuda"),
                named("driver", "gpu", "driver"),
                facts.text("compiler", "cxx_version"),
                facts.text("system", "libc"),
            )
        ),
        "sw_notes": _joined(
            (
                f"in a container ({container})" if container not in (UNKNOWN, "none") else "",
                named("transparent huge pages:", "memory", "transparent_huge_pages"),
            )
        ),
    }


def _hardware_notes(facts: Facts) -> str:
    hypervisor, smt = facts.text("cpu", "hypervisor"), facts.value("cpu", "smt_active")
    known = ("node_total_bytes", "node_distances", "nodes")
    nodes = next(filter(None, (facts.value("memory", name) for name in known)), None)
    ecc = facts.gpus("ecc", bool)
    return _joined(
        (
            f"virtual machine ({hypervisor})" if hypervisor not in (UNKNOWN, "none") else "",
            {True: "SMT on", False: "SMT off"}.get(smt, "") if isinstance(smt, bool) else "",
            f"{len(nodes)} NUMA nodes" if isinstance(nodes, dict) and len(nodes) > 1 else "",
            "accelerator memory without ECC" if False in ecc else "",
        )
    )


def _power(facts: Facts) -> str:
    boost = facts.value("cpu", "boost")
    limits = facts.gpus("power_limit_enforced_w", float)
    named = (("governor", "governor"), ("frequency_driver", "driver"), ("energy_performance_preference", "preference"))
    return _joined(
        (
            *(f"{words} {' and '.join(kinds)}" for name, words in named if (kinds := _kinds(facts.value("cpu", name)))),
            {True: "boost on", False: "boost off"}.get(boost, "") if isinstance(boost, bool) else "",
            f"accelerator limited to {_each(f'{limit:g}W' for limit in limits)}" if limits else "",
        )
    )
