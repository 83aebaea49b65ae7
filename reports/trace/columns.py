"""Builds columns (numpy arrays) from decoded events: the events of a piece are dropped before the next one is decoded.

Names, lanes, ids and shapes become numbers (an id is opaque: it may be huge, or text). Times become whole nanoseconds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.trace.categories import GPU_WORK, Kind, kind_of
from reports.trace.event import AnyEvent, Args, ExactEvent

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

MISSING = np.iinfo(np.int64).min
"""A time that is not there."""

FARTHEST_US = 9.2e15
"""Microseconds beyond which a time does not fit 64 bits of nanoseconds; no clock counts that far."""


NO_ARGS = Args()
LONG_FRAME_US = 200.0
"""Python's frames from this length on are kept: they tell what the host did while a GPU waited. Shorter ones are nine of ten slices."""
KINDS = tuple(Kind)


class Interner(defaultdict[Hashable, int]):
    """Numbers things in the order in which they are first met."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number

    def values_in_order(self) -> list[Any]:
        """The things, by number."""
        return list(self)


@dataclass(frozen=True)
class Resources:
    """What a kernel was launched with; None where the trace does not say. `grid` and `block` in blocks and threads, memory in bytes."""

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None
    shared_memory_bytes: int | None = None
    occupancy_percent: float | None = None


@dataclass(frozen=True)
class Columns:
    """All complete slices ("ph": "X", and "B" with its "E") as they stand in the file, row for row; short `python_frames` and slices of
    categories that nothing is known of (`unread`) are only counted. A device's name is its number, with its process's id where several
    processes have a device of that number. `processes` are the names that the file gives its processes, by id. `left_out` are
    the correlations of GPU slices that were set aside later.

    `start` and `duration` are nanoseconds since the trace's own epoch, `MISSING` where the file has none. `correlation`, `stream`,
    `device`, `resources` and `shape` are numbers into what was interned, -1 where there is none; `moved_bytes` (of copies and fills) is NaN
    where there is none.
    """

    kind: NDArray[np.int8]
    name: Codes
    lane: Codes
    start: Ints
    duration: Ints
    correlation: Codes
    stream: Codes
    device: Codes
    moved_bytes: Floats
    resources: Codes
    shape: Codes
    graph: NDArray[np.bool_]
    names: list[str]
    lanes: list[tuple[str, str]]
    streams: list[str]
    devices: list[str]
    resource_list: list[Resources]
    shapes: list[tuple[bytes, bytes]]
    whole_microseconds: bool
    unpaired: int
    python_frames: int
    unread: dict[str, int]
    processes: dict[str, str]
    left_out: Codes | None = None


class Builder:
    """Takes events piece by piece; `columns()` gives them all."""

    def __init__(self) -> None:
        self._names = Interner()
        self._lanes = Interner()
        self._correlations = Interner()
        self._streams = Interner()
        self._devices = Interner()
        self._processes: dict[str, str] = {}
        self._resources = Interner()
        self._shapes = Interner()
        self._pieces: list[dict[str, NDArray[Any]]] = []
        self._open: dict[tuple[int, int], list[AnyEvent]] = defaultdict(list)
        self._whole = True
        self._unpaired = 0
        self._frames = 0
        self._marks = False
        self._unread: dict[tuple[str, str], int] = defaultdict(int)

    def add(self, events: Iterable[AnyEvent]) -> None:
        """Take a piece's events."""
        slices: list[AnyEvent] = []
        keep = slices.append
        for event in events:
            phase = event.ph
            if phase == "X":
                category = event.cat
                # The whole recording's own slice says nothing that the slices in it do not.
                if category == "python_function":
                    if event.dur == event.dur and event.dur >= LONG_FRAME_US:
                        keep(event)
                    else:
                        self._frames += 1
                elif category != "Trace":
                    keep(event)
            elif phase in {"B", "E"}:
                self._pair(event, slices)
            elif phase == "M" and event.name == "process_name" and event.args is not None:
                self._processes[_text(event.pid)] = _text(event.args.label)
                self._marks = True
            elif phase:
                self._marks = True
        if slices:
            self._pieces.append(self._piece(slices))

    def _pair(self, event: AnyEvent, slices: list[AnyEvent]) -> None:
        lane = (self._names[_text(event.pid)], self._names[_text(event.tid)])
        if event.ph == "B":
            self._open[lane].append(event)
            return
        if not self._open[lane]:
            self._unpaired += 1
            return
        begun = self._open[lane].pop()
        begun.dur = event.ts - begun.ts  # type: ignore[operator]
        begun.args = begun.args or event.args
        slices.append(begun)

    def _piece(self, slices: list[AnyEvent]) -> dict[str, NDArray[Any]]:
        n = len(slices)
        kind = np.fromiter(map(kind_of, map(attrgetter("cat"), slices)), np.int8, n)
        piece: dict[str, NDArray[Any]] = {
            "kind": kind,
            "name": np.fromiter(map(self._names.__getitem__, map(attrgetter("name"), slices)), np.int32, n),
            "lane": self._lanes_of(slices),
            "start": self._starts([event.ts for event in slices]),
            "duration": self._times([event.dur for event in slices]),
        }
        for column in ("correlation", "stream", "device", "resources", "shape"):
            piece[column] = np.full(n, -1, np.int32)
        piece["moved_bytes"] = np.full(n, np.nan)
        piece["graph"] = np.zeros(n, np.bool_)
        # Plain numbers: comparing a numpy scalar with an enumeration is a hundred times slower.
        for row in np.flatnonzero(kind == Kind.OTHER).tolist():
            self._unread[slices[row].cat, _text(slices[row].pid)] += 1
        wanted = np.flatnonzero(~np.isin(kind, (Kind.OTHER, Kind.ANNOTATION, Kind.FRAME)))
        for row, code in zip(wanted.tolist(), kind[wanted].tolist(), strict=True):
            event = slices[row]
            if event.args is not None:
                self._details(piece, row, KINDS[code], event, event.args)
            elif code in GPU_WORK:
                self._details(piece, row, KINDS[code], event, NO_ARGS)
        return piece

    def _lanes_of(self, slices: list[AnyEvent]) -> Codes:
        try:
            return np.fromiter(
                map(self._lanes.__getitem__, map(attrgetter("pid", "tid"), slices)), np.int32, len(slices)
            )
        except TypeError:  # an id that is a list or an object
            return np.fromiter(map(self._lane, slices), np.int32, len(slices))

    def _lane(self, event: AnyEvent) -> int:
        try:
            return self._lanes[event.pid, event.tid]
        except TypeError:
            return self._lanes[_text(event.pid), _text(event.tid)]

    def _details(
        self, piece: dict[str, NDArray[Any]], row: int | np.integer[Any], kind: Kind, event: AnyEvent, args: Args
    ) -> None:
        if kind == Kind.OP:
            if len(memoryview(args.input_dims)) > 2:
                piece["shape"][row] = self._shapes[bytes(args.input_dims), bytes(args.input_type)]
            return
        if args.correlation is not None:
            piece["correlation"][row] = self._correlations[_opaque(args.correlation)]
        if kind not in GPU_WORK:
            return
        process = _text(event.pid)
        piece["device"][row] = self._devices[process if args.device is None else _text(args.device), process]
        piece["stream"][row] = self._streams[_text(event.tid if args.stream is None else args.stream)]
        piece["graph"][row] = args.graph_node is not None
        if kind == Kind.KERNEL:
            piece["resources"][row] = self._resources[
                _dimensions(args.grid),
                _dimensions(args.block),
                _count(args.registers),
                _count(args.shared_memory),
                _finite(args.occupancy),
            ]
        else:
            amount = _finite(args.bytes if args.bytes is not None else args.size)
            piece["moved_bytes"][row] = np.nan if amount is None else amount

    def _starts(self, values: list[Any]) -> Ints:
        times = self._times(values)
        if self._whole:
            self._whole = not np.any(times[times != MISSING] % 1000)
        return times

    def _times(self, values: list[Any]) -> Ints:
        if values and not isinstance(values[0], float):
            return np.fromiter(map(self._exact, values), np.int64, len(values))
        try:
            times = np.array(values, np.float64)
        except TypeError:
            return np.fromiter(map(self._exact, values), np.int64, len(values))
        usable = np.abs(times) < FARTHEST_US
        with np.errstate(invalid="ignore"):
            times = np.where(usable, times, 0)
            # Whole and broken part apart: an absolute time in microseconds times a thousand has more digits than a double.
            whole = np.floor(times)
            nanoseconds = whole.astype(np.int64) * 1000 + np.rint((times - whole) * 1000).astype(np.int64)
            nanoseconds[~usable] = MISSING
        return nanoseconds

    @staticmethod
    def _exact(value: Any) -> int:
        if isinstance(value, Decimal):
            usable = value.is_finite() and abs(value) < FARTHEST_US
            return int((value * 1000).to_integral_value()) if usable else MISSING
        return round(value * 1000) if -FARTHEST_US < value < FARTHEST_US else MISSING

    @property
    def holds_events(self) -> bool:
        """Whether anything so far was an event: something that says what kind ("ph") it is."""
        return self._marks or bool(self._pieces or self._frames or self._open or self._unpaired)

    def columns(self) -> Columns:
        """All slices so far; slices that began and never ended are among them, without a duration."""
        begun = [event for events in self._open.values() for event in events]
        for event in begun:
            event.dur = event.dur if event.dur == event.dur else type(event)().dur
        if begun:
            self._pieces.append(self._piece(begun))
        pieces = self._pieces or [self._piece([])]
        whole = {column: np.concatenate([piece[column] for piece in pieces]) for column in pieces[0]}
        self._pieces.clear()
        return Columns(
            **whole,
            names=self._names.values_in_order(),
            lanes=[(_text(pid), _text(tid)) for pid, tid in self._lanes.values_in_order()],
            streams=self._streams.values_in_order(),
            devices=_named(self._devices.values_in_order()),
            resource_list=[Resources(*key) for key in self._resources.values_in_order()],
            shapes=self._shapes.values_in_order(),
            whole_microseconds=self._whole,
            unpaired=self._unpaired,
            python_frames=self._frames,
            unread=self._unread_by_name(),
            processes=self._processes,
        )

    def _unread_by_name(self) -> dict[str, int]:
        """Slices that are not read, by their category; those without one by their process's name."""
        found: dict[str, int] = defaultdict(int)
        for (category, process), count in self._unread.items():
            found[category or self._processes.get(process) or "no category"] += count
        return dict(found)


def _named(devices: list[tuple[str, str]]) -> list[str]:
    """The devices' names: files of several processes hold a device 0 of each, whose slices stand below the process's own id."""
    processes: dict[str, set[str]] = defaultdict(set)
    for number, process in devices:
        processes[number].add(process)
    return [
        number
        if len(processes[number]) == 1
        else process
        if re.search(rf"\b{re.escape(number)}\b", process)
        else f"{number} (process {process})"
        for number, process in devices
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _opaque(value: Any) -> Hashable:
    # 12, 12.0 and "12" are one id: the same writer has been seen to give both forms. As a number it takes a third of the memory.
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    text = _text(value)
    return int(text) if len(text) < 20 and text.isdecimal() and str(int(text)) == text else text


def _dimensions(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(item, int | float) for item in value):
        return None
    return tuple(int(item) for item in value if abs(item) < 1 << 62)


def _count(value: Any) -> int | None:
    number = _finite(value)
    return None if number is None else int(number)


def _finite(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


__all__ = ["MISSING", "Builder", "Codes", "Columns", "ExactEvent", "Floats", "Ints", "Resources"]
