"""A trace file as a `Trace`: clean columns, links between host and GPU, nesting, and notes on the file's health."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import ENQUEUES, HOST, Call, Kind, call_of
from reports.trace.clean import clean, is_gpu
from reports.trace.columns import Builder, Columns, Ints
from reports.trace.framing import Frames
from reports.trace.links import Links, link
from reports.trace.memory import check_memory
from reports.trace.nesting import Nesting, nest
from reports.trace.notes import Note, Notes, Status, TraceError
from reports.trace.source import pieces


@dataclass(frozen=True)
class Gpu:
    """One device of the trace's `deviceProperties`; None where it does not say. Memory in bytes."""

    number: str
    name: str
    memory_bytes: int | None = None
    multiprocessors: int | None = None


@dataclass(frozen=True)
class Trace:
    """A trace that was read. Times are nanoseconds since the trace's own epoch; rows are those of `slices`.

    `gpus` are the devices that the file describes, by number. `origin` is the first time of all.
    """

    path: str
    status: Status
    notes: tuple[Note, ...]
    slices: Columns
    gpus: dict[str, Gpu]
    metadata: dict[str, Any] = field(repr=False)

    def rows(self, *kinds: Kind) -> NDArray[np.intp]:
        """Rows of these kinds, in the file's order."""
        return np.flatnonzero(np.isin(self.slices.kind, kinds))

    def name(self, row: int | np.integer[Any]) -> str:
        return self.slices.names[self.slices.name[row]]

    @cached_property
    def end(self) -> Ints:
        """When each slice ends."""
        return self.slices.start + self.slices.duration

    @cached_property
    def gpu_rows(self) -> NDArray[np.intp]:
        """GPU work by start."""
        rows = np.flatnonzero(is_gpu(self.slices))
        return rows[np.argsort(self.slices.start[rows], kind="stable")]

    @cached_property
    def host_rows(self) -> NDArray[np.intp]:
        """Operations, annotations and run-time calls, in the file's order."""
        return self.rows(*HOST)

    @cached_property
    def call(self) -> NDArray[np.int8]:
        """For every row what the run-time call does (`Call`); `Call.OTHER` for what is none."""
        by_name = np.fromiter(map(call_of, self.slices.names), np.int8, len(self.slices.names))
        runtime = self.slices.kind == Kind.RUNTIME
        return np.where(runtime, by_name[self.slices.name] if by_name.size else 0, np.int8(Call.OTHER)).astype(np.int8)

    @cached_property
    def enqueue_rows(self) -> NDArray[np.intp]:
        """Run-time calls that put work on a GPU, by start."""
        rows = np.flatnonzero(np.isin(self.call, ENQUEUES) & (self.slices.kind == Kind.RUNTIME))
        return rows[np.argsort(self.slices.start[rows], kind="stable")]

    @cached_property
    def links(self) -> Links:
        """Which call launched which GPU slice."""
        return link(self.slices, self.gpu_rows, self.call)

    @cached_property
    def nesting(self) -> Nesting:
        """Nesting of `host_rows`; `parent` holds rows of the trace, and so do the indices of all arrays of full length."""
        rows = self.host_rows
        # Start and duration are rounded apart: a child may seem to outlive its parent by a unit of the clock.
        tolerance = 1000 if self.slices.whole_microseconds else 2
        found = nest(self.slices.lane[rows], self.slices.start[rows], self.end[rows], tolerance)
        parent = np.full(self.slices.start.size, -1, np.int64)
        inside = found.parent >= 0
        parent[rows[inside]] = rows[found.parent[inside]]
        depth = np.zeros(self.slices.start.size, np.int32)
        depth[rows] = found.depth
        self_time = np.zeros(self.slices.start.size, np.int64)
        self_time[rows] = found.self_time
        return Nesting(parent, depth, self_time, found.overlaps)

    @cached_property
    def caller(self) -> NDArray[np.int64]:
        """For every host row the innermost operator that it lies in, -1 without one."""
        parent, kind = self.nesting.parent, self.slices.kind
        found = parent.copy()
        while (passing := (found >= 0) & (kind[found] != Kind.OP)).any():
            found[passing] = parent[found[passing]]
        return found

    @cached_property
    def gpu_caller(self) -> NDArray[np.int64]:
        """For every row of `gpu_rows` the operator that launched it, -1 where it or its launch is not recorded."""
        launch = self.links.launch
        return np.where(launch >= 0, self.caller[launch] if self.caller.size else -1, -1)

    def launch_of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """The launching call of each of these GPU rows, -1 for an orphan."""
        launch = np.full(self.slices.start.size, -1, np.int64)
        launch[self.gpu_rows] = self.links.launch
        return launch[rows]

    @cached_property
    def origin(self) -> int:
        """The first time of all, in ns; pictures and claims count from here."""
        return int(self.slices.start.min()) if self.slices.start.size else 0

    @property
    def count(self) -> int:
        """Slices that were read, Python's frames among them."""
        return int(self.slices.start.size) + self.slices.python_frames

    @property
    def withheld(self) -> frozenset[str]:
        """What may not be claimed because of damage."""
        return frozenset().union(*(note.withholds for note in self.notes))

    def gpu(self, number: str) -> Gpu:
        """The device of this number. ROCm counts processors too: where all described devices are alike, it is one of them."""
        if number in self.gpus:
            return self.gpus[number]
        alike = {(gpu.name, gpu.memory_bytes, gpu.multiprocessors) for gpu in self.gpus.values()}
        return Gpu(number, *alike.pop()) if len(alike) == 1 else Gpu(number, "")


def read(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        TraceError: with one sentence, when nothing can be read of it.
    """
    notes = Notes()
    try:
        check_memory(path)
        with _no_collection(), closing(pieces(path, notes)) as texts:
            frames = Frames(path, texts, notes)
            builder = Builder()
            for events in frames:
                builder.add(events)
            columns = builder.columns()
        slices = clean(columns, notes)
    except MemoryError:
        raise TraceError(
            f"{path}: there is not enough memory to read it; give a shorter recording or a larger machine."
        ) from None
    gpus = devices(frames.metadata)
    trace = Trace(str(path), "ok", (), slices, gpus, frames.metadata)
    judge(trace, columns, notes)
    found = notes.frozen()
    judged = Trace(str(path), "degraded" if found else "ok", found, slices, gpus, frames.metadata)
    # What judging computed (links, nesting) does not depend on the notes.
    vars(judged).update({name: value for name, value in vars(trace).items() if name not in vars(judged)})
    return judged


def judge(trace: Trace, columns: Columns, notes: Notes) -> None:
    """Note what the slices as a whole show of the recording's health."""
    slices = trace.slices
    if trace.count == 0:
        notes.add(
            "nothing_recorded",
            "the file holds no slice: the profiler recorded nothing (no active step of the schedule was reached: call prof.step()"
            " once an iteration)",
            withholds={"window", "idle", "delay"},
        )
        return
    if columns.whole_microseconds:
        notes.add(
            "whole_microseconds",
            "all times are whole microseconds (writers before 2024): what is shorter than 1 us is unknown, not 0",
            int(slices.start.size),
            withholds={"sub-microsecond"},
        )
    links, gpu, enqueues = trace.links, trace.gpu_rows, trace.enqueue_rows
    if gpu.size == 0 and enqueues.size:
        cut = any(note.kind == "truncated" for note in notes.frozen())
        why = "the file ends before any of it" if cut else "a profiler that could not attach, or CUPTI in use elsewhere"
        notes.add(
            "gpu_activity_missing",
            f"work was launched, and no GPU slice was recorded: the GPU was NOT idle, its activity is missing ({why})",
            int(enqueues.size),
            withholds={"idle", "delay"},
        )
    enqueueing = slices.correlation[enqueues]
    again = enqueueing[enqueueing >= 0].size - np.unique(enqueueing[enqueueing >= 0]).size
    notes.add(
        "repeated_correlation",
        "launches that share their id with another (several processes in one file): their GPU slices are linked to the last launch"
        " that precedes them, and devices of one number count as one",
        again,
        withholds={"delay"},
    )
    notes.add(
        "unread_category",
        f"slices of categories that are not read are left out ({', '.join(sorted(columns.unread))[:120]})",
        sum(columns.unread.values()),
    )
    notes.add(
        "orphan",
        "GPU slices whose launch was not recorded: they count as busy, no launch delay is claimed for them",
        links.orphans,
        withholds={"delay"} if links.orphans == gpu.size else frozenset(),
    )
    early = links.delay[links.first] if gpu.size else links.delay
    skewed = early[early < 0]
    if skewed.size:
        notes.add(
            "clock_skew",
            f"GPU slices begin before their launch, by up to {-int(skewed.min()) / 1000:g} us: the clocks of host and GPU differ by at"
            " least that much; launch delays are kept as they stand and not claimed",
            int(skewed.size),
            withholds={"delay"},
        )
    notes.add(
        "child_outlives_parent",
        "host slices that outlive the one they began in: the excess counts for neither, self time is never negative",
        trace.nesting.overlaps,
    )
    used = {slices.devices[code] for code in slices.device[gpu].tolist()}
    notes.add(
        "device_unknown",
        "the file does not name the GPU: what needs its peak is withheld",
        sum(not trace.gpu(number).name for number in used),
        withholds={"peak"},
    )


def devices(metadata: dict[str, Any]) -> dict[str, Gpu]:
    """The devices that a trace's document describes, by number ("computeProperties" in 2021)."""
    found = metadata.get("deviceProperties") or metadata.get("computeProperties") or []
    gpus: dict[str, Gpu] = {}
    for number, entry in enumerate(found if isinstance(found, list) else []):
        if not isinstance(entry, dict):
            continue
        identity = str(entry.get("id", number))
        memory, processors = entry.get("totalGlobalMem"), entry.get("numSms", entry.get("multiProcessorCount"))
        gpus[identity] = Gpu(
            identity,
            str(entry.get("name") or ""),
            memory if isinstance(memory, int) and memory > 0 else None,
            processors if isinstance(processors, int) and processors > 0 else None,
        )
    return gpus


@contextmanager
def _no_collection() -> Iterator[None]:
    # Decoding makes hundreds of thousands of objects that hold no cycles; walking them would double the time.
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
