"""A trace file as a `Trace`: clean columns, links between host and GPU, nesting, and notes on the file's health."""

from __future__ import annotations

import gc
import re
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
from reports.trace.health import judge
from reports.trace.links import Links, link
from reports.trace.memory import check_memory
from reports.trace.nesting import Nesting, nest
from reports.trace.notes import Note, Notes, Status, TraceError
from reports.trace.source import pieces

CAPTURE = re.compile(r"StreamBeginCapture|StreamEndCapture")


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
    def captures(self) -> tuple[NDArray[np.int32], Ints, Ints]:
        """Recorded captures of graphs: thread, start and end (ns). What is launched in one runs later, or never."""
        slices, found = self.slices, []
        marks = [row for row in self.rows(Kind.RUNTIME).tolist() if CAPTURE.search(self.name(row))]
        opened: dict[int, int] = {}
        for mark in sorted(marks, key=lambda row: int(slices.start[row])):
            lane = int(slices.lane[mark])
            if "Begin" in self.name(mark):
                opened.setdefault(lane, int(self.end[mark]))
            elif lane in opened:
                found.append((lane, opened.pop(lane), int(slices.start[mark])))
        lanes, starts, ends = zip(*found, strict=True) if found else ((), (), ())
        return np.array(lanes, np.int32), np.array(starts, np.int64), np.array(ends, np.int64)

    @cached_property
    def captured(self) -> NDArray[np.bool_]:
        """Of `enqueue_rows`, the calls that a graph's capture on their thread recorded: they start nothing by themselves."""
        rows, slices = self.enqueue_rows, self.slices
        found = np.zeros(rows.size, bool)
        for lane, start, end in zip(*(column.tolist() for column in self.captures), strict=True):
            begun = slices.start[rows]
            found |= (slices.lane[rows] == lane) & (begun >= start) & (begun <= end)
        return found

    @cached_property
    def lost_rows(self) -> NDArray[np.intp]:
        """Launches of kernels, by start, of which the file holds no slice although it holds GPU work: theirs ran, unseen.

        What was launched before the first graph was may have been captured for it; so may all, where no other launch has a slice. Fills
        of nothing leave no slice in a whole recording either, so that copies and fills do not tell.
        """
        if not self.gpu_rows.size:
            return self.enqueue_rows[:0]
        rows, slices = self.enqueue_rows[~self.captured], self.slices
        graphs = rows[self.call[rows] == Call.GRAPH_LAUNCH]
        if graphs.size:
            later = rows[slices.start[rows] >= slices.start[graphs[0]]]
            plain = later[self.call[later] == Call.LAUNCH]
            rows = later if np.isin(plain, self.links.launch).any() else graphs
        rows = rows[np.isin(self.call[rows], (Call.LAUNCH, Call.GRAPH_LAUNCH))]
        told = slices.left_out
        known = np.isin(slices.correlation[rows], () if told is None else told)
        lost = rows[~np.isin(rows, self.links.launch) & ~known]
        # Slices beyond one a launch are those of launches whose id was not given, or is another process's too.
        links = self.links.launch[self.links.launch >= 0]
        one_each = links[self.call[links] == Call.LAUNCH]
        if lost.size <= one_each.size - np.unique(one_each).size:
            return lost[:0]
        # A graph's slices may carry other ids than its launch.
        return lost[:0] if 0 < lost.size <= self.links.orphans and np.isin(lost, graphs).all() else lost

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
        """The first time of all but Python's frames, in ns; pictures and claims count from here."""
        start, kind = self.slices.start, self.slices.kind
        starts = start[kind != Kind.FRAME] if (kind != Kind.FRAME).any() else start
        return int(starts.min()) if starts.size else 0

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
            holds_events = builder.holds_events
            columns = builder.columns()
        if not holds_events and (frames.events or "unreadable_event" in notes):
            raise TraceError(
                f"{path}: is a list of values of which none is an event (a memory timeline, a table?);"
                " give the trace that export_chrome_trace wrote."
            )
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
