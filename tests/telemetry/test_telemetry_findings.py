from __future__ import annotations

from collections.abc import Sequence

import pytest

from suite.bundle.schema import Ablation, AnyEvent, Finding, Level, Telemetry
from suite.telemetry.findings import findings
from tests.telemetry.rows import clocked, planned, process, row, started


def rules(telemetry: Sequence[Telemetry], events: Sequence[AnyEvent] = ()) -> list[str]:
    return [finding.rule for finding in findings(telemetry, events)]


def only(telemetry: Sequence[Telemetry], events: Sequence[AnyEvent] = ()) -> Finding:
    (finding,) = findings(telemetry, events)
    return finding


def test_a_quiet_machine_has_no_findings() -> None:
    assert findings([*clocked([3000] * 4), *clocked([2900] * 4, 1, start_s=100)], []) == []


def test_nothing_readable_is_no_finding() -> None:
    assert findings([], []) == []
    assert findings([row(0, "before"), row(9, "after")], []) == []


def test_a_clock_under_nine_tenths_of_the_median_is_named() -> None:
    telemetry = [row for n in range(4) for row in clocked([2600 if n == 2 else 3000] * 4, n, start_s=100 * n)]
    found = only(telemetry)
    assert (found.rule, found.severity) == ("telemetry.clock-drop", "doubtful")
    assert found.claim == "The clock fell to 86.7 % of its median in 1 of 4 measuring processes."
    assert found.evidence[0] == (
        "matmul_add/64-fp32 process 2, 10:03:20 to 10:03:30 UTC: 2600 MHz, 86.7 % of its case's median of 3000 MHz"
    )
    assert "90 % of the median" in found.evidence[-1]


def test_a_clock_at_nine_tenths_is_not() -> None:
    assert rules([row for n in range(4) for row in clocked([2700 if n == 2 else 3000] * 4, n, start_s=100 * n)]) == []


def test_a_case_that_always_runs_at_a_lower_clock_is_not_a_drop() -> None:
    wide = [row for n in range(3) for row in clocked([2400] * 4, n, "matmul_add/1024-bf16", start_s=100 * n)]
    narrow = [row for n in range(5) for row in clocked([3400] * 4, n, "pointwise_chain/8x8-fp32", start_s=50 + 100 * n)]
    assert rules([*wide, *narrow]) == []


def test_too_few_processes_of_a_case_are_held_against_the_run() -> None:
    telemetry = [row for n in range(2) for row in clocked([3000] * 4, n, f"a/{n}", start_s=100 * n)]
    telemetry += clocked([2000] * 4, 0, "a/2", start_s=300)
    assert "66.7 % of the run's median" in only(telemetry).evidence[0]


def test_three_low_readings_in_a_row_are_a_drop_within_a_process_and_two_are_not() -> None:
    assert rules(clocked([3000, 3000, 3000, 3000, 2000, 2000, 3000])) == []
    found = only(clocked([3000, 3000, 3000, 3000, 2000, 2100, 2000, 3000]))
    assert "2000 MHz in 3 readings from 10:00:10 to 10:00:14 UTC" in found.evidence[0]


def test_the_clock_while_loading_and_compiling_does_not_count() -> None:
    telemetry = clocked([2000, 2000, 2000, 2000, 3000, 3000, 3000, 3000, 3000])
    assert rules(telemetry) == ["telemetry.clock-drop"]
    assert rules(telemetry, [planned(8.5)]) == []


def test_stolen_time_above_a_hundredth_is_named_with_the_worst_processes() -> None:
    stolen = [0.02, 0.05, 0.005, 0.03, 0.04]
    telemetry = [
        row
        for n, share in enumerate(stolen)
        for row in process(n, start_s=100 * n, cpu_steal_ticks=[[round(share * 200 * i)] * 2 for i in range(6)])
    ]
    found = only(telemetry)
    assert (found.rule, found.severity) == ("telemetry.steal", "doubtful")
    assert found.claim == "The hypervisor took up to 4.76 % of the CPU time of 4 of 5 measuring processes."
    assert [line[:28] for line in found.evidence[:3]] == [f"matmul_add/64-fp32 process {n}" for n in (1, 4, 3)]
    assert found.evidence[3] == "and 1 more"


def test_a_tick_or_two_is_no_proof_of_stolen_time() -> None:
    assert rules(process(readings=2, cpu_busy_ticks=[[0, 0], [100, 0]], cpu_steal_ticks=[[0, 0], [4, 0]])) == []


def test_stolen_time_of_a_profiling_process_is_not_held_against_the_run() -> None:
    telemetry = process(cpu_steal_ticks=[[100 * i] * 2 for i in range(6)], role=["profile"] * 6)
    assert rules(telemetry) == []


@pytest.mark.parametrize(("throttled", "severity"), [(50, "doubtful"), (0.1, "note")])
def test_a_quota_that_stopped_the_worker_is_a_finding_whose_weight_follows_its_share(
    throttled: float, severity: str
) -> None:
    found = only(
        process(
            throttled_us=[i * 50_000 for i in range(6)],
            quota_periods=[i * 1000 for i in range(6)],
            throttled_periods=[round(i * throttled * 10) for i in range(6)],
        )
    )
    assert (found.rule, found.severity) == ("telemetry.throttled", severity)
    assert "stopped for 0.25 s" in found.evidence[0]


def test_heat_is_a_finding_at_the_first_event() -> None:
    found = only(
        process(core_throttles=[5, 5, 6, 6, 6, 6], package_throttles=[1] * 6, temperature_c=[60, 70, 99, 90, 80, 70])
    )
    assert found.rule == "telemetry.thermal"
    assert "1 times in measured cores, 0 in their packages, at up to 99 °C" in found.evidence[0]


def test_memory_pressure_is_doubtful_and_waiting_for_io_alone_a_note() -> None:
    memory = only(process(pressure_memory_us=[i * 40_000 for i in range(6)]))
    assert (memory.rule, memory.severity) == ("telemetry.pressure", "doubtful")
    assert "stalled on memory 2 % of the time" in memory.evidence[0]
    assert only(process(pressure_io_us=[i * 200_000 for i in range(6)])).severity == "note"
    assert rules(process(pressure_io_us=[i * 80_000 for i in range(6)])) == []


def test_swapping_while_measuring_is_a_finding_and_before_it_is_not() -> None:
    telemetry = process(swap_in_bytes=[0, 4 << 20, 4 << 20, 4 << 20, 4 << 20, 4 << 20])
    assert rules(telemetry) == ["telemetry.swap"]
    assert rules(telemetry, [planned(3)]) == []


def test_busy_neighbours_are_named_with_what_the_worker_waited() -> None:
    used = [None, 3_600_000_000, 7_200_000_000, 10_800_000_000, 14_400_000_000, None]
    found = only(process(worker_cpu_ns=used, worker_waiting_ns=[None, 0, 0, 0, 1_600_000_000, None]))
    assert found.rule == "telemetry.busy-neighbours"
    assert (
        "10 %, 1.6 s of CPU time, went to others; the worker's threads waited 10 % of their time" in found.evidence[0]
    )


def test_migrations_count_against_a_pinned_worker_only() -> None:
    telemetry = process(worker_migrations=[None, 100, 200, 300, 400, None])
    found = only(telemetry, [started(["/usr/bin/numactl", "-C", "0-1", "python"])])
    assert (found.rule, found.severity) == ("telemetry.migrations", "note")
    assert "400 migrations, 50 a second" in found.evidence[0]
    assert rules(telemetry, [started(["python"])]) == []


def test_readings_on_a_measured_core_are_a_note_and_dear_ones_doubtful() -> None:
    shared = process(
        unreadable=[{"a core apart for telemetry": "absent: every allowed CPU is measured"}, *[{}] * 5], cost_ns=[1] * 6
    )
    assert (only(shared).rule, only(shared).severity) == ("telemetry.cost", "note")
    assert "every allowed CPU is measured" in only(shared).evidence
    assert only(process(cost_ns=[20_000_000] * 6)).severity == "doubtful"


def test_notes_come_last() -> None:
    telemetry = process(
        pressure_io_us=[i * 200_000 for i in range(6)],
        swap_in_bytes=[i << 20 for i in range(6)],
        cost_ns=[20_000_000] * 6,
    )
    assert [finding.severity for finding in findings(telemetry, [])] == ["doubtful", "doubtful", "note"]


def test_levels_of_an_ablation_are_not_held_against_each_other() -> None:
    clocks = [3000, 2400, 3000, 2400, 3000, 2400]
    telemetry = [row for n, clock in enumerate(clocks) for row in clocked([clock] * 4, n, start_s=100 * n)]
    levels = [Level(label=name, knobs=[], description="") for name in ("none", "all")]
    plan = Ablation(design="steps", levels=levels, order=[0, 1, 0, 1, 0, 1])
    assert rules(telemetry) == ["telemetry.clock-drop"]
    assert findings(telemetry, [], plan) == []
    lower = [
        row
        for n, clock in enumerate([3000, 2400, 2000, 2400, 3000, 2400])
        for row in clocked([clock] * 4, n, start_s=100 * n)
    ]
    assert "66.7 % of its case's median" in findings(lower, [], plan)[0].evidence[0]
