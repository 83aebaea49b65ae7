from __future__ import annotations

import pytest

from suite.bundle import readings
from suite.bundle.schema import Telemetry
from tests.telemetry.rows import clocked, planned, process, row


def only(rows: list[Telemetry], *events: object) -> readings.Span:
    (span,) = readings.spans(rows, events)  # type: ignore[arg-type]
    return span


def test_a_process_is_judged_from_the_last_reading_before_it_measured() -> None:
    swapped = process(swap_in_bytes=[0, 9 << 20, 9 << 20, 9 << 20, 9 << 20, 9 << 20])
    span = only(swapped, planned(3.5))
    assert (span.start[-7:], span.seconds, span.swap_bytes, span.measured_only) == ("02.000Z", 8.0, 0, True)
    assert only(swapped).swap_bytes == 9 << 20


def test_a_process_that_ended_before_it_measured_is_judged_as_a_whole() -> None:
    assert only(process(), planned(99)).seconds == 10


def test_a_continued_process_is_judged_as_a_whole() -> None:
    rows = process(start_s=100)
    assert only(rows, planned(3)).seconds == 10


def test_a_single_reading_tells_nothing() -> None:
    assert readings.spans([row(1, "before")], []) == []


def test_stolen_time_is_a_share_of_what_was_asked_for() -> None:
    idle = [[0, 800 * (i > 0)] for i in range(6)]
    busy = [[180 * i, 0] for i in range(6)]
    steal = [[20 * i, 0] for i in range(6)]
    span = only(process(cpu_busy_ticks=busy, cpu_idle_ticks=idle, cpu_steal_ticks=steal))
    assert (span.stolen, span.stolen_s) == (0.1, 1.0)
    assert span.busy == pytest.approx(900 / 1800)


def test_a_bundle_that_knows_only_the_sum_of_all_cpus_is_still_read() -> None:
    old = [
        row(s, m, cpus="", steal_ticks=s * 2, busy_ticks=s * 98, idle_ticks=s * 100)
        for s, m in ((0, "before"), (10, "after"))
    ]
    span = only(old)
    assert (span.stolen, span.busy) == (0.02, 0.49)
    assert (span.clocks, span.neighbours, span.migrations) == ((), None, None)


def test_less_than_a_second_tells_no_share() -> None:
    short = [
        row(s, m, cpu_busy_ticks=[int(s * 100)], cpu_idle_ticks=[0], cpu_steal_ticks=[0])
        for s, m in ((0, "before"), (0.5, "after"))
    ]
    assert (only(short).stolen, only(short).busy) == (None, None)


def test_the_clock_counts_only_where_a_cpu_was_busy() -> None:
    rows = process(
        clocks_mhz=[[3000.0, 800.0]] * 6, clock_source=["cpufreq"] * 6, cpu_busy_ticks=[[200 * i, i] for i in range(6)]
    )
    assert only(rows).clock_mhz == 3000


def test_the_clock_of_one_core_compiling_is_not_that_of_all_at_work() -> None:
    busy = [[0, 0], [200, 0], [400, 0], [600, 200], [800, 400], [1000, 600]]
    clocks = [[0.0, 0.0], [3800.0, 3800.0], [3800.0, 3800.0], [3100.0, 3100.0], [3100.0, 3100.0], [800.0, 800.0]]
    rows = process(clocks_mhz=clocks, clock_source=["cpufreq"] * 6, cpu_busy_ticks=busy)
    assert [clock for _, clock in only(rows).clocks] == [3100, 3100]


def test_a_constant_clock_is_no_clock() -> None:
    rows = process(clocks_mhz=[[2445.4, 2445.4]] * 6, clock_source=["hypervisor"] * 6)
    assert only(rows).clock_mhz is None


def test_the_least_clock_is_told_with_its_time() -> None:
    assert only(clocked([3000, 2500, 3000])).least_clock == ("2026-03-01T10:00:04.000Z", 2500)


def test_neighbours_are_what_the_worker_and_its_children_did_not_use() -> None:
    used = [None, 3_000_000_000, 6_000_000_000, 9_000_000_000, 12_000_000_000, None]
    span = only(process(worker_cpu_ns=used))
    assert (span.neighbours, span.neighbours_s) == (0.25, 4.0)


def test_neighbours_are_those_of_the_stretch_in_which_the_worker_measured() -> None:
    used = [None, 1_000_000_000, 4_000_000_000, 7_000_000_000, 10_000_000_000, None]
    assert only(process(worker_cpu_ns=used)).neighbours_s == 6.0
    assert only(process(worker_cpu_ns=used), planned(2.5)).neighbours_s == 3.0


def test_neighbours_are_unknown_without_the_workers_cpu_time() -> None:
    assert only(process(worker_cpu_ns=[None] * 6)).neighbours is None


def test_a_workers_counters_start_at_nothing_before_it() -> None:
    rows = process(worker_migrations=[None, 10, 10, 10, 16, None], worker_involuntary_switches=[None, 1, 2, 3, 4, None])
    assert only(rows).migrations == 16
    assert only(rows, planned(2.5)).migrations == 6
    assert only(rows).involuntary_per_s == 0.5


def test_waiting_is_a_share_of_the_time_in_which_threads_could_have_run() -> None:
    rows = process(worker_waiting_ns=[None, 1, 1, 1, 4_000_000_000, None])
    assert only(rows).waiting == pytest.approx(0.2)


def test_a_quota_is_judged_by_its_periods_else_by_time() -> None:
    held = [i * 1_000_000 for i in range(6)]
    assert only(process(throttled_us=held)).throttled == 0.5
    periods = {"quota_periods": [i * 20 for i in range(6)], "throttled_periods": [i * 5 for i in range(6)]}
    assert only(process(throttled_us=held, **periods)).throttled == 0.25
    assert only(process(throttled_us=[0] * 6, quota_periods=[0] * 6, throttled_periods=[0] * 6)).throttled == 0


def test_pressure_is_the_larger_of_the_machines_and_the_groups() -> None:
    rows = process(
        pressure_memory_us=[i * 20_000 for i in range(6)], group_pressure_memory_us=[i * 200_000 for i in range(6)]
    )
    assert only(rows).pressure == {"memory": 0.1}
    rows = process(pressure_io_us=[i * 400_000 for i in range(6)], group_pressure_io_us=[i * 200_000 for i in range(6)])
    assert only(rows).pressure == {"io": 0.2}


def test_power_is_that_of_packages_and_their_memory() -> None:
    energy = [
        {"package-0": i * 100_000_000, "package-0/dram": i * 10_000_000, "package-0/core": i * 90_000_000}
        for i in range(6)
    ]
    assert only(process(energy_uj=energy)).watts == 55


def test_a_counter_that_runs_backwards_is_no_negative_share() -> None:
    rows = process(context_switches=[100, 90, 80, 70, 60, 50])
    assert only(rows).switches_per_s == 0


def test_what_is_unreadable_is_gathered_over_the_run() -> None:
    rows = [row(0, unreadable={"clock": "a"}), row(1, unreadable={"clock": "b", "power": "c"})]
    assert readings.unreadable(rows) == {"clock": "a", "power": "c"}


def test_the_cost_is_a_share_of_the_time_in_which_processes_ran() -> None:
    assert readings.cost_share(process(cost_ns=[20_000_000] * 6)) == pytest.approx(0.01)
    assert readings.cost_share(process()) is None
