"""The dynamic section of an ELF file: which libraries it needs, which symbols it takes from others, and where the loader notes
their addresses.

Only the tables that the loader reads are read, through mmap: libtorch_cpu.so has hundreds of megabytes, of which a few are touched.
ELF64 in little-endian order (x86-64, AArch64, RISC-V, POWER); any other file has no tables here.
Source: System V ABI, "Dynamic Linking"; psABI supplements for the numbers of relocations.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 1, 2, 4, 5, 6, 7, 8
DT_STRSZ, DT_PLTREL, DT_JMPREL, DT_GNU_HASH, DT_RELACOUNT = 10, 20, 23, 0x6FFFFEF5, 0x6FFFFFF9
# ELF machine -> relocations (JUMP_SLOT, GLOB_DAT) by which the loader writes a function's address into the library's table.
ADDRESS_RELOCATIONS = MappingProxyType({62: (7, 6), 183: (1026, 1025), 243: (5,), 21: (21, 20)})
LONGEST_NAME = 512


@dataclass(frozen=True)
class Imports:
    """What a file takes from others. `slots` maps a symbol to the virtual addresses (relative to the load address) that hold its
    resolved address; `first_page` maps a segment's file offset to its virtual address, both rounded down to a page."""

    needed: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    slots: dict[str, list[int]] = field(default_factory=dict)
    first_page: dict[int, int] = field(default_factory=dict)


def imports(path: str | Path, pattern: re.Pattern[str], *, with_slots: bool = True) -> Imports | str:
    """The libraries that a file needs and those of its undefined symbols whose whole names match; or the reason why not.

    Only a library that is loaded has use for its slots. Never raises, whatever the file holds.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            return _Reader(image).imports(pattern, with_slots)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except (ValueError, struct.error, IndexError, KeyError) as error:
        return f"is not an ELF64 library that can be understood ({error})"


class _Reader:
    """One mapped file. Raises ValueError, struct.error, KeyError or IndexError on what is not as the format says."""

    def __init__(self, image: mmap.mmap) -> None:
        self.image = image
        if image[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no ELF64 in little-endian order")
        self.machine = struct.unpack_from("<H", image, 18)[0]
        start, size, count = self._at("<Q", 32)[0], *self._at("<HH", 54)
        # (type, offset, virtual address, size in the file)
        headers = [self._at("<I4xQQ8xQ", start + size * number) for number in range(count)]
        self.segments = [header[1:] for header in headers if header[0] == PT_LOAD]
        dynamic = [header[1:] for header in headers if header[0] == PT_DYNAMIC]
        if not dynamic:
            raise ValueError("no dynamic section")
        offset, _, length = dynamic[0]
        self.needed: list[int] = []
        self.tags: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<qQ", image[offset : offset + length // 16 * 16]):
            if tag == DT_NEEDED:
                self.needed.append(value)
            self.tags.setdefault(tag, value)
            if tag == 0:
                break

    def _at(self, layout: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.image, offset)

    def _offset(self, address: int) -> int:
        for offset, virtual, size in self.segments:
            if virtual <= address < virtual + size:
                return offset + address - virtual
        raise ValueError(f"address {address:#x} is in no segment")

    def _name(self, index: int) -> str:
        start = self._offset(self.tags[DT_STRTAB]) + index
        end = self.image.find(b"\0", start, start + LONGEST_NAME)
        return self.image[start : end if end >= 0 else start + LONGEST_NAME].decode(errors="replace")

    def imports(self, pattern: re.Pattern[str], with_slots: bool) -> Imports:
        names = dict(self._undefined(pattern))
        slots: dict[str, list[int]] = {}
        for address, number in self._relocations() if names and with_slots else ():
            if number in names:
                slots.setdefault(names[number], []).append(address)
        pages = {offset & -mmap.PAGESIZE: virtual & -mmap.PAGESIZE for offset, virtual, _ in self.segments}
        return Imports([self._name(index) for index in self.needed], sorted(set(names.values())), slots, pages)

    def _undefined(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        start = self._offset(self.tags[DT_SYMTAB])
        table = self.image[start : start + 24 * self._symbols_to_look_at()]
        for number, (name, section) in enumerate(struct.iter_unpack("<IxxH16x", table)):
            if section == 0 and name and pattern.fullmatch(text := self._name(name)):
                yield number, text

    def _symbols_to_look_at(self) -> int:
        """Undefined symbols cannot be looked up, so the GNU hash table leaves them out and linkers put them before the hashed ones."""
        if DT_GNU_HASH in self.tags:
            _, first_hashed = self._at("<II", self._offset(self.tags[DT_GNU_HASH]))
            # A table without any hashed symbol says 1 or 0, whatever there is; then the old table, if any, has the number.
            if first_hashed > 1 or DT_HASH not in self.tags:
                return first_hashed
        _, symbols = self._at("<II", self._offset(self.tags[DT_HASH]))
        return symbols

    def _relocations(self) -> Iterator[tuple[int, int]]:
        """(virtual address, number of the symbol) of the relocations that put a function's address into the library's tables."""
        kinds = ADDRESS_RELOCATIONS.get(self.machine, ())
        tables = [(DT_RELA, DT_RELASZ, self.tags.get(DT_RELACOUNT, 0))]
        if self.tags.get(DT_PLTREL) == DT_RELA:
            tables.append((DT_JMPREL, DT_PLTRELSZ, 0))
        for tag, size_tag, relative in tables:
            if tag not in self.tags:
                continue
            # The first `relative` ones name no symbol.
            start = self._offset(self.tags[tag])
            content = self.image[start + 24 * relative : start + self.tags[size_tag] // 24 * 24]
            for address, information in struct.iter_unpack("<QQ8x", content):
                if information & 0xFFFFFFFF in kinds:
                    yield address, information >> 32
