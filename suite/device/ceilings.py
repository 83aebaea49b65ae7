"""What a device can really do in this run: the rates of large matrix products and of a copy within its memory.

A published peak is what a datasheet says of every unit; a ceiling is what this unit, with this driver, library and power limit,
reaches on work that is as easy as can be. Other results are held against it. torch is an argument, so that this is testable without a
device; a worker hands its own in.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Unit = Literal["FLOP/s", "bytes/s"]

SIZES = (8192, 4096)
"""Of square products: large enough to fill any GPU of today, tried from the first on until one fits into memory."""

COPY_BYTES = 2 << 30
"""Of a copy's source, well beyond any cache; halved until two of them fit."""

LEAST_COPY_BYTES = 64 << 20
ROUND_NS = 50_000_000
"""The least length of a round of calls: thousands of times the resolution of an event."""

ROUNDS = 5
MOST_CALLS = 10_000
WARM_UP = 3


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """One ceiling: the fastest of a few rounds, `per_s` in `unit`, and the median of them.

    A copy counts what it reads and what it writes. `work` says what was done ("8192 x 8192 x 8192", "2.00 GiB"), and `calls` how often in
    each of `rounds_ns`.
    """

    name: str
    per_s: float
    median_per_s: float
    unit: Unit
    work: str
    calls: int
    rounds_ns: list[int]


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings of one device by name ("bf16", "tf32", "fp32" products; "copy"); `missing` says why another is not there."""

    device: str
    measured: dict[str, Ceiling]
    missing: dict[str, str] = {}

    def per_s(self, name: str) -> float | None:
        """A ceiling in its unit; None where it is missing."""
        return self.measured[name].per_s if name in self.measured else None


@dataclass(frozen=True)
class Product:
    """A kind of matrix product: the dtype's name in torch, and the precision for products of float32 under which it is made."""

    name: str
    dtype: str
    precision: str
    least_capability: int


PRODUCTS = (
    Product("bf16", "bfloat16", "highest", 8),
    Product("tf32", "float32", "high", 8),
    Product("fp32", "float32", "highest", 0),
)
"""bfloat16 and TF32 units came with compute capability 8; below it torch emulates or ignores them. ROCm's devices say 9 or more."""


def measure(
    torch: Any,
    where: str = "cuda",
    *,
    sizes: Sequence[int] = SIZES,
    copy_bytes: int = COPY_BYTES,
    least_copy_bytes: int = LEAST_COPY_BYTES,
    round_ns: int = ROUND_NS,
    rounds: int = ROUNDS,
) -> Ceilings:
    """Measure the ceilings of the current device: some seconds on a GPU; its memory is given back afterwards.

    `torch` is the module (of it: `cuda`, `empty`, `randn`, `mm` and the float32 precision), `where` its name of the device. What does not
    fit, or what the device refuses, is missing with its reason; torch's precision is put back.

    Sources: a product of n x n matrices is 2 n^3 operations; a copy of b bytes moves 2 b.
    """
    cuda = torch.cuda
    major = cuda.get_device_capability()[0]
    measured: dict[str, Ceiling] = {}
    missing: dict[str, str] = {}

    def keep(name: str, attempts: Iterator[Callable[[], Ceiling]]) -> None:
        for attempt in attempts:
            try:
                measured[name] = attempt()
                missing.pop(name, None)
            except Exception as error:  # what one ceiling cannot have must not cost the others
                missing[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            # Here, when no error holds the failed attempt's tensors any more.
            with suppress(Exception):
                cuda.empty_cache()
            if "out of memory" not in missing.get(name, "").lower():
                return

    for each in PRODUCTS:
        if major < each.least_capability:
            missing[each.name] = f"a device of compute capability {major} has no units for it"
            continue
        keep(each.name, (_product(torch, where, each, size, round_ns, rounds) for size in sizes))
    keep("copy", (_copy(torch, where, size, round_ns, rounds) for size in _halves(copy_bytes, least_copy_bytes)))
    return Ceilings(device=str(cuda.get_device_name()), measured=measured, missing=missing)


def _halves(most: int, least: int) -> Iterator[int]:
    while most >= least:
        yield most
        most //= 2


def _product(torch: Any, where: str, kind: Product, size: int, round_ns: int, rounds: int) -> Callable[[], Ceiling]:
    def run() -> Ceiling:
        dtype = getattr(torch, kind.dtype)
        # Random numbers: a GPU draws less power on zeros, and is faster then than on anybody's data.
        left = torch.randn(size, size, dtype=dtype, device=where)
        right = torch.randn(size, size, dtype=dtype, device=where)
        result = torch.empty(size, size, dtype=dtype, device=where)
        with precision(torch, kind.precision):
            taken = _rounds(torch.cuda, lambda: torch.mm(left, right, out=result), round_ns, rounds)
        return _ceiling(kind.name, 2 * size**3, "FLOP/s", f"{size} x {size} x {size}", *taken)

    return run


def _copy(torch: Any, where: str, size: int, round_ns: int, rounds: int) -> Callable[[], Ceiling]:
    def run() -> Ceiling:
        source = torch.empty(size, dtype=torch.uint8, device=where).fill_(1)
        target = torch.empty(size, dtype=torch.uint8, device=where)
        taken = _rounds(torch.cuda, lambda: target.copy_(source), round_ns, rounds)
        return _ceiling("copy", 2 * size, "bytes/s", f"{size / (1 << 30):.2f} GiB", *taken)

    return run


@contextmanager
def precision(torch: Any, wanted: str) -> Iterator[None]:
    """torch's precision for products of float32, for the time of a block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _rounds(cuda: Any, call: Callable[[], Any], round_ns: int, rounds: int) -> tuple[list[int], int]:
    """Durations of rounds of back-to-back calls by the device's own events, and the calls in each."""
    for _ in range(WARM_UP):
        call()
    one_ns = _timed(cuda, call, 1)
    calls = min(MOST_CALLS, max(1, -(-round_ns // one_ns)))
    # A GPU that rested takes tens of milliseconds to reach its clock: the first round is not counted.
    _timed(cuda, call, calls)
    return [_timed(cuda, call, calls) for _ in range(rounds)], calls


def _timed(cuda: Any, call: Callable[[], Any], calls: int) -> int:
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    cuda.synchronize()
    # elapsed_time is in milliseconds; an event's resolution may show none at all.
    return max(1, round(start.elapsed_time(end) * 1e6))


def _ceiling(name: str, amount: int, unit: Unit, work: str, taken: list[int], calls: int) -> Ceiling:
    total = amount * calls * 1e9
    return Ceiling(
        name=name,
        per_s=total / min(taken),
        median_per_s=total / statistics.median(taken),
        unit=unit,
        work=work,
        calls=calls,
        rounds_ns=taken,
    )
