"""Traces without what names the machine."""

import gzip
import json
from pathlib import Path

import pytest

from suite.profiling.redaction import keep, without_names


def test_the_hosts_name_and_the_path_are_taken_out_and_nothing_else() -> None:
    trace = {
        "schemaVersion": 1,
        "host_name": 'lab"7',
        "traceEvents": [{"name": "aten::mm"}],
        "traceName": "/home/ada/t.json",
    }
    kept = json.loads(without_names(json.dumps(trace).encode()))
    assert kept == {**trace, "host_name": "", "traceName": "t.json"}


def test_a_trace_is_moved_whole(tmp_path: Path) -> None:
    written, kept = tmp_path / ".part.trace.json.gz", tmp_path / "trace.json.gz"
    written.write_bytes(gzip.compress(b'{"host_name": "lab-7", "traceEvents": []}'))
    keep(written, kept)
    assert json.loads(gzip.decompress(kept.read_bytes())) == {"host_name": "", "traceEvents": []}
    assert not written.exists()


def test_a_torn_trace_is_not_kept(tmp_path: Path) -> None:
    written = tmp_path / ".part"
    written.write_bytes(gzip.compress(b"{}" * 100)[:-6])
    with pytest.raises(Exception, match=r"."):
        keep(written, tmp_path / "trace.json.gz")
    assert not (tmp_path / "trace.json.gz").exists()
