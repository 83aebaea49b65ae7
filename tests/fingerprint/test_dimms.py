from __future__ import annotations

import struct
from pathlib import Path

from suite.fingerprint.memory import dimms, smbios
from tests.fingerprint.trees import write_tree


def device(**fields: int) -> bytes:
    data = bytearray(0x5C)
    data[0], data[1] = smbios.MEMORY_DEVICE, len(data)
    for name, value in fields.items():
        at = {"total": 8, "data": 10, "size": 12, "extended_size": 0x1C, "speed": 0x15, "extended_speed": 0x54}[name]
        struct.pack_into("<I" if name.startswith("extended") else "<H", data, at, value)
    return bytes(data) + b"\0\0"


def named() -> bytes:
    """A module of SMBIOS 2.7 with all of its strings, serial number and asset tag among them."""
    strings = (b"DIMM_A1", b"NODE 0", b"00AD04B300AD", b"S3R1L001", b"ASSET01", b"PART-4G-PB  ")
    data = bytearray(0x22)
    data[:2] = smbios.MEMORY_DEVICE, len(data)
    struct.pack_into("<HHH", data, 8, 72, 64, 4096)
    data[0x0E], data[0x10], data[0x11], data[0x12] = 0x09, 1, 2, 0x18
    struct.pack_into("<H", data, 0x15, 1600)
    data[0x17:0x1C] = 3, 4, 5, 6, 2
    return bytes(data) + b"\0".join(strings) + b"\0\0"


NAMED = named()


def test_a_module_is_read_without_serial_number_and_asset_tag() -> None:
    (module,) = smbios.modules(NAMED)
    assert (module.slot, module.size_bytes, module.kind, module.form) == ("DIMM_A1", 4 << 30, "DDR3", "DIMM")
    assert (module.speed_mt_s, module.data_bits, module.ecc, module.ranks) == (1600, 64, True, 2)
    assert (module.manufacturer, module.part_number) == ("00AD04B300AD", "PART-4G-PB")
    assert "S3R1L" not in str(module) and "ASSET" not in str(module)


def test_sizes_and_speeds_beyond_16_bits_are_in_their_own_fields() -> None:
    (large,) = smbios.modules(device(size=0x7FFF, extended_size=65536, speed=0xFFFF, extended_speed=70000))
    assert (large.size_bytes, large.speed_mt_s) == (64 << 30, 70000)
    (small,) = smbios.modules(device(size=0x8000 | 512))
    assert small.size_bytes == 512 << 10
    (unknown,) = smbios.modules(device(size=0xFFFF, total=0xFFFF, data=0xFFFF))
    assert (unknown.size_bytes, unknown.data_bits, unknown.ecc) == (0, 0, False)


def test_a_broken_table_ends_where_it_breaks() -> None:
    assert [found.kind for found in smbios.structures(NAMED + b"\x11\xff\0\0")] == [17]
    assert list(smbios.structures(b"\x11\x02\0\0")) == []
    assert list(smbios.structures(b"")) == []
    assert [found.kind for found in smbios.structures(b"\x7f\x04\0\0\0\0" + NAMED)] == [127]


def test_a_string_that_is_not_there_is_empty() -> None:
    assert smbios.Structure(17, b"\x11\x05\0\0\x07", ("one",)).text(4) == ""
    assert smbios.Structure(17, b"\x11\x04\0\0", ()).text(0x10) == ""


def write_table(root: Path, table: bytes) -> Path:
    path = root / "sys/firmware/dmi/tables/DMI"
    path.parent.mkdir(parents=True)
    path.write_bytes(table)
    return root


def test_equal_modules_are_one_row(tmp_path: Path) -> None:
    facts = dimms.read(write_table(tmp_path, NAMED + NAMED + device(size=0)))
    assert facts["dimm_slots"].value == 3
    (row,) = facts["dimms"].value
    assert (row["count"], row["slots"], row["speed_mt_s"]) == (2, ["DIMM_A1", "DIMM_A1"], 1600)
    assert facts["memory_type"].value == ["DDR3"]
    assert facts["ecc"].value is True


def test_a_bare_letter_tells_no_channel(tmp_path: Path) -> None:
    # On some servers A and B are the sockets, and the numbers are the channels.
    assert dimms.read(write_table(tmp_path, NAMED))["memory_channels"].status == "absent"


def test_channels_are_counted_by_socket_where_the_names_tell() -> None:
    def slot(bank: str) -> smbios.Module:
        return smbios.Module("DIMM 1", bank, 1, "DDR5", "DIMM", 4800, 4800, 64, True, 2, "", "")

    assert dimms.channels([slot("P0 CHANNEL A"), slot("P0 CHANNEL A"), slot("P1 CHANNEL A")]) == 2
    assert dimms.channels([slot("BANK 0")]) is None
    assert dimms.channels([]) is None


def test_edac_stands_in_for_a_table_that_is_not_there(tmp_path: Path) -> None:
    folder = "/sys/devices/system/edac/mc/mc0"
    files = {f"{folder}/ce_count": "3", f"{folder}/ue_count": "0"}
    for n in (0, 1):
        files |= {f"{folder}/dimm{n}/size": "16384", f"{folder}/dimm{n}/dimm_mem_type": "Registered-DDR4"}
        files |= {f"{folder}/dimm{n}/dimm_edac_mode": "S4ECD4ED"}
    facts = dimms.read(write_tree(tmp_path, files))
    assert facts["dimms"].value == [{"count": 2, "size_bytes": 16 << 30, "type": "Registered-DDR4"}]
    assert facts["ecc"].value is True
    assert facts["memory_errors"].value == {"corrected": 3, "uncorrected": 0}
    assert facts["memory_channels"].status == "absent"
