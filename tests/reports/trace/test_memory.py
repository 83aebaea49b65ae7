"""A trace that does not fit in memory is refused before it is read, with what it needs; one that fits is not."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from reports.trace import memory
from reports.trace.analyse import analyse
from reports.trace.memory import BASE_BYTES, BYTES_PER_RAW_BYTE, check_memory
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import packed, save, two_steps

MIB = 1 << 20


def large(folder: Path, size: int, name: str = "large.json") -> Path:
    """A file of this size that takes no room."""
    path = folder / name
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def needed(raw: int) -> int:
    return int(BASE_BYTES + BYTES_PER_RAW_BYTE * raw)


def test_a_trace_that_does_not_fit_is_refused_with_the_memory_it_needs(tmp_path: Path) -> None:
    path = large(tmp_path, 1 << 30)
    with pytest.raises(TraceError, match=rf"needs about {needed(1 << 30) / 1e9:.1f} GB .* 0\.3 GB are free"):
        check_memory(path, 300 * 10**6)
    check_memory(path, needed(1 << 30) + 1)


def test_reading_asks_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, json.dumps(two_steps().document()))
    monkeypatch.setattr(memory, "available_memory", lambda: 50 * MIB)
    with pytest.raises(TraceError, match="needs about"):
        analyse(path)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert analyse(path).trace.status == "ok", "where nobody tells what is free, reading is tried"


def test_a_packed_trace_is_judged_by_what_it_unpacks_to(tmp_path: Path) -> None:
    chance = random.Random(2)
    dense = "".join(chance.choices("0123456789abcdef", k=8 * MIB)).encode()
    for name, raw in (("packs little", dense), ("packs well", dense[:100_000] * 80)):
        path = save(tmp_path, gzip.compress(raw, 1), f"{name}.json.gz")
        check_memory(path, int(needed(len(raw)) * 1.2))
        with pytest.raises(TraceError, match="needs about"):
            check_memory(path, int(needed(len(raw)) * 0.8))


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
