"""Ceilings of a device: a double of torch with a clock of its own, and real torch on the processor with the double's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from suite.device.ceilings import Ceilings, measure

GIB = 1 << 30


class FakeTorch:
    """A GPU on which nothing is computed and each call takes the time its rate says, by events of its own clock.

    `memory` is its size in bytes, `refuse` a product that it cannot make, `factors` how much longer the next calls take. An event has no
    time before a synchronise.
    """

    bfloat16, float32, uint8 = "bfloat16", "float32", "uint8"
    WIDTH = {"bfloat16": 2, "float32": 4, "uint8": 1}  # noqa: RUF012

    def __init__(self, memory: int = 140 * GIB, capability: tuple[int, int] = (9, 0), refuse: str = "") -> None:
        self.now_ns = 0.0
        self.synchronised_at = -1.0
        self.memory, self.refuse = memory, refuse
        self.precision = "highest"
        self.rates = {"bf16": 800e12, "tf32": 400e12, "fp32": 50e12, "copy": 4e12}
        self.factors: list[float] = []
        self.used: list[str] = []
        self.randoms = 0
        self.emptied = 0
        self.cuda = SimpleNamespace(
            get_device_capability=lambda: capability,
            get_device_name=lambda: "NVIDIA Fake",
            empty_cache=self._empty,
            synchronize=self._synchronise,
            Event=self._event,
        )

    def _empty(self) -> None:
        self.emptied += 1

    def _synchronise(self) -> None:
        self.synchronised_at = self.now_ns

    def _event(self, enable_timing: bool) -> Any:
        assert enable_timing
        event = SimpleNamespace(at=0.0)
        event.record = lambda: setattr(event, "at", self.now_ns)

        def elapsed(end: Any) -> float:
            if end.at > self.synchronised_at:
                raise RuntimeError("Both events must be completed before calculating elapsed time.")
            return (end.at - event.at) / 1e6

        event.elapsed_time = elapsed
        return event

    def _spend(self, ns: float) -> None:
        self.now_ns += ns * (self.factors.pop(0) if self.factors else 1.0)

    def empty(self, *shape: int, dtype: str, device: str) -> Any:
        count = 1
        for each in shape:
            count *= each
        if count * self.WIDTH[dtype] > self.memory / 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate much.\nSee the documentation.")
        tensor = SimpleNamespace(size=shape[0], dtype=dtype, bytes=count * self.WIDTH[dtype])
        tensor.fill_ = lambda _value: tensor
        tensor.copy_ = lambda source: self._spend(2 * source.bytes / self.rates["copy"] * 1e9)
        return tensor

    def randn(self, *shape: int, dtype: str, device: str) -> Any:
        self.randoms += 1
        return self.empty(*shape, dtype=dtype, device=device)

    def mm(self, left: Any, right: Any, out: Any) -> None:
        name = "bf16" if left.dtype == "bfloat16" else {"high": "tf32", "highest": "fp32"}[self.precision]
        if name == self.refuse:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED when calling cublasGemmEx")
        self.used.append(name)
        self._spend(2 * left.size**3 / self.rates[name] * 1e9)

    def get_float32_matmul_precision(self) -> str:
        return self.precision

    def set_float32_matmul_precision(self, wanted: str) -> None:
        self.precision = wanted


def rates(found: Ceilings) -> dict[str, float]:
    return {name: each.per_s for name, each in found.measured.items()}


def test_each_ceiling_is_the_devices_own_rate_in_its_unit():
    torch = FakeTorch()
    found = measure(torch)
    assert rates(found) == pytest.approx(torch.rates, rel=1e-4)
    assert {name: each.unit for name, each in found.measured.items()} == {
        "bf16": "FLOP/s",
        "tf32": "FLOP/s",
        "fp32": "FLOP/s",
        "copy": "bytes/s",
    }
    assert found.measured["bf16"].work == "8192 x 8192 x 8192" and found.measured["copy"].work == "2.00 GiB"
    assert found.missing == {} and found.device == "NVIDIA Fake"


def test_tf32_and_fp32_are_told_apart_by_torchs_precision_which_is_put_back():
    torch = FakeTorch()
    torch.precision = "medium"
    measure(torch)
    assert torch.precision == "medium"
    assert {"bf16", "tf32", "fp32"} == set(torch.used)


def test_the_precision_is_put_back_after_a_failure():
    torch = FakeTorch(refuse="tf32")
    found = measure(torch)
    assert torch.precision == "highest"
    assert found.missing == {"tf32": "RuntimeError: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasGemmEx"}
    assert set(found.measured) == {"bf16", "fp32", "copy"}


def test_the_fastest_round_is_the_ceiling_and_the_median_stands_beside_it():
    torch = FakeTorch()
    found = measure(torch, sizes=(8192,), rounds=3, round_ns=1)
    slow = FakeTorch()
    # Three calls to warm up, one to calibrate and a round that is not counted, then three of one call: slow, as it is, slower.
    slow.factors = [1, 1, 1, 1, 0.1, 2, 1, 4]
    noisy = measure(slow, sizes=(8192,), rounds=3, round_ns=1)
    assert noisy.measured["bf16"].per_s == pytest.approx(found.measured["bf16"].per_s, rel=1e-4)
    assert noisy.measured["bf16"].median_per_s == pytest.approx(400e12, rel=1e-4)
    assert noisy.measured["bf16"].calls == 1 and len(noisy.measured["bf16"].rounds_ns) == 3


def test_a_round_is_long_enough_for_the_events_that_time_it():
    found = measure(FakeTorch())
    assert all(min(each.rounds_ns) >= 50e6 for each in found.measured.values())


def test_a_size_that_does_not_fit_gives_way_to_a_smaller_one():
    found = measure(FakeTorch(memory=700 << 20))
    assert found.measured["bf16"].work == "8192 x 8192 x 8192"
    assert found.measured["fp32"].work == "4096 x 4096 x 4096"
    assert found.measured["copy"].work == "0.12 GiB"
    assert found.missing == {}


def test_what_never_fits_is_missing_with_the_first_line_of_the_reason():
    found = measure(FakeTorch(memory=1 << 20))
    assert found.measured == {}
    assert set(found.missing) == {"bf16", "tf32", "fp32", "copy"}
    assert found.missing["copy"] == "RuntimeError: CUDA out of memory. Tried to allocate much."


def test_an_older_device_has_no_ceiling_for_units_it_lacks():
    torch = FakeTorch(capability=(7, 5))
    found = measure(torch)
    assert set(found.measured) == {"fp32", "copy"}
    assert found.missing["tf32"] == "a device of compute capability 7 has no units for it"
    assert set(torch.used) == {"fp32"}


def test_the_data_are_random_and_the_memory_is_given_back():
    torch = FakeTorch()
    measure(torch)
    assert torch.randoms == 6 and torch.emptied == 4


def test_a_missing_ceiling_has_no_number():
    found = measure(FakeTorch(refuse="tf32"))
    assert found.per_s("tf32") is None
    assert found.per_s("bf16") == pytest.approx(800e12, rel=1e-4)


def test_ceilings_survive_the_way_through_a_file():
    found = measure(FakeTorch())
    assert msgspec.json.decode(msgspec.json.encode(found), type=Ceilings) == found


def test_the_calls_are_torchs_own():
    """Real torch on the processor, under a stand-in for its events."""
    torch = pytest.importorskip("torch")
    clock = FakeTorch()

    class OnTheProcessor:
        cuda = clock.cuda

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    clock.cuda.Event = lambda enable_timing: SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 1.0)
    before = torch.get_float32_matmul_precision()
    found = measure(
        OnTheProcessor(), "cpu", sizes=(16,), copy_bytes=1 << 10, least_copy_bytes=1 << 10, round_ns=1, rounds=2
    )
    assert set(found.measured) == {"bf16", "tf32", "fp32", "copy"}, found.missing
    assert found.measured["fp32"].per_s == pytest.approx(2 * 16**3 / 1e-3)
    assert torch.get_float32_matmul_precision() == before
