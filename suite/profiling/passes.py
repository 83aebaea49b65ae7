"""The profiling pass of a case: every arm under torch.profiler, its table, its trace and its generated code. Runs in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from suite.arms import ARMS, BASELINE, compiling, prepare
from suite.bundle import schema
from suite.bundle.writer import Bundle, write_bytes, write_document
from suite.cases import workload
from suite.cases.contract import Built
from suite.clocktime import now
from suite.device import registry
from suite.device.contract import Device
from suite.fingerprint.files import without_home
from suite.fingerprint.redact import names_to_hide, redact_text
from suite.profiling import proof
from suite.profiling.compilation import CompilationWatch, own_cache
from suite.profiling.evidence import Witness
from suite.profiling.redaction import keep
from suite.protocol import Assignment, Reporter

ROW_LIMIT = 20
PASS_ROW_LIMIT = 15
"""The two walkthroughs' own numbers of rows."""

NAME_WIDTH = 80


def run(assignment: Assignment, bundle: Bundle, report: Reporter, device: Device | None = None) -> None:
    """Profile every arm of the case that can run, one after the other; `device` replaces the assignment's own."""
    import torch

    report("set-up")
    device = device or registry.open_device(assignment.device)
    device.prepare(assignment.case)
    built = workload(assignment.case.workload).build(assignment.case, assignment.seed, device.place)
    witness = Witness(assignment, device.synchronise)
    arms = {arm.name: arm for arm in reversed(assignment.arms)}
    names = list(dict.fromkeys(arm.name for arm in assignment.arms))
    if any(ARMS[name].compiled and name not in assignment.not_run for name in names):
        device.ready_toolchain()
    with torch.no_grad():
        for number, name in enumerate(names):
            report("profile", name, number / len(names))
            reason = assignment.not_run.get(name)
            try:
                if reason is None:
                    _profile(assignment, bundle, built, arms[name], device, witness)
            except Exception as error:
                if name == BASELINE:
                    raise
                kind = "" if isinstance(error, proof.NotWhatItSaysError) else f"{type(error).__name__}: "
                reason = redact_text(f"{kind}{str(error).strip().partition(chr(10))[0]}", names_to_hide())
            if reason is not None:
                a = assignment
                bundle.event(
                    schema.ArmNotRun(
                        at=now(),
                        case=a.case.name,
                        arm=name,
                        process=a.process,
                        incarnation=a.incarnation,
                        reason=f"profiling: {reason}",
                    )
                )
    report("done", fraction=1.0)


def _profile(
    assignment: Assignment, bundle: Bundle, built: Built, arm: schema.Arm, device: Device, witness: Witness
) -> None:
    import time

    case, name = assignment.case, arm.name
    directory = bundle.case_directory(case.name, name)
    call = partial(prepare(ARMS[name], built.call), *built.inputs)
    if assignment.profile_pass is not None:
        _further_pass(assignment.profile_pass, case, name, call, directory, device)
        return
    watch = CompilationWatch()
    # The setting must be in force before the first call: Inductor writes the profiler's records into the code it generates.
    with (
        witness.listening(ARMS[name]) as compiled,
        own_cache(name),
        collected_code() as codes,
        compiling(ARMS[name], kernel_profile=True),
        watch,
    ):
        start = time.perf_counter_ns()
        call()
        device.synchronise()
        duration = time.perf_counter_ns() - start
    evidence = witness.before(arm, call, compiled)
    bundle.event(evidence)
    if reason := proof.reason(evidence):
        raise proof.NotWhatItSaysError(reason)
    bundle.event(watch.ready(assignment, name, duration, ARMS[name].compiled))
    written = []
    for number, code in enumerate(codes):
        written.append(f"code/output_code_{number}.py")
        # Inductor's comments name the file and line of every operator.
        write_bytes(directory / written[-1], without_home(code).encode())
    cycles, table = _cycles(call, case, case.schedule, directory, device)
    write_bytes(directory / "profile.txt", table.encode())
    profile = schema.Profile(
        case=case.name,
        arm=name,
        schedule=case.schedule,
        sort_key=device.sort_key,
        activities=list(device.profiler_activities),
        kernel_profile=ARMS[name].compiled,
        cycles=cycles,
        code=written,
    )
    write_document(directory / "profile.json", profile)


def _further_pass(
    one: schema.Pass, case: schema.Case, name: str, call: Callable[[], Any], directory: Path, device: Device
) -> None:
    """One of the case's further profiles: what happens before its schedule begins is the pass's own, and nothing else."""
    directory = directory / "passes" / one.name
    with own_cache(name), compiling(ARMS[name], kernel_profile=True):
        for _ in range(one.calls_before):
            call()
        device.synchronise()
        cycles, table = _cycles(call, case, one.schedule, directory, device, PASS_ROW_LIMIT)
    write_bytes(directory / "profile.txt", table.encode())
    profile = schema.Profile(
        case=case.name,
        arm=name,
        schedule=one.schedule,
        sort_key=device.sort_key,
        activities=list(device.profiler_activities),
        kernel_profile=ARMS[name].compiled,
        cycles=cycles,
    )
    write_document(directory / "profile.json", profile)


@contextmanager
def collected_code() -> Iterator[list[str]]:
    """Collect the Python source that Inductor generates (kernels included), without duplicates, while in the context."""
    from unittest import mock

    from torch._inductor.graph import GraphLowering

    codes: dict[str, None] = {}
    with mock.patch.object(GraphLowering, "save_output_code", codes.setdefault):
        kept: list[str] = []
        yield kept
    kept.extend(codes)


def _cycles(
    call: Callable[[], Any],
    case: schema.Case,
    plan: schema.ProfilerSchedule,
    directory: Path,
    device: Device,
    row_limit: int = ROW_LIMIT,
) -> tuple[list[schema.ProfileCycle], str]:
    """Run the schedule to its last step; the last cycle's trace is trace.json.gz, earlier ones carry their step."""
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    cycles: list[schema.ProfileCycle] = []
    tables: list[str] = []
    directory.mkdir(parents=True, exist_ok=True)

    def hand_over(profiler: Any) -> None:
        step = profiler.step_num
        trace = "trace.json.gz" if len(cycles) == plan.repeat - 1 else f"trace-{step}.json.gz"
        beside = directory / f".part.{trace}"
        profiler.export_chrome_trace(str(beside))
        if not beside.is_file():
            raise RuntimeError(f"torch wrote no trace to {beside}")
        keep(beside, directory / trace)
        averages = profiler.key_averages()
        cycles.append(
            schema.ProfileCycle(
                last_step=step, active_steps=plan.active, trace=trace, rows=_rows(averages, device.sort_key)
            )
        )
        tables.append(averages.table(sort_by=device.sort_key, row_limit=row_limit, max_name_column_width=NAME_WIDTH))

    options = {name: getattr(plan, name) for name in ("skip_first", "wait", "warmup", "active", "repeat")}
    activities = [getattr(ProfilerActivity, activity) for activity in device.profiler_activities]
    with profile(activities=activities, schedule=schedule(**options), on_trace_ready=hand_over) as profiler:
        for _ in range(plan.steps):
            with record_function(case.annotation):
                call()
            profiler.step()
    if len(cycles) != plan.repeat:
        raise RuntimeError(f"the profiler handed over {len(cycles)} of {plan.repeat} cycles in {plan.steps} steps")
    return cycles, tables[-1]


def _rows(averages: Any, sort_key: str) -> list[schema.ProfileRow]:
    """Every row of `key_averages()`, by the table's own key; torch gives microseconds, the bundle holds nanoseconds."""
    rows = [
        schema.ProfileRow(
            name=row.key,
            calls=row.count,
            self_cpu_ns=round(row.self_cpu_time_total * 1000),
            cpu_ns=round(row.cpu_time_total * 1000),
            self_device_ns=round(row.self_device_time_total * 1000),
            device_ns=round(row.device_time_total * 1000),
        )
        for row in averages
    ]
    field = sort_key.replace("_time_total", "_ns")
    return sorted(rows, key=lambda row: (-getattr(row, field), row.name))
