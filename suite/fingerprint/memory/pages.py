"""Page sizes: huge page pools, transparent huge pages and the daemon that makes them.

Source: Linux, Documentation/admin-guide/mm/hugetlbpage.rst and transhuge.rst. Sizes in bytes.
"""

from __future__ import annotations

from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, call, from_file, missing, ok
from suite.fingerprint.files import list_names, parse_fields, parse_size, read_text, selected

HUGETLB = "/sys/kernel/mm/hugepages"
THP = "/sys/kernel/mm/transparent_hugepage"
NODES = "/sys/devices/system/node"
MEMINFO = "/proc/meminfo"


def read(root: Path) -> Facts:
    """Facts of pages. Never raises."""

    def meminfo(field: str) -> Fact:
        fact = from_file(root, MEMINFO, lambda text: parse_size(parse_fields(text)[field]))
        return missing(root, MEMINFO, "no such field", f"{MEMINFO} {field}") if fact.value is None else fact

    return {
        "huge_page_bytes": meminfo("Hugepagesize"),
        "huge_pages": from_file(root, MEMINFO, lambda text: int(parse_fields(text)["HugePages_Total"])),
        "huge_page_pools": _pools(root, HUGETLB),
        "huge_page_pools_by_node": _pools_by_node(root),
        "transparent_huge_pages": from_file(root, f"{THP}/enabled", selected),
        "transparent_huge_pages_defrag": from_file(root, f"{THP}/defrag", selected),
        "transparent_huge_pages_shared": from_file(root, f"{THP}/shmem_enabled", selected),
        "transparent_huge_pages_by_size": _by_size(root),
        "transparent_huge_pages_daemon": _daemon(root),
        "transparent_huge_pages_used_bytes": meminfo("AnonHugePages"),
    }


def _pools(root: Path, folder: str) -> Fact:
    """Pages by size in KiB: how many there are and how many are free. Pools without a page are named too."""

    def gather() -> dict[str, dict[str, int]] | None:
        pools = {}
        for name in list_names(root, folder, r"hugepages-\d+kB"):
            counts = {key: read_text(root, f"{folder}/{name}/{key}_hugepages").text or "" for key in ("nr", "free")}
            if counts["nr"].isdigit() and counts["free"].isdigit():
                pools[name[10:-2]] = {"pages": int(counts["nr"]), "free": int(counts["free"])}
        return pools or None

    source = f"{folder}/hugepages-*"
    fact = call(source, gather, "the kernel has no pool of huge pages")
    return missing(root, folder, fact.note, source) if fact.value is None else ok(fact.value, source, "by size in KiB")


def _pools_by_node(root: Path) -> Fact:
    source = f"{NODES}/node*/hugepages"
    pools = {name[4:]: _pools(root, f"{NODES}/{name}/hugepages").value for name in list_names(root, NODES, r"node\d+")}
    known = {
        node: {size: counts["pages"] for size, counts in sizes.items() if counts["pages"]}
        for node, sizes in pools.items()
        if sizes
    }
    if not known:
        return missing(root, NODES, "the kernel has no pool of huge pages by node", source)
    return ok(known, source, "pages by size in KiB; empty pools are left out")


def _by_size(root: Path) -> Fact:
    """The policy of each size that transparent pages may have (kernels from 6.8), sizes in KiB."""

    def gather() -> dict[str, list[int]] | None:
        policies: dict[str, list[int]] = {}
        for name in list_names(root, THP, r"hugepages-\d+kB"):
            text = read_text(root, f"{THP}/{name}/enabled").text
            if text:
                policies.setdefault(selected(text), []).append(int(name[10:-2]))
        return policies or None

    source = f"{THP}/hugepages-*/enabled"
    fact = call(source, gather, "this kernel has one size")
    return missing(root, THP, fact.note, source) if fact.value is None else ok(fact.value, source, "sizes in KiB")


def _daemon(root: Path) -> Fact:
    folder = f"{THP}/khugepaged"
    names = ("defrag", "pages_to_scan", "scan_sleep_millisecs", "alloc_sleep_millisecs", "max_ptes_none")
    texts = {name: read_text(root, f"{folder}/{name}").text or "" for name in names}
    known = {name: int(text) for name, text in texts.items() if text.isdigit()}
    return ok(known, folder) if known else missing(root, folder, "the kernel has no khugepaged")
