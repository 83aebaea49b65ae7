"""Whatever a file holds, reading it ends with an analysis that is consistent, or with one sentence.

TRACE_FUZZ_EXAMPLES gives the number of examples of each test (default 150); with it, examples are new in every run.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.findings.registry import findings
from reports.trace import framing, source
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from tests.reports.trace.kineto import FORMATS, save, two_steps

EXAMPLES = os.environ.get("TRACE_FUZZ_EXAMPLES")
bounded = settings(
    max_examples=int(EXAMPLES or 150),
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def check(folder: Path, data: str | bytes) -> Analysis | None:
    """Reads the data as a trace and judges it; None when it was refused."""
    path = save(folder, data)
    try:
        found = analyse(path)
    except TraceError as refusal:
        words = str(refusal)
    else:
        words = ""
    if words:
        assert words.startswith(f"{path}: ") and "\n" not in words
        return None
    for finding in findings(found):
        assert finding.outcome.why
    consistent(found)
    return found


def consistent(found: Analysis) -> None:
    """What holds of every analysis."""
    finite(found)
    trace = found.trace
    assert (trace.status == "ok") == (trace.notes == ())
    assert all(note.count > 0 and note.effect for note in trace.notes)
    assert (trace.slices.duration >= 0).all()
    assert (trace.nesting.self_time >= 0).all()
    for gpu in found.devices:
        near = 1e-6 * max(1.0, gpu.window_us)
        assert -near <= gpu.busy_us <= gpu.span_us + near and gpu.span_us <= gpu.window_us + near
        assert sum(gpu.idle_us.values()) == pytest.approx(gpu.window_us - gpu.busy_us, abs=near)
        assert all(idle >= 0 for idle in gpu.idle_us.values())
        assert (gpu.idle.end > gpu.idle.start).all() and (gpu.idle.start[1:] >= gpu.idle.end[:-1]).all()
        assert 0 <= gpu.orphans <= gpu.slices == gpu.kernels + gpu.copies + gpu.sets
        assert 0 <= gpu.queue_depth_mean <= gpu.queue_depth_most
    for stats in found.operators:
        assert 0 <= stats.self_us <= stats.total_us * (1 + 1e-9) + 1e-6 or stats.count > 1, stats
    for kernel in found.kernels:
        assert 0 <= kernel.share <= 1 + 1e-9 and kernel.count == kernel.times_us.size
        assert kernel.least_us <= kernel.median_us <= kernel.most_us


def finite(value: Any, where: str = "") -> None:
    """No number anywhere in the record is NaN or infinite; what a trace does not say is None (or NaN bytes in the raw columns)."""
    if isinstance(value, float):
        assert math.isfinite(value) or where.endswith(".free_launches"), where
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not where.endswith("bytes"):
            assert np.isfinite(value).all(), where
    elif dataclasses.is_dataclass(value):
        for entry in dataclasses.fields(value):
            finite(getattr(value, entry.name), f"{where}.{entry.name}")
    elif isinstance(value, Mapping):
        if not where.endswith(".metadata"):
            for key, entry in value.items():
                finite(entry, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for entry in value:
            finite(entry, where)


texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "ProfilerStep#1",
            "ProfilerStep#" + "9" * 400,
            "cudaLaunchKernel",
            "cudaGraphLaunch",
            "gemm",
            "aten::mm",
            "\ud800",
            '}, {"ph"',
            "\x00",
        ]
    ),
)
numbers = st.one_of(
    st.integers(-10, 10),
    st.integers(0, 2000).map(lambda n: n / 8),
    st.sampled_from(
        [
            0,
            -0.0,
            1e-9,
            1e15,
            1.7e15,
            1.7e18,
            9.2e15,
            -9.2e15,
            9.3e15,
            1e300,
            -1e300,
            5e-324,
            2**53 + 1,
            2**63,
            -(2**63),
            2**64,
            10**40,
            math.inf,
            -math.inf,
            math.nan,
        ]
    ),
    st.floats(),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
categories = st.sampled_from(
    [
        "cpu_op",
        "user_annotation",
        "cuda_runtime",
        "kernel",
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "python_function",
        "overhead",
        "cuda_sync",
        "gpu_user_annotation",
        "Trace",
        "Kernel",
        "hip_runtime",
        "",
    ]
)
names = st.sampled_from(
    [
        "ProfilerStep#0",
        "ProfilerStep#1",
        "aten::mm",
        "aten::add",
        "aten::copy_",
        "cudaLaunchKernel",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaDeviceSynchronize",
        "sm80_gemm",
        "triton_poi_fused",
        "Memcpy DtoD (Device -> Device)",
        "Activity Buffer Request",
        "Torch-Compiled Region: 0/0",
        "cpp_fused_add_0",
    ]
)
ids = st.sampled_from([0, 1, 2, 3, 7, "1", 1.0, None, 2**70])


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual, and one time in ten anything."""
    return st.integers(0, 9).flatmap(lambda n: anything if n == 0 else usual)


times = st.one_of(st.integers(0, 400).map(lambda n: n / 4), st.integers(0, 100))
args = st.fixed_dictionaries(
    {},
    optional={
        "correlation": mostly(ids),
        "device": mostly(ids),
        "stream": mostly(ids),
        "bytes": mostly(numbers),
        "graph node id": mostly(ids),
        "grid": mostly(st.lists(st.integers(0, 70000), min_size=3, max_size=3)),
        "block": mostly(st.lists(st.integers(0, 1024), min_size=3, max_size=3)),
        "registers per thread": mostly(st.integers(0, 255)),
        "shared memory": mostly(st.integers(0, 200000)),
        "est. achieved occupancy %": mostly(st.integers(0, 100)),
        "Input Dims": mostly(st.just([[64, 64], [64, 64]])),
        "Input type": mostly(st.just(["float", "float"])),
        "External id": anything,
    },
)
events = st.fixed_dictionaries(
    {
        "ph": mostly(st.sampled_from("XXXXXXBEMisf")),
        "cat": mostly(categories),
        "name": mostly(names),
        "ts": mostly(times),
    },
    optional={"dur": mostly(times), "pid": mostly(ids), "tid": mostly(ids), "args": mostly(args)},
)
documents = st.fixed_dictionaries(
    {"traceEvents": st.lists(mostly(events), max_size=40)},
    optional={
        "deviceProperties": mostly(
            st.lists(
                mostly(st.fixed_dictionaries({"id": ids, "name": texts, "totalGlobalMem": numbers, "numSms": numbers})),
                max_size=3,
            )
        ),
        "x": anything,
    },
)


@bounded
@given(documents, st.sampled_from(list(FORMATS.values())))
def test_any_events_make_a_consistent_analysis(folder: Path, document: Any, layout: Any) -> None:
    check(folder, layout(document))


@bounded
@given(st.lists(mostly(events), max_size=12))
def test_a_recording_among_hostile_events_is_consistent(folder: Path, hostile: list[Any]) -> None:
    recording = two_steps()
    for number, event in enumerate(hostile):
        recording.events.insert(number * 5 % (len(recording.events) + 1), event)
    assert check(folder, json.dumps(recording.document())) is not None


@bounded
@given(anything)
def test_any_document_is_read_or_refused(folder: Path, document: Any) -> None:
    check(folder, json.dumps(document))


@cache
def valid(layout: str) -> bytes:
    return FORMATS[layout](two_steps().document(after=[{"id": 1}])).encode()


@st.composite
def mutated(draw: st.DrawFn, original: bytes, most: int = 4) -> bytes:
    """Bytes flipped, deleted, doubled, moved, replaced, put in; the end cut off."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.one_of(st.integers(0, 4), st.integers(0, 300)))
        kind = draw(st.sampled_from(["flip", "delete", "double", "splice", "insert", "cut", "zero"]))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "delete":
            del data[at : at + length]
        elif kind == "double":
            data[at:at] = data[at : at + length]
        elif kind == "splice":
            source_at = draw(st.integers(0, len(data)))
            data[at : at + length] = data[source_at : source_at + length]
        elif kind == "insert":
            data[at:at] = draw(
                st.one_of(
                    st.binary(max_size=6),
                    st.sampled_from(
                        [
                            b'"',
                            b"\\",
                            b"{",
                            b"}",
                            b"[",
                            b"]",
                            b",",
                            b'}, {"ph":',
                            b"NaN",
                            b"inf",
                            b"null,",
                            b"\x00",
                            b"]}",
                        ]
                    ),
                )
            )
        elif kind == "cut":
            del data[at:]
        elif kind == "zero":
            data[at : at + length] = bytes(min(length, len(data) - at))
    return bytes(data)


plain = st.sampled_from(list(FORMATS)).flatmap(lambda layout: mutated(valid(layout)))


@bounded
@given(plain, st.sampled_from([64, 500, 4 << 20]))
def test_damaged_bytes_are_read_or_refused(folder: Path, data: bytes, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "PIECE_BYTES", piece)
        patch.setattr(source, "PIECE_BYTES", piece)
        check(folder, data)


@bounded
@given(plain, st.data())
def test_damaged_gzip_is_read_or_refused(folder: Path, data: bytes, draw: st.DataObject) -> None:
    check(folder, draw.draw(mutated(gzip.compress(data, mtime=0), most=2)))


@bounded
@given(
    st.binary(max_size=300),
    st.sampled_from(
        [
            b"",
            b"[",
            b'{"traceEvents": [',
            b'{"traceEvents": [{"ph": "X",',
            b"\x1f\x8b\x08",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
        ]
    ),
)
def test_any_bytes_are_read_or_refused(folder: Path, data: bytes, start: bytes) -> None:
    check(folder, start + data)


@pytest.mark.parametrize(
    "deep",
    ["[" * 10_000, '{"a":' * 10_000, "[" * 10_000 + "]" * 10_000, '{"a":[' * 5_000 + "]}" * 5_000],
    ids=["lists", "objects", "closed lists", "closed objects"],
)
def test_ten_thousand_levels_are_read_or_refused(deep: str, folder: Path) -> None:
    text = json.dumps(two_steps().document(member="@"))
    check(folder, deep)
    check(folder, text.replace('"@"', deep))
    check(folder, '{"traceEvents": [' + deep + "]}")
    check(folder, text.replace('"External id": 1', f'"External id": {deep}', 1))
    check(folder, text.replace('"correlation": 1', f'"correlation": {deep}', 1))
