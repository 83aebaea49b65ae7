"""Memory: sizes, NUMA nodes, page sizes, swap, tiers. Sizes in bytes."""

from __future__ import annotations

from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, from_file, missing, ok, shown_by_container, virtualised
from suite.fingerprint.files import list_names, parse_fields, parse_size, read_text
from suite.fingerprint.memory import dimms, pages, tiers
from suite.fingerprint.system.virtual import detect

NODES = "/sys/devices/system/node"
MEMINFO = "/proc/meminfo"
UNLIKE_SHARE = 0.02
"""By more than this the nodes' memory does not differ from the total on a machine whose kernel counts both alike."""
# What a hypervisor presents as it likes.
PRESENTED = (
    "node_distances",
    "dimm_slots",
    "dimms",
    "memory_type",
    "memory_speed_mt_s",
    "memory_channels",
    "ecc",
    "memory_errors",
)


def read(root: Path = Path("/")) -> Facts:
    """Facts of memory. Never raises."""
    meminfo = parse_fields(read_text(root, MEMINFO).text or "")

    def size(field: str) -> Fact:
        source = f"{MEMINFO} {field}"
        if field not in meminfo:
            return missing(root, MEMINFO, "no such field", source)
        return shown_by_container(root, MEMINFO, call(source, lambda: parse_size(meminfo[field])))

    facts: Facts = {
        "total_bytes": size("MemTotal"),
        "available_bytes": size("MemAvailable"),
        "node_total_bytes": _nodes(root, "MemTotal"),
        "node_free_bytes": _nodes(root, "MemFree"),
        "node_distances": _distances(root),
        **tiers.read(root),
        **dimms.read(root),
        **pages.read(root),
        "swap_total_bytes": size("SwapTotal"),
        "swap_areas": from_file(root, "/proc/swaps", parse_swaps),
        "swappiness": from_file(root, "/proc/sys/vm/swappiness", int),
        "overcommit": from_file(root, "/proc/sys/vm/overcommit_memory", int),
        "zone_reclaim_mode": from_file(root, "/proc/sys/vm/zone_reclaim_mode", int),
        "same_page_merging": from_file(root, "/sys/kernel/mm/ksm/run", lambda text: text == "1"),
        "compaction_proactiveness": from_file(root, "/proc/sys/vm/compaction_proactiveness", int),
    }
    facts |= _unlike_total(facts)
    if detect(root).name:
        facts |= {name: virtualised(facts[name], "as the hypervisor presents it") for name in PRESENTED}
    return facts


def parse_swaps(text: str) -> list[dict[str, str | int]]:
    """/proc/swaps without the names of devices and files (which may carry an identifier): kind, size and use in bytes."""
    areas: list[dict[str, str | int]] = []
    for line in text.splitlines()[1:]:
        name, kind, size, used, _ = line.rsplit(maxsplit=4)
        compressed = "zram" if name.startswith("/dev/zram") else kind
        areas.append({"kind": compressed, "size_bytes": int(size) << 10, "used_bytes": int(used) << 10})
    return areas


def _nodes(root: Path, field: str) -> Fact:
    """A field of each NUMA node in bytes, by node number as text (JSON keys are text)."""
    source = f"{NODES}/node*/meminfo {field}"

    def gather() -> dict[str, int] | None:
        sizes = {}
        for name in list_names(root, NODES, r"node\d+"):
            # A line reads "Node 0 MemTotal:  32768 kB".
            fields = parse_fields(read_text(root, f"{NODES}/{name}/meminfo").text or "")
            total = next((value for key, value in fields.items() if key.split()[-1] == field), None)
            if total is not None:
                sizes[name[4:]] = parse_size(total)
        return sizes or None

    fact = call(source, gather, "the kernel describes no NUMA node")
    return missing(root, NODES, fact.note, source) if fact.status == "absent" else fact


def _unlike_total(facts: Facts) -> Facts:
    """The nodes' sizes without values where they do not add up to the machine's: a kernel that was given memory after it had counted the
    node's (a balloon, a restored virtual machine), or that invents /proc or /sys, says two things of which one is wrong."""
    nodes, total = facts["node_total_bytes"], facts["total_bytes"]
    # What the container serves as the total is its own share, and says nothing against the nodes.
    if not nodes.value or not total.value or total.status == "masked":
        return {}
    added = sum(nodes.value.values())
    if abs(added - total.value) <= UNLIKE_SHARE * total.value:
        return {}
    note = f"the nodes add up to {added / 2**30:.2f} GiB and {total.source} is {total.value / 2**30:.2f} GiB: not the nodes' memory"
    return {name: absent(facts[name].source, note) for name in ("node_total_bytes", "node_free_bytes")}


def _distances(root: Path) -> Fact:
    source = f"{NODES}/node*/distance"

    def gather() -> dict[str, list[int]] | None:
        rows = {
            name[4:]: read_text(root, f"{NODES}/{name}/distance").text for name in list_names(root, NODES, r"node\d+")
        }
        return {number: [int(part) for part in text.split()] for number, text in rows.items() if text} or None

    fact = call(source, gather, "not described")
    if fact.value is None:
        return missing(root, NODES, fact.note, source)
    return ok(fact.value, source, "10 is local (ACPI SLIT)")
