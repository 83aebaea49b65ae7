"""One event of a trace as it stands in the file (the trace-event format, Kineto's dialect), and its typed decoding."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import msgspec

NAN = math.nan
NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False, kw_only=True):
    """What is read of an event's `args`; everything else in them is skipped without being built. None: not there."""

    correlation: Any = None
    stream: Any = None
    device: Any = None
    bytes: Any = None
    size: Any = None
    graph_node: Any = msgspec.field(name="graph node id", default=None)
    grid: Any = None
    block: Any = None
    registers: Any = msgspec.field(name="registers per thread", default=None)
    shared_memory: Any = msgspec.field(name="shared memory", default=None)
    occupancy: Any = msgspec.field(name="est. achieved occupancy %", default=None)
    label: Any = msgspec.field(name="name", default=None)
    input_dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    input_type: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)


class Event(msgspec.Struct, gc=False, kw_only=True):
    """One event; `ts` and `dur` are microseconds, NaN where they are missing."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: float = NAN
    dur: float = NAN
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False, kw_only=True):
    """An event whose times are absolute and have decimals: a double would round them to a quarter of a microsecond."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Decimal = Decimal("NaN")
    dur: Decimal = Decimal("NaN")
    args: Args | None = None


AnyEvent = Event | ExactEvent
fast = msgspec.json.Decoder(list[Event])
exact = msgspec.json.Decoder(list[ExactEvent])
exact_one = msgspec.json.Decoder(ExactEvent)
elements_of = msgspec.json.Decoder(list[msgspec.Raw])

DECODING = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What msgspec raises for text that is not what it should be."""


def lenient(text: bytes | str) -> ExactEvent | None:
    """An event whose members have odd types: what can be understood is kept, the rest counts as missing. None: no event at all.

    Raises:
        ValueError: when the text is not JSON.
    """
    try:
        found = json.loads(text, parse_float=Decimal, parse_int=_integer, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        return None
    args = found.get("args")
    event = ExactEvent(
        ph=_text(found.get("ph")),
        cat=_text(found.get("cat")),
        name=_text(found.get("name")),
        pid=found.get("pid"),
        tid=found.get("tid"),
        ts=_number(found.get("ts")),
        dur=_number(found.get("dur")),
    )
    if isinstance(args, dict):
        names = {field.encode_name: field.name for field in msgspec.structs.fields(Args) if field.type is Any}
        event.args = Args(**{names[key]: _plain(value) for key, value in args.items() if key in names})
        for key, name in (("Input Dims", "input_dims"), ("Input type", "input_type")):
            if key in args:
                setattr(event.args, name, msgspec.Raw(json.dumps(args[key], default=str).encode()))
    return event


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _integer(digits: str) -> int:
    # int() refuses thousands of digits, by design; as a number they mean nothing here either.
    return int(digits) if len(digits) < 40 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return Decimal("NaN")
    try:
        number = Decimal(value)
    except (ArithmeticError, ValueError):
        return Decimal("NaN")
    return number if number.is_finite() else Decimal("NaN")


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
