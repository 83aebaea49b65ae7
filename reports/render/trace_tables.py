"""The tables of a trace's page; each number has its definition in the table or in a line under it. No HTML here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.render import numbers
from reports.render.plain_text import plain
from reports.render.trace_units import share, times, us
from reports.trace.analyse import Analysis
from reports.trace.columns import Resources
from reports.trace.gaps import DEFINITIONS, Cause
from reports.trace.kernels import KernelStats
from reports.trace.operators import ChainNode
from reports.trace.regime import Regime
from reports.trace.usage import Device, Spread

MOST_ROWS, MOST_STEPS, MOST_LINES, MOST_CHILDREN, MOST_DEVICES = 25, 24, 70, 12, 6
NAME = 180
"""Characters of a name that are shown; a longer one is cut in its middle."""

Align = Literal["text", "n", "name", "definition"]


@dataclass(frozen=True)
class Cell:
    """A cell, and a smaller line under it."""

    text: str
    small: str = ""


@dataclass(frozen=True)
class Table:
    """A table: columns with their kind, rows of cells, `total` in bold under them, and lines that define what the columns hold."""

    title: str
    columns: tuple[tuple[str, Align], ...]
    rows: tuple[tuple[Cell, ...], ...]
    definitions: tuple[tuple[str, str], ...] = ()
    total: tuple[Cell, ...] = ()
    note: str = ""


def tables(analysis: Analysis) -> list[Table]:
    """Every table that has something to show, in the order of the page."""
    found = [
        devices(analysis),
        idle(analysis),
        delays(analysis),
        host(analysis),
        steps(analysis),
        kernels(analysis),
        operators(analysis),
    ]
    return [table for table in found if table.rows]


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)


def _shown(analysis: Analysis) -> tuple[list[tuple[Device, Regime]], str]:
    pairs = list(zip(analysis.devices, analysis.regimes, strict=True))
    left = len(pairs) - MOST_DEVICES
    return pairs[:MOST_DEVICES], f"{left} more GPUs left out." if left > 0 else ""


def devices(analysis: Analysis) -> Table:
    """One column a GPU, one row a quantity, each with its definition beside it."""
    shown, note = _shown(analysis)
    withheld = analysis.trace.withheld

    def row(name: str, definition: str, values: Iterator[str], *needs: str) -> tuple[Cell, ...]:
        texts = ["withheld"] * len(shown) if withheld & set(needs) else list(values)
        return (Cell(name), *_cells(*texts), Cell(definition))

    each = [device for device, _ in shown]
    rows = (
        row("model", "as the file describes it", (plain(d.model, 32) or "not named" for d in each)),
        row(
            "window",
            "from the first host or GPU slice to the last end of either",
            (us(d.window_us) for d in each),
            "window",
        ),
        row("span", "from the start of the GPU's first slice to the end of its last", (us(d.span_us) for d in each)),
        row(
            "busy",
            "time in which at least one slice runs on it; overlapping streams count once",
            (us(d.busy_us) for d in each),
        ),
        row("idle of window", "1 − busy / window", (share(d.idle_of_window) for d in each), "window", "idle"),
        row(
            "idle of span",
            "1 − busy / span: leaves out the waiting before the first slice and after the last",
            (share(d.idle_of_span) for d in each),
            "window",
            "idle",
        ),
        row(
            "regime",
            "busy below 50 % of the time that counts: by the largest cause of idle time; from 75 % on: by the kind of kernel that takes"
            " 60 % of it (collectives: half of it uncovered); between: mixed",
            (r.bound for _, r in shown),
            "window",
            "idle",
        ),
        row(
            "time that counts",
            "the window without start-up, captures of graphs, the profiler's own work, lost records and what nothing explains",
            (us(r.counted_us) for _, r in shown),
            "window",
            "idle",
        ),
        row(
            "free launches",
            "window / (window − idle time in dispatching, the optimizer, launches under way, a cold first step): how much faster at most",
            (times(r.free_launches) for _, r in shown),
            "window",
            "idle",
            "cause",
        ),
        row(
            "exposed communication",
            "time in which collectives run and no other kernel does; as a share of busy",
            (
                f"{us(d.exposed_us)} ({share(d.exposed_us / d.busy_us)})" if d.communication_us and d.busy_us else "–"
                for d, _ in shown
            ),
            "window",
        ),
        row(
            "twice as fast kernels",
            "window / (window − busy / 2): how much faster at most",
            (times(r.twice_as_fast_kernels) for _, r in shown),
            "window",
            "idle",
        ),
        row(
            "kernels, copies, fills", "slices of each kind", (f"{d.kernels:,}, {d.copies:,}, {d.sets:,}" for d in each)
        ),
        row(
            "launches",
            "calls that put work on it; of them launches of graphs",
            (f"{d.launches:,}, {d.graph_launches:,}" for d in each),
        ),
        row("orphans", "slices whose launch was not recorded", (f"{d.orphans:,}" for d in each)),
        row("streams", "streams that did work", (f"{d.streams:,}" for d in each)),
    )
    columns: list[tuple[str, Align]] = [("Quantity", "text"), *((f"GPU {plain(d.device, 12)}", "n") for d in each)]
    return Table("GPUs", (*columns, ("Definition", "definition")), rows if shown else (), note=note)


def idle(analysis: Analysis) -> Table:
    """The idle time of the window by cause; the causes sum to it."""
    shown, note = _shown(analysis)
    each = [device for device, _ in shown]
    # The causes are told from the launches' times.
    if analysis.trace.withheld & {"idle", "window", "cause"}:
        each = []
    totals = [sum(device.idle_us.values()) for device in each]

    def time(value: float, total: float) -> Cell:
        return Cell(us(value), share(value / total) if value else "")

    rows = tuple(
        (
            Cell(cause.value.replace("_", " ")),
            *(time(device.idle_us[cause.value], total) for device, total in zip(each, totals, strict=True)),
            Cell(DEFINITIONS[cause]),
        )
        for cause in Cause
        if any(device.idle_us[cause.value] for device in each)
    )
    columns: list[tuple[str, Align]] = [("Cause", "text"), *((f"GPU {plain(d.device, 12)}", "n") for d in each)]
    total = (
        Cell("sum"),
        *(Cell(us(value)) for value in totals),
        Cell("window − busy: every idle nanosecond has one cause"),
    )
    return Table(
        "Idle time by cause", (*columns, ("Definition", "definition")), rows if each else (), total=total, note=note
    )


def delays(analysis: Analysis) -> Table:
    """How long launches take to arrive, and how far the host is ahead."""
    rows = []
    withheld = "delay" in analysis.trace.withheld
    for device, _ in _shown(analysis)[0]:
        spread: Spread | None = None if withheld else device.launch_delay_us
        cells = (
            [f"{spread.n:,}", *(us(v) for v in (spread.least, spread.median, spread.p95, spread.most))]
            if spread
            else ["withheld" if withheld else "–"] * 5
        )
        first = "withheld" if withheld else us(device.first_launch_to_first_kernel_us)
        rows.append(
            _cells(
                f"GPU {plain(device.device, 12)}",
                *cells,
                first,
                *(["withheld"] * 2 if withheld else [f"{device.queue_depth_mean:.3g}", f"{device.queue_depth_most:,}"]),
            )
        )
    names = ("launches", "least", "median", "p95", "most", "first launch to first slice", "queue, mean", "queue, most")
    columns: tuple[tuple[str, Align], ...] = (("", "text"), *((name, "n") for name in names))
    return Table(
        "Launch delays and queue depth",
        columns,
        tuple(rows),
        (
            ("delay", "from the start of a launch to the start of the first slice that it launched"),
            (
                "queue",
                "at a launch, how much was launched before and has not begun: 0: the GPU waits for the host; many: the host is ahead",
            ),
        ),
    )


def host(analysis: Analysis) -> Table:
    """What the host did."""
    found = analysis.host
    rows: tuple[tuple[Cell, ...], ...] = (
        _cells(
            "CPU time",
            us(found.self_cpu_total_us),
            "time covered by operators, annotations and run-time calls, summed over threads: the table's self CPU total",
        ),
        _cells(
            "waiting in synchronising calls",
            us(found.synchronize_us),
            f"part of it, in {numbers.counted(found.synchronizations, 'call')} such as cudaDeviceSynchronize",
        ),
        _cells("threads", f"{found.threads:,}", "host threads with at least one recorded slice"),
        _cells("operators", f"{found.operations:,}", "operator slices, those called by others included"),
        _cells("launches", f"{found.launches:,}", "run-time calls that put a kernel, graph, copy or fill on a GPU"),
        _cells("queries", f"{found.queries:,}", "run-time calls that ask for occupancy or attributes before a launch"),
    )
    if not analysis.has_gpu:
        rows = tuple(row for row in rows if row[0].text in ("CPU time", "threads", "operators"))
    columns: tuple[tuple[str, Align], ...] = (("Quantity", "text"), ("Host", "n"), ("Definition", "definition"))
    return Table("Host", columns, rows if analysis.trace.host_rows.size else ())


def steps(analysis: Analysis) -> Table:
    """One row a step."""
    gpu = analysis.has_gpu
    rows = []
    for step in analysis.steps[:MOST_STEPS]:
        gap = Cell(
            us(step.gap_us), f"{plain(step.annotation, 30)} → {plain(step.first_op, 30)}" if step.first_op else ""
        )
        cells = [Cell(str(step.number), f"at {us(step.start_us)}"), Cell(us(step.host_us)), gap]
        if gpu:
            idle_share = share(step.idle) if step.idle is not None else numbers.NO_NUMBER
            if "idle" in analysis.trace.withheld:
                idle_share = "withheld"
            cells += _cells(
                us(step.gpu_busy_us) if step.slices else numbers.NO_NUMBER,
                idle_share,
                f"{step.kernels:,}",
                f"{step.launches:,}",
                f"{step.queries:,}",
            )
        rows.append(tuple(cells))
    columns: list[tuple[str, Align]] = [("Step", "text"), ("host time", "n"), ("gap to first operator", "n")]
    if gpu:
        columns += [
            ("GPU busy", "n"),
            ("GPU idle", "n"),
            ("kernels", "n"),
            ("launches", "n"),
            ("queries", "n"),
        ]
    definitions = [
        ("host time", "length of the step's annotation on the host"),
        (
            "gap to first operator",
            "from the start of the first annotation in the step to its first operator: Python, and on a first step loading and set-up",
        ),
    ]
    if gpu:
        definitions += [
            ("GPU busy", "union of the slices launched in the step, whenever they ran"),
            ("GPU idle", "share of the time from the step's start to the end of its own work that they leave idle"),
        ]
    left = len(analysis.steps) - MOST_STEPS
    return Table(
        "Steps",
        tuple(columns),
        tuple(rows),
        tuple(definitions),
        note=f"{left} more steps left out." if left > 0 else "",
    )


def kernels(analysis: Analysis) -> Table:
    """GPU work by name, the longest total first."""
    rows = tuple(
        (
            Cell(plain(stats.name, NAME), f"{stats.kernel_class}{_launched_with(stats)}"),
            *_cells(
                f"{stats.count:,}",
                us(stats.total_us),
                share(stats.share),
                us(stats.median_us),
                us(stats.p95_us),
                us(stats.most_us),
            ),
            Cell(share(stats.spread) if stats.count > 1 else numbers.NO_NUMBER),
        )
        for stats in analysis.kernels[:MOST_ROWS]
    )
    names = ("calls", "total", "share", "median", "p95", "longest", "spread")
    left = len(analysis.kernels) - MOST_ROWS
    return Table(
        "Kernels, copies and fills by name",
        (("Name; class, launch configuration", "name"), *((name, "n") for name in names)),
        rows,
        (
            (
                "share",
                "of the summed time of all slices of its GPU; overlapping ones count twice here, so the sum may exceed busy",
            ),
            ("spread", "longest / median − 1"),
            ("class", "told from the vendors' naming; unknown stays unknown"),
        ),
        note=f"{numbers.counted(left, 'more name')} left out." if left > 0 else "",
    )


def _launched_with(stats: KernelStats) -> str:
    if stats.bytes is not None:
        return f", {numbers.size(stats.bytes)} in all"
    if not stats.resources:
        return ""
    more = (
        f" (and {numbers.counted(len(stats.resources) - 1, 'other configuration')})" if len(stats.resources) > 1 else ""
    )
    told = _resources(stats.resources[0])
    return f"; {told}{more}" if told else ""


def _resources(found: Resources) -> str:
    parts = [
        f"{name} {'×'.join(map(str, size))}" for name, size in (("grid", found.grid), ("block", found.block)) if size
    ]
    if found.registers is not None:
        parts.append(f"{found.registers} registers a thread")
    if found.shared_memory_bytes is not None:
        parts.append(f"{numbers.size(found.shared_memory_bytes)} shared memory a block")
    if found.occupancy_percent is not None:
        parts.append(f"occupancy {numbers.significant(found.occupancy_percent)} %")
    return ", ".join(parts)


def operators(analysis: Analysis) -> Table:
    """Names on the host, by self time."""
    gpu = bool(analysis.devices)
    total = sum(stats.self_us for stats in analysis.operators) or 1.0
    rows = tuple(
        (
            Cell(plain(stats.name, NAME), stats.kind),
            *_cells(f"{stats.count:,}", us(stats.self_us), share(stats.self_us / total), us(stats.total_us)),
            *(_cells(us(stats.self_device_us), us(stats.device_us)) if gpu else ()),
        )
        for stats in analysis.operators[:MOST_ROWS]
    )
    names = ["calls", "self", "share", "total", *(["GPU, self", "GPU, total"] if gpu else [])]
    definitions = [
        ("self", "time in it and in nothing that it called; these add up, and share is of their sum"),
        ("total", "with all that it called: nested, never to be added up"),
    ]
    if gpu:
        definitions.append(
            ("GPU", "time of the slices that it launched itself (self), or it and what it called (total)")
        )
    left = len(analysis.operators) - MOST_ROWS
    columns: tuple[tuple[str, Align], ...] = (("Name", "name"), *((name, "n") for name in names))
    note = f"{numbers.counted(left, 'more name')} left out." if left > 0 else ""
    return Table("Host by name, by self time", columns, rows, tuple(definitions), note=note)


@dataclass(frozen=True)
class Branch:
    """A line of the dispatch tree."""

    depth: int
    name: str
    kind: str
    count: str
    total: str


def branches(chains: Sequence[ChainNode]) -> list[Branch]:
    """The dispatch chains as indented lines; what is too much is said in a line of its own."""
    lines: list[Branch] = []

    def walk(node: ChainNode, depth: int) -> None:
        if len(lines) >= MOST_LINES:
            return
        lines.append(Branch(depth, plain(node.name, 100), node.kind, f"{node.count:,}", us(node.total_us)))
        children = list(node.children.values())
        for child in children[:MOST_CHILDREN]:
            walk(child, depth + 1)
        if len(children) > MOST_CHILDREN:
            lines.append(Branch(depth + 1, f"… {len(children) - MOST_CHILDREN} more", "", "", ""))

    for root in chains:
        walk(root, 0)
    if len(lines) >= MOST_LINES:
        lines.append(Branch(0, "… and more, left out", "", "", ""))
    return lines
