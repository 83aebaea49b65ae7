"""Traces that are odd in one way each: what is said of one in several places agrees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.export.analysis import document
from reports.findings.contract import Verdict
from reports.findings.idle_time import WORDS
from reports.findings.registry import findings
from reports.render.terminal import shown_summary
from reports.render.timeline import timeline
from reports.render.timeline_lanes import CAUSE_NAMES
from reports.render.trace_tables import tables
from reports.render.trace_words import bound_sentence, headline, minute
from reports.trace.analyse import Analysis
from reports.trace.gaps import Cause
from tests.reports.trace.kineto import Recording, analysed, two_steps

GEMM, ADD, NCCL = "sm80_xmma_gemm_bf16", "vectorized_elementwise_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def looped(
    gap: float = 100,
    work: float = 50,
    kernel: str = GEMM,
    count: int = 60,
    within: tuple[str, str] | None = None,
    stream: int = 7,
) -> Recording:
    """Launches of one kernel of `work` us each, `gap` us apart; before each, where `within` gives one, a slice of (category, name)."""
    recording = Recording()
    for number in range(count):
        at = 0.5 + gap * number
        if within:
            recording.add(within[0], within[1], at, at + gap - 40)
        recording.op("aten::mm", at + gap - 30, at + gap - 1)
        recording.launch(kernel, at + gap - 20, at + gap - 10, at + gap - 10 + work, stream=stream)
    return recording


def changed(recording: Recording, change: Callable[[Recording], object]) -> Recording:
    change(recording)
    return recording


def without(recording: Recording, *names: str, every: int = 1) -> Recording:
    """Without the GPU slices of these names, but for all but each `every`th."""
    seen = 0
    kept = []
    for event in recording.events:
        if event["name"] in names and "stream" in event.get("args", {}):
            seen += 1
            if seen % every == 0:
                continue
        kept.append(event)
    recording.events = kept
    return recording


def compiled(recording: Recording) -> Recording:
    last = max(event["ts"] + event["dur"] for event in recording.events)
    recording.note("Torch-Compiled Region: 0/0", 0.4, last)
    return recording


ODD: dict[str, Recording] = {
    "two steps": two_steps(),
    "small kernels": looped(),
    "one kernel after the other": looped(gap=60, work=59.5),
    "memory traffic": looped(gap=60, work=59, kernel=ADD),
    "half and half": looped(gap=100, work=60),
    "names that tell nothing": looped(gap=60, work=59, kernel="mystery"),
    "a data loader": looped(
        gap=2000, within=("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    ),
    "python": looped(gap=2000, within=("python_function", "train.py(3): log")),
    "allocations": looped(gap=2000, within=("cuda_runtime", "cudaMalloc")),
    "long waits": looped(gap=4000, within=("cuda_runtime", "cudaStreamSynchronize")),
    "nothing of the host": looped(gap=2000),
    "operators on the CPU": looped(gap=2000, within=("cpu_op", "aten::sort")),
    "optimizer": looped(gap=300, within=("user_annotation", "Optimizer.step#Adam.step")),
    "collectives alone": looped(gap=60, work=59, kernel=NCCL, stream=13),
    "compiled, small kernels": compiled(looped()),
    "start-up": changed(
        looped(), lambda r: r.call("cudaLaunchKernel", 7000.5, 907_000.5) and r.work(GEMM, 907_010.5, 907_060.5)
    ),
    "lost in the middle": without(looped(), GEMM, every=3),
    "one lost at the end": changed(looped(), lambda r: r.call("cudaLaunchKernel", 6000.5, 6005.5)),
    "all lost": without(looped(), GEMM),
    "waits only": changed(Recording(), lambda r: r.call("cudaDeviceSynchronize", 0.5, 50_000.5)),
    "another device": changed(
        Recording(devices=[]), lambda r: (r.op("aten::mm", 0.5, 9.5), r.add("hpu_op", "x", 1.5, 8.5))
    ),
    "orphans": changed(
        looped(),
        lambda r: [e["args"].update(correlation=9000 + n) for n, e in enumerate(r.events) if e["name"] == GEMM],
    ),
    "clocks apart": changed(looped(), lambda r: [e.update(ts=e["ts"] - 500) for e in r.events if e["name"] == GEMM]),
    "no name of the device": changed(looped(), lambda r: r.devices.clear()),
    "whole microseconds": changed(looped(), lambda r: [e.update(ts=int(e["ts"]), dur=int(e["dur"])) for e in r.events]),
    "an endless slice": changed(looped(), lambda r: next(e for e in r.events if e["name"] == GEMM).update(dur=3000.0)),
    "capture": changed(
        looped(),
        lambda r: (
            r.call("cudaStreamBeginCapture", 7000.5, 7001.5),
            r.call("cudaStreamEndCapture", 90_000.5, 90_001.5),
        ),
    ),
    "cpu alone": changed(
        Recording(devices=[]), lambda r: [r.op("aten::mm", 10.5 * n, 10.5 * n + 9) for n in range(20)]
    ),
    "nothing": Recording(),
}


@pytest.fixture(params=ODD, name="odd")
def _odd(request: pytest.FixtureRequest, tmp_path: Path) -> Analysis:
    return analysed(tmp_path, json.dumps(ODD[request.param].document()))


def told(odd: Analysis) -> str:
    return " ".join([headline(odd), *(text for _, text in minute(odd, findings(odd)))]).replace("\u00a0", " ")


def test_the_headline_the_rules_and_the_json_name_one_regime(odd: Analysis) -> None:
    fired = {finding.rule.id for finding in findings(odd) if finding.outcome.verdict is Verdict.FIRED}
    assert not {"R1", "R2"} <= fired
    devices = document(odd, findings(odd))["devices"]
    if not devices:
        assert not re.search(r"GPU (is idle|works)", told(odd)) and not fired & {"R1", "R2", "idle", "R3"}
        return
    regime = odd.regimes[0]
    head = headline(odd)
    if "idle" in odd.trace.withheld:
        assert devices[0]["regime"] is None and "cannot be told" in head and not fired & {"R1", "R2", "idle"}
    elif "cause" in odd.trace.withheld and regime.counted_busy < 0.5:
        assert "cannot be told" in head and not fired & {"R1", "idle"}
    elif not head.startswith("Mostly"):
        assert head.startswith("Bound by the GPU" if regime.bound == "unknown" else regime.bound.capitalize())
        assert ("R1" in fired) == (regime.bound == "overhead-bound")
        assert not ("R2" in fired and "idle for" in head)


def test_idle_time_adds_up_wherever_it_is_told(odd: Analysis) -> None:
    idle = next((finding.outcome for finding in findings(odd) if finding.rule.id == "idle"), None)
    for device in odd.devices:
        assert sum(device.idle_us.values()) == pytest.approx(device.window_us - device.busy_us)
    if idle is None or idle.verdict is not Verdict.FIRED:
        return
    (device,) = odd.devices
    largest = max(Cause, key=device.idle_of)
    assert WORDS[largest] in idle.claim and WORDS[largest] in told(odd)
    shown = timeline(odd).svg.replace("\u00a0", " ")
    assert CAUSE_NAMES[largest] in shown
    table = next(table for table in tables(odd) if table.title == "Idle time by cause")
    assert {row[0].text for row in table.rows} == {
        cause.value.replace("_", " ") for cause in Cause if device.idle_of(cause)
    }


def test_nothing_is_advised_that_the_program_does_already_or_that_does_not_cost(odd: Analysis) -> None:
    text = told(odd)
    if odd.trace.path and any("Compiled" in name for name in odd.trace.slices.names):
        assert "torch.compile fuses" not in text and "fuse operators" not in text
    for device, regime in zip(odd.devices, odd.regimes, strict=True):
        unwithheld = not odd.trace.withheld & {"idle", "cause"}
        if unwithheld and regime.counted_busy < 0.5 and regime.bound not in ("overhead-bound", "mixed"):
            assert "larger batches" not in text and "Launches that cost nothing" not in text
        counted = device.window_us - device.idle_of(*device.not_counted)
        assert regime.counted_us == pytest.approx(counted) and regime.counted_busy <= 1 + 1e-9
        assert regime.free_launches >= 1 and regime.twice_as_fast_kernels >= 1


def test_the_terminal_says_what_the_page_says(odd: Analysis) -> None:
    shown = "".join(shown_summary(odd, findings(odd), None).split())
    said = "".join(bound_sentence(odd).split())
    assert said[:50] in shown


def test_missing_work_is_never_called_absent(odd: Analysis) -> None:
    assert "Nothing ran" not in told(odd)
    if odd.has_gpu:
        assert "On the CPU:" not in headline(odd)
