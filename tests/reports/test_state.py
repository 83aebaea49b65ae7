"""When the machine changed under a run, and whether a ratio follows it."""

from pathlib import Path

import msgspec
import pytest

from reports.render.document import render_html
from reports.render.state_words import regime_sentences
from reports.state import Dependence, dependence, regimes
from suite.bundle import reader, schema
from suite.bundle.writer import STATE, append
from tests import samples

CASE = "pointwise_chain/16384x512-fp32"
PROCESSES, PAIRS, ARMS = 4, 10, ("eager", "eager#2", "inductor")


def bundle(path: Path, bandwidths: list[float], follows: float = 0.0) -> reader.Loaded:
    """A run whose memory bandwidth before pair i is `bandwidths[i]` (GB/s); the ratio's log follows its log by `follows`."""
    directory = samples.write(path / "run", {CASE: {arm: [] for arm in ARMS}})
    index = 0
    for process in range(PROCESSES):
        for pair in range(PAIRS):
            bandwidth, first = bandwidths[index], pair * 2 * len(ARMS)
            eager, compiled = 2e6, 1e6 * (bandwidth / 10) ** -follows * (1 + 0.001 * (index % 3))
            for position, arm in enumerate((*ARMS, *reversed(ARMS))):
                time = compiled if arm == "inductor" else eager
                block = samples.block(CASE, arm, process, first + position, time, pair=pair, position=position)
                append(directory / "samples.jsonl", block)
            state = schema.State(
                case=CASE,
                process=process,
                incarnation=0,
                before_block=first,
                at_ns=samples.START_NS + (process * 100 + first) * 1_000_000_000,
                triad_ns=round(1e9 / bandwidth),
                triad_bytes=10**9,
                gemm_ns=1_000_000,
                gemm_operations=10**8,
            )
            append(directory / STATE, state)
            index += 1
    return reader.load(directory)


COUNT = PROCESSES * PAIRS
CALM = [10.0 + 0.02 * (index % 5) for index in range(COUNT)]


def test_a_calm_machine_has_no_other_regime(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, CALM)
    assert regimes(loaded) == []
    html = render_html(loaded)
    assert "steady to within 10 %" in html and "No lasting stretch at another level" in html


def test_a_machine_that_loses_bandwidth_is_told_with_when_and_how_much(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, [value * (0.6 if index >= 28 else 1) for index, value in enumerate(CALM)])
    (found,) = regimes(loaded)
    assert found.reference == "memory bandwidth" and found.change == pytest.approx(-0.4, abs=0.01)
    assert (found.first_process, found.start_ns) == (2, loaded.states[28].at_ns)
    assert found.blocks > 60
    (sentence,) = regime_sentences([found])
    assert "40 % below the usual 10.0 GB/s" in sentence and "process 2" in sentence
    assert sentence in render_html(loaded)


def test_a_disturbance_of_half_the_run_is_not_taken_for_the_usual(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, [value * (0.5 if index >= 16 else 1) for index, value in enumerate(CALM)])
    (found,) = regimes(loaded)
    assert found.change == pytest.approx(-0.5, abs=0.01) and found.start_ns == loaded.states[16].at_ns


def test_a_change_of_less_than_a_tenth_is_not_another_regime(tmp_path: Path) -> None:
    assert regimes(bundle(tmp_path, [value * (0.95 if index >= 20 else 1) for index, value in enumerate(CALM)])) == []


def test_a_ratio_that_follows_the_bandwidth_is_called_dependent(tmp_path: Path) -> None:
    varying = [8.0 + 0.1 * index for index in range(COUNT)]
    found = dependence(bundle(tmp_path, varying, follows=0.5), CASE, "eager", "inductor")
    assert isinstance(found, Dependence) and found.depends
    assert found.slope == pytest.approx(0.5, abs=0.05) and found.pairs == COUNT


def test_a_ratio_that_does_not_follow_it_is_not(tmp_path: Path) -> None:
    varying = [8.0 + 0.1 * index for index in range(COUNT)]
    found = dependence(bundle(tmp_path, varying), CASE, "eager", "inductor")
    assert isinstance(found, Dependence) and not found.depends


def test_without_readings_there_is_a_reason(tmp_path: Path) -> None:
    loaded = reader.load(samples.write(tmp_path / "run", {CASE: {"eager": [2.0] * 3, "inductor": [1.0] * 3}}))
    assert dependence(loaded, CASE, "eager", "inductor") == "the machine-state reference was not read"
    assert "The machine-state reference was not read" in render_html(loaded)


def test_processes_that_differ_in_both_are_not_taken_for_a_dependence(tmp_path: Path) -> None:
    """Within every process the ratio knows nothing of the bandwidth; between processes both happen to rise."""
    within = [0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.25, -0.15, 0.05]
    loaded = bundle(tmp_path, [8.0 + process + within[pair] for process in range(PROCESSES) for pair in range(PAIRS)])
    lines = [msgspec.json.decode(line) for line in (loaded.path / "samples.jsonl").read_bytes().splitlines()]
    for line in lines:
        if line["arm"] == "inductor":
            line["iterations_ns"] = [round(value / (1 + 0.1 * line["process"])) for value in line["iterations_ns"]]
    (loaded.path / "samples.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    found = dependence(reader.load(loaded.path), CASE, "eager", "inductor")
    assert isinstance(found, Dependence) and not found.depends


def test_few_readings_cannot_tell(tmp_path: Path) -> None:
    loaded = bundle(tmp_path, CALM)
    few = (loaded.path / STATE).read_bytes().splitlines(keepends=True)[:6]
    (loaded.path / STATE).write_bytes(b"".join(few))
    assert "too few readings to tell whether the machine changed" in render_html(reader.load(loaded.path))
