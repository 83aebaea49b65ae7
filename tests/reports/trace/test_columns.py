"""Times become whole nanoseconds without loss, and what the profiler writes beside them is understood."""

from __future__ import annotations

import json
import random
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest

from reports.trace.columns import Resources
from tests.reports.trace.kineto import Recording, analysed, noted


def starts(folder: Path, times: list[str]) -> list[int]:
    """What is read of times given as text."""
    events = ",".join(
        f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":{number},"ts":{time},"dur":1}}'
        for number, time in enumerate(times)
    )
    return analysed(folder, f'{{"traceEvents":[{events}]}}').trace.slices.start.tolist()


def test_relative_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    chance = random.Random(11)
    times = [f"{chance.uniform(-1e6, 8e12):.3f}" for _ in range(2_000)]
    times = [time for time in times if abs(Decimal(time)) > 1][:1_000]
    assert starts(tmp_path, times) == [int(Decimal(time) * 1000) for time in times]


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_absolute_times_with_decimals_are_exact_where_a_double_is_not(digits: int, tmp_path: Path) -> None:
    chance = random.Random(12)
    times = [
        f"{1_775_078_550_000_000 + chance.randrange(10**9)}.{chance.randrange(1, 10**digits):0{digits}d}"
        for _ in range(500)
    ]
    exact = [int(Decimal(time) * 1000) for time in times]
    assert starts(tmp_path, times) == exact
    assert [round(float(time) * 1000) for time in times] != exact, "then doubles would do"


def test_absolute_times_are_exact_when_the_first_happens_to_be_whole(tmp_path: Path) -> None:
    times = ["1775078550000000", "1775078550000000.123", "1775078550000001.007"]
    assert starts(tmp_path, times) == [int(Decimal(time) * 1000) for time in times]


def test_absolute_times_are_exact_when_decimals_come_late(tmp_path: Path) -> None:
    times = [str(1_775_078_550_000_000 + number) for number in range(60_000)] + ["1775078550060001.123"]
    assert starts(tmp_path, times)[-1] == 1_775_078_550_060_001_123


def test_more_digits_than_nanoseconds_are_rounded(tmp_path: Path) -> None:
    times = ["100.0004", "100.00051", "0.12349999", "-5.0006", "1e2", "1.00001e5"]
    rounded = [int((Decimal(time) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN)) for time in times]
    assert starts(tmp_path, times) == rounded


def test_launch_configurations_are_read_and_what_is_no_number_is_not(tmp_path: Path) -> None:
    cases = [
        (
            {
                "grid": [8, 2, 1],
                "block": [256, 1, 1],
                "registers per thread": 64,
                "shared memory": 1024,
                "est. achieved occupancy %": 43,
            },
            Resources((8, 2, 1), (256, 1, 1), 64, 1024, 43.0),
        ),
        (
            {"grid": "8,2,1", "block": None, "registers per thread": "64", "shared memory": 10**400},
            Resources(None, None, 64),
        ),
        ({"grid": [8, "x"], "registers per thread": True, "est. achieved occupancy %": [1]}, Resources()),
    ]
    for args, expected in cases:
        recording = Recording()
        recording.launch("a", 10.5, 20.5, 30.5)
        recording.events[-1]["args"] |= args
        assert recording.analyse(tmp_path).kernels[0].resources == (expected,)


def test_bytes_of_a_copy_are_summed_and_absent_bytes_are_none(tmp_path: Path) -> None:
    for sizes, expected in (
        ((4096, 100), 4196.0),
        ((4096, None), 4096.0),
        ((None, None), None),
        (("4096", "x"), 4096.0),
    ):
        recording = Recording()
        for number, size in enumerate(sizes):
            recording.call("cudaMemcpyAsync", 10.5 + 50 * number, 15.5 + 50 * number)
            recording.work("Memcpy HtoD", 20.5 + 50 * number, 30.5 + 50 * number).update(cat="gpu_memcpy")
            recording.events[-1]["args"]["bytes"] = size
        assert recording.analyse(tmp_path).kernels[0].bytes == expected


def test_metadata_around_the_list_names_the_device_on_either_side(tmp_path: Path) -> None:
    recording = Recording()
    recording.launch("a", 10.5, 20.5, 30.5)
    document = recording.document()
    gpus = document.pop("deviceProperties")
    behind = json.dumps(document | {"deviceProperties": gpus})
    found = analysed(tmp_path, behind)
    assert noted(found) == {} and found.devices[0].model == "NVIDIA L4" and found.devices[0].memory_bytes == 23 << 30
    old = json.dumps({"computeProperties": gpus} | document)
    assert analysed(tmp_path, old).devices[0].model == "NVIDIA L4", "the key of 2021"
