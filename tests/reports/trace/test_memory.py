"""A trace that does not fit in memory is refused before it is read, with what it needs; one that fits is not."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from reports.trace import memory
from reports.trace.analyse import analyse
from reports.trace.memory import BYTES_PER_FRAME, BYTES_PER_PIECE_BYTE, BYTES_PER_SLICE, check_memory, needed_bytes
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import packed, save, two_steps

MIB = 1 << 20


def text(slices: int, category: str = "cpu_op") -> bytes:
    """A trace of slices of one category, 100 bytes each."""
    event = f'{{"ph":"X","cat":"{category}","name":"a","pid":1,"tid":1,"ts":1.5,"dur":0.5'.encode()
    return b'{"traceEvents":[' + b",\n".join([event + b" " * (97 - len(event)) + b"}"] * slices) + b"]}"


def test_a_trace_that_does_not_fit_is_refused_with_the_memory_it_needs(tmp_path: Path) -> None:
    path = save(tmp_path, text(200_000))
    needed = needed_bytes(path)
    assert needed == pytest.approx(16 * MIB * BYTES_PER_PIECE_BYTE + 200_000 * BYTES_PER_SLICE, rel=0.01)
    with pytest.raises(TraceError, match=rf"needs about {needed / 1e9:.1f} GB .* 0\.1 GB are free"):
        check_memory(path, 100 * 10**6)
    check_memory(path, needed)


def test_frames_of_python_need_less_than_operators(tmp_path: Path) -> None:
    frames = needed_bytes(save(tmp_path, text(200_000, "python_function")))
    assert frames == pytest.approx(16 * MIB * BYTES_PER_PIECE_BYTE + 200_000 * BYTES_PER_FRAME, rel=0.02)


def test_a_gigabyte_is_refused_where_it_does_not_fit_before_it_is_read(tmp_path: Path) -> None:
    path = save(tmp_path, text(10_000))
    with path.open("r+b") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(TraceError, match=r"needs about 4\.6 GB of memory and 4\.0 GB are free"):
        check_memory(path, 4 * 10**9)


def test_a_small_trace_needs_little(tmp_path: Path) -> None:
    assert needed_bytes(save(tmp_path, json.dumps(two_steps().document()))) < 1 * MIB


def test_reading_asks_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, json.dumps(two_steps().document()))
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(TraceError, match="needs about"):
        analyse(path)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert analyse(path).trace.status == "ok", "where nobody tells what is free, reading is tried"


def test_a_packed_trace_is_judged_by_what_it_unpacks_to(tmp_path: Path) -> None:
    chance = random.Random(2)
    little = b'{"traceEvents":[' + b",".join(
        f'{{"ph":"X","name":"{chance.randbytes(40).hex()}"}}'.encode() for _ in range(40_000)
    )
    for name, raw in (("packs little", little), ("packs well", text(60_000)), ("is short", text(5))):
        plain = needed_bytes(save(tmp_path, raw, f"{name}.json"))
        assert needed_bytes(save(tmp_path, gzip.compress(raw, 1), f"{name}.json.gz")) == pytest.approx(plain, rel=0.02)


def test_members_of_a_packed_trace_are_judged_by_how_the_first_one_packs(tmp_path: Path) -> None:
    raw = text(60_000)
    members = b"".join(gzip.compress(raw[at : at + 500_000]) for at in range(0, len(raw), 500_000))
    plain = needed_bytes(save(tmp_path, raw, "plain.json"))
    assert needed_bytes(save(tmp_path, members, "members.json.gz")) == pytest.approx(plain, rel=0.2)


def test_a_packed_file_that_is_damaged_is_judged_too(tmp_path: Path) -> None:
    whole = packed(json.dumps(two_steps().document()))
    for data in (whole[:12], whole[:200], whole[:50] + b"\xff" * 100, b"\x1f\x8b"):
        check_memory(save(tmp_path, data), 1 << 40)


def test_what_is_free_is_at_most_the_machine_s(tmp_path: Path) -> None:
    import psutil

    free = memory.available_memory()
    assert free is not None and 0 <= free <= psutil.virtual_memory().total


def test_a_file_that_is_not_there_is_the_reader_s_to_refuse(tmp_path: Path) -> None:
    check_memory(tmp_path / "nothing", 0)
