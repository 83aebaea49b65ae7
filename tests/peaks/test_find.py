"""A GPU's published peaks by the name that a driver gives it: found, told apart, or left unknown with a reason."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from suite.peaks import DTYPES, MODELS, Figure, NotKnown, Peaks, find

GIB = 1 << 30


def found(name: str, memory_bytes: int | None = None, multiprocessors: int | None = None) -> Peaks:
    peaks = find(name, memory_bytes, multiprocessors)
    assert isinstance(peaks, Peaks), peaks
    return peaks


def value(figure: Figure | NotKnown) -> float:
    assert isinstance(figure, Figure), figure
    return figure.value


@pytest.mark.parametrize(
    ("name", "memory_bytes", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", 85051572224, "A100 80 GB SXM"),
        ("A100-SXM4-40GB", None, "A100 40 GB"),
        ("NVIDIA A100 80GB PCIe", None, "A100 80 GB PCIe"),
        ("NVIDIA A100-PG509-200", 42297524224, "A100 40 GB"),
        ("NVIDIA A100-PG509-200", 85051572224, "A100 80 GB SXM"),
        ("NVIDIA H100 80GB HBM3", 85018279936, "H100 SXM5 80 GB"),
        ("NVIDIA H100 PCIe", None, "H100 PCIe 80 GB"),
        ("NVIDIA H200", 150754820096, "H200"),
        ("NVIDIA B200", 191503138816, "B200"),
        ("AMD Instinct MI300X", 206141652992, "MI300X"),
        ("AMD Instinct MI300X VF", 205571227648, "MI300X"),
        ("AMD Instinct MI250X", 68702699520, "MI250X"),
        ("NVIDIA GH200 480GB", 102005473280, "GH200 96 GB"),
        ("NVIDIA H100 NVL", 100485038080, "H100 NVL"),
        ("NVIDIA GB200", None, "GB200"),
        ("NVIDIA A30", 25343295488, "A30"),
        ("NVIDIA A10", 23609475072, "A10"),
        ("NVIDIA L4", None, "L4"),
        ("NVIDIA L40S", None, "L40S"),
        ("NVIDIA RTX A6000", None, "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", None, "RTX 6000 Ada"),
        ("NVIDIA GeForce RTX 4090", None, "GeForce RTX 4090"),
        ("Tesla T4", 15835660288, "T4"),
        ("Tesla V100-DGXS-32GB", 34084028416, "V100 SXM2 32 GB"),
        ("Tesla V100-PCIE-16GB", None, "V100 PCIe 16 GB"),
        ("AMD Instinct MI210", 68702699520, "MI210"),
        ("AMD Instinct MI300A", None, "MI300A"),
        ("AMD Instinct MI325X", None, "MI325X"),
        ("AMD Instinct MI355X", None, "MI355X"),
        ("  NVIDIA   H200 ", None, "H200"),
    ],
)
def test_a_drivers_name_finds_its_model(name: str, memory_bytes: int | None, model: str) -> None:
    assert found(name, memory_bytes).model == model


def test_a_name_of_two_sizes_gives_the_faster_and_says_so() -> None:
    peaks = found("NVIDIA A100-PG509-200")
    assert value(peaks.memory_bytes_per_s) == 2039e9
    assert peaks.note == "the name fits A100 40 GB and A100 80 GB SXM; these are the faster one's figures"
    assert found("NVIDIA A100-PG509-200", 42297524224).note == ""


def test_a_name_of_two_models_is_told_apart_by_its_compute_units() -> None:
    assert found("AMD Instinct MI250X / MI250", 68702699520, 104).model == "MI250"
    assert found("AMD Instinct MI250X / MI250", 68702699520, 110).model == "MI250X"
    assert "MI250 and MI250X" in found("AMD Instinct MI250X/MI250").note


@pytest.mark.parametrize(
    ("name", "memory_bytes", "multiprocessors", "said"),
    [
        ("", None, None, "has no name"),
        ("  ", None, None, "has no name"),
        ("AMD Radeon Graphics", 68702699520, 104, "no published peaks are on file for 'AMD Radeon Graphics'"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None, "no published peaks"),
        ("NVIDIA H100", None, None, "no published peaks"),
        ("NVIDIA GeForce RTX 3090 Ti", None, None, "no published peaks"),
        ("NVIDIA GeForce RTX 5090 D", None, None, "no published peaks"),
        ("NVIDIA H200", 71 * GIB, None, "71.0 GiB of memory is not a whole H200"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None, None, "is a MIG instance"),
        ("AMD Instinct MI300X", 24 * GIB, None, "24.0 GiB of memory is not a whole MI300X"),
        ("AMD Instinct MI300X", 192 * GIB, 38, "38 multiprocessors is not a whole MI300X"),
        ("NVIDIA A100-PG509-200", 64 * GIB, None, "is not a whole A100 40 GB or A100 80 GB SXM"),
    ],
)
def test_what_is_not_known_stays_unknown_and_says_why(
    name: str, memory_bytes: int | None, multiprocessors: int | None, said: str
) -> None:
    peaks = find(name, memory_bytes, multiprocessors)
    assert isinstance(peaks, NotKnown) and said in peaks.reason


def test_no_name_belongs_to_two_models_that_memory_and_units_cannot_tell_apart() -> None:
    for each in MODELS:
        for other in MODELS:
            if each.model < other.model and set(each.patterns) & set(other.patterns):
                assert (each.memory_bytes, each.multiprocessors) != (other.memory_bytes, other.multiprocessors)


@pytest.mark.parametrize("peaks", MODELS, ids=lambda peaks: peaks.model)
def test_figures_have_sources_and_stand_in_the_right_relation(peaks: Peaks) -> None:
    figures = [peaks.memory_bytes_per_s, peaks.l2_bytes, peaks.l3_bytes, peaks.multiprocessors, *peaks.flops.values()]
    assert all(each.source for each in figures if isinstance(each, Figure))
    assert all(each.reason for each in figures if isinstance(each, NotKnown))
    assert tuple(peaks.flops) == DTYPES
    known = {dtype: each.value for dtype, each in peaks.flops.items() if isinstance(each, Figure)}
    # Narrower numbers are never slower; a figure with sparsity would be twice what its neighbours allow.
    for wide, narrow in [("fp64", "fp32"), ("fp32", "tf32"), ("tf32", "bf16"), ("bf16", "fp16"), ("bf16", "fp8")]:
        if wide in known and narrow in known:
            assert known[wide] <= known[narrow] * 1.001, (wide, narrow)
    if "tf32" in known and "bf16" in known:
        assert known["bf16"] == pytest.approx(2 * known["tf32"], rel=0.02)
    if "fp8" in known:
        assert known["fp8"] == pytest.approx(2 * known["fp16"], rel=0.02)
    if isinstance(peaks.memory_bytes_per_s, Figure):
        # Units: memory is emptied in 10 to 120 ms by every GPU there is.
        assert 0.01 < peaks.memory_bytes / peaks.memory_bytes_per_s.value < 0.12


def test_the_walkthroughs_gpu() -> None:
    a100 = found("NVIDIA A100-SXM4-80GB")
    assert value(a100.flop_per_s("bf16")) == value(a100.flop_per_s("torch.float16")) == 312e12
    assert value(a100.flop_per_s("tf32")) == 156e12
    assert value(a100.flop_per_s("float32")) == 19.5e12
    assert value(a100.memory_bytes_per_s) == 2039e9
    assert (a100.cache_bytes, value(a100.multiprocessors)) == (40 << 20, 108)
    fp8, odd = a100.flop_per_s("fp8"), a100.flop_per_s("int4")
    assert isinstance(fp8, NotKnown) and "no FP8" in fp8.reason
    assert isinstance(odd, NotKnown) and "'int4'" in odd.reason


def test_the_infinity_cache_counts_as_cache() -> None:
    assert found("AMD Instinct MI300X").cache_bytes == (32 + 256) << 20


CORPUS = os.environ.get("TRACE_CORPUS")
UNKNOWN = {"", "AMD Radeon Graphics"}


def devices(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    start = text.find('"deviceProperties"')
    if start < 0:
        return []
    listed, _ = json.JSONDecoder().raw_decode(text[text.index("[", start) :])
    return list(listed)


@pytest.mark.skipif(not CORPUS, reason="TRACE_CORPUS names no folder")
def test_the_devices_of_published_traces_are_known_except_those_without_a_name_of_their_own() -> None:
    seen = {}
    for path in sorted(Path(CORPUS or "").glob("real/*.json*")):
        if path.stat().st_size < 4 << 20:
            for each in devices(path):
                seen[each["name"], each["totalGlobalMem"], each["numSms"]] = path.name
    assert len(seen) > 5
    unknown = {name for name, memory, units in seen if isinstance(find(name, memory, units), NotKnown)}
    assert unknown <= UNKNOWN, unknown
