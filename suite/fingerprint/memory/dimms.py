"""Memory modules: slots, speed, type, channels and errors, from SMBIOS or the kernel's EDAC drivers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, first, joined, missing, ok, shown_by_container
from suite.fingerprint.files import list_names, read_bytes, read_text
from suite.fingerprint.memory import smbios
from suite.fingerprint.memory.smbios import Module

TABLE = "/sys/firmware/dmi/tables/DMI"
ENTRIES = "/sys/firmware/dmi/entries"
EDAC = "/sys/devices/system/edac/mc"
# How boards write a channel into a slot's or bank's name: "ChannelA-DIMM0", "P0 CHANNEL B". A bare letter tells nothing:
# in "DIMM_A1" it is the channel on one maker's boards and the socket on another's.
CHANNEL = re.compile(r"(?:channel|chan)[ _-]?([a-z]|\d+)(?![a-z])", re.IGNORECASE)
SOCKET = re.compile(r"(?:cpu|proc|socket|node|\bp)[ _-]?(\d+)", re.IGNORECASE)


def read(root: Path) -> Facts:
    """Facts of the memory modules; sizes in bytes, speeds in MT/s. Never raises."""
    found, reason = _modules(root)
    if not found:
        names = ("dimm_slots", "dimms", "memory_type", "memory_speed_mt_s", "memory_channels")
        facts: Facts = dict.fromkeys(names, reason)
        facts["dimms"] = first(_edac_modules(root), reason)
        return facts | {"ecc": _edac_mode(root), "memory_errors": _errors(root)}
    filled = [module for module in found if module.size_bytes]
    speeds = {module.configured_mt_s or module.speed_mt_s for module in filled} - {0}
    rated = {module.speed_mt_s for module in filled} - {0}
    note = f"rated {', '.join(map(str, sorted(rated)))} MT/s" if rated and rated != speeds else ""
    kinds = sorted({module.kind for module in filled} - {""})
    source = reason.source
    return {
        "dimm_slots": ok(len(found), source),
        "dimms": ok(rows(filled), source) if filled else absent(source, "the firmware describes empty slots only"),
        "memory_type": ok(kinds, source) if kinds else absent(source, "the firmware does not name it"),
        "memory_speed_mt_s": ok(sorted(speeds), source, note)
        if speeds
        else absent(source, "the firmware gives no speed"),
        "memory_channels": _channels(filled, source),
        "ecc": ok(all(module.ecc for module in filled), source, "by the modules' widths")
        if filled
        else _edac_mode(root),
        "memory_errors": _errors(root),
    }


def rows(filled: Sequence[Module]) -> list[dict[str, Any]]:
    """Equal modules as one row with the slots that hold them."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for module in filled:
        key = (
            module.size_bytes,
            module.kind,
            module.form,
            module.configured_mt_s or module.speed_mt_s,
            module.ranks,
            module.manufacturer,
            module.part_number,
        )
        alike.setdefault(key, []).append(module.slot or module.bank or "?")
    names = ("size_bytes", "type", "form", "speed_mt_s", "ranks", "manufacturer", "part_number")
    return [
        {"count": len(slots), **{name: value for name, value in zip(names, key, strict=True) if value}, "slots": slots}
        for key, slots in alike.items()
    ]


def channels(filled: Sequence[Module]) -> int | None:
    """How many channels hold a module, by the names of slots and banks; None when a name does not tell."""
    found = set()
    for module in filled:
        text = f"{module.bank} {module.slot}"
        match = CHANNEL.search(text)
        if match is None:
            return None
        socket = SOCKET.search(text)
        found.add((socket[1] if socket else "", match[1].upper()))
    return len(found) or None


def _channels(filled: Sequence[Module], source: str) -> Fact:
    count = channels(filled)
    if count is None:
        return absent(source, "the names of the slots do not tell")
    return ok(count, source, "by the names of the slots that hold a module, all sockets together")


def _modules(root: Path) -> tuple[list[Module], Fact]:
    """The slots, and the fact that stands for their source or for why there are none."""
    table = read_bytes(root, TABLE)
    if table.data:
        found = smbios.modules(table.data)
        return found, absent(TABLE, "the table describes no memory slot")
    entries = list_names(root, ENTRIES, rf"{smbios.MEMORY_DEVICE}-\d+")
    reads = [read_bytes(root, f"{ENTRIES}/{name}/raw") for name in entries]
    found = [module for read in reads if read.data for module in smbios.modules(read.data)]
    if found:
        return found, absent(f"{ENTRIES}/17-*/raw")
    refused = next((read for read in (table, *reads) if read.status not in ("ok", "absent")), None)
    if refused:
        note = joined(refused.reason, "only root reads it" if refused.status == "denied" else "")
        return [], Fact(value=None, source=refused.source, status=refused.status, note=note)
    return [], missing(root, TABLE, "the firmware offers no SMBIOS table")


def _edac_modules(root: Path) -> Fact:
    alike: Counter[tuple[str, str, str]] = Counter()
    for controller in list_names(root, EDAC, r"mc\d+"):
        for name in list_names(root, f"{EDAC}/{controller}", r"(dimm|rank)\d+"):
            folder = f"{EDAC}/{controller}/{name}"
            size, kind, label = (
                read_text(root, f"{folder}/{n}").text or "" for n in ("size", "dimm_mem_type", "dimm_dev_type")
            )
            if size.isdigit() and int(size):
                alike[size, kind, label] += 1
    if not alike:
        return missing(root, EDAC, "no memory controller is watched by EDAC")
    modules = [
        {
            "count": count,
            "size_bytes": int(size) << 20,
            **({"type": kind} if kind else {}),
            **({"chips": chips} if chips else {}),
        }
        for (size, kind, chips), count in sorted(alike.items())
    ]
    return shown_by_container(root, EDAC, ok(modules, f"{EDAC}/mc*/dimm*"))


def _edac_mode(root: Path) -> Fact:
    source = f"{EDAC}/mc*/dimm*/dimm_edac_mode"
    modes = {
        read_text(root, f"{EDAC}/{controller}/{name}/dimm_edac_mode").text or ""
        for controller in list_names(root, EDAC, r"mc\d+")
        for name in list_names(root, f"{EDAC}/{controller}", r"(dimm|rank)\d+")
    } - {""}
    if not modes:
        return missing(root, EDAC, "neither SMBIOS nor EDAC tells", source)
    return ok(modes != {"None"}, source, ", ".join(sorted(modes)))


def _errors(root: Path) -> Fact:
    """Memory errors since boot, corrected and not: a module that errs often slows the machine down."""
    source = f"{EDAC}/mc*/ce_count, ue_count"
    totals = {"corrected": 0, "uncorrected": 0}
    controllers = list_names(root, EDAC, r"mc\d+")
    for controller in controllers:
        for key, name in (("corrected", "ce_count"), ("uncorrected", "ue_count")):
            text = read_text(root, f"{EDAC}/{controller}/{name}").text or ""
            totals[key] += int(text) if text.isdigit() else 0
    return ok(totals, source) if controllers else missing(root, EDAC, "no memory controller is watched by EDAC", source)
