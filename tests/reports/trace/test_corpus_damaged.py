"""The damaged traces: what `EXPECT.tsv` asks for each of them. Runs where TRACE_CORPUS names the corpus."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field

import numpy as np
import pytest

from reports.findings.contract import Verdict
from reports.findings.registry import RULES, findings
from reports.trace.analyse import Analysis, analyse
from reports.trace.notes import TraceError
from tests.reports.trace import corpus
from tests.reports.trace.kineto import noted

pytestmark = corpus.needed

SLICES = 31


@dataclass(frozen=True)
class Reaction:
    """What is expected of one damaged trace; the defaults are those of the trace that was damaged."""

    notes: dict[str, int] = field(default_factory=dict)
    withholds: frozenset[str] = frozenset()
    slices: int = SLICES
    busy: float | None = 23.104
    span: float | None = 25.984
    window: float = 2637.5
    kernels: int = 6
    orphans: int = 0
    delay: float | None = 2167.292


def mended(kind: str) -> Reaction:
    return Reaction({kind: 1})


WHOLE = Reaction()
NO_GPU = {"busy": None, "span": None, "kernels": 0, "delay": None}
ONE_LESS = {"slices": 30, "busy": 17.888, "span": 20.192, "kernels": 5, "delay": 2158.656}

REACTIONS: dict[str, Reaction | None] = {
    "inf_token.json": mended("non_finite"),
    "nan_token.json": mended("non_finite"),
    "unescaped_quote.json": mended("unescaped_quote"),
    "windows_backslash.json": mended("bad_escape"),
    "control_char.json": mended("control_character"),
    "non_utf8.json": mended("non_utf8"),
    "trailing_comma.json": mended("trailing_comma"),
    "truncated.json": Reaction({"truncated": 1}, frozenset({"window"}), 18, 7.776, 8.352, 2618.352, 2, 0, 2268.896),
    "truncated.json.gz": Reaction(
        {"truncated": 1, "gpu_activity_missing": 2}, frozenset({"window", "idle", "delay", "cause"}), 8, **NO_GPU
    ),
    "empty.json": None,
    "bom.json": WHOLE,
    "gzip_named_json.json": WHOLE,
    "metadata_only.json": Reaction(
        {"nothing_recorded": 1}, frozenset({"window", "idle", "delay", "cause"}), 0, **NO_GPU
    ),
    "no_device_properties.json": Reaction({"device_unknown": 1}, frozenset({"peak"})),
    "zero_timestamps.json": Reaction(
        {"zero_timestamps": 3}, frozenset({"idle"}), 28, 12.928, 14.08, kernels=3, delay=2217.792
    ),
    "duration_overflow.json": Reaction({"duration_overflow": 1}, busy=23.68),
    "negative_duration.json": Reaction({"negative_duration": 1}, frozenset({"idle"}), **ONE_LESS),
    "unfinished_op.json": Reaction({"unfinished": 1}, slices=30),
    "slice_without_duration.json": Reaction({"slice_without_duration": 1}, frozenset({"idle"}), **ONE_LESS),
    "absolute_integer_us.json": Reaction(
        {"whole_microseconds": SLICES},
        frozenset({"sub-microsecond"}),
        busy=22.888,
        span=25.528,
        window=2637.0,
        delay=2166.5,
    ),
    "kernel_before_launch.json": Reaction({"clock_skew": 1}, frozenset({"delay"}), span=2354.884, delay=2141.708),
    "no_flows.json": WHOLE,
    "orphan_kernels.json": Reaction({"orphan": 6}, frozenset({"delay", "cause"}), 25, orphans=6, delay=None),
    "graph_kernels_share_correlation.json": Reaction(delay=2320.0),
    "duplicate_external_id.json": WHOLE,
    "huge_ids.json": WHOLE,
    "host_pid_zero.json": WHOLE,
    "launches_without_kernels.json": Reaction(
        {"gpu_activity_missing": 6}, frozenset({"idle", "delay", "cause"}), 25, **NO_GPU
    ),
    "categories_of_2021.json": WHOLE,
    "reversed_order.json": WHOLE,
    "child_outlives_parent.json": mended("child_outlives_parent"),
}


def read(name: str) -> Analysis:
    return corpus.analysed(f"damaged/{name}")


def test_every_damaged_trace_has_its_reaction() -> None:
    with (corpus.FOLDER / "damaged" / "EXPECT.tsv").open() as stream:
        assert {row["file"] for row in csv.DictReader(stream, delimiter="\t")} == set(REACTIONS)


@pytest.mark.parametrize("name", [name for name, reaction in REACTIONS.items() if reaction])
def test_a_damaged_trace_is_read_as_far_as_it_is_true(name: str) -> None:
    reaction, found = REACTIONS[name], read(name)
    assert reaction
    assert noted(found) == reaction.notes
    assert found.trace.status == ("degraded" if reaction.notes else "ok")
    assert all(note.effect for note in found.trace.notes)
    assert found.trace.withheld == reaction.withholds
    assert found.trace.slices.start.size == reaction.slices
    assert len(found.devices) == (reaction.busy is not None)
    for gpu in found.devices:
        numbers = (gpu.busy_us, gpu.span_us, gpu.window_us)
        assert numbers == pytest.approx((reaction.busy, reaction.span, reaction.window), abs=1e-6)
        assert (gpu.kernels, gpu.orphans) == (reaction.kernels, reaction.orphans)
        assert (gpu.launch_delay_us and gpu.launch_delay_us.median) == pytest.approx(reaction.delay, abs=1e-6)


@pytest.mark.parametrize("name", [name for name, reaction in REACTIONS.items() if reaction])
def test_no_claim_stands_against_the_trace_s_health(name: str) -> None:
    found = read(name)
    for finding in findings(found):
        if finding.rule.needs & found.trace.withheld:
            assert finding.outcome.verdict in (Verdict.WITHHELD, Verdict.NOT_APPLICABLE), finding.rule.id


def test_an_empty_file_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match=r"empty\.json: is empty"):
        analyse(corpus.FOLDER / "damaged" / "empty.json")


def test_a_value_that_is_no_number_reaches_no_mean() -> None:
    for name in ("inf_token.json", "nan_token.json"):
        found = read(name)
        assert all(np.isfinite(stats.mean_us) and np.isfinite(stats.times_us).all() for stats in found.kernels)


def test_mended_names_stand_as_they_were_written() -> None:
    assert read("unescaped_quote.json").operator('{"device": "cpu", "dtype": "float32"}(12): run')
    assert read("windows_backslash.json").operator(r"torch\\cuda\\__init__.py(219): _lazy_init".replace("\\\\", "\\"))
    assert read("control_char.json").operator("aten::\x01mat\nmul")


def test_a_kernel_that_was_never_timed_does_not_move_the_span_s_start() -> None:
    healthy = corpus.analysed("synthetic/a100_64_bf16_cold_eager.json").devices[0].start_us
    assert read("zero_timestamps.json").devices[0].start_us == healthy


def test_clocks_apart_are_told_by_how_much() -> None:
    found = read("kernel_before_launch.json")
    assert "8.9 us" in next(note.effect for note in found.trace.notes if note.kind == "clock_skew")
    assert found.devices[0].launch_delay_us and found.devices[0].launch_delay_us.least == -8.9


def test_a_graph_is_one_launch_of_six_kernels() -> None:
    (gpu,) = read("graph_kernels_share_correlation.json").devices
    assert (gpu.launches, gpu.graph_launches, gpu.slices) == (1, 1, 6)
    assert gpu.launch_delay_us and gpu.launch_delay_us.n == 1


def test_missing_activity_is_never_an_idle_gpu() -> None:
    found = read("launches_without_kernels.json")
    assert found.devices == () and found.has_gpu and "NOT idle" in found.trace.notes[0].effect


@pytest.mark.skipif(not RULES, reason="there is no rule yet")
def test_an_unknown_device_withholds_what_needs_its_peak() -> None:
    needing = [finding for finding in findings(read("no_device_properties.json")) if "peak" in finding.rule.needs]
    assert all(finding.outcome.verdict is not Verdict.FIRED for finding in needing)


@pytest.mark.parametrize(
    "name", ["duplicate_external_id.json", "no_flows.json", "reversed_order.json", "huge_ids.json"]
)
def test_operators_nest_by_time_alone(name: str) -> None:
    healthy = corpus.analysed("synthetic/a100_64_bf16_cold_eager.json")
    assert read(name).operators == healthy.operators
    assert [step.gap_us for step in read(name).steps] == [step.gap_us for step in healthy.steps]


def test_an_unfinished_operation_is_not_summed() -> None:
    healthy = corpus.analysed("synthetic/a100_64_bf16_cold_eager.json").operator("aten::add")
    found = read("unfinished_op.json").operator("aten::add")
    assert healthy and found and found.count == healthy.count - 1 and 0 < found.total_us < healthy.total_us


def test_no_self_time_is_negative() -> None:
    for name, reaction in REACTIONS.items():
        if reaction:
            assert all(stats.self_us >= 0 for stats in read(name).operators), name
