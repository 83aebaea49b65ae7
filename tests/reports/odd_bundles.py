"""Made bundles, each odd in one way, for the test that a report does not contradict itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from suite.bundle import manifest, reader, schema
from suite.bundle.reader import Loaded
from tests import samples
from tests.reports.compare.bundles import arms, around
from tests.telemetry.rows import process as readings

FIRST, LAST = "matmul_add/64-fp32", "pointwise_chain/64x64-fp32"
"""The headline is of the last case."""

Make = Callable[[Path], Loaded]
ODD: dict[str, Make] = {}


def odd(make: Make) -> Make:
    """Register a bundle under the name of its function."""
    ODD[make.__name__.strip("_").replace("_", " ")] = make
    return make


def bundle(
    path: Path,
    last: Mapping[str, Sequence[float]] | None = None,
    first: Mapping[str, Sequence[float]] | None = None,
    **run: object,
) -> Loaded:
    """A bundle of two cases in which the first is settled; `last` are the times of the headline's case."""
    times = {FIRST: first or arms(2e6, 1e6), LAST: last or arms(3e6, 1.5e6, seed=7)}
    return reader.load(samples.write(path, times, changes={"publishable": True, **run}))


def changed(found: Loaded, **fields: Any) -> Loaded:
    """The bundle with other content in memory; its files stay as they are."""
    return msgspec.structs.replace(found, **fields)


def same(time_ns: float, count: int = 6) -> list[float]:
    return [time_ns] * count


def noisy_eager(spread: float, compiled: Sequence[float]) -> dict[str, list[float]]:
    """Eager against itself differs by `spread` up and down, so that the noise floor is that wide and one lies within."""
    eager = same(2e6)
    again = [time * (1 + spread if place % 2 else 1 / (1 + spread)) for place, time in enumerate(eager)]
    return {"eager": eager, "eager#2": again, "inductor": list(compiled)}


def states(found: Loaded, level: Callable[[int, int], float], per_process: int = 4) -> Loaded:
    """Readings whose triad runs at `level(process, reading)` GB/s, in both cases."""
    made = [
        schema.State(
            case=case,
            process=process,
            incarnation=0,
            before_block=reading,
            at_ns=samples.START_NS + (process * 100 + reading) * 1_000_000_000,
            triad_ns=round(1e9 / level(process, reading)),
            triad_bytes=10**9,
            gemm_ns=1_000_000,
            gemm_operations=2 * 64**3,
        )
        for case in (FIRST, LAST)
        for process in range(6)
        for reading in range(per_process)
    ]
    return changed(found, states=sorted(made, key=lambda state: state.at_ns))


def profiled(found: Loaded, eager_ns: float, compiled_ns: float) -> Loaded:
    """The headline's case with a profile of both arms, of these times a step."""
    made = {}
    for arm, step_ns in (("eager", eager_ns), ("inductor", compiled_ns)):
        row = schema.ProfileRow(name="aten::add", calls=2, self_cpu_ns=round(2 * step_ns), cpu_ns=round(2 * step_ns))
        cycle = schema.ProfileCycle(last_step=4, active_steps=2, trace="trace.json.gz", rows=[row])
        made[LAST, arm] = schema.Profile(
            case=LAST,
            arm=arm,
            schedule=schema.ProfilerSchedule(),
            sort_key="self",
            activities=["cpu"],
            kernel_profile=True,
            cycles=[cycle],
        )
    return changed(found, profiles=made)


def accuracy(found: Loaded, passed: bool = True, message: str = "", **error: Any) -> Loaded:
    """The headline's case with an accuracy check of its arm."""
    fields = {
        "name": "output", "shape": [64, 64], "dtype": "float32", "identical": False, "max_absolute_error": 3e-6,
        "max_relative_error": 1e-5, "root_mean_square_error": 2e-7, "baseline_root_mean_square_error": 1e-7,
    }  # fmt: skip
    output = schema.OutputError(**{**fields, **error})  # type: ignore[arg-type]
    check = schema.Accuracy(
        case=LAST, arm="inductor", passed=passed, rule="", tolerance=1e-4, outputs=[output], message=message
    )
    return changed(found, accuracies={(LAST, "inductor"): check})


def compiled(found: Loaded, seconds: float = 10.0) -> Loaded:
    """The headline's arm took so long to compile."""
    ready = schema.ArmReady(
        at=samples.AT, case=LAST, arm="inductor", process=0, incarnation=0, role="measure",
        first_call_ns=round(seconds * 1e9), compile_ns=round(seconds * 1e9), cache="cold",
    )  # fmt: skip
    return changed(found, events=[*found.events, ready])


def profiling_process(found: Loaded, neighbours: float) -> Loaded:
    """A profiling process of the headline's case of whose CPUs other programs took a share, and a quiet measuring one."""
    rows = []
    for role, share in (("profile", neighbours), ("measure", 0.0)):
        for place, row in enumerate(readings(0, LAST)):
            worker = None if row.worker_cpu_ns is None else round(row.worker_cpu_ns * (1 - share))
            rows.append(
                msgspec.structs.replace(
                    row,
                    role=role,
                    worker_cpu_ns=worker,
                    monotonic_ns=row.monotonic_ns + (role == "profile") * 10**12 + place,
                )
            )
    end = msgspec.structs.replace(samples.ended(LAST, 0), role="profile")
    return changed(found, telemetry=rows, events=[*found.events, end])


def blocks(found: Loaded, **fields: Any) -> Loaded:
    """The bundle whose blocks have other fields; a callable is asked for each."""
    made = [
        msgspec.structs.replace(block, **{k: v(block) if callable(v) else v for k, v in fields.items()})
        for block in found.blocks
    ]
    return changed(found, blocks=made)


# --- One oddity each ----------------------------------------------------------------------------------------------


@odd
def nothing_odd(path: Path) -> Loaded:
    return bundle(path)


@odd
def one_settled_among_undecided(path: Path) -> Loaded:
    return bundle(path, last=noisy_eager(0.02, around(1.99e6, spread=0.03)))


@odd
def nothing_settled(path: Path) -> Loaded:
    undecided = noisy_eager(0.02, around(1.99e6, spread=0.03))
    return bundle(path, last=undecided, first=undecided)


@odd
def headline_settled_and_others_not(path: Path) -> Loaded:
    return bundle(path, first=noisy_eager(0.02, around(1.99e6, spread=0.03)))


@odd
def slower_in_the_headline_and_faster_elsewhere(path: Path) -> Loaded:
    return bundle(path, last=arms(1e6, 2e6, seed=3))


@odd
def outside_the_floor_but_p_too_large(path: Path) -> Loaded:
    three = {"eager": same(2e6, 3), "eager#2": same(2e6, 3), "inductor": [1.5e6, 1.7e6, 1.6e6]}
    return bundle(path, last=three)


@odd
def within_a_floor_that_is_too_wide(path: Path) -> Loaded:
    return bundle(path, last=noisy_eager(0.3, around(1.9e6, spread=0.01)))


@odd
def across_a_wide_floor_with_a_large_p(path: Path) -> Loaded:
    return bundle(path, last=noisy_eager(0.1, around(1.8e6, spread=0.12)))


@odd
def equivalent(path: Path) -> Loaded:
    return bundle(path, last=noisy_eager(0.02, around(2e6, spread=0.003)))


@odd
def inconclusive_above_one_with_compile_time(path: Path) -> Loaded:
    three = {"eager": same(2e6, 3), "eager#2": same(2e6, 3), "inductor": [1.5e6, 1.7e6, 1.6e6]}
    return compiled(bundle(path, last=three))


@odd
def inconclusive_below_one_with_compile_time(path: Path) -> Loaded:
    return compiled(bundle(path, last=noisy_eager(0.05, around(2.1e6, spread=0.12))))


@odd
def faster_with_compile_time(path: Path) -> Loaded:
    return compiled(bundle(path))


@odd
def slower_with_compile_time(path: Path) -> Loaded:
    return compiled(bundle(path, last=arms(1e6, 2e6)))


@odd
def equal_code_that_differs_from_itself(path: Path) -> Loaded:
    eager = around(2e6)
    return bundle(
        path, last={"eager": eager, "eager#2": [1.05 * time for time in around(2e6, seed=4)], "inductor": around(1e6)}
    )


@odd
def no_test_of_eager_against_itself(path: Path) -> Loaded:
    times = {arm: values for arm, values in arms(3e6, 1.5e6).items() if arm != "eager#2"}
    plan = [arm for arm in samples.ARMS if arm.role != "noise"]
    return bundle(path, last=times, first=times, arms=plan)


@odd
def thousands_of_iterations(path: Path) -> Loaded:
    return blocks(bundle(path), iterations_ns=lambda block: block.iterations_ns * 40)


@odd
def iterations_that_are_groups_of_calls(path: Path) -> Loaded:
    return blocks(bundle(path), calls_per_iteration=lambda block: 2 + 4 * (block.process % 2))


@odd
def a_steady_machine(path: Path) -> Loaded:
    return states(bundle(path), lambda process, reading: 20.0)


@odd
def a_machine_that_swings_within_processes(path: Path) -> Loaded:
    return states(bundle(path), lambda process, reading: 14.0 if reading % 2 else 52.0)


@odd
def a_machine_that_differs_between_processes(path: Path) -> Loaded:
    return states(bundle(path), lambda process, reading: 20.0 if process % 2 else 24.0)


@odd
def a_machine_that_loses_its_bandwidth(path: Path) -> Loaded:
    return states(bundle(path), lambda process, reading: 20.0 if process < 3 else 8.0)


@odd
def few_readings(path: Path) -> Loaded:
    found = states(bundle(path), lambda process, reading: 20.0)
    return changed(found, states=found.states[:4])


@odd
def a_rate_above_the_triad(path: Path) -> Loaded:
    found = states(bundle(path), lambda process, reading: 20.0)
    cases = [
        msgspec.structs.replace(case, floating_point_operations=10**6, minimum_bytes=48_000_000)
        for case in found.run.cases
    ]
    return changed(found, run=msgspec.structs.replace(found.run, cases=cases))


@odd
def a_rate_below_the_triad(path: Path) -> Loaded:
    found = states(bundle(path), lambda process, reading: 20.0)
    cases = [
        msgspec.structs.replace(case, floating_point_operations=10**6, minimum_bytes=10**6) for case in found.run.cases
    ]
    return changed(found, run=msgspec.structs.replace(found.run, cases=cases))


@odd
def a_profile_like_the_timed_calls(path: Path) -> Loaded:
    return profiled(bundle(path), 3.1e6, 1.6e6)


@odd
def a_profile_far_from_the_timed_calls(path: Path) -> Loaded:
    return profiled(bundle(path), 21e6, 10.5e6)


@odd
def a_profile_in_which_the_arms_change_order(path: Path) -> Loaded:
    return profiled(bundle(path), 3e6, 4.5e6)


@odd
def a_disturbed_profile(path: Path) -> Loaded:
    return profiling_process(profiled(bundle(path), 3e6, 1.5e6), 0.48)


@odd
def an_undisturbed_profile(path: Path) -> Loaded:
    return profiling_process(profiled(bundle(path), 3e6, 1.5e6), 0.01)


@odd
def accuracy_within_its_tolerance(path: Path) -> Loaded:
    return accuracy(bundle(path))


@odd
def accuracy_to_the_bit(path: Path) -> Loaded:
    return accuracy(bundle(path), identical=True, max_absolute_error=0.0, max_relative_error=0.0)


@odd
def accuracy_that_failed(path: Path) -> Loaded:
    return accuracy(bundle(path), passed=False, message="output is off by 0.1", root_mean_square_error=0.1)


@odd
def an_output_that_cannot_be_compared(path: Path) -> Loaded:
    return accuracy(
        bundle(path), passed=False, message="output holds numbers that are not finite", max_absolute_error=-1.0,
        max_relative_error=-1.0, root_mean_square_error=-1.0, baseline_root_mean_square_error=-1.0,
    )  # fmt: skip


@odd
def a_file_that_was_changed(path: Path) -> Loaded:
    found = bundle(path)
    (path / "events.jsonl").write_bytes((path / "events.jsonl").read_bytes() + b"\n")
    return found


@odd
def files_that_are_rendered(path: Path) -> Loaded:
    found = bundle(path)
    for name in ("report.html", "report.pdf"):
        (path / name).write_text("rendered before")
    manifest.renew(path, ["report.html", "report.pdf"])
    return found


@odd
def no_checksums(path: Path) -> Loaded:
    found = bundle(path)
    (path / manifest.NAME).unlink()
    return found


@odd
def one_process(path: Path) -> Loaded:
    one = {arm: times[:1] for arm, times in arms(2e6, 1e6).items()}
    return bundle(path, last=one, first=one)


@odd
def an_arm_that_failed(path: Path) -> Loaded:
    found = bundle(path, last={arm: times for arm, times in arms(3e6, 1.5e6).items() if arm != "inductor"})
    failed = schema.ArmNotRun(
        at=samples.AT, case=LAST, arm="inductor", process=0, incarnation=0, reason="no C++ compiler"
    )
    return changed(found, events=[*found.events, failed])


@odd
def an_arm_that_never_came_to_rest(path: Path) -> Loaded:
    def drifting(block: schema.Block) -> list[int]:
        if block.case != LAST or block.arm != "inductor":
            return block.iterations_ns * 8
        last = block.block >= 4
        return [
            round(time * (0.5 if last and place >= 32 else 1)) for place, time in enumerate(block.iterations_ns * 8)
        ]

    return blocks(bundle(path), iterations_ns=drifting)


@odd
def a_run_that_is_not_publishable(path: Path) -> Loaded:
    return bundle(path, publishable=False, reasons=["not containerised"])
