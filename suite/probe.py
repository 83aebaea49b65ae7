"""What only torch can say about this machine before anything is measured; runs in a process of its own, started as workers are.

Besides torch's own facts it compiles one trivial kernel. That shows whether compiled arms can run at all, and builds torch's
precompiled C++ header, which all kernels share and which takes up to a minute once per machine: without this, the first case's
cold compile time would include it.
"""

from __future__ import annotations

import sys
import time

import msgspec

from suite.bundle.schema import Device as Description
from suite.bundle.schema import Fact
from suite.device import registry
from suite.device.contract import Device, DeviceUnavailableError
from suite.fingerprint.software import torch as torch_facts
from suite.protocol import leave


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`no_compiler` is empty when compiled arms can run, else the reason in a clause; `compile_ns` is the kernel's wall time.

    `device` is the device with what it tells of itself; `no_device` is empty unless it cannot be measured on.
    `ceilings` are what it reaches.
    """

    facts: dict[str, Fact]
    no_compiler: str
    compile_ns: int
    device: Description = Description()
    no_device: str = ""
    ceilings: dict[str, Fact] = {}


def probe(wanted: Description | None = None) -> Probe:
    """Read torch's facts, open the device, then compile and run a kernel on it in a throw-away cache. Imports torch."""
    wanted = wanted or Description()
    facts = torch_facts.read()
    start = time.perf_counter_ns()
    try:
        device = registry.open_device(wanted)
        device.synchronise()
    except DeviceUnavailableError as error:
        return Probe(facts=facts, no_compiler="", compile_ns=0, device=wanted, no_device=str(error))
    reason = _try_to_compile(device)
    spent = time.perf_counter_ns() - start
    return Probe(
        facts=facts, no_compiler=reason, compile_ns=spent, device=device.description, ceilings=device.ceilings()
    )


def _try_to_compile(device: Device) -> str:
    import torch
    from torch._inductor.utils import fresh_cache

    try:
        # Before the throw-away cache: what it finds out about the processor is kept.
        device.ready_toolchain()
        with fresh_cache(), torch.no_grad():
            torch.compile(lambda tensor: tensor * 2 + 1)(device.place(torch.ones(64)))
            device.synchronise()
    except Exception as error:
        return why_not(error)
    return ""


def why_not(error: Exception) -> str:
    """Why compiled arms cannot run, from what the trivial kernel raised."""
    text = f"{type(error).__name__}: {error}".strip()
    if "'openssl'" in text:
        # Inductor hashes its precompiled header with this program.
        return "no openssl program, which Inductor calls"
    if "TritonMissing" in text or "No module named 'triton'" in text:
        return "no Triton, which writes a GPU's kernels"
    if "GPUTooOldForTriton" in text:
        return "the GPU is too old for Triton, which writes its kernels"
    if "Failed to find C compiler" in text:
        return "no C compiler, which Triton calls"
    if any(sign in text for sign in ("InvalidCxxCompiler", "No working C++ compiler")):
        return "no C++ compiler"
    return next(line.strip() for line in text.splitlines() if line.strip())


if __name__ == "__main__":
    # torch writes notes of its own to both streams; the result is the last line.
    asked = msgspec.json.decode(sys.argv[1], type=Description) if len(sys.argv) > 1 else None
    sys.stdout.write("\n" + msgspec.json.encode(probe(asked)).decode() + "\n")
    leave(0)
