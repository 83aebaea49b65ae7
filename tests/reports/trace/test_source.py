"""The file's bytes: told by content, unpacked as far as they go, refused by name when they are something else."""

from __future__ import annotations

import gzip
import json
import os
import random
import stat
import threading
import zlib
from pathlib import Path

import pytest

from reports.trace import framing, source
from reports.trace.analyse import analyse
from reports.trace.columns import Builder
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import WHOLE, analysed, noted, numbers, packed, save, two_steps


def text() -> str:
    return json.dumps(two_steps().document())


def long_text() -> str:
    """A trace that is larger than several pieces unpacked, and does not pack to nothing."""
    recording, chance = two_steps(), random.Random(5)
    for number in range(6_000):
        recording.op(f"op {chance.randbytes(600).hex()}", 130.5, 131.5, tid=number)
    return json.dumps(recording.document())


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace", "trace.txt"])
@pytest.mark.parametrize("data", [text().encode(), packed(text())], ids=["plain", "gzip"])
def test_content_decides_not_the_name(name: str, data: bytes, tmp_path: Path) -> None:
    found = analysed(tmp_path, data, name)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


@pytest.mark.parametrize("parts", [2, 3, 50])
def test_several_gzip_members_are_one_file(parts: int, tmp_path: Path) -> None:
    raw = text().encode()
    size = len(raw) // parts + 1
    data = b"".join(packed(raw[at : at + size]) for at in range(0, len(raw), size))
    found = analysed(tmp_path, data)
    assert found.trace.status == "ok" and numbers(found) == WHOLE


@pytest.mark.parametrize("padding", [b"\0" * 3, b"\0" * 70_000, b"garbage"], ids=["zeros", "many zeros", "garbage"])
def test_padding_behind_the_last_gzip_member_changes_no_number(padding: bytes, tmp_path: Path) -> None:
    assert numbers(analysed(tmp_path, packed(text()) + padding)) == WHOLE


def test_a_gzip_header_with_name_and_comment_is_read(tmp_path: Path) -> None:
    body = packed(text())
    data = body[:3] + bytes([0x08 | 0x10]) + body[4:10] + b"trace.json\0" + b"a comment\0" + body[10:]
    assert numbers(analysed(tmp_path, data)) == WHOLE


def test_a_wrong_checksum_is_said_and_what_was_unpacked_is_read(tmp_path: Path) -> None:
    data = bytearray(packed(text()))
    data[-8] ^= 0xFF
    found = analysed(tmp_path, bytes(data))
    assert numbers(found) == WHOLE
    assert noted(found) == {"truncated": 1} and found.trace.status == "degraded"


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_packed_file_that_was_cut_short_is_read_as_far_as_it_goes(share: float, tmp_path: Path) -> None:
    data = packed(long_text())
    found = analysed(tmp_path, data[: int(len(data) * share)])
    assert noted(found)["truncated"] == 1 and found.trace.status == "degraded"
    assert "window" in found.trace.withheld
    assert 0.9 * share * 6011 < found.trace.slices.start.size < 1.1 * share * 6011


def test_damage_in_the_middle_of_a_packed_file_keeps_what_is_before(tmp_path: Path) -> None:
    data = bytearray(packed(long_text()))
    middle = len(data) // 2
    data[middle : middle + 5_000] = b"\xff" * 5_000
    found = analysed(tmp_path, bytes(data))
    assert found.trace.status == "degraded" and "truncated" in noted(found)
    assert 2_900 < found.trace.slices.start.size < 3_200


def test_damage_in_a_later_gzip_member_keeps_the_members_before_and_its_own_beginning(tmp_path: Path) -> None:
    raw = long_text().encode()
    half = len(raw) // 2
    last = bytearray(packed(raw[half:]))
    last[-8] ^= 0xFF
    found = analysed(tmp_path, packed(raw[:half]) + b"\0" * 9 + bytes(last))
    assert noted(found) == {"truncated": 1}
    assert found.trace.slices.start.size == 6_011


def test_a_packed_file_cut_at_its_first_bytes_is_refused(tmp_path: Path) -> None:
    for size in (2, 5, 10, 12):
        with pytest.raises(TraceError):
            analysed(tmp_path, packed(text())[:size])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom"])
@pytest.mark.parametrize("size", [100, 4 << 20], ids=["small pieces", "whole"])
def test_what_editors_save_is_read(encoding: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PIECE_BYTES", size)
    recording = two_steps()
    recording.op("µ-op 模型 🙂", 130.5, 131.5, tid=9)
    words = json.dumps(recording.document(), ensure_ascii=False)
    if encoding.endswith("-bom"):
        words, encoding = "\ufeff" + words, encoding.removesuffix("-bom")
    data = words.encode(encoding)
    for found in (analysed(tmp_path, data), analysed(tmp_path, packed(data), "trace.json.gz")):
        assert found.trace.status == "ok" and numbers(found) == WHOLE
        assert found.operator("µ-op 模型 🙂")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04rest of an archive", "zip archive"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\x80\x04\x95rest", "pickle"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"%PDF-1.7", "PDF"),
        (b"\x7fELF\x02\x01", "not JSON"),
        (b"\x00" * 5000, "not JSON"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_other_kinds_of_file_are_named(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=words):
        analysed(tmp_path, data)


def test_a_path_that_cannot_be_read_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        analyse(tmp_path / "nothing.json")
    with pytest.raises(TraceError, match="is a directory"):
        analyse(tmp_path)
    with pytest.raises(TraceError, match="is empty"):
        analysed(tmp_path, b"")
    with pytest.raises(TraceError, match="cannot be read"):
        analyse(tmp_path / "trace.json" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = save(tmp_path, text())
    path.chmod(0)
    try:
        with pytest.raises(TraceError, match="cannot be read"):
            analyse(path)
    finally:
        path.chmod(stat.S_IRUSR)


def test_a_zlib_stream_is_not_taken_for_a_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not JSON"):
        analysed(tmp_path, zlib.compress(text().encode()))


def test_gzip_levels_and_stored_blocks_unpack_alike(tmp_path: Path) -> None:
    for level in (0, 1, 9):
        assert numbers(analysed(tmp_path, gzip.compress(text().encode(), level))) == WHOLE


@pytest.mark.parametrize("size", [1 << 12, (1 << 12) + 1, 4 << 20])
def test_text_that_packs_a_thousandfold_is_whole(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PIECE_BYTES", size)
    recording = two_steps()
    recording.op("x" * (9_000_000 if size > 1 << 20 else 200_000), 130.5, 131.5, tid=9)
    found = analysed(tmp_path, packed(json.dumps(recording.document())))
    assert found.trace.status == "ok" and numbers(found) == WHOLE


def test_an_interruption_leaves_no_thread_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A thread that still reads the file when the interpreter ends would abort it.
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(source, "PIECE_BYTES", 1000)
    monkeypatch.setattr(framing, "PIECE_BYTES", 1000)
    monkeypatch.setattr(Builder, "add", interrupt)
    before = threading.enumerate()
    with pytest.raises(KeyboardInterrupt) as held:
        analysed(tmp_path, packed(long_text()))
    assert held.value.__traceback__ and threading.enumerate() == before
