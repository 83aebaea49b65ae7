"""Recordings of NVML: made on a machine with GPUs, played where there are none.

    python -m suite.fingerprint.gpu.nvml_recorder > recording.json

A recording holds the answers to exactly the calls that `suite.fingerprint.gpu.nvml` makes:

    {"format": "speedproof NVML recording 1", "origin": "...", "calls": {
        "nvmlDeviceGetCount()": {"value": 1},
        "nvmlDeviceGetHandleByIndex(0)": {"value": "gpu 0"},
        "nvmlDeviceGetName(gpu 0)": {"value": "NVIDIA A100-SXM4-80GB"},
        "nvmlDeviceGetMemoryInfo(gpu 0, 33554472)": {"value": {"total": 85899345920, ...}},
        "nvmlDeviceGetFanSpeed(gpu 0)": {"error": "NVML_ERROR_NOT_SUPPORTED"},
        "nvmlDeviceGetGpuFabricInfoV(gpu 0, &c_nvmlGpuFabricInfo_v2_t)": {"value": 0, "fills": {"state": 0}}}}

Structs are objects, arrays are lists, a handle is the name of its GPU, and "fills" is what a call wrote into a struct it
was given. A function that a recording does not hold is one that its driver does not have. UUIDs are replaced by salted
ones and process ids by numbers that no process has; serial numbers and names of processes are never asked for.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from suite.fingerprint.gpu import nvml
from suite.fingerprint.identity import UUID, salted

FORMAT = "speedproof NVML recording 1"
NO_PID = 1 << 22  # Linux gives out smaller numbers only, so that no player is taken for the recorded process
HANDLES = {"nvmlDeviceGetHandleByIndex": "gpu", "nvmlDeviceGetMigDeviceHandleByIndex": "mig"}


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call returned, or the name of the error it raised; `fills` is what it wrote into a struct."""

    value: Any = None
    error: str = ""
    fills: dict[str, Any] = {}


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A whole recording. `origin` says in words where its answers come from."""

    format: str
    origin: str
    calls: dict[str, Answer]


def load(path: Path) -> Player:
    """The recording in a file, ready to be asked.

    Raises:
        ValueError: not a recording, or of another format.
        OSError: not readable.
    """
    recording = msgspec.json.decode(path.read_bytes(), type=Recording)  # msgspec's errors are ValueErrors
    if recording.format != FORMAT:
        raise ValueError(f"{path}: a recording of format {recording.format!r}, not {FORMAT!r}")
    return Player(recording.calls)


class Player:
    """The interface of `pynvml`, answered from a recording; constants, structs and errors are the module's own.

    `running` tells whether NVML has been started and not yet ended.
    """

    def __init__(self, calls: Mapping[str, Answer]) -> None:
        self._calls = calls
        self._functions = {key.partition("(")[0] for key in calls}
        self.running = False

    def __getattr__(self, name: str) -> Any:
        import pynvml

        if not name.startswith("nvml") or isinstance(getattr(pynvml, name, None), int):
            return getattr(pynvml, name)
        return lambda *arguments: self._answer(pynvml, name, arguments)

    def nvmlInit(self) -> None:
        """Start, unless the recording is of an NVML that cannot be started."""
        if "nvmlInit()" in self._calls:
            import pynvml

            self._answer(pynvml, "nvmlInit", ())
        self.running = True

    def nvmlShutdown(self) -> None:
        """End."""
        self.running = False

    def _answer(self, pynvml: Any, function: str, arguments: tuple[Any, ...]) -> Any:
        # Arguments that were not recorded are refused; a function that was not is missing in the driver.
        unknown = "NVML_ERROR_INVALID_ARGUMENT" if function in self._functions else "NVML_ERROR_FUNCTION_NOT_FOUND"
        answer = self._calls.get(key(function, arguments), Answer(error=unknown))
        if answer.error:
            raise pynvml.NVMLError(getattr(pynvml, answer.error))
        for name, value in answer.fills.items():
            setattr(arguments[-1]._obj, name, value)
        return _as_struct(answer.value)


class Recorder:
    """The interface of `source` (`pynvml`, or a `Player`), which writes down every answer in `calls`."""

    def __init__(self, source: Any) -> None:
        self.calls: dict[str, Answer] = {}
        self._source = source
        self._names: dict[Any, str] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._source, name)
        if not name.startswith("nvml") or not callable(found):
            return found
        return lambda *arguments: self._record(name, found, arguments)

    def _record(self, function: str, found: Any, arguments: tuple[Any, ...]) -> Any:
        shown = tuple(self._names.get(_address(argument), argument) for argument in arguments)
        written = key(function, shown)
        try:
            value = found(*arguments)
        except self._source.NVMLError as error:
            self.calls[written] = Answer(error=_error_name(error))
            raise
        if function in HANDLES:
            self._names[_address(value)] = f"{HANDLES[function]} {shown[-1]}" + (f" of {shown[0]}" if shown[1:] else "")
            self.calls[written] = Answer(value=self._names[_address(value)])
            return value
        filled = _plain(getattr(arguments[-1], "_obj", None)) if arguments else None
        plain = value if function in ("nvmlInit", "nvmlShutdown") else _plain(value)
        self.calls[written] = Answer(value=_redacted(plain), fills=_harmless(filled))
        return value


def key(function: str, arguments: tuple[Any, ...]) -> str:
    """How a call is written in a recording."""
    shown = (f"&{type(each._obj).__name__}" if hasattr(each, "_obj") else str(each) for each in arguments)
    return f"{function}({', '.join(shown)})"


def _error_name(error: Any) -> str:
    import pynvml

    names = {getattr(pynvml, name): name for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
    return names.get(error.value, "NVML_ERROR_UNKNOWN")


def _address(value: Any) -> Any:
    """What a handle is known by: pointers are equal when they point to the same place."""
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    return value if isinstance(value, str) else None


def _plain(value: Any) -> Any:
    """ctypes and friendly objects as JSON has them."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {name: _plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, list | tuple | ctypes.Array):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0  # a number that is read from a union as what it is not
    if hasattr(value, "__dict__"):
        return {name: _plain(item) for name, item in vars(value).items()}
    return value


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return UUID.sub(lambda match: _salted_uuid(match[0]), value)
    if isinstance(value, list):
        numbered = [
            {**item, "pid": NO_PID + place} if isinstance(item, dict) and "pid" in item else item
            for place, item in enumerate(value)
        ]
        return [_redacted(item) for item in numbered]
    if isinstance(value, dict):
        return {name: _redacted(item) for name, item in value.items()}
    return value


def _harmless(filled: Any) -> dict[str, Any]:
    """What was written into a struct, without the cluster's UUID."""
    return {name: item for name, item in filled.items() if isinstance(item, int)} if isinstance(filled, dict) else {}


def _salted_uuid(text: str) -> str:
    digits = salted("recording", text) * 2
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _as_struct(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _as_struct(item) for name, item in value.items()})
    return [_as_struct(item) for item in value] if isinstance(value, list) else value


def record(source: Any, origin: str) -> Recording:
    """Read the GPUs through `source`, and keep every answer."""
    recorder = Recorder(source)
    nvml.read(recorder)
    calls = {written: answer for written, answer in recorder.calls.items() if written != "nvmlShutdown()"}
    return Recording(format=FORMAT, origin=origin, calls=calls)


def main() -> int:
    """Print a recording of this machine's GPUs as JSON. Exit status 2: NVML cannot be started."""
    import pynvml

    made = record(pynvml, f"recorded on {datetime.now(UTC):%Y-%m-%d} with nvidia-ml-py")
    failed = made.calls.get("nvmlInit()", Answer()).error
    if failed:
        print(f"speedproof: NVML cannot be started ({failed}): there is nothing to record.", file=sys.stderr)
        return 2
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
