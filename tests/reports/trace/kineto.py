"""Builds small Kineto traces: what a test needs of one, written the way the profiler writes it. All times are microseconds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports.trace.analyse import Analysis, analyse

PID = 31007
ENGINE = {"id": 0, "name": "NVIDIA L4", "totalGlobalMem": 23 << 30, "numSms": 58}

Json = dict[str, Any]


@dataclass
class Recording:
    """Events in the order of their calls; what each method adds is returned, to be changed or damaged."""

    events: list[Json] = field(default_factory=list)
    devices: list[Json] = field(default_factory=lambda: [dict(ENGINE)])
    correlation: int = 0

    def add(self, cat: str, name: str, start: float, end: float, tid: Any = PID, pid: Any = PID, **args: Any) -> Json:
        """A complete slice from `start` to `end`."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": round(end - start, 6)}
        self.events.append(event | ({"args": args} if args else {}))
        return self.events[-1]

    def op(self, name: str, start: float, end: float, tid: Any = PID) -> Json:
        return self.add("cpu_op", name, start, end, tid, **{"External id": len(self.events) + 1})

    def note(self, name: str, start: float, end: float, tid: Any = PID) -> Json:
        """An annotation of the user's."""
        return self.add("user_annotation", name, start, end, tid, **{"External id": len(self.events) + 1})

    def call(self, name: str, start: float, end: float, tid: Any = PID) -> Json:
        """A run-time call with a correlation id of its own (`self.correlation`)."""
        self.correlation += 1
        return self.add("cuda_runtime", name, start, end, tid, cbid=211, correlation=self.correlation)

    def work(
        self, name: str, start: float, end: float, correlation: Any = None, device: Any = 0, stream: Any = 7
    ) -> Json:
        """A kernel that the latest call launched, unless another correlation is given."""
        args = {"device": device, "stream": stream, "correlation": correlation or self.correlation}
        return self.add("kernel", name, start, end, stream, device, **args)

    def launch(self, name: str, called: float, start: float, end: float, **where: Any) -> Json:
        """`cudaLaunchKernel` of 5 us at `called`, and its kernel."""
        self.call("cudaLaunchKernel", called, called + 5)
        return self.work(name, start, end, **where)

    def document(self, **members: Any) -> Json:
        return {"schemaVersion": 1, "deviceProperties": self.devices, **members, "traceEvents": self.events}

    def analyse(self, folder: Path, **members: Any) -> Analysis:
        return analysed(folder, json.dumps(self.document(**members)))


def two_steps() -> Recording:
    """Two steps with one kernel each: busy 30 + 40 = 70, span 150 to 310 = 160, window 100 to 340 = 240, both launch delays 30."""
    recording = Recording()
    for number, (at, length) in enumerate(((100.25, 30.0), (220.25, 40.0))):
        recording.note(f"ProfilerStep#{number}", at, at + 100)
        recording.op("aten::linear", at + 10, at + 60)
        recording.op("aten::addmm", at + 15, at + 50)
        recording.launch("sm80_gemm_bf16", at + 20, at + 50, at + 50 + length)
    recording.call("cudaDeviceSynchronize", 322.25, 340.25)
    return recording


FORMATS: dict[str, Callable[[Json], str]] = {
    "compact": lambda document: json.dumps(document, separators=(",", ":")),
    "blanks": json.dumps,
    "indent 1": lambda document: json.dumps(document, indent=1),
    "indent 4": lambda document: json.dumps(document, indent=4),
    "tabs": lambda document: json.dumps(document, indent="\t"),
    "CRLF": lambda document: json.dumps(document, indent=2).replace("\n", "\r\n"),
    "an event a line": lambda document: json.dumps(document).replace('}, {"ph"', '},\n  {"ph"'),
}
"""The layouts in which writers, editors and `jq` leave a trace."""


def save(folder: Path, data: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    return path


def analysed(folder: Path, data: str | bytes, name: str = "trace.json") -> Analysis:
    return analyse(save(folder, data, name))


def packed(data: str | bytes) -> bytes:
    return gzip.compress(data.encode() if isinstance(data, str) else data, mtime=0)


def noted(analysis: Analysis) -> dict[str, int]:
    """Kind and count of every note."""
    return {note.kind: note.count for note in analysis.trace.notes}


def numbers(analysis: Analysis) -> list[tuple[str, float, float, float, int, int]]:
    """What must not change when nothing but a trace's form does: busy, span, window, slices and orphans of every device."""
    return [(gpu.device, gpu.busy_us, gpu.span_us, gpu.window_us, gpu.slices, gpu.orphans) for gpu in analysis.devices]


WHOLE = [("0", 70.0, 160.0, 240.0, 2, 0)]
"""`numbers` of `two_steps`."""
