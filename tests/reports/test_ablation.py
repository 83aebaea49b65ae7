"""Ablations: levels compared between processes, by round."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.ablation import SPEEDUP, ablated
from reports.render import ablation as told
from reports.render.document import render, render_html
from suite.ablate import levels
from suite.bundle import manifest, reader, schema
from suite.bundle.writer import EVENTS, FINGERPRINT, RUN, Bundle, append
from suite.measure.schedule import slots
from suite.statistics.order import mirrored
from suite.statistics.ratio import Ratio
from tests import samples

CASE = "pointwise_chain/64x64-fp32"
ARMS = [arm for arm in samples.ARMS if arm.role != "noise"]
# Times in ms of (eager, inductor) by level: jemalloc is what matters, and it takes more from eager than from the compiled arm.
TIMES = {
    "none": (40.0, 10.0),
    "none again": (40.0, 10.0),
    "+libiomp5": (40.0, 10.0),
    "+jemalloc": (10.0, 4.0),
    "+KMP": (10.0, 4.0),
    "+numactl": (10.0, 4.0),
    "all": (9.0, 4.0),
}


def jitter(process: int, arm: int) -> float:
    """A spread of a few tenths of a percent, the same every time."""
    return 1 + 0.003 * math.sin(7.3 * process + 2.1 * arm)


def write(
    directory: Path,
    rounds: int = 4,
    drift: Callable[[int], float] = lambda process: 1.0,
    design: str = "steps",
    times: dict[str, tuple[float, float]] | None = None,
    **changes: object,
) -> Path:
    found = levels(design)  # type: ignore[arg-type]
    labels = [level.label for level in found]
    order = mirrored(labels, -(-rounds // 2), 0)[: rounds * len(labels)]
    plan = schema.Ablation(design=design, levels=found, order=[labels.index(label) for label in order])  # type: ignore[arg-type]
    bundle = Bundle(directory)
    directory.mkdir(parents=True)
    run = samples.run([samples.case(CASE)], ARMS, ablation=plan, **changes)
    bundle.document(RUN, run)
    bundle.document(FINGERPRINT, schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts={"cpu": {}}))
    for process, label in enumerate(order):
        eager, compiled = (times or TIMES)[label]
        for slot in slots(["eager", "inductor"], 2, process):
            arm = 0 if slot.arm == "eager" else 1
            time = (eager, compiled)[arm] * 1e6 * jitter(process, arm) * drift(process)
            bundle.block(
                samples.block(CASE, slot.arm, process, slot.block, time, pair=slot.pair, position=slot.position)
            )
        bundle.event(samples.ended(CASE, process))
    manifest.write(directory)
    return directory


def effects(path: Path) -> dict[tuple[str, str, str], tuple[float, str]]:
    """(level, arm, quantity) -> (ratio against none, verdict)."""
    (case,) = ablated(reader.load(path)).cases
    return {
        (level.level.label, *quantity): (effect.ratio.estimate, told.word(effect))
        for level in case.levels
        for quantity, effect in level.whole.items()
        if isinstance(effect.ratio, Ratio)
    }


def test_what_a_level_buys_is_measured_against_nothing_set(tmp_path: Path) -> None:
    found = effects(write(tmp_path / "run"))
    assert found["+jemalloc", "eager", "time"] == (pytest.approx(4.0, rel=0.01), "faster")
    assert found["+jemalloc", "inductor", "time"] == (pytest.approx(2.5, rel=0.01), "faster")
    assert found["+libiomp5", "eager", "time"] == (pytest.approx(1.0, rel=0.01), "equivalent")
    assert found["all", "eager", "time"] == (pytest.approx(40 / 9, rel=0.01), "faster")


def test_settings_change_the_answer_and_that_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    found = effects(write(tmp_path / "run"))
    # From 4.0 to 2.5 times as fast as eager.
    assert found["+jemalloc", "inductor", SPEEDUP] == (pytest.approx(2.5 / 4.0, rel=0.01), "smaller")
    assert found["+libiomp5", "inductor", SPEEDUP][1] == "the same"


def test_steps_multiply_to_the_whole(tmp_path: Path) -> None:
    (case,) = ablated(reader.load(write(tmp_path / "run"))).cases
    for quantity in case.quantities:
        steps = [level.step[quantity].ratio for level in case.levels if level.level.knobs]
        product = math.prod(step.estimate for step in steps if isinstance(step, Ratio))
        whole = case.levels[-1].whole[quantity].ratio
        assert isinstance(whole, Ratio)
        assert product == pytest.approx(whole.estimate)


def test_a_drift_over_the_run_cancels_between_mirrored_rounds(tmp_path: Path) -> None:
    steady, drifting = (
        effects(write(tmp_path / "a")),
        effects(write(tmp_path / "b", drift=lambda p: math.exp(0.02 * p))),
    )
    for key, (ratio, _) in steady.items():
        assert drifting[key][0] == pytest.approx(ratio, rel=1e-6), key


def test_the_noise_floor_is_nothing_set_against_itself(tmp_path: Path) -> None:
    times = {**TIMES, "none again": (44.0, 10.0)}
    (case,) = ablated(reader.load(write(tmp_path / "run", times=times))).cases
    assert case.floors["eager", "time"].delta == pytest.approx(0.1, abs=0.02)
    assert "processes with none against others with none" in case.floors["eager", "time"].source
    assert case.floors["inductor", "time"].delta == pytest.approx(0.01, abs=0.003)
    again = next(level for level in case.levels if level.level.label == "none again")
    assert again.whole["eager", "time"].verdict is None


def test_too_few_rounds_give_ratios_and_no_verdict(tmp_path: Path) -> None:
    found = effects(write(tmp_path / "run", rounds=1))
    assert found["+jemalloc", "eager", "time"] == (pytest.approx(4.0, rel=0.01), "no verdict")


def test_settings_alone_are_compared_with_none_and_have_no_steps(tmp_path: Path) -> None:
    alone = {level.label: (40.0, 10.0) for level in levels("alone")} | {
        "jemalloc alone": (10.0, 4.0),
        "all": (9.0, 4.0),
    }
    path = write(tmp_path / "run", design="alone", times=alone)
    found = effects(path)
    assert found["jemalloc alone", "eager", "time"][1] == "faster"
    assert found["libiomp5 + kmp alone", "eager", "time"][1] == "equivalent"
    (case,) = ablated(reader.load(path)).cases
    assert all(level.step == level.whole for level in case.levels)


def test_the_headline_says_what_all_settings_do_to_both_arms_and_to_the_speedup(tmp_path: Path) -> None:
    sentence = told.headline(ablated(reader.load(write(tmp_path / "run"))))
    assert "eager is 4.450× as fast" in sentence
    assert "torch.compile is 2.498× as fast" in sentence
    assert "shrinks from 4.007× to 2.249×" in sentence


def test_a_report_of_an_ablation_is_rendered_in_both_formats_and_the_same_every_time(tmp_path: Path) -> None:
    path = write(tmp_path / "run")
    html, pdf = render(path)
    first = html.read_bytes(), pdf.read_bytes()
    assert (render(path)[0].read_bytes(), pdf.read_bytes()) == first
    text = html.read_text()
    for level in levels("steps"):
        assert level.label in text
    assert "What each step adds" in text
    assert pdf.read_bytes().startswith(b"%PDF")


def test_an_ablation_that_was_interrupted_still_has_a_report(tmp_path: Path) -> None:
    path = write(tmp_path / "run", rounds=1)
    (path / "samples.jsonl").write_bytes(b"")
    html, _ = render(path)
    assert "was not measured" in html.read_text()


def test_a_container_is_held_against_the_host(tmp_path: Path) -> None:
    times = {"host": (10.0, 4.0), "host again": (10.0, 4.0), "container": (10.5, 4.0)}
    path = write(tmp_path / "run", design="container", times=times)
    found = effects(path)
    assert found["container", "eager", "time"] == (pytest.approx(10 / 10.5, rel=0.005), "slower")
    assert found["container", "inductor", "time"][1] == "equivalent"
    sentence = told.headline(ablated(reader.load(path)))
    assert "in a container against the host: eager is slower, at 0.952" in sentence
    text = render(path)[0].read_text()
    assert "What each step adds" not in text
    assert "what a container costs" in text


def test_an_arm_that_computes_something_else_gets_no_verdict_and_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "run")
    failed = schema.Accuracy(
        case=CASE, arm="inductor", passed=False, rule="r", tolerance=1e-4, outputs=[], message="off by 2"
    )
    Bundle(path).case_directory(CASE, "inductor")
    Bundle(path).document(f"cases/{CASE}/inductor/accuracy.json", failed)
    found = effects(path)
    assert found["+jemalloc", "inductor", "time"][1] == "no verdict"
    assert found["+jemalloc", "inductor", SPEEDUP][1] == "no verdict"
    assert found["+jemalloc", "eager", "time"][1] == "faster"
    assert "fails its accuracy check: off by 2" in render(path)[0].read_text()


def test_eager_is_reported_although_the_compiled_arm_did_not_run(tmp_path: Path) -> None:
    path = write(tmp_path / "run")
    rows = (path / "samples.jsonl").read_text().splitlines(keepends=True)
    (path / "samples.jsonl").write_text("".join(row for row in rows if '"arm":"inductor"' not in row))
    for process in range(28):
        append(
            path / EVENTS,
            schema.ArmNotRun(
                at=samples.AT, case=CASE, arm="inductor", process=process, incarnation=0, reason="no C++ compiler"
            ),
        )
    found = effects(path)
    assert found["+jemalloc", "eager", "time"][1] == "faster"
    text = render(path)[0].read_text()
    assert "inductor did not run: no C++ compiler" in text
    assert "was not measured (the run has not come to it)" not in text


def test_a_process_that_was_continued_to_a_good_end_leaves_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path / "run")
    append(path / EVENTS, samples.ended(CASE, 3, "interrupted", "stopped by the user"))
    (case,) = ablated(reader.load(path)).cases
    assert [level.trouble for level in case.levels] == [""] * len(case.levels)


def test_readings_of_an_ablation_are_not_searched_for_changes_of_the_machine(tmp_path: Path) -> None:
    path = write(tmp_path / "run")
    for number in range(28):
        slow = 2 if number >= 14 else 1
        state = schema.State(
            case=CASE, process=number, incarnation=0, before_block=0, at_ns=samples.START_NS + number * 10**9,
            triad_ns=10**7 * slow, triad_bytes=10**8, gemm_ns=10**6, gemm_operations=10**8,
        )  # fmt: skip
        append(path / "state.jsonl", state)
    assert "no change is looked for" in render(path)[0].read_text()


def test_an_ablation_that_was_changed_after_sealing_claims_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "run", publishable=True)
    assert 'class="verdict faster"' in (html := render_html(reader.load(path))) and "every run rule is met" in html
    (path / "added.txt").write_text("x")
    html = render_html(reader.load(path))
    assert 'class="verdict faster"' not in html and "every run rule is met" not in html
    assert "without a verdict" in html.split("<h1>")[1].split("</h1>")[0]
