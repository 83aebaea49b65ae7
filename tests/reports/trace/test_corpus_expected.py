"""The planted traces: every number within 0.1 %, every verdict as it should be. Runs where TRACE_CORPUS names the corpus."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reports.findings.contract import Verdict
from reports.findings.registry import RULES, findings
from reports.trace.analyse import Analysis
from reports.trace.kernels import KernelStats
from tests.reports.trace import corpus

pytestmark = corpus.needed

EXPECTED: dict[str, Any] = (
    json.loads((corpus.FOLDER / "expected.json").read_text()) if corpus.FOLDER.is_dir() else {"pairs": []}
)
TRACES = {name: entry for name, entry in EXPECTED.items() if name != "pairs"}


def gemm(found: Analysis) -> KernelStats:
    return next(stats for stats in found.kernels if stats.kernel_class == "gemm")


def copy(found: Analysis) -> KernelStats:
    return next(stats for stats in found.kernels if stats.kind == "memcpy")


def profiler_us(found: Analysis) -> float:
    slices = found.trace.slices
    named = [row for row in range(slices.start.size) if found.trace.name(row) == "Activity Buffer Request"]
    return float(slices.duration[named].sum()) / 1000


NUMBERS: dict[str, Callable[[Analysis], Any]] = {
    "busy_us": lambda found: found.devices[0].busy_us,
    "gpu_span_us": lambda found: found.devices[0].span_us,
    "window_us": lambda found: found.devices[0].window_us,
    "self_cpu_total_us": lambda found: found.host.self_cpu_total_us,
    "self_cuda_total_us": lambda found: sum(stats.total_us for stats in found.kernels),
    "gap_annotation_to_first_op_us": lambda found: [step.gap_us for step in found.steps],
    "first_launch_to_first_kernel_us": lambda found: found.devices[0].first_launch_to_first_kernel_us,
    "synchronize_us": lambda found: found.host.synchronize_us,
    "idle_of_window": lambda found: found.devices[0].idle_of_window,
    "kernels": lambda found: found.devices[0].kernels,
    "launches": lambda found: found.devices[0].launches,
    "queries": lambda found: found.host.queries,
    "regime": lambda found: found.regimes[0].bound,
    "activity_buffer_request_us": profiler_us,
    "gemm_us": lambda found: {
        "n": gemm(found).count,
        "mean": gemm(found).mean_us,
        "mean_of_first_5": gemm(found).first_mean_us,
        "median": gemm(found).median_us,
        "max": gemm(found).most_us,
    },
    "gemm_tflops_at_median": lambda found: (
        found.products[0].tflops(float(np.median(found.products[0].times_us))) if found.products else None
    ),
    "copy_bytes": lambda found: (copy(found).bytes or 0) / copy(found).count,
    "copy_us": lambda found: copy(found).median_us,
    "copy_read_plus_write_tb_s": lambda found: 2 * (copy(found).bytes or 0) / copy(found).total_us / 1e6,
}
"""Where each number of `expected.json` stands in an analysis."""


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, entry in TRACES.items() for number in entry["numbers"]]
)
def test_a_planted_number_is_found(name: str, number: str) -> None:
    expected = TRACES[name]["numbers"][number]
    found = NUMBERS[number](corpus.analysed(f"synthetic/{name}.json"))
    assert found == (expected if isinstance(expected, str | int) else pytest.approx(expected, rel=1e-3))


@pytest.mark.parametrize("name", TRACES)
def test_a_planted_trace_is_healthy(name: str) -> None:
    assert corpus.analysed(f"synthetic/{name}.json").trace.status == "ok"


@pytest.mark.skipif(not RULES, reason="there is no rule yet")
@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name, entry in TRACES.items() for rule in entry["rules"]])
def test_a_rule_gives_its_verdict(name: str, rule: str) -> None:
    by_id = {finding.rule.id: finding.outcome for finding in findings(corpus.analysed(f"synthetic/{name}.json"))}
    assert rule in by_id, "no rule has this id"
    assert by_id[rule].verdict == TRACES[name]["rules"][rule], by_id[rule].why


PAIRS = {f"{entry['eager']} and {entry['compiled']}": entry for entry in EXPECTED["pairs"]}


@pytest.mark.skipif(not RULES, reason="there is no rule yet")
@pytest.mark.parametrize("names", PAIRS)
def test_a_pair_of_traces_is_compared(names: str) -> None:
    entry = PAIRS[names]
    pair = importlib.import_module("reports.findings.pair")
    found = pair.compare(*(corpus.analysed(f"synthetic/{entry[arm]}.json") for arm in ("eager", "compiled")))
    numbers = {
        "cpu_step_ratio": found.cpu_step_ratio,
        "gpu_time_ratio": found.gpu_time_ratio,
        "eager_gpu_us_per_step": found.eager_gpu_us,
        "compiled_gpu_us_per_step": found.compiled_gpu_us,
    }
    assert numbers == pytest.approx(entry["numbers"], rel=1e-3)
    assert entry["rules"] == {"R25": found.outcome.verdict}
    assert found.outcome.verdict is Verdict.FIRED
    assert entry["fusion"].startswith(found.fusion)
    # The same GEMM kernel on both sides, the elementwise addition gone, one copy of 32 MiB more, nothing newly fused.
    assert [change.name for change in found.same_products] == [
        gemm(corpus.analysed(f"synthetic/{entry['eager']}.json")).name
    ]
    assert len(found.elementwise_gone) == 1 and "add" in found.elementwise_gone[0].name
    assert [copied.bytes for copied in found.copies_added] == [32 << 20]
    assert found.fused == ()
