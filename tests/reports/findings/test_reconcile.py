"""A profiler table against its trace."""

from __future__ import annotations

import pytest

from reports.trace.averages import averages
from reports.trace.reconcile import Cause, Reconciliation, reconcile, rounding_us
from reports.trace.table import Table, TableError, TableRow, parse
from suite.bundle.schema import ProfileRow
from tests.reports.findings.recordings import ADD, DATA, GEMM, Recording, eager, real

REAL = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))


@pytest.mark.parametrize("name", REAL)
def test_a_real_table_agrees_with_its_trace_to_the_last_digit(name: str) -> None:
    table = parse((DATA / f"{name}.txt").read_text())
    found = reconcile(real(name), table)
    assert found.count("matched") == len(table.rows) > 5
    assert (found.unexplained_us, found.not_printed) == (0, ())
    assert [total.status for total in found.totals] == ["matched"]


def test_long_names_are_cut_and_still_found() -> None:
    table = parse((DATA / "graph_break-recompiled.txt").read_text())
    assert table.cut_names
    cut = [check for check in reconcile(real("graph_break-recompiled"), table).rows if check.row.name.endswith("...")]
    assert len(cut) == 4 and len({check.line.name for check in cut if check.line}) == 4


def test_a_call_that_only_wraps_itself_counts_once() -> None:
    lines = {line.name: line for line in averages(real("nested_annotations").trace)}
    assert lines["again"].calls == 9


def printed(
    recording: Recording, change: dict[str, dict[str, float]] | None = None, **totals: float | None
) -> Reconciliation:
    """A table that says exactly what the trace says, but for `change` (added to a row's columns)."""
    analysis = recording.analysis()
    rows = []
    for line in averages(analysis.trace):
        more = (change or {}).get(f"{line.name}/{line.origin}", {})
        rows.append(
            TableRow(
                line.name,
                line.calls + int(more.get("calls", 0)),
                line.self_cpu_us + more.get("self_cpu", 0),
                line.cpu_us,
                line.self_device_us + more.get("self_device", 0),
                line.device_us + more.get("self_device", 0),
            )
        )
    cpu = totals.get("cpu", analysis.host.self_cpu_total_us)
    return reconcile(analysis, Table(tuple(rows), cpu, totals.get("device"), False))


def test_a_kernel_counts_for_the_operator_that_launched_it() -> None:
    lines = {(line.name, line.origin): line for line in averages(eager().analysis().trace)}
    product = lines["aten::mm", "operator"]
    assert (product.self_device_us, product.device_us) == (3 * 580, 3 * 580)
    outer = lines["aten::matmul", "operator"]
    assert (outer.self_device_us, outer.device_us) == (0, 3 * 580)
    assert lines["cudaLaunchKernel", "runtime call"].device_us == 0
    assert lines[GEMM, "kernel"].self_device_us == 3 * 580
    assert (lines["ProfilerStep*", "annotation"].calls, lines["ProfilerStep*", "annotation"].cpu_us) == (3, 210)
    assert lines["ProfilerStep*", "annotation"].device_us == pytest.approx(3 * 647.7)


def test_overhead_is_counted_in_the_total_and_said() -> None:
    trace = eager().slice("overhead", "Activity Buffer Request", 12, 2000, 99)
    found = printed(trace, cpu=210 + 2000)
    (total,) = found.totals
    assert (total.status, total.explained_us) == ("explained", {Cause.OVERHEAD.value: 2000})
    assert any("Activity Buffer Request 2000.000 us" in remark for remark in found.remarks)


def test_an_annotation_on_the_gpu_counts_twice() -> None:
    trace = eager().slice("gpu_user_annotation", "matmul_add", 200, 2000, 7, device=0, stream=7)
    found = printed(trace, device=3 * 647.7 + 2000)
    assert [check.status for check in found.rows] == ["matched"] * len(found.rows)
    total = found.totals[1]
    assert (total.status, total.explained_us) == ("explained", {Cause.ANNOTATIONS.value: 2000})
    assert any("twice" in remark and "203%" in remark for remark in found.remarks)


def test_a_total_without_annotations_agrees_though_they_are_rows() -> None:
    trace = eager().slice("gpu_user_annotation", "matmul_add", 200, 2000, 7, device=0, stream=7)
    assert printed(trace, device=3 * 647.7).totals[1].status == "matched"


def test_a_leaked_warm_up_kernel_is_named_in_its_row_and_in_the_total() -> None:
    change = {f"{GEMM}/kernel": {"calls": 1, "self_device": 900.0}}
    found = printed(eager(), change, device=3 * 647.7 + 900)
    (check,) = [check for check in found.rows if check.status != "matched"]
    assert check.status == "explained"
    assert {difference.cause for difference in check.differences} == {Cause.LEAKED}
    assert found.totals[1].explained_us == {Cause.LEAKED.value: pytest.approx(900)}
    assert found.unexplained_us == 0


def test_a_leak_too_long_for_its_calls_stays_unexplained() -> None:
    found = printed(eager(), {f"{GEMM}/kernel": {"calls": 1, "self_device": 90000.0}})
    (check,) = [check for check in found.rows if check.status != "matched"]
    assert check.status == "unexplained"
    assert found.unexplained_us == pytest.approx(90000)


def test_kernels_launched_before_the_recording_are_remarked() -> None:
    trace = eager().launch(0, ADD, 150, 40, recorded=False)
    assert any("1 slices of the GPU (40.000 us) were launched before" in remark for remark in printed(trace).remarks)


def test_what_has_no_cause_is_reported_with_its_size() -> None:
    found = printed(eager(), {"aten::add/operator": {"self_cpu": 12.5}}, cpu=222.5)
    (check,) = [check for check in found.rows if check.status != "matched"]
    assert (check.status, check.differences[0].cause) == ("unexplained", Cause.UNKNOWN)
    assert check.differences[0].amount == pytest.approx(12.5)
    assert "+12.500 us unexplained" in check.sentence
    assert found.unexplained_us == pytest.approx(12.5)
    assert found.totals[0].unexplained_us == pytest.approx(12.5)


def test_a_row_that_the_trace_does_not_have_is_unexplained() -> None:
    found = reconcile(eager().analysis(), Table((TableRow("aten::cos", 2, 7.0, 7.0, None, None),), None, None, False))
    assert (found.rows[0].line, found.unexplained_us, found.totals) == (None, 7.0, ())
    assert len(found.not_printed) == len(averages(eager().analysis().trace))


def test_a_table_of_more_steps_is_of_another_recording() -> None:
    five = averages(eager(5).analysis().trace)
    table = Table(
        tuple(TableRow(line.name, line.calls, line.self_cpu_us, line.cpu_us, None, None) for line in five),
        None,
        None,
        False,
    )
    found = reconcile(eager(3).analysis(), table)
    assert "The table covers 5 steps and the trace 3" in found.remarks[0]
    (add,) = [check for check in found.rows if check.row.name == "aten::add"]
    assert {difference.cause for difference in add.differences} == {Cause.OTHER_STEPS}


def test_whole_microseconds_in_the_trace_explain_less_than_one_a_slice() -> None:
    trace = Recording().op("aten::mm", 0, 10).op("aten::mm", 20, 10)
    analysis = trace.analysis()
    assert analysis.trace.slices.whole_microseconds
    (check,) = reconcile(analysis, Table((TableRow("aten::mm", 2, 21.4, 21.4, None, None),), None, None, False)).rows
    assert (check.status, check.differences[0].cause) == ("explained", Cause.ROUNDED_TRACE)


def test_a_bundles_rows_are_exact() -> None:
    lines = averages(real("layer-eager").trace)
    rows = [
        ProfileRow(
            name=line.name,
            calls=line.calls,
            self_cpu_ns=round(line.self_cpu_us * 1000),
            cpu_ns=round(line.cpu_us * 1000),
        )
        for line in lines
    ]
    assert reconcile(real("layer-eager"), rows).count("matched") == len(rows)
    rows[0] = ProfileRow(name=rows[0].name, calls=3, self_cpu_ns=rows[0].self_cpu_ns + 5000, cpu_ns=rows[0].cpu_ns)
    assert reconcile(real("layer-eager"), rows).unexplained_us == pytest.approx(5)


@pytest.mark.parametrize(("shown", "half"), [(999.0, 0.0005), (1000.0, 0.5), (2e6, 500.0)])
def test_three_decimals_are_printed_in_the_units_of_the_size(shown: float, half: float) -> None:
    assert rounding_us(shown) == half


def cuda_recording() -> Recording:
    """What the CUDA tables were made of, by torch 2.13's own code: annotations on the GPU, and an overhead of the profiler."""
    trace = eager().slice("overhead", "Activity Buffer Request", 12, 2000, 99)
    for number in range(3):
        trace.slice("gpu_user_annotation", "matmul_add", 200 + 650 * number, 648.7, 7, device=0, stream=7)
    return trace


def test_a_cuda_table_is_read_with_its_device_columns() -> None:
    table = parse((DATA / "matmul_add-cuda-table.txt").read_text())
    assert table.rows[0] == TableRow("matmul_add", 3, 0.0, 0.0, 1946.0, 1946.0)
    assert table.rows[4] == TableRow("aten::mm", 3, 81.0, 99.0, 1740.0, 1740.0)
    assert (table.self_cpu_total_us, table.self_device_total_us, table.fixed_unit_us) == (2210, 1943, 0)


@pytest.mark.parametrize(("name", "unit"), [("matmul_add-cuda-table", 0), ("matmul_add-cuda-table-ms", 1000)])
def test_a_cuda_table_agrees_row_for_row_and_its_total_by_the_overhead(name: str, unit: float) -> None:
    table = parse((DATA / f"{name}.txt").read_text())
    assert table.fixed_unit_us == unit
    found = reconcile(cuda_recording().analysis(), table)
    assert [check.sentence for check in found.rows if check.status != "matched"] == []
    assert (len(found.rows), found.not_printed, found.unexplained_us) == (11, (), 0)
    assert [total.status for total in found.totals] == ["explained", "matched"]
    assert found.totals[0].explained_us == {Cause.OVERHEAD.value: 2000}
    twice = [check.line.origin for check in found.rows if check.row.name == "matmul_add" and check.line]
    assert sorted(twice) == ["GPU annotation", "annotation"]


def test_a_cell_wider_than_its_column_moves_no_other() -> None:
    text = (DATA / "matmul_add-cuda-table-ms.txt").read_text().replace("     1.946ms", "12345678.901ms", 1)
    (row, *_) = parse(text).rows
    assert (row.calls, row.device_us) == (3, 1946)
    assert row.self_device_us == pytest.approx(12345678901)


def test_a_name_with_two_blanks_is_one_name() -> None:
    text = (DATA / "matmul_add-cuda-table.txt").read_text().replace("matmul_add", "matmu  add")
    assert (parse(text).rows[0].name, parse(text).rows[0].calls) == ("matmu  add", 3)


def test_text_that_is_no_table_is_refused_in_a_sentence() -> None:
    with pytest.raises(TableError, match="no profiler table"):
        parse("hello")


def test_cells_that_are_no_times_are_passed_over() -> None:
    text = (DATA / "matmul_add-cuda-table.txt").read_text().replace("12.000us", "12.0.0us")
    assert parse(text).rows[1].self_cpu_us is None
