"""One measuring process: set up a case, make every arm ready, warm up, and time blocks in the scheduled order.

Runs in a worker. Everything is written to the bundle the moment it is known, so that a kill loses at most one block.
"""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from suite.accuracy.outputs import kept
from suite.arms import ARMS, BASELINE, compiling, prepare
from suite.bundle import schema
from suite.bundle.writer import Bundle
from suite.cases import workload
from suite.cases.contract import Built
from suite.clocktime import now
from suite.device import registry
from suite.device.contract import Device, RefusedMeasurementError
from suite.device.plausible import against_peak
from suite.fingerprint.effective.worker import read_effective
from suite.fingerprint.redact import names_to_hide, redact_struct, redact_text
from suite.measure.checking import AccuracyCheck
from suite.measure.clock import no_garbage_collection
from suite.measure.conditioning import FLAT_CYCLES, LEAST_BLOCKS, MOST_BLOCKS, condition
from suite.measure.schedule import Slot, iterations_per_block, least_pairs, pairs_within, slots
from suite.measure.state import StateReference
from suite.measure.warmup import Warmup, calls_for, warm_up
from suite.profiling import proof
from suite.profiling.compilation import CompilationWatch, own_cache
from suite.profiling.evidence import Witness
from suite.protocol import Assignment, Reporter

LEAST_TICKS = 100
OVERHEADS = 100
"""Beside a host an iteration lasts at least a hundred times what timing an empty one shows: two events cost microseconds there, and arms
that are bound by the host pay them in full."""

RETAKES = 3
RETAKE_SHARE = 0.5
RECOVERY_S = 0.25
"""A block under bad conditions is measured again at most three times, while all of them take no more than half as much of the host's time
as the process may measure. Each follows a pause and a load of all arms in turn: a pause alone would favour the arm that gets hot."""

CALLS_TO_REPLAY = 3
"""An arm with CUDA graphs runs plainly at its first call, records a graph at its second and replays it from its third: what is timed."""

SETUP_SHARE, WARM_SHARE = 0.3, 0.4
"""Parts of a process's progress: set-up and compilation end at 30 %, warm-up at 40 %."""


class Measurement:
    """The state of one measuring process. `device` replaces the assignment's own."""

    def __init__(self, assignment: Assignment, bundle: Bundle, report: Reporter, device: Device | None = None) -> None:
        self.assignment = assignment
        self.device = device or registry.open_device(assignment.device)
        self.now = time.monotonic_ns
        self._retaken_ns = 0
        self.bundle = bundle
        self.report = report
        self.case = assignment.case
        self.calls: dict[str, Callable[[], Any]] = {}
        self.outputs: dict[str, Any] = {}
        self.witness = Witness(assignment, self.device.synchronise)

    def run(self) -> None:
        """The whole process, from set-up to its last block."""
        import torch

        self.report("set-up")
        self.device.prepare(self.case)
        built = workload(self.case.workload).build(self.case, self.assignment.seed, self.device.place)
        with torch.no_grad():
            self._make_ready(built)
            check = self._check_accuracy(built) if self.assignment.check_accuracy else None
            self.outputs.clear()
            if not self.device.beside_host:
                check = None
            # Everything so far outlives the run; without the freeze each collection between blocks would walk all of it.
            gc.collect()
            gc.freeze()
            warmups = self._warm_up()
            plan = self.assignment.plan or self._plan(warmups)
            self._record_effective()
            self._measure(plan)
            self._look_again()
            if check:
                check.after(self.calls, self.assignment.arms)
            self.report("done", fraction=1.0)

    def _make_ready(self, built: Built) -> None:
        names = [arm.label for arm in self.assignment.arms]
        if reason := self.assignment.not_run.get(BASELINE):
            raise proof.NotWhatItSaysError(reason)
        if any(ARMS[arm.name].compiled and arm.name not in self.assignment.not_run for arm in self.assignment.arms):
            self.device.ready_toolchain()
        for number, arm in enumerate(self.assignment.arms):
            self.report(
                "compile" if ARMS[arm.name].compiled else "first call", arm.label, SETUP_SHARE * number / len(names)
            )
            if reason := self.assignment.not_run.get(arm.name):
                self._not_run(arm.label, reason)
                continue
            try:
                self._first_call(arm, built)
            except Exception as error:
                if arm.name == BASELINE:
                    raise
                withheld = isinstance(error, proof.NotWhatItSaysError)
                kind = "" if withheld else f"{type(error).__name__}: "
                self._not_run(arm.label, f"{kind}{_first_line(error)}", withheld=withheld)

    def _first_call(self, arm: schema.Arm, built: Built) -> None:
        call = partial(prepare(ARMS[arm.name], built.call), *built.inputs)
        watch = CompilationWatch()
        with (
            self.witness.listening(ARMS[arm.name]) as compiled,
            own_cache(arm.label),
            compiling(ARMS[arm.name]),
            watch,
        ):
            start = time.perf_counter_ns()
            output = call()
            self.device.synchronise()
            duration = time.perf_counter_ns() - start
            for _ in range(CALLS_TO_REPLAY - 1 if self.device.beside_host else 0):
                output = call()
        kept_output = kept(output)
        evidence = self.witness.before(arm, call, compiled)
        self.bundle.event(evidence)
        if reason := proof.reason(evidence):
            raise proof.NotWhatItSaysError(reason)
        self.outputs[arm.label] = kept_output
        self.calls[arm.label] = call
        self.bundle.event(watch.ready(self.assignment, arm.label, duration, ARMS[arm.name].compiled))

    def _look_again(self) -> None:
        """After the last block: an arm that is not any more what it was has no result."""
        for arm in self.assignment.arms:
            if arm.label not in self.calls:
                continue
            evidence = self.witness.after(arm, self.calls[arm.label])
            self.bundle.event(evidence)
            if reason := proof.reason(evidence):
                self._not_run(arm.label, reason, withheld=True)

    def _not_run(self, label: str, reason: str, *, withheld: bool = False) -> None:
        a, reason = self.assignment, redact_text(reason, names_to_hide())
        self.bundle.event(
            schema.ArmNotRun(
                at=now(),
                case=self.case.name,
                arm=label,
                process=a.process,
                incarnation=a.incarnation,
                reason=reason,
                withheld=withheld,
            )
        )

    def _check_accuracy(self, built: Built) -> AccuracyCheck:
        self.report("accuracy", fraction=SETUP_SHARE)
        check = AccuracyCheck(self.case, self.bundle, self.outputs, built.reference())
        check.before(self.assignment.arms, self.outputs)
        return check

    def _sample_minimum_ns(self) -> int:
        """The least that an iteration of this case lasts on this device."""
        if self.case.cache == "cold":
            # Only the first call after a flush is cold.
            return 1
        # A sample shorter than a hundred ticks of the clock would be known to no better than one percent.
        least = max(self.assignment.procedure.sample_minimum_ns, math.ceil(LEAST_TICKS * self.resolution_ns))
        return max(least, math.ceil(OVERHEADS * self.overhead_ns)) if self.device.beside_host else least

    def _warm_up(self) -> dict[str, Warmup]:
        a, procedure, warmups = self.assignment, self.assignment.procedure, {}
        self.resolution_ns = self.device.resolution_ns()
        self.overhead_ns = self.device.overhead_ns()
        self.sample_minimum_ns = sample_minimum_ns = self._sample_minimum_ns()
        for number, (label, call) in enumerate(self.calls.items()):
            self.report("warm-up", label, SETUP_SHARE + (WARM_SHARE - SETUP_SHARE) * number / len(self.calls))
            started = time.time_ns()
            with no_garbage_collection():
                warm = warm_up(
                    call,
                    minimum_ns=procedure.block_duration_ns,
                    budget_ns=procedure.warmup_budget_ns,
                    sample_minimum_ns=sample_minimum_ns,
                    iterations=self.case.warmup_iterations,
                    timer=partial(self.device.time, cache=self.case.cache),
                )
            warmups[label] = warm
            slot = Slot(block=number, pair=0, position=number, arm=label)
            self.bundle.block(self._block(slot, "warmup", started, warm.warmup_calls, warm.iterations_ns))
            self.bundle.event(
                schema.ArmWarm(
                    at=now(),
                    case=self.case.name,
                    arm=label,
                    process=a.process,
                    incarnation=a.incarnation,
                    settled=warm.settled,
                    iterations=len(warm.iterations_ns),
                    duration_ns=warm.duration_ns,
                    typical_ns=warm.typical_ns,
                )
            )
        return warmups

    def _plan(self, warmups: dict[str, Warmup]) -> schema.Planned:
        procedure = self.assignment.procedure
        calls = {label: warm.calls_per_iteration for label, warm in warmups.items()}
        if self.device.beside_host:
            # What timing costs is paid once an iteration: with one number of calls it is the same part of every arm's.
            calls = dict.fromkeys(warmups, max(map(self._calls_beside_host, warmups.values())))
        if self.case.measured_iterations is not None:
            pairs = procedure.pairs_minimum
            iterations = dict.fromkeys(warmups, max(1, self.case.measured_iterations // (2 * pairs)))
        else:
            lasts_ns = {label: self._lasts_ns(warm, calls[label]) for label, warm in warmups.items()}
            iterations = {
                label: iterations_per_block(each_ns, 1, procedure.block_duration_ns, procedure.block_minimum_iterations)
                for label, each_ns in lasts_ns.items()
            }
            block_ns = {label: lasts_ns[label] * iterations[label] for label in warmups}
            least = least_pairs(block_ns, procedure.arm_minimum_ns, procedure.pairs_minimum)
            most = max(least, procedure.pairs_maximum)
            affordable = pairs_within(procedure.measure_budget_ns, block_ns, least, most)
            # A pilot may ask for fewer pairs than a process can afford, never for more.
            pairs = affordable if self.assignment.pairs is None else max(least, min(self.assignment.pairs, affordable))
        for label, warm in warmups.items():
            if warm.typical_ns * calls[label] < LEAST_TICKS * self.resolution_ns:
                shortest = f"{warm.typical_ns * calls[label]:.0f} ns, within {LEAST_TICKS} ticks of {self.resolution_ns:.0f} ns"
                raise ValueError(f"an iteration of {label} takes {shortest}: the clock cannot time it")
        plan = schema.Planned(
            at=now(),
            case=self.case.name,
            process=self.assignment.process,
            pairs=pairs,
            order=list(warmups),
            iterations=iterations,
            calls_per_iteration=calls,
        )
        self.bundle.event(plan)
        return plan

    def _lasts_ns(self, warm: Warmup, calls: int) -> float:
        """What an iteration takes of a block's time: of a cold one the flush too, which is not in its own time."""
        timed_ns = warm.typical_ns * calls
        return max(timed_ns, warm.duration_ns / len(warm.iterations_ns)) if self.case.cache == "cold" else timed_ns

    def _calls_beside_host(self, warm: Warmup) -> int:
        """Calls that last the sample's minimum without what timing them costs, which a warm-up of single calls shows in full."""
        a_call = warm.typical_ns - self.overhead_ns / warm.warmup_calls
        return calls_for(max(a_call, 0.1 * warm.typical_ns), self.sample_minimum_ns)

    def _record_effective(self) -> None:
        seen = redact_struct(
            read_effective(
                case=self.case.name,
                process=self.assignment.process,
                at=now(),
                timer_resolution_ns=self.resolution_ns,
                timer_overhead_ns=self.overhead_ns,
                log_offset=self.assignment.log_offset,
            ),
            names_to_hide(),
        )
        seen = msgspec.structs.replace(
            seen, torch=seen.torch | self.device.in_force(), runtime=seen.runtime | self.device.usage()
        )
        self.bundle.event(seen)

    def _measure(self, plan: schema.Planned) -> None:
        schedule = slots(plan.order, plan.pairs, first_rotation=self.assignment.process * plan.pairs)
        done = set(self.assignment.done)
        reference = StateReference(self.device)
        pair = -1
        for slot in schedule:
            if slot.block in done or slot.arm not in self.calls:
                continue
            if pair == -1:
                self._condition(plan, slot.block, LEAST_BLOCKS, MOST_BLOCKS)
            if slot.pair != pair:
                pair = slot.pair
                self._read_state(reference, slot.block)
            self.report("measure", slot.arm, WARM_SHARE + (1 - WARM_SHARE) * slot.block / len(schedule))
            self.bundle.block(self._settled_block(slot, plan))
        self._read_state(reference, len(schedule))

    def _condition(self, plan: schema.Planned, before_block: int, least_blocks: int, most_blocks: int) -> None:
        """Bring the device to its clock under load; lengths are those of so many blocks."""
        if not self.device.beside_host:
            return
        loads = [
            partial(
                self.device.load, self.calls[arm], plan.iterations[arm], plan.calls_per_iteration[arm], self.case.cache
            )
            for arm in plan.order
            if arm in self.calls
        ]
        block_ns = self.assignment.procedure.block_duration_ns
        with no_garbage_collection():
            found = condition(loads, least_blocks * block_ns, most_blocks * block_ns, self.now)
        self.bundle.event(
            schema.Conditioned(
                at=now(),
                case=self.case.name,
                process=self.assignment.process,
                incarnation=self.assignment.incarnation,
                before_block=before_block,
                clocks_mhz=found.clocks_mhz,
                flat=found.flat,
                duration_ns=found.duration_ns,
            )
        )

    def _settled_block(self, slot: Slot, plan: schema.Planned) -> schema.Block:
        """The slot's block. One that was taken under bad conditions is put aside and taken again, while the budget lasts."""
        budget_ns = RETAKE_SHARE * self.assignment.procedure.measure_budget_ns
        for retake in range(RETAKES + 1):
            began = self.now()
            block = self._timed_block(slot, plan, retake)
            if not block.disturbed or retake == RETAKES or self._retaken_ns >= budget_ns:
                return block
            self.bundle.retaken(block)
            self.report("measured again", slot.arm)
            time.sleep(RECOVERY_S)
            self._condition(plan, slot.block, FLAT_CYCLES, LEAST_BLOCKS)
            self._retaken_ns += self.now() - began
        raise AssertionError("the last try is returned")

    def _timed_block(self, slot: Slot, plan: schema.Planned, retake: int) -> schema.Block:
        """Raises RefusedMeasurementError when the device was not waited for, or was faster than it can be."""
        calls = plan.calls_per_iteration[slot.arm]
        with no_garbage_collection():
            before, started = resource.getrusage(resource.RUSAGE_SELF), time.time_ns()
            timed = self.device.time_block(self.calls[slot.arm], plan.iterations[slot.arm], calls, self.case.cache)
            after = resource.getrusage(resource.RUSAGE_SELF)
        if reason := against_peak(self.case, self.device.description, timed.iterations_ns, calls):
            raise RefusedMeasurementError(f"{slot.arm}, block {slot.block}: {reason}")
        block = self._block(slot, "measure", started, calls, timed.iterations_ns, before, after)
        return msgspec.structs.replace(
            block,
            enqueue_ns=timed.enqueue_ns,
            host_ns=timed.host_ns,
            conditions=list(timed.conditions),
            disturbed=timed.disturbed,
            clock_mhz=timed.clock_mhz,
            retake=retake,
        )

    def _read_state(self, reference: StateReference, before_block: int) -> None:
        a = self.assignment
        self.bundle.state(reference.read(self.case.name, a.process, a.incarnation, before_block))

    def _block(
        self,
        slot: Slot,
        phase: Any,
        started_at_ns: int,
        calls: int,
        durations: list[int],
        before: resource.struct_rusage | None = None,
        after: resource.struct_rusage | None = None,
    ) -> schema.Block:
        def grown(name: str) -> int:
            return int(getattr(after, name) - getattr(before, name)) if before and after else 0

        return schema.Block(
            case=self.case.name,
            arm=slot.arm,
            process=self.assignment.process,
            phase=phase,
            block=slot.block,
            pair=slot.pair,
            position=slot.position,
            incarnation=self.assignment.incarnation,
            started_at_ns=started_at_ns,
            calls_per_iteration=calls,
            iterations_ns=durations,
            voluntary_switches=grown("ru_nvcsw"),
            involuntary_switches=grown("ru_nivcsw"),
            major_faults=grown("ru_majflt"),
            minor_faults=grown("ru_minflt"),
        )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "without a message")
