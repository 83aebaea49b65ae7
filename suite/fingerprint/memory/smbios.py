"""Memory modules from the firmware's SMBIOS tables (type 17), without serial numbers and asset tags.

Only what is listed here is taken out of a structure, so that no identifier can slip through.
Source: DMTF DSP0134, System Management BIOS (SMBIOS) Reference Specification, section 7.18.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MEMORY_DEVICE = 17
END_OF_TABLE = 127

# DSP0134, table 77 (Memory Device: Type).
TYPES = {
    0x0F: "SDRAM",
    0x12: "DDR",
    0x13: "DDR2",
    0x14: "DDR2 FB-DIMM",
    0x18: "DDR3",
    0x19: "FBD2",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x1F: "non-volatile",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
# DSP0134, table 76 (Memory Device: Form Factor).
FORMS = {0x09: "DIMM", 0x0D: "SODIMM", 0x0F: "FB-DIMM", 0x10: "die", 0x11: "CAMM", 0x0B: "row of chips"}
ECC_EXTRA_BITS = {8, 16}  # a module of 64 data bits has 72 in all with ECC (DDR5: 80)


@dataclass(frozen=True)
class Structure:
    """One SMBIOS structure: its formatted area (header included) and its strings, the first being number 1."""

    kind: int
    data: bytes
    strings: tuple[str, ...]

    def word(self, offset: int, form: str) -> int | None:
        """The little-endian number at `offset`, or None where this (older) structure ends before it."""
        size = struct.calcsize(f"<{form}")
        return int(struct.unpack_from(f"<{form}", self.data, offset)[0]) if offset + size <= len(self.data) else None

    def text(self, offset: int) -> str:
        """The string whose number stands at `offset`; empty when there is none."""
        number = self.word(offset, "B") or 0
        return self.strings[number - 1].strip() if 0 < number <= len(self.strings) else ""


@dataclass(frozen=True)
class Module:
    """One memory slot. `size_bytes` is 0 when it is empty; speeds in MT/s, 0 when not known; widths in bits."""

    slot: str
    bank: str
    size_bytes: int
    kind: str
    form: str
    speed_mt_s: int
    configured_mt_s: int
    data_bits: int
    ecc: bool
    ranks: int
    manufacturer: str
    part_number: str


def structures(table: bytes) -> Iterator[Structure]:
    """The structures of /sys/firmware/dmi/tables/DMI, or the one of entries/17-0/raw; stops where the table is broken."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 4 or at + length > len(table):
            return
        end = table.find(b"\0\0", at + length)
        end = len(table) if end < 0 else end
        strings = table[at + length : end].split(b"\0") if end > at + length else []
        yield Structure(kind, table[at : at + length], tuple(text.decode("latin-1") for text in strings))
        if kind == END_OF_TABLE:
            return
        at = end + 2


def modules(table: bytes) -> list[Module]:
    """Every memory slot that the table describes, in its order."""
    return [module(found) for found in structures(table) if found.kind == MEMORY_DEVICE]


def module(found: Structure) -> Module:
    """Read one type 17 structure; fields that an older version lacks are 0 or empty."""
    total, data = _known(found.word(0x08, "H"), 0xFFFF), _known(found.word(0x0A, "H"), 0xFFFF)
    kind = TYPES.get(found.word(0x12, "B") or 0, "")
    return Module(
        slot=found.text(0x10),
        bank=found.text(0x11),
        size_bytes=_size(found),
        kind=kind,
        form=FORMS.get(found.word(0x0E, "B") or 0, ""),
        speed_mt_s=_speed(found, 0x15, 0x54),
        configured_mt_s=_speed(found, 0x20, 0x58),
        data_bits=data,
        ecc=total - data in ECC_EXTRA_BITS,
        ranks=(found.word(0x1B, "B") or 0) & 0x0F,
        manufacturer=found.text(0x17),
        part_number=found.text(0x1A),
    )


def _known(value: int | None, unknown: int) -> int:
    return 0 if value is None or value == unknown else value


def _size(found: Structure) -> int:
    size = _known(found.word(0x0C, "H"), 0xFFFF)
    if size == 0x7FFF:  # the size is in the extended field, in MiB
        return ((found.word(0x1C, "I") or 0) & 0x7FFFFFFF) << 20
    return (size & 0x7FFF) << (10 if size & 0x8000 else 20)


def _speed(found: Structure, offset: int, extended: int) -> int:
    speed = found.word(offset, "H") or 0
    return (found.word(extended, "I") or 0) & 0x7FFFFFFF if speed == 0xFFFF else speed
