"""Memory: sizes, NUMA nodes, page sizes, swap. Sizes in bytes."""

from __future__ import annotations

from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, from_file, ok
from suite.fingerprint.files import list_names, parse_fields, parse_size, read_text, selected

NODES = "/sys/devices/system/node"
HUGE = "/sys/kernel/mm/transparent_hugepage"
MEMINFO = "/proc/meminfo"


def read(root: Path = Path("/")) -> Facts:
    """Facts of memory. Never raises."""
    meminfo = parse_fields(read_text(root, MEMINFO).text or "")

    def size(field: str) -> Fact:
        source = f"{MEMINFO} {field}"
        return call(source, lambda: parse_size(meminfo[field])) if field in meminfo else absent(source, "no such field")

    return {
        "total_bytes": size("MemTotal"),
        "available_bytes": size("MemAvailable"),
        "swap_total_bytes": size("SwapTotal"),
        "huge_page_bytes": size("Hugepagesize"),
        "huge_pages": from_file(root, MEMINFO, lambda text: int(parse_fields(text)["HugePages_Total"])),
        "nodes": _nodes(root),
        "node_distances": _distances(root),
        "transparent_huge_pages": from_file(root, f"{HUGE}/enabled", selected),
        "transparent_huge_pages_defrag": from_file(root, f"{HUGE}/defrag", selected),
        "swappiness": from_file(root, "/proc/sys/vm/swappiness", int),
        "overcommit": from_file(root, "/proc/sys/vm/overcommit_memory", int),
        "zone_reclaim_mode": from_file(root, "/proc/sys/vm/zone_reclaim_mode", int),
    }


def _nodes(root: Path) -> Fact:
    """Size of each NUMA node in bytes, by node number as text (JSON keys are text)."""

    def gather() -> dict[str, int] | None:
        sizes = {}
        for name in list_names(root, NODES, r"node\d+"):
            # A line reads "Node 0 MemTotal:  32768 kB".
            fields = parse_fields(read_text(root, f"{NODES}/{name}/meminfo").text or "")
            total = next((value for key, value in fields.items() if key.endswith("MemTotal")), None)
            if total is not None:
                sizes[name[4:]] = parse_size(total)
        return sizes or None

    return call(f"{NODES}/node*/meminfo", gather, "the kernel describes no NUMA node")


def _distances(root: Path) -> Fact:
    names = list_names(root, NODES, r"node\d+")
    rows = {name[4:]: read_text(root, f"{NODES}/{name}/distance").text for name in names}
    known = {number: text.split() for number, text in rows.items() if text}
    source = f"{NODES}/node*/distance"
    return ok(known, source, "10 is local (ACPI SLIT)") if known else absent(source, "not described")
