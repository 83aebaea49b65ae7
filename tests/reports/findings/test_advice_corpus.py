"""Traces whose numbers are easy and whose meaning is not: what is right to say of each. Runs where TRACE_CORPUS names the corpus."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from reports.findings.contract import Verdict
from reports.findings.registry import findings
from reports.render.trace_words import headline, minute
from reports.trace.notes import TraceError
from tests.reports.trace import corpus

pytestmark = corpus.needed


@dataclass(frozen=True)
class Right:
    """What is right of one trace: the regime ("" where it is withheld), times in us (within 2 %), words that its minute or a claim holds,
    and words that its minute must not hold, whatever their case."""

    bound: str = ""
    busy: float | None = None
    idle: tuple[tuple[str, float], ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    devices: int = 1


LAUNCHES = ("larger batches", "torch.compile", "launches that cost nothing")
RIGHT = {
    "01-dataloader.json": Right("input-bound", 4500, (("data_loading", 54_000),), ("workers", "prefetch"), LAUNCHES),
    "02-lost-at-start.json": Right(
        "", 2400, (("lost_records", 2010),), ("20 of 50", "lower bound"), ("overhead-bound",)
    ),
    "03-step-collapse.json.gz": Right("", None, (), ("1,500 of 1,600",), ("96", "compute-bound")),
    "06-sub-us-skew.json": Right("host-bound", 5000, (("host_unrecorded", 92_472),), ("0.3", "not recorded"), LAUNCHES),
    "08-inf-bandwidth.json": Right("overhead-bound", 10),
    "11-rocm-copy-kernels.json": Right("memory-bound", 700, (), ("copies",), ("one kernel takes",)),
    "12-exposed-comm.json": Right("mixed", 38_000, (), ("47.4", "collectives"), ("names do not tell",)),
    "13-merged-ranks-same-device.json": Right("mixed", 25_000, (), (), ("100 %",), devices=2),
    "20-graph-2000.json.gz": Right("compute-bound", 10_000, (("between_queued", 1999), ("launch_latency", 50))),
    "22-overflow-within.json.gz": Right("mixed", 1_001_000, (), (), ("90",)),
    "25-two-documents.json": Right("overhead-bound", 10),
    "28-overlapping-steps.json": Right("host-bound", 110),
    "31-one-blocking-launch.json": Right(
        "unknown", 6250, (("start_up", 698_000),), ("start-up", "warm up", "89"), LAUNCHES
    ),
    "real/inc_amp.json.gz": Right("input-bound", 8476, (("data_loading", 131_000),), ("workers",), LAUNCHES),
    "real/kin_rn50_nw0_v181.json.gz": Right("mixed", 602_145, (("data_loading", 211_000),), ("workers",), LAUNCHES),
    "real/tl_h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz": Right(
        "input-bound", 158_433, (("data_loading", 217_000),), ("prepar",), ("overhead-bound", *LAUNCHES)
    ),
    "real/hta_df_index_resolver_df_index_resolver.json.gz": Right("mixed", 1_000_613, (), ("357 ms", "collectives")),
    "real/tl_inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz": Right(
        "compute-bound", 492_807, (("unknown", 493_244),), ("99.7",), ("2.00×", "overhead-bound")
    ),
    "real/par_linear_kineto.json.gz": Right("overhead-bound", 370_983, (("start_up", 990_000),), ("start-up",)),
    "real/hta_critical_path_cuda_event_sync_event_sync_trace.json.gz": Right("host-bound", 51, (("start_up", 2209),)),
    "real/pt_bs512.json.gz": Right("host-bound", 91_709, (("start_up", 631_000),), ("start-up",), LAUNCHES),
    "real/tl_inference_vllm_prefilldecode_piecewise_graph_execution.json.gz": Right(
        "compute-bound", 156_086, (), (), ("overhead-bound",)
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_said_of_a_trace_is_right(name: str) -> None:
    right, found = RIGHT[name], corpus.analysed(f"advice/{name}")
    rules = findings(found)
    told = " ".join([headline(found), *(text for _, text in minute(found, rules))]).lower().replace("\u00a0", " ")
    claims = " ".join(finding.outcome.claim.lower() for finding in rules)
    assert len(found.devices) == right.devices
    device, regime = found.devices[0], found.regimes[0]
    assert ("idle" in found.trace.withheld) is not bool(right.bound)
    assert regime.bound == right.bound or not right.bound
    assert right.busy is None or device.busy_us == pytest.approx(right.busy, rel=0.02)
    for cause, time in right.idle:
        assert device.idle_us[cause] == pytest.approx(time, rel=0.02), cause
    assert [words for words in right.says if words not in told + claims] == []
    assert [words for words in right.never if words.lower() in told] == []


@pytest.mark.parametrize(
    ("name", "words"), [("14-jax-xprof.json", "XProf"), ("15-memory-timeline.json", "none is an event")]
)
def test_what_is_no_trace_of_torch_is_refused(name: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        corpus.analysed(f"advice/{name}")


@pytest.mark.parametrize("name", ["29-sync-only.json", "real/hta_mtia_inference_trace_mtia_inference_rank_0.json.gz"])
def test_a_device_that_is_not_in_the_file_is_never_called_unused(name: str) -> None:
    found = corpus.analysed(f"advice/{name}")
    told = " ".join([headline(found), *(text for _, text in minute(found, findings(found)))])
    assert found.has_gpu and "Nothing ran" not in told and "Python" not in told


def test_findings_that_are_not_material_are_none() -> None:
    for name in ("real/pt_bs512.json.gz", "real/hta_critical_path_cuda_event_sync_event_sync_trace.json.gz"):
        found = findings(corpus.analysed(f"advice/{name}"))
        fired = {finding.rule.id for finding in found if finding.outcome.verdict is Verdict.FIRED}
        assert not fired & {"R14", "two-groups", "variance", "drift", "allocations"}


def test_kernels_with_known_names_have_a_class() -> None:
    found = corpus.analysed("advice/real/tl_inference_vllm_prefilldecode_piecewise_graph_execution.json.gz")
    assert found.regimes[0].shares["gemm"] > 0.7 and found.regimes[0].shares.get("unknown", 0) < 0.1
