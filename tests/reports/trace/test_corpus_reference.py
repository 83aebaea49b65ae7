"""Published traces against numbers that were computed plainly. Runs where TRACE_CORPUS names the corpus."""

from __future__ import annotations

import csv
import gzip
import json
import statistics
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

from tests.reports.trace import corpus

pytestmark = corpus.needed

CLOSE_US = 0.1

EXACT = "real/v100_ns_resolution.json.gz"
"""Times since 1970 with decimals: a double of that size counts in steps of a quarter of a microsecond."""


def reference() -> dict[str, dict[str, str]]:
    """What the reference prints of each file; empty for one without a GPU."""
    found: dict[str, dict[str, str]] = {}
    if not corpus.FOLDER.is_dir():
        return found
    with (corpus.FOLDER / "reference.tsv").open() as stream:
        for name, *cells in csv.reader(stream, delimiter="\t"):
            words = [cell.rsplit(" ", 1) for cell in cells]
            found[name.split(" ")[0]] = dict(pair for pair in words if len(pair) == 2)  # type: ignore[misc]
    return found


REFERENCE = reference()
WITH_GPU = [name for name, row in REFERENCE.items() if row]


def test_every_file_is_in_the_reference() -> None:
    files = {f"{kind}/{path.name}" for kind in ("real", "synthetic") for path in (corpus.FOLDER / kind).glob("*.json*")}
    assert files == set(REFERENCE)


@pytest.mark.parametrize("name", [name for name, row in REFERENCE.items() if not row])
def test_without_a_gpu_none_is_claimed(name: str) -> None:
    found = corpus.analysed(name)
    assert found.devices == () and not found.has_gpu and found.host.self_cpu_total_us > 0


@pytest.mark.parametrize("name", [name for name in WITH_GPU if name != EXACT])
def test_usage_is_the_reference_s(name: str) -> None:
    row = REFERENCE[name]
    (found,) = corpus.analysed(name).devices
    assert (found.device, found.slices, found.orphans) == (row["gpu"], int(row["slices"]), int(row["orphans"]))
    assert found.busy_us == pytest.approx(float(row["busy"]), abs=CLOSE_US)
    assert found.span_us == pytest.approx(float(row["span"]), abs=CLOSE_US)
    assert found.window_us == pytest.approx(float(row["window"]), abs=CLOSE_US)
    assert found.idle_of_span == pytest.approx(float(row["idle of span"]), abs=1e-4)
    assert found.idle_of_window == pytest.approx(float(row["idle of window"]), abs=1e-4)
    assert found.slice_delay_median_us == pytest.approx(float(row["launch delay median"]), abs=CLOSE_US)


@pytest.mark.parametrize("name", WITH_GPU)
def test_where_the_median_of_launches_differs_a_graph_is_why(name: str) -> None:
    (found,) = corpus.analysed(name).devices
    linked = found.slices - found.orphans
    launches = found.launch_delay_us.n if found.launch_delay_us else 0
    assert launches == found.launches and (launches < linked) == (found.graph_launches > 0)
    if found.graph_launches:
        # The slices of a graph after its first wait for each other, not for a launch: all of them together say more than the launch took.
        assert found.launch_delay_us and found.slice_delay_median_us
        assert found.launch_delay_us.median < found.slice_delay_median_us
    elif found.launch_delay_us:
        assert found.launch_delay_us.median == pytest.approx(found.slice_delay_median_us, abs=1e-6)


def covered(intervals: Iterable[tuple[Any, Any]]) -> Any:
    """Time that intervals cover, overlaps once, in the kind of number that they are given in."""
    ordered = sorted(intervals)
    total = reach = None
    for start, end in ordered:
        piece = end - start if reach is None else max(end - max(start, reach), end - end)
        total = piece if total is None else total + piece
        reach = end if reach is None else max(reach, end)
    return total


def exact(number: type) -> dict[str, Any]:
    """Busy, span, window and median delay of the trace with absolute times, computed in one kind of number."""
    raw = gzip.decompress((corpus.FOLDER / EXACT).read_bytes())
    events = json.loads(raw, parse_float=number)["traceEvents"]
    slices = [event for event in events if event.get("ph") == "X" and event.get("cat") in HOST | GPU]
    times = [(number(event["ts"]), number(event["ts"]) + number(event["dur"])) for event in slices]
    work = [pair for event, pair in zip(slices, times, strict=True) if event["cat"] in GPU]
    calls: dict[Any, Any] = {}
    for event, (start, _) in zip(slices, times, strict=True):
        if event["cat"] in CALLS and "correlation" in event["args"]:
            calls.setdefault(event["args"]["correlation"], start)
    delays = [
        start - calls[event["args"]["correlation"]]
        for event, (start, _) in zip(slices, times, strict=True)
        if event["cat"] in GPU and event["args"]["correlation"] in calls
    ]
    return {
        "busy": covered(work),
        "span": max(end for _, end in work) - min(start for start, _ in work),
        "window": max(end for _, end in times) - min(start for start, _ in times),
        "launch delay median": statistics.median(delays),
    }


CALLS = {"cuda_runtime", "cuda_driver"}
HOST = CALLS | {"cpu_op", "user_annotation"}
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def test_absolute_times_with_decimals_are_exact_where_doubles_are_not() -> None:
    (found,) = corpus.analysed(EXACT).devices
    right = exact(Decimal)
    ours = {
        "busy": found.busy_us,
        "span": found.span_us,
        "window": found.window_us,
        "launch delay median": found.slice_delay_median_us,
    }
    assert ours == pytest.approx({key: float(value) for key, value in right.items()}, abs=1e-6)
    # The reference's busy time is exact too; its other numbers, computed with doubles, differ by their rounding alone.
    doubles, row = exact(float), REFERENCE[EXACT]
    assert ours["busy"] == pytest.approx(float(row["busy"]), abs=1e-3)
    assert {key: doubles[key] for key in doubles if key != "busy"} == pytest.approx(
        {key: float(row[key]) for key in doubles if key != "busy"}, abs=1e-3
    )
    assert abs(float(doubles["busy"]) - float(right["busy"])) > CLOSE_US, "then doubles would do"
