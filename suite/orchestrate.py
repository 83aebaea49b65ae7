"""Runs a plan: one fresh process per case and process index, then a profiling process per case. Never imports torch.

The processes of a case are spread over the run (process 0 of every case, then process 1, ...), so that a change in the machine
meets every case alike. A worker that fails does not end the run.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from suite import rules, telemetry
from suite.allocate import Wish, decide, ended_well, is_settled, pairs_for
from suite.bundle import manifest, reader, schema
from suite.bundle.program import Stopped, held
from suite.bundle.writer import FINGERPRINT, RUN, Bundle, write_bytes
from suite.cases import workload
from suite.clocktime import now
from suite.device.block_findings import power_capped
from suite.device.contract import Watch
from suite.display import Display
from suite.errors import UserError
from suite.fingerprint.container import cgroup
from suite.fingerprint.redact import names_to_hide, redact_text
from suite.machine import Machine, refuse_if_strict
from suite.measure.schedule import slots
from suite.plan import arms_of, further_profiles
from suite.profiling import proof
from suite.protocol import Assignment, Role
from suite.supervise import Ended, Limits, Supervisor

FAILURES_PER_CASE = 2
"""After two failed processes of a case, the rest of its processes are left out: they would fail the same way."""


@dataclass
class Unit:
    """One process to be run."""

    case: schema.Case
    role: Role
    process: int
    estimate_s: float
    what: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """Identity within a run."""
        return self.case.name, self.role, self.process

    @property
    def title(self) -> str:
        """Case, role and process in words."""
        profile = f"profile {self.what}".strip()
        return f"{self.case.name} " + (profile if self.role == "profile" else f"process {self.process}")


class Orchestrator:
    """Leads one run into one bundle, new or continued."""

    def __init__(
        self, bundle: Bundle, run: schema.Run, machine: Machine, display: Display, watch: Watch | None = None
    ) -> None:
        self.bundle = bundle
        self.run = run
        self.machine = machine
        self.display = display
        self.watch = watch or Watch()
        self._failures: dict[tuple[str, int], int] = {}
        self._later: list[Unit] = []
        self._told: set[tuple[str, str]] = set()
        self._allowed = os.sched_getaffinity(0)
        self._sampler = telemetry.Sampler(machine.launch.cpus or self._allowed, self._allowed)

    def lead(self) -> schema.Run:
        """Run every unit that is not done yet; returns run.json's final state.

        Raises:
            Stopped: after the bundle was closed as "interrupted"; or as "complete", when everything was measured by then.
            UserError: when results cannot be written any more; the bundle stays as it is.
        """
        try:
            with self.watch:
                self._run_everything()
        except Stopped:
            with held():
                self.bundle.event(schema.Noted(at=now(), message="interrupted by the user"))
                self._close("interrupted")
            raise
        whole = not self._remaining("measure") and not self._remaining("profile")
        with held():
            self._close("complete" if whole else "incomplete")
        if whole:
            # A run that will be continued still needs it: its later processes compile from this cache.
            shutil.rmtree(self.machine.cache, ignore_errors=True)
        return self.run

    def _run_everything(self) -> None:
        self._later = self._remaining("profile")
        self._run_all(self._remaining("measure"))
        while unit := self._one_more():
            self.display.plan(self._later)
            self._run_unit(unit, [])
        self._later = []
        self._run_all(self._remaining("profile"))

    def _run_all(self, units: list[Unit]) -> None:
        while units:
            unit = units.pop(0)
            self.display.plan([*units, *self._later])
            if self._failures.get(self._kin(unit), 0) < FAILURES_PER_CASE:
                self._run_unit(unit, units)
                continue
            of = "these settings" if self.run.ablation else "this case"
            message = f"{unit.title} was left out after {FAILURES_PER_CASE} failures of {of}"
            self.bundle.event(schema.Noted(at=now(), case=unit.case.name, message=message))
            self.display.say(message)

    def _kin(self, unit: Unit) -> tuple[str, int]:
        """The processes that a unit would fail like: those of its case, in an ablation those of its level."""
        return unit.case.name, self.run.ablation.order[unit.process] if self.run.ablation else 0

    # --- what is left to do -----------------------------------------------------------------------------------------

    def _remaining(self, role: Role) -> list[Unit]:
        """The processes of the plan that have not ended well; those beyond the plan are `_one_more`'s."""
        done = ended_well(reader.load(self.bundle.path))
        counts = {case.name: self._processes(role, case) for case in self.run.cases}
        units = [
            Unit(case, role, process, self._prior(case), self._named(role, case, process))
            for process in range(max(counts.values()))
            for case in self.run.cases
            if process < counts[case.name]
        ]
        return [unit for unit in units if unit.key not in done]

    def _named(self, role: Role, case: schema.Case, process: int) -> str:
        """A further profile's pass and arm; empty for everything else."""
        if role == "measure" or process == 0:
            return ""
        one, arm = further_profiles(self.run, case)[process - 1]
        return f"{one.name} {arm.name}"

    def _processes(self, role: Role, case: schema.Case) -> int:
        """How many processes of the case the plan has: to measure, or to profile (the case's own schedule, then its further ones)."""
        if role == "measure":
            return self.run.procedure.processes
        return 1 + len(further_profiles(self.run, case)) if self.run.profile else 0

    def _one_more(self) -> Unit | None:
        """The process that a run may still buy: of the case whose interval is widest, within budget and maximum; else None."""
        if self.run.ablation:
            return None
        loaded = reader.load(self.bundle.path)
        decisions = [
            decide(loaded, case, self._prior(case), self._failures.get((case.name, 0), 0) >= FAILURES_PER_CASE)
            for case in self.run.cases
            if not is_settled(loaded, case)
        ]
        for decision in decisions:
            if isinstance(decision, schema.Stopped):
                self.bundle.event(decision)
        wishes = [decision for decision in decisions if isinstance(decision, Wish)]
        if not wishes:
            return None
        wish = max(wishes, key=lambda wish: wish.half_width)
        return Unit(wish.case, "measure", wish.process, wish.cost_s)

    def _prior(self, case: schema.Case) -> float:
        return self.run.procedure.measure_budget_ns / 1e9 * 1.3 + workload(case.workload).setup_estimate_s(case)

    def _assignment(self, unit: Unit, loaded: reader.Loaded) -> Assignment:
        """What the unit's next incarnation has to do, given what earlier ones have left in the bundle."""
        events = [
            e
            for e in loaded.events
            if getattr(e, "case", None) == unit.case.name and getattr(e, "process", None) == unit.process
        ]
        arms = arms_of(self.run, unit.case)
        checked = {arm for case, arm in loaded.accuracies if case == unit.case.name}
        # An arm that did not run before has no output to be checked; asking again would only compute the reference again.
        labels = {arm.label: arm.name for arm in arms}
        not_run = {e.arm for e in loaded.events if isinstance(e, schema.ArmNotRun) and e.case == unit.case.name}
        hopeless = {labels.get(label, label) for label in not_run} | set(self.machine.not_run)
        # What was not what it says in one process has no result, whatever another would see.
        untrue = {labels[arm]: why for (case, arm), why in loaded.withheld.items() if case == unit.case.name}
        measured = (unit.case.name, unit.process, "measure")
        further = further_profiles(self.run, unit.case)[unit.process - 1] if self._is_further(unit) else None
        return Assignment(
            bundle=str(self.bundle.path.resolve()),
            role=unit.role,
            case=unit.case,
            arms=[further[1]] if further else arms,
            procedure=self.run.procedure,
            process=unit.process,
            incarnation=sum(isinstance(e, schema.ProcessStarted) and e.role == unit.role for e in events),
            seed=self.run.seed,
            progress_descriptor=-1,
            parent=os.getpid(),
            check_accuracy=any(arm.name not in checked | hopeless for arm in arms if arm.role == "candidate"),
            plan=next((e for e in events if isinstance(e, schema.Planned)), None) if unit.role == "measure" else None,
            done=[
                b.block for b in [*loaded.blocks, *loaded.withheld_blocks] if (b.case, b.process, b.phase) == measured
            ]
            if unit.role == "measure"
            else [],
            pairs=self._pairs(unit, loaded),
            not_run={**untrue, **self.machine.not_run},
            device=self.run.device,
            profile_pass=further[0] if further else None,
        )

    @staticmethod
    def _is_further(unit: Unit) -> bool:
        return unit.role == "profile" and unit.process > 0

    def _pairs(self, unit: Unit, loaded: reader.Loaded) -> int | None:
        """What a pilot found worth measuring; an ablation's processes are no pilot for each other."""
        if unit.role != "measure" or self.run.ablation:
            return None
        return pairs_for(loaded, unit.case, self._prior(unit.case))

    @staticmethod
    def _nothing_left(assignment: Assignment) -> bool:
        """Whether an earlier incarnation measured every block but was killed before it could say so."""
        if assignment.plan is None:
            return False
        planned = slots(
            assignment.plan.order, assignment.plan.pairs, first_rotation=assignment.process * assignment.plan.pairs
        )
        return {slot.block for slot in planned} <= set(assignment.done)

    # --- one unit ---------------------------------------------------------------------------------------------------

    def _run_unit(self, unit: Unit, rest: list[Unit]) -> None:
        assignment = self._assignment(unit, reader.load(self.bundle.path))
        if self._nothing_left(assignment):
            end = Ended("ok", "every block was finished before the interruption", None, None, 0, None)
            self._record_end(unit, assignment.incarnation - 1, end)
            return
        self.display.started(unit)
        self._sampler.aim(self.machine.launch_of(self.run, unit.process).cpus or self._allowed)
        self._take_telemetry("before", unit, assignment.incarnation)
        began = time.monotonic_ns()
        try:
            end = self._supervise(unit, assignment)
        except Stopped:
            spent = time.monotonic_ns() - began
            end = Ended("interrupted", "stopped by the user", None, None, spent, None)
            self._record_end(unit, assignment.incarnation, end)
            raise
        finally:
            self._sampler.leave()
            self.watch.leave()
        self._take_telemetry("after", unit, assignment.incarnation)
        self._record_end(unit, assignment.incarnation, end)
        self.display.ended(unit, end)
        if end.unwritable:
            raise UserError(f"{end.message} Continue with RUN={self.run.run_id}.")
        self._tell_untrue(unit)
        if end.outcome != "ok":
            self._failures[self._kin(unit)] = self._failures.get(self._kin(unit), 0) + 1
            return
        self._stop_if_strict()
        for other in rest:
            if other.case.name == unit.case.name and other.role == unit.role:
                other.estimate_s = end.duration_ns / 1e9

    def _tell_untrue(self, unit: Unit) -> None:
        """Say, once, which arms of the unit's case are not shown."""
        for (case, arm), reason in reader.load(self.bundle.path).withheld.items():
            if case == unit.case.name and (case, arm) not in self._told:
                self._told.add((case, arm))
                self.display.say(f"{case}: {arm} is not shown: {reason}")

    def _supervise(self, unit: Unit, assignment: Assignment) -> Ended:
        logs = self.bundle.path / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"{unit.case.name.replace('/', '_')}-{unit.role}{unit.process}.log"
        launch = self.machine.launch_of(self.run, unit.process)
        own = self.machine.worker_environment(launch, unit.role)
        command = launch.command([sys.executable, "-m", "suite.worker"])
        # Later incarnations append: each reads only what it wrote itself.
        offset = log.stat().st_size if log.exists() else 0

        def started(pid: int) -> None:
            self._sampler.follow(None if launch.contained else pid)
            self.watch.follow(pid)
            self.bundle.event(
                schema.ProcessStarted(
                    at=now(),
                    case=unit.case.name,
                    role=unit.role,
                    process=unit.process,
                    incarnation=assignment.incarnation,
                    pid=pid,
                    command=[redact_text(word, names_to_hide()) for word in command],
                    environment={name: redact_text(value, names_to_hide()) for name, value in own.items()},
                )
            )

        def tick(_resident: int | None) -> None:
            if self._sampler.due():
                self._take_telemetry("during", unit, assignment.incarnation)
            self.display.tick()

        def encode(descriptor: int) -> bytes:
            filled = msgspec.structs.replace(assignment, progress_descriptor=descriptor, log_offset=offset)
            if launch.contained:
                # Neither a descriptor nor a process id means anything across a container's border.
                filled = msgspec.structs.replace(filled, progress_descriptor=-1, parent=0)
            return msgspec.json.encode(filled)

        limits = Limits(
            self.run.procedure.process_timeout_s, self.run.procedure.memory_ceiling_bytes or memory_ceiling()
        )
        supervisor = Supervisor(command, {**os.environ, **own}, log, limits, self.display.progress, tick)
        try:
            return supervisor.run(encode, started)
        finally:
            _without_names(log)

    def _take_telemetry(self, moment: telemetry.Moment, unit: Unit, incarnation: int) -> None:
        subject = telemetry.Subject(unit.case.name, unit.role, unit.process, incarnation)
        self._sampler.take(lambda row: self.bundle.telemetry(self._with_device(row)), moment, subject)

    def _with_device(self, row: schema.Telemetry) -> schema.Telemetry:
        """The reading with what the watch saw of the device."""
        fields = self.watch.fields()
        unreadable = row.unreadable | fields.pop("unreadable", {})
        return msgspec.structs.replace(row, unreadable=unreadable, **fields) if fields or unreadable else row

    def _record_end(self, unit: Unit, incarnation: int, end: Ended) -> None:
        self.bundle.event(
            schema.ProcessEnded(
                at=now(),
                case=unit.case.name,
                role=unit.role,
                process=unit.process,
                incarnation=incarnation,
                outcome=end.outcome,
                message=redact_text(end.message, names_to_hide()),
                exit_code=end.exit_code,
                signal=end.signal,
                duration_ns=end.duration_ns,
                peak_rss_bytes=end.peak_rss_bytes,
            )
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def _close(self, status: schema.RunStatus) -> None:
        stretches = [*self.run.stretches[:-1], msgspec.structs.replace(self.run.stretches[-1], ended_at=now())]
        self.run = msgspec.structs.replace(self.run, status=status, stretches=stretches)
        self.bundle.document(RUN, self.run)
        self.bundle.document(FINGERPRINT, self._fingerprint(reader.load(self.bundle.path)))
        reasons = rules.complaints(reader.load(self.bundle.path))
        self.run = msgspec.structs.replace(self.run, publishable=not reasons, reasons=reasons)
        self.bundle.document(RUN, self.run)
        manifest.write(self.bundle.path)

    def _fingerprint(self, loaded: reader.Loaded) -> schema.Fingerprint:
        effectives = [event for event in loaded.events if isinstance(event, schema.Effective)]
        during = telemetry.findings(loaded.telemetry, loaded.events, self.run.ablation)
        document = self.machine.fingerprint(
            self.run,
            effectives,
            [*during, *self.watch.findings(), *power_capped(loaded.blocks), *proof.findings(loaded.events)],
        )
        seen = self.watch.facts()
        gpu = {**document.facts.get("gpu", {}), **seen}
        return msgspec.structs.replace(document, facts={**document.facts, "gpu": gpu}) if seen else document

    def _stop_if_strict(self) -> None:
        """A strict run goes no further than the first process in which a setting is not in force.

        Raises:
            UserError: naming the difference; the bundle is closed as incomplete.
        """
        if not self.run.launch.strict:
            return
        loaded = reader.load(self.bundle.path)
        effectives = [event for event in loaded.events if isinstance(event, schema.Effective)]
        try:
            found = [*self.machine.fingerprint(self.run, effectives).findings, *proof.untrue(loaded.withheld)]
            refuse_if_strict(self.run.launch, found)
        except UserError as error:
            self.bundle.event(schema.Noted(at=now(), message=str(error)))
            self._close("incomplete")
            raise


def _without_names(log: Path) -> None:
    """Take out of a worker's log what names the machine or the user: torch's warnings show paths, a traceback shows more."""
    with suppress(OSError):
        text = log.read_text(errors="replace")
        kept = redact_text(text, names_to_hide())
        if kept != text:
            write_bytes(log, kept.encode())


def memory_ceiling() -> int:
    """What a worker's process tree may use, in bytes: nine tenths of what is available now, or of its control group's limit."""
    limit = cgroup.memory_limit(Path("/")).value
    available = psutil.virtual_memory().available
    return int((min(available, limit) if limit else available) * 0.9)
