"""`python -m tests.perf.trace_reading [ROUNDS]`: from a trace's file to all findings, beside what reading it costs others.

TRACE_CORPUS names a folder of published traces, of which the largest is taken; without it a trace is made. HTA_PYTHON names a Python
with HolisticTraceAnalysis, to be timed beside. Everything runs in fresh processes, in one run; what is imported is not timed.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.perf.side_by_side import alternate, show
from tests.reports.trace.kineto import Recording

LARGEST = "real/mi300x_xdit_flux.json.gz"
SCALES = (1, 4, 16)
ROUNDS = 4
MADE_STEPS = 900

PROCESS = """
import json, sys, time
path = sys.argv[1]
{prepare}
def high_water():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
before, start = high_water(), time.perf_counter()
{work}
print(json.dumps([time.perf_counter() - start, before, high_water()]), file=sys.stderr)
"""
"""VmHWM belongs to this program alone; ru_maxrss would begin with what the parent had."""

OURS = PROCESS.format(
    prepare="from pathlib import Path; from reports.findings.registry import findings; from reports.trace.analyse import analyse",
    work="found = findings(analyse(Path(path)))",
)
JSON_LOADS = PROCESS.format(
    prepare="import gzip; raw = (gzip.open if path.endswith('.gz') else open)(path, 'rb').read()",
    work="json.loads(raw)",
)
HOLISTIC = PROCESS.format(
    prepare="from hta.trace_analysis import TraceAnalysis",
    work="TraceAnalysis(trace_files={0: path}, trace_dir='').get_temporal_breakdown(visualize=False)",
)


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds, and bytes of memory at most, in all and beyond what importing took."""

    seconds: float
    peak_bytes: int
    grown_bytes: int


def cost(program: str, path: Path, python: str = sys.executable) -> Cost:
    """Run a program of the above form on a trace."""
    done = subprocess.run([python, "-c", program, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed on {path.name}:\n{done.stderr[-2000:]}")
    seconds, before, peak = json.loads(done.stderr.strip().splitlines()[-1])
    return Cost(seconds, peak, peak - before)


def made() -> dict[str, Any]:
    """A trace like a training run's: per step a hundred operations in Python frames, sixty launches."""
    recording = Recording()
    for step in range(MADE_STEPS):
        at = 100.25 + step * 2_000
        recording.note(f"ProfilerStep#{step}", at, at + 1_990)
        for number in range(60):
            here = at + 5 + number * 30
            for depth in range(4):
                name = f"/opt/project/layers/block_{number % 12}.py({40 + depth}): forward"
                recording.add(
                    "python_function", name, here + depth, here + 29 - depth, **{"Python id": len(recording.events)}
                )
            recording.op("aten::linear", here + 5, here + 24)
            recording.op("aten::addmm", here + 6, here + 23)
            recording.launch(f"sm80_xmma_gemm_bf16_{number % 5}", here + 10, here + 40, here + 62)
    return recording.document()


def repeated(document: dict[str, Any], times: int) -> Iterator[bytes]:
    """The document with its events several times over, one after the other, with times, correlations and flows of their own."""
    head = dict(document)
    events = head.pop("traceEvents")
    starts = [event["ts"] for event in events if isinstance(event.get("ts"), int | float)]
    length = max(starts) - min(starts) + 1_000
    yield msgspec.json.encode(head)[:-1] + b',"traceEvents":['
    for number in range(times):
        for event in events if number else ():
            if isinstance(event.get("ts"), int | float):
                event["ts"] = round(event["ts"] + length, 3)
            args = event.get("args")
            for key in ("correlation", "External id"):
                if isinstance(args, dict) and isinstance(args.get(key), int) and args[key] > 0:
                    args[key] += 1_000_000
            if isinstance(event.get("id"), int):
                event["id"] += 1_000_000
        # A blank after each event, as the profiler's own files have: bytes are what is measured.
        yield (b",\n" if number else b"") + b",\n  ".join(map(msgspec.json.encode, events))
    yield b"\n]}"


def beside(path: Path, rounds: int) -> None:
    """Ours beside json.loads, and beside HolisticTraceAnalysis where it is there."""
    things: dict[str, Callable[[], Cost]] = {
        "json.loads of the unpacked bytes": partial(cost, JSON_LOADS, path),
        "file to all findings": partial(cost, OURS, path),
    }
    if python := os.environ.get("HTA_PYTHON"):
        things["HolisticTraceAnalysis, load and one breakdown"] = partial(cost, HOLISTIC, path, python)
    costs = alternate(things, rounds)
    show(f"reading {path.name}", {name: [one.seconds for one in found] for name, found in costs.items()})
    for name, found in costs.items():
        print(f"  {name:46} {max(one.peak_bytes for one in found) / 1e6:9.0f} MB at most")


def growth(document: dict[str, Any], folder: Path, rounds: int) -> None:
    """Time and memory at several sizes, over the raw bytes."""
    print("\nsize       raw MB     s   ns a byte      (of 1x)   MB in all   MB grown   grown/raw")
    first = 0.0
    for times in SCALES:
        path = folder / f"{times}x.json"
        with path.open("wb") as stream:
            # Repeating changes the events; each size begins with fresh ones.
            for part in repeated(msgspec.json.decode(msgspec.json.encode(document)), times):
                stream.write(part)
        raw = path.stat().st_size
        costs = [cost(OURS, path) for _ in range(rounds)]
        seconds, grown = min(one.seconds for one in costs), max(one.grown_bytes for one in costs)
        first = first or seconds / raw
        print(
            f"{times:3}x {raw / 1e6:13.1f} {seconds:5.2f} {seconds / raw * 1e9:11.2f} {seconds / raw / first:12.2f}"
            f" {max(one.peak_bytes for one in costs) / 1e6:11.0f} {grown / 1e6:10.0f} {grown / raw:11.2f}"
        )
        path.unlink()


def main(rounds: int = ROUNDS) -> int:
    """Print all of it."""
    corpus = os.environ.get("TRACE_CORPUS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if corpus:
            path = Path(corpus) / LARGEST
            document = msgspec.json.decode(gzip.decompress(path.read_bytes()))
        else:
            document, path = made(), folder / "made.json.gz"
            path.write_bytes(gzip.compress(b"".join(repeated(document, 1)), 6))
        beside(path, rounds)
        growth(document, folder, max(1, rounds // 2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:2])))
